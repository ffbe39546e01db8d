//! Residual connection and normalisation: `LayerNorm(x + input)`.

use adapter_core::precision;
use burn::{
    nn::LayerNorm,
    tensor::{FloatDType, Tensor},
};
use rayon::prelude::*;

use super::{
    math::{sum, vectorised},
    operation::{Grad, Operation, is_fast},
    rows::{Rows, add_up, cut, zeros},
};

/// `norm(x + input)`; `epsilon` is that of `norm`, which keeps it to itself.
///
/// # Shapes
/// - `x`, `input`, result: `[rows, width]`
pub fn add_norm(x: Tensor<2>, input: Tensor<2>, norm: &LayerNorm, epsilon: f64) -> Tensor<2> {
    match &norm.beta {
        Some(beta) if is_fast(&x) => {
            let operation = AddNorm { rows: x.dims()[0], width: x.dims()[1], epsilon: epsilon as f32 };
            operation.apply([x.into(), input.into(), norm.gamma.val().into(), beta.val().into()])
        }
        _ => {
            let dtype = precision(&x);
            let [x, input] = [x, input].map(|part| part.cast(FloatDType::F32));
            norm.forward(x + input).cast(dtype)
        }
    }
}

/// The operation's settings.
#[derive(Clone, Debug)]
pub struct AddNorm {
    rows: usize,
    width: usize,
    epsilon: f32,
}

/// What the backward pass needs: the normalised rows, and what each was divided by.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    normed: Vec<f32>,
    inverse: Vec<f32>,
}

impl Operation<4> for AddNorm {
    type Kept = Kept;

    fn width(&self) -> usize {
        self.width
    }

    fn reads(&self, _: [bool; 4]) -> [bool; 4] {
        [false, false, true, false]
    }

    fn forward(&self, [x, input, gamma, beta]: [&[f32]; 4], wanted: [bool; 4]) -> (Vec<f32>, Kept) {
        let (width, shares) = (self.width, Rows::All(self.rows).shares(self.width));
        let keep = wanted.contains(&true);
        let kept = if keep { self.rows } else { 0 };
        let mut out = zeros(x.len());
        let (mut normed, mut inverse) = (zeros(kept * width), zeros(kept));
        let parts = cut(&shares, &mut out, width).into_par_iter();
        let kept = cut(&shares, &mut normed, width).into_par_iter().zip(cut(&shares, &mut inverse, 1));
        parts.zip(kept).zip(&shares).for_each(|((out, (normed, inverse)), share)| {
            let place = share.start * width..share.end * width;
            let (x, input) = (&x[place.clone()], &input[place]);
            vectorised(
                #[inline(always)]
                || {
                    for (row, out) in out.chunks_exact_mut(width).enumerate() {
                        let place = row * width..(row + 1) * width;
                        let (x, input) = (&x[place.clone()], &input[place.clone()]);
                        for (out, (x, input)) in out.iter_mut().zip(x.iter().zip(input)) {
                            *out = x + input;
                        }
                        let divisor = normalise(out, self.epsilon);
                        if keep {
                            normed[place].copy_from_slice(out);
                            inverse[row] = divisor;
                        }
                        for (out, (gamma, beta)) in out.iter_mut().zip(gamma.iter().zip(beta)) {
                            *out = out.mul_add(*gamma, *beta);
                        }
                    }
                },
            );
        });
        (out, Kept { normed, inverse })
    }

    fn backward(&self, inputs: [&[f32]; 4], kept: &Kept, gradient: &[f32], wanted: [bool; 4]) -> [Grad; 4] {
        let (width, shares, gamma) = (self.width, Rows::All(self.rows).shares(self.width), inputs[2]);
        let below = wanted[0] || wanted[1];
        let mut sums = zeros(if below { gradient.len() } else { 0 });
        let parts = cut(&shares, &mut sums, width).into_par_iter().zip(&shares);
        let scales: Vec<[Vec<f32>; 2]> = parts
            .map(|(sums, share)| {
                let mut scale = [vec![0.0; width], vec![0.0; width]];
                vectorised(
                    #[inline(always)]
                    || {
                        for (row, number) in share.clone().enumerate() {
                            let place = number * width..(number + 1) * width;
                            let (gradient, normed) = (&gradient[place.clone()], &kept.normed[place]);
                            if wanted[2] || wanted[3] {
                                let [of_gamma, of_beta] = &mut scale;
                                let sums = of_gamma.iter_mut().zip(of_beta.iter_mut());
                                for ((of_gamma, of_beta), (gradient, normed)) in sums.zip(gradient.iter().zip(normed)) {
                                    *of_gamma = gradient.mul_add(*normed, *of_gamma);
                                    *of_beta += gradient;
                                }
                            }
                            if below {
                                let to = &mut sums[row * width..(row + 1) * width];
                                for (to, (gradient, gamma)) in to.iter_mut().zip(gradient.iter().zip(gamma)) {
                                    *to = gradient * gamma;
                                }
                                let mean = sum(width, |i| to[i]) / width as f32;
                                let along = sum(width, |i| to[i] * normed[i]) / width as f32;
                                let inverse = kept.inverse[number];
                                for (to, normed) in to.iter_mut().zip(normed) {
                                    *to = (*to - mean - normed * along) * inverse;
                                }
                            }
                        }
                    },
                );
                scale
            })
            .collect();
        let (of_gamma, of_beta): (Vec<_>, Vec<_>) = scales.into_iter().map(|[gamma, beta]| (gamma, beta)).unzip();
        // x and the input are only added: their gradient is the same.
        let (of_x, of_input) = match (wanted[0], wanted[1]) {
            (true, true) => (Grad::Values(sums), Grad::Same(0)),
            (true, false) => (Grad::Values(sums), Grad::None),
            (false, true) => (Grad::None, Grad::Values(sums)),
            (false, false) => (Grad::None, Grad::None),
        };
        let of = |wanted, rows| Grad::when(wanted, || add_up(rows, width));
        [of_x, of_input, of(wanted[2], of_gamma), of(wanted[3], of_beta)]
    }
}

/// Gives `row` mean 0 and variance 1; returns what it was multiplied by.
#[inline(always)]
fn normalise(row: &mut [f32], epsilon: f32) -> f32 {
    let width = row.len();
    let mean = sum(width, |i| row[i]) / width as f32;
    for value in row.iter_mut() {
        *value -= mean;
    }
    let variance = sum(width, |i| row[i] * row[i]) / width as f32;
    let inverse = 1.0 / (variance + epsilon).sqrt();
    for value in row {
        *value *= inverse;
    }
    inverse
}
