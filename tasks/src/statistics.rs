//! The numbers behind the metrics, each defined for every finite input.
//!
//! Where a ratio has nothing below its line (nothing predicted, constant scores, no examples) the score is 0, as in
//! the GLUE evaluation. All scores are fractions: 1 is perfect.

/// How often each class (row) was predicted as each class (column).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfusionMatrix {
    counts: Vec<Vec<usize>>,
}

impl ConfusionMatrix {
    /// Counts pairs of predicted and gold classes, both below `classes`.
    ///
    /// # Panics
    /// If there are not as many predictions as gold classes, or one is not below `classes`.
    pub fn new(predicted: &[usize], gold: &[usize], classes: usize) -> Self {
        assert_eq!(predicted.len(), gold.len(), "one prediction for each example");
        let mut counts = vec![vec![0; classes]; classes];
        for (&predicted, &gold) in predicted.iter().zip(gold) {
            counts[gold][predicted] += 1;
        }
        Self { counts }
    }

    /// Rows: gold classes; columns: predicted classes.
    pub fn counts(&self) -> &[Vec<usize>] {
        &self.counts
    }

    /// Share of examples on the diagonal.
    pub fn accuracy(&self) -> f64 {
        ratio(self.right(), self.total())
    }

    /// F1 of `class`: harmonic mean of its precision and recall.
    pub fn f1(&self, class: usize) -> f64 {
        ratio(2.0 * self.counts[class][class] as f64, self.gold(class) + self.predicted(class))
    }

    /// Mean F1 of the classes that occur, as gold or as prediction.
    pub fn macro_f1(&self) -> f64 {
        let occurring: Vec<_> = self.classes().filter(|&c| self.gold(c) + self.predicted(c) > 0.0).collect();
        ratio(occurring.iter().map(|&class| self.f1(class)).sum(), occurring.len() as f64)
    }

    /// Matthews correlation, for any number of classes.
    pub fn matthews(&self) -> f64 {
        let total = self.total();
        let product: f64 = self.classes().map(|c| self.gold(c) * self.predicted(c)).sum();
        let gold: f64 = self.classes().map(|c| self.gold(c).powi(2)).sum();
        let predicted: f64 = self.classes().map(|c| self.predicted(c).powi(2)).sum();
        let spread = (total * total - predicted) * (total * total - gold);
        ratio(self.right() * total - product, spread.sqrt())
    }

    fn classes(&self) -> std::ops::Range<usize> {
        0..self.counts.len()
    }

    fn gold(&self, class: usize) -> f64 {
        self.counts[class].iter().sum::<usize>() as f64
    }

    fn predicted(&self, class: usize) -> f64 {
        self.counts.iter().map(|row| row[class]).sum::<usize>() as f64
    }

    fn right(&self) -> f64 {
        self.classes().map(|class| self.counts[class][class]).sum::<usize>() as f64
    }

    fn total(&self) -> f64 {
        self.counts.iter().flatten().sum::<usize>() as f64
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
