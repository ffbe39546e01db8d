//! Where an adapter stands: a layer and one of its two sub-layers, and spans of layers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One of the two places in a Transformer layer where the paper puts an adapter (§2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Site {
    /// After the output projection of the attention sub-layer.
    Attention,
    /// After the second projection of the feed-forward sub-layer.
    FeedForward,
}

impl Site {
    /// Both sites, in the order in which a layer passes them.
    pub const ALL: [Site; 2] = [Site::Attention, Site::FeedForward];
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Site::Attention => "attention",
            Site::FeedForward => "feed-forward",
        })
    }
}

/// A site of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The layer, counted from 0 at the bottom.
    pub layer: usize,
    /// The sub-layer.
    pub site: Site,
}

impl Place {
    /// The place at `site` of `layer`.
    pub fn new(layer: usize, site: Site) -> Self {
        Self { layer, site }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "layer.{}.{}", self.layer, self.site)
    }
}

/// A continuous span of layers, both ends included: what Fig. 6 of the paper removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LayerSpan {
    first: usize,
    last: usize,
}

/// A span whose first layer comes after its last.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a layer span runs from a lower to a higher layer, not from {first} to {last}")]
pub struct LayerSpanError {
    first: usize,
    last: usize,
}

impl LayerSpan {
    /// The layers `first..=last`.
    ///
    /// # Errors
    /// If `first` is above `last`.
    pub fn new(first: usize, last: usize) -> Result<Self, LayerSpanError> {
        if first > last {
            return Err(LayerSpanError { first, last });
        }
        Ok(Self { first, last })
    }

    /// Every span of a network with `layers` layers, by first and then by last layer:
    /// `layers × (layers + 1) / 2` of them.
    pub fn all(layers: usize) -> impl Iterator<Item = LayerSpan> {
        (0..layers).flat_map(move |first| (first..layers).map(move |last| Self { first, last }))
    }

    /// The lowest layer.
    pub fn first(self) -> usize {
        self.first
    }

    /// The highest layer.
    pub fn last(self) -> usize {
        self.last
    }

    /// Whether `layer` lies in the span.
    pub fn contains(self, layer: usize) -> bool {
        (self.first..=self.last).contains(&layer)
    }
}

impl fmt::Display for LayerSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(1, 1)]
    #[case(6, 21)]
    #[case(12, 78)]
    fn all_spans_are_counted_once(#[case] layers: usize, #[case] expected: usize) {
        let spans: std::collections::BTreeSet<_> = LayerSpan::all(layers).collect();
        assert_eq!(spans.len(), expected);
        assert!(spans.iter().all(|span| span.last() < layers));
    }

    #[test]
    fn a_span_holds_both_its_ends_and_nothing_outside() {
        let span = LayerSpan::new(2, 4).unwrap();
        let inside: Vec<_> = (0..7).filter(|&layer| span.contains(layer)).collect();
        assert_eq!(inside, [2, 3, 4]);
        assert!(LayerSpan::new(4, 2).is_err());
    }
}
