//! The numbers behind the metrics, each defined for every finite input.
//!
//! Where a ratio has nothing below its line (nothing predicted, constant scores, no examples) the score is 0, as in
//! the GLUE evaluation. All scores are fractions: 1 is perfect.

use std::collections::BTreeMap;

/// How often each class was predicted as each class. Only pairs that occur are kept: classes may be many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfusionMatrix {
    /// By gold and predicted class.
    counts: BTreeMap<(usize, usize), usize>,
    gold: Vec<usize>,
    predicted: Vec<usize>,
}

impl ConfusionMatrix {
    /// Counts pairs of predicted and gold classes, both below `classes`.
    ///
    /// # Panics
    /// If there are not as many predictions as gold classes, or one is not below `classes`.
    pub fn new(predicted: &[usize], gold: &[usize], classes: usize) -> Self {
        assert_eq!(predicted.len(), gold.len(), "one prediction for each example");
        let mut matrix = Self { counts: BTreeMap::new(), gold: vec![0; classes], predicted: vec![0; classes] };
        for (&predicted, &gold) in predicted.iter().zip(gold) {
            *matrix.counts.entry((gold, predicted)).or_default() += 1;
            matrix.gold[gold] += 1;
            matrix.predicted[predicted] += 1;
        }
        matrix
    }

    /// How often `gold` was predicted as `predicted`.
    pub fn count(&self, gold: usize, predicted: usize) -> usize {
        self.counts.get(&(gold, predicted)).copied().unwrap_or_default()
    }

    /// Examples of each class.
    pub fn gold(&self) -> &[usize] {
        &self.gold
    }

    /// Predictions of each class.
    pub fn predicted(&self) -> &[usize] {
        &self.predicted
    }

    /// Share of examples whose class was predicted.
    pub fn accuracy(&self) -> f64 {
        ratio(self.right(), self.total())
    }

    /// F1 of `class`: harmonic mean of its precision and recall.
    pub fn f1(&self, class: usize) -> f64 {
        ratio(2.0 * self.count(class, class) as f64, (self.gold[class] + self.predicted[class]) as f64)
    }

    /// Mean F1 of the classes that occur, as gold or as prediction.
    pub fn macro_f1(&self) -> f64 {
        let occurring: Vec<_> = self.classes().filter(|&c| self.gold[c] + self.predicted[c] > 0).collect();
        ratio(occurring.iter().map(|&class| self.f1(class)).sum(), occurring.len() as f64)
    }

    /// Matthews correlation, for any number of classes.
    pub fn matthews(&self) -> f64 {
        let total = self.total();
        let product: f64 = self.classes().map(|c| self.gold[c] as f64 * self.predicted[c] as f64).sum();
        let squares = |counts: &[usize]| counts.iter().map(|&count| (count as f64).powi(2)).sum::<f64>();
        let spread = (total * total - squares(&self.predicted)) * (total * total - squares(&self.gold));
        ratio(self.right() * total - product, spread.sqrt())
    }

    fn classes(&self) -> std::ops::Range<usize> {
        0..self.gold.len()
    }

    fn right(&self) -> f64 {
        self.classes().map(|class| self.count(class, class)).sum::<usize>() as f64
    }

    fn total(&self) -> f64 {
        self.gold.iter().sum::<usize>() as f64
    }
}

/// Pearson correlation; 0 if either side is constant.
pub fn pearson(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "one prediction for each example");
    let constant = |x: &[f64]| x.windows(2).all(|pair| pair[0] == pair[1]);
    if constant(a) || constant(b) {
        return 0.0;
    }
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut product, mut square_a, mut square_b) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (x - mean_a, y - mean_b);
        product += x * y;
        square_a += x * x;
        square_b += y * y;
    }
    ratio(product, square_a.sqrt() * square_b.sqrt()).clamp(-1.0, 1.0)
}

/// Spearman rank correlation, ties sharing their mean rank; 0 if either side is constant.
pub fn spearman(a: &[f64], b: &[f64]) -> f64 {
    pearson(&ranks(a), &ranks(b))
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for tied in order.chunk_by(|&i, &j| values[i] == values[j]) {
        let mean = before as f64 + (tied.len() + 1) as f64 / 2.0;
        for &i in tied {
            ranks[i] = mean;
        }
        before += tied.len();
    }
    ranks
}

/// 0 where there is nothing to divide by.
fn ratio(above: f64, below: f64) -> f64 {
    if below == 0.0 { 0.0 } else { above / below }
}
