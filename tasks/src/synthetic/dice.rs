//! Chance as a function of what it is for.

use adapter_core::mix;

/// Draws one after the other, all decided by the key.
#[derive(Clone, Debug)]
pub struct Dice {
    key: u64,
    drawn: u64,
}

impl Dice {
    /// Dice for the thing called `name` with `number`.
    pub fn new(name: &str, number: u64) -> Self {
        let letters = name.bytes().fold(0, |key, letter| mix(&[key, u64::from(letter)]));
        Self { key: mix(&[letters, number]), drawn: 0 }
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.drawn += 1;
        (mix(&[self.key, self.drawn]) % end as u64) as usize
    }

    /// True with probability `percent` / 100.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// One of several words.
    pub fn word(&mut self, of: &[&'static str]) -> &'static str {
        of[self.below(of.len())]
    }

    /// One of several words that is not `other`.
    pub fn other_word(&mut self, of: &[&'static str], other: &str) -> &'static str {
        let others: Vec<&'static str> = of.iter().copied().filter(|word| *word != other).collect();
        self.word(&others)
    }

    /// One of several that is not `other`.
    ///
    /// # Panics
    /// If there is no other.
    pub fn pick_other<'a, T: PartialEq>(&mut self, of: &'a [T], other: &T) -> &'a T {
        assert!(of.iter().any(|one| one != other), "there is nothing else to pick");
        loop {
            let one = self.pick(of);
            if one != other {
                return one;
            }
        }
    }
}
