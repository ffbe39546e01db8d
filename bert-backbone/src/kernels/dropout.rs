//! Dropout whose factors are hashed in parallel on the CPU device.

use adapter_core::DropoutMask;
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

/// Elements that one thread hashes at a time; each element's factor is its own, so this changes no bit.
const CHUNK: usize = 1 << 14;

/// Multiplies `x` by `mask`; `None` (evaluation) leaves `x` as it is.
///
/// This is the dropout to use in insertions and heads: fast on the CPU device, [`DropoutMask::apply`] on every other, and
/// the same bits on both.
pub fn dropout<const D: usize>(x: Tensor<D>, mask: Option<DropoutMask>) -> Tensor<D> {
    let device = x.device();
    match mask {
        Some(mask) if !mask.keeps_everything() && super::is_flex(&device) => {
            let shape = x.shape();
            let mut factors = vec![0.0f32; shape.num_elements()];
            factors.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, factors)| {
                for (i, factor) in factors.iter_mut().enumerate() {
                    *factor = mask.factor((chunk * CHUNK + i) as u32);
                }
            });
            x.mul(Tensor::from_data(TensorData::new(factors, shape), &device))
        }
        Some(mask) => mask.apply(x),
        None => x,
    }
}

#[cfg(test)]
mod tests {
    use adapter_core::{DropoutKey, DropoutSite};
    use burn::tensor::Device;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(1)]
    #[case(2)]
    #[case(3)]
    fn any_number_of_threads_gives_the_bits_of_the_plain_composition(#[case] threads: usize) {
        let device = Device::flex();
        let x = Tensor::<2>::ones([129, 700], &device);
        let mask = DropoutKey { seed: 1, step: 2 }.mask(DropoutSite::Embeddings, 0.1);
        let plain = mask.apply(x.clone()).into_data();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let fast = pool.install(|| dropout(x, Some(mask))).into_data();
        assert_eq!(fast, plain);
    }

    #[test]
    fn the_gradient_is_the_mask() {
        let device = Device::flex().autodiff();
        let x = Tensor::<2>::ones([8, 16], &device).require_grad();
        let mask = DropoutKey { seed: 1, step: 2 }.mask(DropoutSite::Head, 0.5);
        let y = dropout(x.clone(), Some(mask));
        let gradients = y.clone().sum().backward();
        assert_eq!(x.grad(&gradients).unwrap().into_data(), y.without_autodiff().into_data());
    }
}
