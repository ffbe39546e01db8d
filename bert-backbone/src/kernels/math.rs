//! Arithmetic on slices, written as plain loops that the compiler turns into vector instructions.
//!
//! [`vectorised`] compiles its closure once for each generation of vector instructions and takes the best that the machine
//! has, at run time. That works only for what is inlined: whatever is called inside is `#[inline(always)]`, and loops are
//! `for` loops, because `for_each` and its kin are functions that may stay outside.

use adapter_core::{Activation, DropoutMask};

/// Runs `f`, compiled for this machine's vector instructions.
#[inline(always)]
pub fn vectorised<R>(f: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(f)
}

/// Sums that are kept apart so that they fill a vector register; their order is the same on every machine.
const LANES: usize = 16;

/// The sum of `term` of every index below `length`.
#[inline(always)]
pub fn sum(length: usize, term: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let whole = length - length % LANES;
    let mut start = 0;
    while start < whole {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += term(start + lane);
        }
        start += LANES;
    }
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
    }
    let mut total = lanes[0];
    for i in whole..length {
        total += term(i);
    }
    total
}

/// The largest of `values`.
#[inline(always)]
pub fn largest(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = if value > *lane { value } else { *lane };
        }
    }
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] = if lanes[lane + half] > lanes[lane] { lanes[lane + half] } else { lanes[lane] };
        }
    }
    let mut most = lanes[0];
    for &value in rest {
        most = if value > most { value } else { most };
    }
    most
}

/// eˣ to the last bit or two: `2ⁿ · eʳ` with `|r| ≤ ln 2 / 2`, and the series of `eʳ`.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // ln 2 in two parts, so that n · ln 2 is exact to twice the precision.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    const ROUNDING: f32 = 12_582_912.0; // 1.5 · 2²³: adding it rounds to the nearest whole number
    let x = x.clamp(-87.0, 88.0);
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUNDING);
    let n = shifted - ROUNDING;
    let r = n.mul_add(-LN_2[1], n.mul_add(-LN_2[0], x));
    let series = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    // The lowest bits of `shifted` are n: moved up, with the bias of an exponent, they are 2ⁿ.
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    polynomial(series, r) * power
}

/// A polynomial, its highest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: [f32; N], x: f32) -> f32 {
    let mut value = coefficients[0];
    for &coefficient in &coefficients[1..] {
        value = value.mul_add(x, coefficient);
    }
    value
}

/// The distribution function Φ of the normal distribution, within 2e-7.
///
/// `Φ(x) = ½ + x P(x²)/Q(x²)` with coefficients fitted by weighted least squares on `[0, 5.5]`; beyond, Φ is 0 or 1 in f32.
#[inline(always)]
fn normal_distribution(x: f32) -> f32 {
    const P: [f32; 6] = [2.274_927_3e-8, 6.352_108e-6, 1.688_262_1e-4, 4.677_264e-3, 3.385_271_5e-2, 3.989_422_3e-1];
    const Q: [f32; 6] = [1.197_500_5e-6, 7.364_76e-5, 1.884_448e-3, 2.864_590_9e-2, 2.515_221e-1, 1.0];
    let x = x.clamp(-5.5, 5.5);
    let square = x * x;
    (x * polynomial(P, square)).mul_add(1.0 / polynomial(Q, square), 0.5)
}

/// An element-wise function and its derivative.
pub trait Curve: Copy {
    /// f(x)
    fn value(self, x: f32) -> f32;
    /// f′(x)
    fn slope(self, x: f32) -> f32;
}

#[derive(Clone, Copy)]
struct Gelu;

impl Curve for Gelu {
    #[inline(always)]
    fn value(self, x: f32) -> f32 {
        x * normal_distribution(x)
    }

    #[inline(always)]
    fn slope(self, x: f32) -> f32 {
        const DENSITY_AT_0: f32 = 0.398_942_3;
        (x * DENSITY_AT_0).mul_add(exp(-0.5 * x * x), normal_distribution(x))
    }
}

#[derive(Clone, Copy)]
struct TanhGelu;

impl TanhGelu {
    const SCALE: f32 = 2.0 * 0.797_884_6; // 2 √(2/π), because ½(1 + tanh u) = 1 / (1 + e⁻²ᵘ)
    const CUBE: f32 = 0.044_715;

    #[inline(always)]
    fn share(x: f32) -> f32 {
        1.0 / (1.0 + exp(-Self::SCALE * (Self::CUBE * x * x).mul_add(x, x)))
    }
}

impl Curve for TanhGelu {
    #[inline(always)]
    fn value(self, x: f32) -> f32 {
        x * Self::share(x)
    }

