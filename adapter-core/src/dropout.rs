//! Dropout as a pure function of (seed, step, layer, site, element).
//!
//! There is no generator state: a [`DropoutKey`] travels with the batch, a place in the network turns it into
//! a [`DropoutMask`], and each element's fate is a hash of the mask's key and the element's index. A resumed
//! run therefore repeats the very masks of an uninterrupted one, and threads cannot change a bit.

use burn::tensor::{DType, Device, Int, Tensor, TensorCreationOptions, TensorData};

use crate::{Projection, Site, mix::mix, precision};

/// What decides a training step's dropout: the run's seed and the step's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropoutKey {
    /// The run's seed.
    pub seed: u64,
    /// The training step, counted from 0.
    pub step: u64,
}

/// Where in a network dropout is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropoutSite {
    /// On the sum of the embeddings.
    Embeddings,
    /// On the attention probabilities of a layer.
    AttentionProbabilities(usize),
    /// On the output projection of a layer's sub-layer.
    SubLayer(usize, Site),
    /// Inside something inserted at a layer's sub-layer.
    Insertion(usize, Site),
    /// On what something inserted reads beside a layer's projection.
    Projection(usize, Projection),
    /// In front of the task's head.
    Head,
}

impl DropoutSite {
    fn number(self) -> u64 {
        let at = |kind: u64, layer: usize, site: Site| (layer as u64) << 8 | kind << 1 | site as u64;
        match self {
            DropoutSite::Embeddings => at(0, 0, Site::Attention),
            DropoutSite::Head => at(1, 0, Site::Attention),
            DropoutSite::AttentionProbabilities(layer) => at(2, layer, Site::Attention),
            DropoutSite::SubLayer(layer, site) => at(3, layer, site),
            DropoutSite::Insertion(layer, site) => at(4, layer, site),
            DropoutSite::Projection(layer, projection) => at(5 + projection as u64, layer, projection.site()),
        }
    }
}

impl DropoutKey {
    /// A number below `end`, the same wherever this step asks for it.
    pub fn number_below(self, end: usize) -> usize {
        const NUMBER: u64 = u64::MAX;
        (mix(&[self.seed, self.step, NUMBER]) % end.max(1) as u64) as usize
    }

    /// The mask at `site`, dropping each element with `probability` (in `[0, 1)`).
    pub fn mask(self, site: DropoutSite, probability: f64) -> DropoutMask {
        let key = mix(&[self.seed, self.step, site.number()]);
        DropoutMask {
            keys: [key as u32, (key >> 32) as u32],
            dropped_below: (probability * f64::from(1 << RESOLUTION)).round() as u32,
            scale: (1.0 / (1.0 - probability)) as f32,
        }
    }
}

/// Bits of an element's hash that are compared with the probability: 2⁻²⁴ is finer than f32 needs.
const RESOLUTION: u32 = 24;

/// The fate of every element at one site and step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropoutMask {
    keys: [u32; 2],
    dropped_below: u32,
    scale: f32,
}

// Multipliers of the hash: odd and well mixed, so that neighbouring elements are unrelated.
const MIX: [u32; 2] = [0x7feb_352d, 0x5bd1_e995];

impl DropoutMask {
    /// Whether no element can be dropped.
    pub fn keeps_everything(self) -> bool {
        self.dropped_below == 0
    }

    /// What `element` (its row-major index) is multiplied by: 0, or 1 / (1 − probability).
    #[inline(always)]
    pub fn factor(self, element: u32) -> f32 {
        let mut x = element ^ self.keys[0];
        x = (x ^ (x >> 16)).wrapping_mul(MIX[0]);
        x = (x ^ (x >> 15) ^ self.keys[1]).wrapping_mul(MIX[1]);
        x ^= x >> 16;
        let kept = (x >> (32 - RESOLUTION)) >= self.dropped_below;
        f32::from(u8::from(kept)) * self.scale
    }

    /// Multiplies `x` by the mask, on any device.
    pub fn apply<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        if self.keeps_everything() {
            return x;
        }
        let shape = x.shape();
        let factors = self.factors(numbers(shape.num_elements(), &x.device()));
        let factors = factors.cast(precision(&x)).reshape(shape);
        x.mul(factors)
    }

    /// Multiplies some rows of a larger tensor by its mask, on any device: `starts` has the index of each row's first
    /// element.
    ///
    /// # Shapes
    /// - `x`, result: `[rows, width]`
    pub fn apply_rows(self, x: Tensor<2>, starts: &[u32]) -> Tensor<2> {
        if self.keeps_everything() {
            return x;
        }
        let ([rows, width], device) = (x.dims(), x.device());
        let starts: Vec<i32> = starts.iter().map(|&start| start as i32).collect();
        let starts = Tensor::<2, Int>::from_data(TensorData::new(starts, [rows, 1]), integers(&device));
        let elements = starts + numbers(width, &device).reshape([1, width]);
        let factors = self.factors(elements.reshape([rows * width]));
        let factors = factors.cast(precision(&x)).reshape([rows, width]);
        x.mul(factors)
    }

    /// The factors of `elements`, computed on their device by integer arithmetic; nothing is uploaded.
    ///
    /// The bits are those of [`factor`](Self::factor) wherever integer products wrap around.
    fn factors(self, elements: Tensor<1, Int>) -> Tensor<1> {
        let wide = elements.dtype() == DType::I64;
        let number = |bits: u32| if wide { i64::from(bits) } else { i64::from(bits as i32) };
        let wrapped = |x: Tensor<1, Int>| if wide { x.bitwise_and_scalar(number(u32::MAX)) } else { x };
        // Right shifts of signed integers repeat the sign: mask it off.
        let shifted = |x: Tensor<1, Int>, by: u32| {
            x.bitwise_right_shift_scalar(number(by)).bitwise_and_scalar(number(u32::MAX >> by))
        };
        let mut x = elements.bitwise_xor_scalar(number(self.keys[0]));
        x = wrapped(x.clone().bitwise_xor(shifted(x, 16)).mul_scalar(number(MIX[0])));
        x = x.clone().bitwise_xor(shifted(x, 15)).bitwise_xor_scalar(number(self.keys[1]));
        x = wrapped(x.mul_scalar(number(MIX[1])));
        x = x.clone().bitwise_xor(shifted(x, 16));
        shifted(x, 32 - RESOLUTION).greater_equal_scalar(number(self.dropped_below)).float().mul_scalar(self.scale)
    }
}

