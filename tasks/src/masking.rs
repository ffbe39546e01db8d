//! Masked language modelling: which tokens are hidden, and what stands in their place.

use adapter_core::mix;
use bert_backbone::Encoded;

/// How tokens are hidden. The default is BERT's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskConfig {
    /// Share of the tokens that are to be found again.
    pub share: f64,
    /// Share of those that show `[MASK]`.
    pub masked: f64,
    /// Share of those that show a token drawn from the whole vocabulary; the rest shows itself.
    pub replaced: f64,
    /// The number of `[MASK]`.
    pub mask_id: u32,
    /// Number of word pieces.
    pub vocabulary: u32,
}

impl MaskConfig {
    /// BERT's shares for a vocabulary.
    pub fn new(mask_id: u32, vocabulary: u32) -> Self {
        Self { share: 0.15, masked: 0.8, replaced: 0.1, mask_id, vocabulary }
    }
}

/// Hides tokens of `sequence` and returns which, as (place, what stood there).
///
/// What is hidden is a function of `key` and the token's place alone; use another key for every sequence and step.
/// Tokens numbered in `special` (`[CLS]`, `[SEP]`) are never hidden.
pub fn mask_tokens(sequence: &mut Encoded, config: MaskConfig, special: &[u32], key: u64) -> Vec<(usize, u32)> {
    let mut hidden = Vec::new();
    for (place, id) in sequence.input_ids.iter_mut().enumerate() {
        let draw = |purpose: u64| mix(&[key, place as u64, purpose]);
        let uniform = |purpose: u64| (draw(purpose) >> 11) as f64 / (1u64 << 53) as f64;
        if special.contains(id) || uniform(0) >= config.share {
            continue;
        }
        hidden.push((place, *id));
        let fate = uniform(1);
        if fate < config.masked {
            *id = config.mask_id;
        } else if fate < config.masked + config.replaced {
            *id = (draw(2) % u64::from(config.vocabulary)) as u32;
        }
    }
    hidden
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence() -> Encoded {
        Encoded { input_ids: (0..50_000).map(|i| i % 90 + 5).collect(), ..Encoded::default() }
    }

    #[test]
    fn shares_are_those_asked_for_and_special_tokens_stay() {
        let (mut masked, original) = (sequence(), sequence());
        let hidden = mask_tokens(&mut masked, MaskConfig::new(4, 100), &[7, 8], 3);
        let share = |count: usize, of: usize| count as f64 / of as f64;
        let special = original.input_ids.iter().filter(|id| [7, 8].contains(*id)).count();
        assert!((share(hidden.len(), 50_000 - special) - 0.15).abs() < 0.01);
        let shown = |f: &dyn Fn(u32, u32) -> bool| hidden.iter().filter(|(p, id)| f(masked.input_ids[*p], *id)).count();
        assert!((share(shown(&|shown, _| shown == 4), hidden.len()) - 0.8).abs() < 0.02);
        assert!((share(shown(&|shown, id| shown == id), hidden.len()) - 0.1).abs() < 0.02);
        for (place, id) in hidden {
            assert_eq!(original.input_ids[place], id);
            assert!(![7, 8].contains(&id));
        }
    }

    #[test]
    fn the_key_decides() {
        let hide = |key| mask_tokens(&mut sequence(), MaskConfig::new(4, 100), &[], key);
        assert_eq!(hide(1), hide(1));
        assert_ne!(hide(1), hide(2));
    }
}
