//! Initial values that are a pure function of (seed, tensor name, element).

use burn::{
    module::{Param, ParamId},
    tensor::{Device, Shape, Tensor, TensorData},
};

use crate::mix;

/// Makes initial values: the same seed gives the same tensors on every device and in any order of construction.
#[derive(Clone, Copy, Debug)]
pub struct Init {
    seed: u64,
}

impl Init {
    /// Initial values for `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// A parameter drawn from N(0, `std`²) cut off at ±2 `std` (§2 of the paper), made when first used.
    ///
    /// `name` tells this tensor from all others of the same seed.
    pub fn truncated_normal<const D: usize>(
        self,
        name: impl Into<String>,
        shape: [usize; D],
        std: f64,
        device: &Device,
    ) -> Param<Tensor<D>> {
        let name = name.into();
        lazy(shape, device, move |elements| self.values(&name, elements, std))
    }

    /// A parameter of which every element is `value`, made when first used.
    pub fn constant<const D: usize>(self, value: f32, shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
        lazy(shape, device, move |elements| vec![value; elements])
    }

    /// The first `elements` values of the tensor called `name`, drawn from N(0, `std`²) cut off at ±2 `std`.
    pub fn values(self, name: &str, elements: usize, std: f64) -> Vec<f32> {
        let key = blake3::Hasher::new().update(&self.seed.to_le_bytes()).update(name.as_bytes()).finalize();
        let [a, b, c, d, e, f, g, h, ..] = *key.as_bytes();
        let key = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        (0..elements as u64)
            .map(|element| {
                let bits = mix::nth(key, element);
                // 53 bits, centred in their cells: never 0, never 1.
                let uniform = ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
                (std * truncated_quantile(uniform)) as f32
            })
            .collect()
    }
}

fn lazy<const D: usize>(
    shape: [usize; D],
    device: &Device,
    values: impl FnOnce(usize) -> Vec<f32> + Send + Sync + 'static,
) -> Param<Tensor<D>> {
    Param::uninitialized(
        ParamId::new(),
        move |device, require_grad| {
            let values = values(shape.iter().product());
            let tensor = Tensor::from_data(TensorData::new(values, shape), device);
            tensor.set_require_grad(require_grad)
        },
        device.clone(),
        true,
        Shape::from(shape),
    )
}

/// The quantile function of the standard normal distribution cut off at ±2.
///
/// Only additions, multiplications and one division, so that every platform computes the same bits.
fn truncated_quantile(uniform: f64) -> f64 {
    /// Φ(2) − ½: half of the mass that the cut leaves.
    const HALF_MASS: f64 = 0.477_249_868_051_820_8;
    // Acklam's rational approximation of the normal quantile (its central part, which covers ±2):
    // relative error below 1e-8, far finer than f32.
    const NUMERATOR: [f64; 6] = [
        -3.969683028665376e+01,
        2.209460984245205e+02,
        -2.759285104469687e+02,
        1.38357751867269e+02,
        -3.066479806614716e+01,
        2.506628277459239e+00,
    ];
    const DENOMINATOR: [f64; 6] = [
        -5.447609879822406e+01,
        1.615858368580409e+02,
        -1.556989798598866e+02,
        6.680131188771972e+01,
        -1.328068155288572e+01,
        1.0,
    ];
    let q = (2.0 * uniform - 1.0) * HALF_MASS;
    let r = q * q;
    let polynomial = |coefficients: &[f64]| coefficients.iter().fold(0.0, |sum, c| sum * r + c);
    let quantile = q * polynomial(&NUMERATOR) / polynomial(&DENOMINATOR);
    quantile.clamp(-2.0, 2.0)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn values(seed: u64, name: &str, std: f64) -> Vec<f32> {
        Init::new(seed).values(name, 40_000, std)
    }

    /// Quantiles of the normal distribution at Φ(z), for z from -1.9 to 1.9, by numerical integration.
    #[test]
    fn the_quantile_function_inverts_the_distribution_function() {
        let density = |z: f64| (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let half_mass = simpson(density, 2.0);
        for step in -19..=19 {
            let z = f64::from(step) / 10.0;
            let mass = simpson(density, z);
            let uniform = 0.5 + mass / half_mass / 2.0;
            let error = (truncated_quantile(uniform) - z).abs();
            assert!(error < 5e-8, "at z = {z}: off by {error:e}");
        }
    }

    fn simpson(f: impl Fn(f64) -> f64, to: f64) -> f64 {
        let n = 2000;
        let h = to / f64::from(n);
        let inner: f64 = (1..n).map(|i| f(f64::from(i) * h) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
        (f(0.0) + inner + f(to)) * h / 3.0
    }

    #[rstest]
    fn moments_are_those_of_the_cut_normal_distribution(#[values(1e-7, 1e-3, 1e-2, 1.0)] std: f64) {
        let sample = values(0, "a", std);
        let n = sample.len() as f64;
        let scaled: Vec<f64> = sample.iter().map(|&x| f64::from(x) / std).collect();
        let mean = scaled.iter().sum::<f64>() / n;
        let variance = scaled.iter().map(|x| x * x).sum::<f64>() / n;
        let fourth = scaled.iter().map(|x| x.powi(4)).sum::<f64>() / n;
        // Cut at ±2 the variance is 0.7737 and the fourth moment 1.4162.
        assert!(mean.abs() < 0.015, "{mean}");
        assert!((variance - 0.7737).abs() < 0.015, "{variance}");
        assert!((fourth - 1.4162).abs() < 0.05, "{fourth}");
        assert!(scaled.iter().all(|x| x.abs() <= 2.0 + 1e-6));
    }

    #[test]
    fn seed_and_name_decide_the_values_and_nothing_else() {
        assert_eq!(values(3, "a", 1.0), values(3, "a", 1.0));
        let equal = |x: &[f32], y: &[f32]| x.iter().zip(y).filter(|(x, y)| x == y).count();
        assert!(equal(&values(3, "a", 1.0), &values(3, "b", 1.0)) < 3);
        assert!(equal(&values(3, "a", 1.0), &values(4, "a", 1.0)) < 3);
        assert_eq!(
            Init::new(1).values("a", 10, 1.0),
            Init::new(1).values("a", 100, 1.0)[..10],
            "an element does not depend on the tensor's size"
        );
    }

    #[test]
    fn counting_does_not_make_the_values() {
        let param = Init::new(0).truncated_normal("a", [30_000, 1_000], 0.02, &Device::flex());
        assert_eq!(param.lazy_shape().num_elements(), 30_000_000);
        assert!(!param.is_initialized());
    }
}