/// 0, 1, 2, …
fn numbers(count: usize, device: &Device) -> Tensor<1, Int> {
    Tensor::arange(0..count as i64, integers(device))
}

/// 32-bit integers, or 64-bit ones where there are no others.
fn integers(device: &Device) -> TensorCreationOptions {
    let dtype = if device.supports_dtype(DType::I32) { DType::I32 } else { DType::I64 };
    TensorCreationOptions::new(device.clone()).with_dtype(dtype)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const SITE: DropoutSite = DropoutSite::SubLayer(3, Site::FeedForward);

    fn factors(key: DropoutKey, site: DropoutSite, probability: f64) -> Vec<f32> {
        let mask = key.mask(site, probability);
        (0..100_000).map(|element| mask.factor(element)).collect()
    }

    fn key(seed: u64, step: u64) -> DropoutKey {
        DropoutKey { seed, step }
    }

    #[rstest]
    fn the_dropped_share_is_the_probability_and_the_mean_stays(#[values(0.0, 0.1, 0.5, 0.9)] probability: f64) {
        let factors = factors(key(7, 11), SITE, probability);
        let n = factors.len() as f64;
        let dropped = factors.iter().filter(|&&f| f == 0.0).count() as f64 / n;
        let mean = factors.iter().map(|&f| f64::from(f)).sum::<f64>() / n;
        let sigma = (probability * (1.0 - probability) / n).sqrt();
        assert!((dropped - probability).abs() <= 4.0 * sigma, "{dropped}");
        assert!((mean - 1.0).abs() <= 4.0 * sigma / (1.0 - probability), "{mean}");
    }

    /// Two independent masks of rate ½ agree on half of the elements, and so do a mask and its own shifts.
    #[rstest]
    #[case::seed(key(1, 0), SITE)]
    #[case::step(key(0, 1), SITE)]
    #[case::layer(key(0, 0), DropoutSite::SubLayer(4, Site::FeedForward))]
    #[case::site(key(0, 0), DropoutSite::SubLayer(3, Site::Attention))]
    #[case::kind(key(0, 0), DropoutSite::Insertion(3, Site::FeedForward))]
    #[case::head(key(0, 0), DropoutSite::Head)]
    fn any_part_of_the_key_gives_an_unrelated_mask(#[case] key_b: DropoutKey, #[case] site_b: DropoutSite) {
        let a = factors(key(0, 0), SITE, 0.5);
        let b = factors(key_b, site_b, 0.5);
        for shift in [0, 1, 2, 64, 768] {
            for other in [&a, &b] {
                let pairs = a.len() - shift;
                let agree = (0..pairs).filter(|&i| a[i + shift] == other[i]).count();
                let share = agree as f64 / pairs as f64;
                let same = shift == 0 && std::ptr::eq(other, &a);
                assert!(same || (share - 0.5).abs() < 0.01, "shift {shift}: {share}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn device_arithmetic_gives_the_same_bits(
            seed: u64, step in 0u64..1 << 40, layer in 0usize..48, probability in 0.01f64..0.95,
        ) {
            let mask = key(seed, step).mask(DropoutSite::AttentionProbabilities(layer), probability);
            let x = Tensor::<2>::ones([37, 11], &Device::flex());
            let device: Vec<f32> = mask.apply(x).into_data().try_to_vec().unwrap();
            let host: Vec<f32> = (0..37 * 11).map(|element| mask.factor(element)).collect();
            prop_assert_eq!(&device, &host);
            let options = TensorCreationOptions::new(Device::flex()).with_dtype(DType::I64);
            let wide = mask.factors(Tensor::arange(0..37 * 11, options));
            prop_assert_eq!(wide.into_data().try_to_vec::<f32>().unwrap(), host);
            let starts = [5, 1 << 20, 0];
            let rows: Vec<f32> = mask.apply_rows(Tensor::ones([3, 11], &Device::flex()), &starts).into_data().try_to_vec().unwrap();
            let host: Vec<f32> = starts.iter().flat_map(|start| (0..11).map(move |i| mask.factor(start + i))).collect();
            prop_assert_eq!(rows, host);
        }
    }
}
