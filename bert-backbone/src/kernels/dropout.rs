//! Dropout whose factors are hashed in parallel where tensors lie in host memory.

use adapter_core::{DropoutMask, precision};
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::{Rows, is_host, math::drop_out};

/// Elements that one thread hashes at a time; each element's factor is its own, so this changes no bit.
const CHUNK: usize = 1 << 14;

/// Multiplies `x` by `mask`; `None` (evaluation) leaves `x` as it is.
///
/// This is the dropout to use in insertions and heads: fast on the CPU, [`DropoutMask::apply`] on every other device, and the
/// same bits on all.
pub fn dropout<const D: usize>(x: Tensor<D>, mask: Option<DropoutMask>) -> Tensor<D> {
    let Some(mask) = mask.filter(|mask| !mask.keeps_everything()) else { return x };
    if !is_host(&x.device()) {
        return mask.apply(x);
    }
    let mut factors = vec![1.0f32; x.shape().num_elements()];
    let chunks = factors.par_chunks_mut(CHUNK).enumerate();
    chunks.for_each(|(chunk, factors)| drop_out(Some(mask), chunk * CHUNK, factors));
    multiplied(x, factors)
}

/// [`dropout`] of some rows of a larger tensor, whose mask it is: `starts` has the index of each row's first element.
pub fn dropout_rows(x: Tensor<2>, starts: &[u32], mask: Option<DropoutMask>) -> Tensor<2> {
    let Some(mask) = mask.filter(|mask| !mask.keeps_everything()) else { return x };
    if !is_host(&x.device()) {
        return mask.apply_rows(x, starts);
    }
    let width = x.dims()[1] as u32;
    let factors = starts.iter().flat_map(|start| (0..width).map(move |i| mask.factor(start + i)));
    let factors = factors.collect();
    multiplied(x, factors)
}

fn multiplied<const D: usize>(x: Tensor<D>, factors: Vec<f32>) -> Tensor<D> {
    let factors = Tensor::<D>::from_data(TensorData::new(factors, x.shape()), &x.device()).cast(precision(&x));
    x.mul(factors)
}

impl Rows {
    /// Dropout of these rows of a packed batch.
    ///
    /// # Shapes
    /// - `x`, result: `[rows, width]`
    pub fn dropout(&self, x: Tensor<2>, mask: Option<DropoutMask>) -> Tensor<2> {
        match self {
            Rows::All(_) => dropout(x, mask),
            Rows::First(boundaries) => {
                let width = x.dims()[1];
                let starts: Vec<u32> = boundaries[..self.len()].iter().map(|&row| (row * width) as u32).collect();
                dropout_rows(x, &starts, mask)
            }
        }
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