    #[inline(always)]
    fn slope(self, x: f32) -> f32 {
        let share = Self::share(x);
        let inner = Self::SCALE * (3.0 * Self::CUBE * x).mul_add(x, 1.0);
        (x * share * (1.0 - share)).mul_add(inner, share)
    }
}

#[derive(Clone, Copy)]
struct Relu;

impl Curve for Relu {
    #[inline(always)]
    fn value(self, x: f32) -> f32 {
        // Not `max`, which would make 0 of what is no number.
        if x < 0.0 { 0.0 } else { x }
    }

    #[inline(always)]
    fn slope(self, x: f32) -> f32 {
        if x <= 0.0 { 0.0 } else { 1.0 }
    }
}

/// Whether the functions below know `activation`.
pub fn knows(activation: Activation) -> bool {
    matches!(activation, Activation::Gelu | Activation::TanhGelu | Activation::Relu)
}

/// `values = f(values)`, element by element.
pub fn activate(activation: Activation, values: &mut [f32]) {
    #[inline(always)]
    fn run(curve: impl Curve, values: &mut [f32]) {
        for value in values {
            *value = curve.value(*value);
        }
    }
    vectorised(
        #[inline(always)]
        || match activation {
            Activation::Relu => run(Relu, values),
            Activation::TanhGelu => run(TanhGelu, values),
            _ => run(Gelu, values),
        },
    );
}

/// `gradient *= f′(at)`, element by element.
pub fn activate_backward(activation: Activation, at: &[f32], gradient: &mut [f32]) {
    #[inline(always)]
    fn run(curve: impl Curve, at: &[f32], gradient: &mut [f32]) {
        for (gradient, &at) in gradient.iter_mut().zip(at) {
            *gradient *= curve.slope(at);
        }
    }
    vectorised(
        #[inline(always)]
        || match activation {
            Activation::Relu => run(Relu, at, gradient),
            Activation::TanhGelu => run(TanhGelu, at, gradient),
            _ => run(Gelu, at, gradient),
        },
    );
}

/// The sum of all rows.
pub fn column_sums(values: &[f32], columns: usize) -> Vec<f32> {
    let mut sums = vec![0.0; columns];
    vectorised(
        #[inline(always)]
        || {
            for row in values.chunks_exact(columns) {
                for (sum, &value) in sums.iter_mut().zip(row) {
                    *sum += value;
                }
            }
        },
    );
    sums
}

/// Multiplies `values`, whose first element is number `first`, by the mask.
pub fn drop_out(mask: Option<DropoutMask>, first: usize, values: &mut [f32]) {
    let Some(mask) = mask.filter(|mask| !mask.keeps_everything()) else { return };
    vectorised(
        #[inline(always)]
        || {
            for (element, value) in values.iter_mut().enumerate() {
                *value *= mask.factor((first + element) as u32);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor};
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    proptest! {
        #[test]
        fn exp_is_exact_to_a_few_units_of_the_last_place(x in -80.0f32..80.0) {
            let exact = f64::from(x).exp();
            prop_assert!(((f64::from(exp(x)) - exact) / exact).abs() < 3e-7);
        }

        #[test]
        fn sums_and_maxima_are_those_of_a_plain_loop(values in prop::collection::vec(-1.0f32..1.0, 1..100)) {
            let plain: f64 = values.iter().map(|&value| f64::from(value)).sum();
            prop_assert!((f64::from(sum(values.len(), |i| values[i])) - plain).abs() < 1e-4);
            prop_assert_eq!(largest(&values), values.iter().copied().fold(f32::MIN, f32::max));
        }
    }

    #[rstest]
    fn known_activations_are_those_of_the_library(
        #[values(Activation::Gelu, Activation::TanhGelu, Activation::Relu)] activation: Activation,
    ) {
        assert!(knows(activation));
        let device = Device::flex().autodiff();
        let points: Vec<f32> = (-4000..4000).map(|i| i as f32 * 2e-3 + 1e-4).collect();
        let x = Tensor::<1>::from_floats(points.as_slice(), &device).require_grad();
        let y = activation.forward(x.clone());
        let slopes = x.grad(&y.clone().sum().backward()).unwrap().into_data();
        let mut values = points.clone();
        activate(activation, &mut values);
        let mut gradient = vec![1.0; points.len()];
        activate_backward(activation, &points, &mut gradient);
        let apart =
            |ours: &[f32], theirs: Vec<f32>| ours.iter().zip(theirs).fold(0.0f32, |d, (a, b)| d.max((a - b).abs()));
        assert!(apart(&values, y.into_data().iter().collect()) < 2e-6);
        let slopes_apart = apart(&gradient, slopes.iter().collect());
        assert!(slopes_apart < 4e-6, "{slopes_apart}");
    }
}
