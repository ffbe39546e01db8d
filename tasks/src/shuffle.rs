//! Orders that are pure functions of a seed.

use adapter_core::mix;

/// What an order is for; the same seed gives unrelated orders for different purposes.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// Dividing a file into train, validation and test.
    Split,
    /// Which training examples are kept where not all are.
    Limit,
    /// The order of training examples in an epoch.
    Epoch(u64),
}

impl Purpose {
    fn numbers(self) -> [u64; 2] {
        match self {
            Purpose::Split => [0, 0],
            Purpose::Limit => [2, 0],
            Purpose::Epoch(epoch) => [1, epoch],
        }
    }
}

/// The numbers `0..n` in an order decided by `seed` and `purpose`.
pub fn permutation(n: usize, seed: u64, purpose: Purpose) -> Vec<usize> {
    let [kind, number] = purpose.numbers();
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        let j = mix(&[seed, kind, number, i as u64]) % (i as u64 + 1);
        order.swap(i, j as usize);
    }
    order
}

/// Divides `rows` as the paper does where there is no official division: ⌊0.8 n⌋ to train, half of the rest (rounded
/// down) to validation, what remains to test.
pub fn split<T>(rows: Vec<T>, seed: u64) -> [Vec<T>; 3] {
    let n = rows.len();
    let train = n * 8 / 10;
    let validation = (n - train) / 2;
    let mut rows: Vec<Option<T>> = rows.into_iter().map(Some).collect();
    let mut shuffled = permutation(n, seed, Purpose::Split).into_iter().filter_map(|i| rows[i].take());
    let first = shuffled.by_ref().take(train).collect();
    let second = shuffled.by_ref().take(validation).collect();
    [first, second, shuffled.collect()]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Every row of the paper's table of additional tasks.
    #[rstest]
    #[case(18846, [15076, 1885, 1885])]
    #[case(14640, [11712, 1464, 1464])]
    #[case(3118, [2494, 312, 312])]
    #[case(10860, [8688, 1086, 1086])]
    #[case(7991, [6392, 799, 800])]
    #[case(40000, [32000, 4000, 4000])]
    #[case(4225, [3380, 422, 423])]
    #[case(5000, [4000, 500, 500])]
    #[case(2524, [2019, 252, 253])]
    #[case(1159, [927, 116, 116])]
    #[case(4952, [3961, 495, 496])]
    #[case(183334, [146667, 18333, 18334])]
    #[case(422937, [338349, 42294, 42294])]
    #[case(5574, [4459, 557, 558])]
    fn sizes_are_the_papers(#[case] n: usize, #[case] expected: [usize; 3]) {
        let parts = split((0..n).collect(), 0);
        assert_eq!(parts.each_ref().map(Vec::len), expected);
        let mut all = parts.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..n), "each row once");
    }

    #[test]
    fn orders_depend_on_seed_and_purpose_alone() {
        let order = |seed, purpose| permutation(1000, seed, purpose);
        assert_eq!(order(1, Purpose::Epoch(3)), order(1, Purpose::Epoch(3)));
        assert_ne!(order(1, Purpose::Epoch(3)), order(1, Purpose::Epoch(4)));
        assert_ne!(order(1, Purpose::Epoch(3)), order(2, Purpose::Epoch(3)));
        assert_ne!(order(1, Purpose::Epoch(0)), order(1, Purpose::Split));
    }

    #[test]
    fn every_place_is_equally_likely() {
        let mut sums = [0usize; 10];
        for seed in 0..2000 {
            for (place, value) in permutation(10, seed, Purpose::Split).into_iter().enumerate() {
                sums[place] += value;
            }
        }
        // The mean of a place is 4.5 ± 0.064 (one standard error).
        assert!(sums.iter().all(|&sum| (sum as f64 / 2000.0 - 4.5).abs() < 0.25), "{sums:?}");
    }
}
