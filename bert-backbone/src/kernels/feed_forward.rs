//! The feed-forward sub-layer up to its dropout: `dropout(narrow(f(wide(x))))`.

use adapter_core::{Activation, DropoutMask};
use burn::{nn::Linear, tensor::Tensor};
use rayon::prelude::*;

use super::{
    inputs,
    math::{activate, activate_backward},
    matrix::{Transposed, Write, linear, linear_backward, linear_rows, weight_gradient},
    operation::{Grad, Operation},
    rows::{Rows, copied, cut, sum_rows, zeros},
};

/// `dropout(narrow(activation(wide(x))))`.
///
/// # Shapes
/// - `x`, result: `[rows, width]`
pub fn feed_forward(
    x: Tensor<2>,
    wide: &Linear,
    activation: Activation,
    narrow: &Linear,
    rows: Rows,
    dropout: Option<DropoutMask>,
) -> Tensor<2> {
    let [width, wide_width] = wide.weight.dims();
    let operation = FeedForward { rows, width, wide: wide_width, activation, dropout };
    let ([wide, wide_bias], [narrow, narrow_bias]) = (inputs(wide), inputs(narrow));
    operation.apply([x.into(), wide, wide_bias, narrow, narrow_bias])
}

/// The operation's settings.
#[derive(Clone, Debug)]
pub struct FeedForward {
    rows: Rows,
    width: usize,
    wide: usize,
    activation: Activation,
    dropout: Option<DropoutMask>,
}

impl Operation<5> for FeedForward {
    /// Wide rows, before the non-linearity.
    type Kept = Vec<f32>;

    fn width(&self) -> usize {
        self.width
    }

    fn reads(&self, [x, wide, wide_bias, ..]: [bool; 5]) -> [bool; 5] {
        [wide, x, false, x || wide || wide_bias, false]
    }

    fn forward(
        &self,
        [x, wide, wide_bias, narrow, narrow_bias]: [&[f32]; 5],
        wanted: [bool; 5],
    ) -> (Vec<f32>, Vec<f32>) {
        let width = self.width;
        let shares = self.rows.shares(width);
        let keep = wanted.contains(&true);
        let mut out = zeros(x.len());
        let mut kept = zeros(if keep { self.rows.len() * self.wide } else { 0 });
        let parts = cut(&shares, &mut out, width).into_par_iter().zip(cut(&shares, &mut kept, self.wide));
        parts.zip(&shares).for_each(|((out, kept), share)| {
            let mut active = linear_rows(&x[share.start * width..share.end * width], wide, wide_bias);
            if keep {
                kept.copy_from_slice(&active);
            }
            activate(self.activation, &mut active);
            linear(out, &active, narrow, narrow_bias);
            self.rows.drop_out(self.dropout, share.start, out, width);
        });
        (out, kept)
    }

    fn backward(&self, inputs: [&[f32]; 5], kept: &Vec<f32>, gradient: &[f32], wanted: [bool; 5]) -> [Grad; 5] {
        let [x, wide, _, narrow, _] = inputs;
        let width = self.width;
        let shares = self.rows.shares(width);
        let below = wanted[0] || wanted[1] || wanted[2];
        let weights = wanted[1] || wanted[2];
        let (wide, narrow) =
            (Transposed::new(wide, self.wide, shares.len()), Transposed::new(narrow, width, shares.len()));
        let mut of_out = copied(gradient);
        let mut of_x = zeros(if wanted[0] { gradient.len() } else { 0 });
        let mut of_wide = zeros(if weights { kept.len() } else { 0 });
        let parts = cut(&shares, &mut of_out, width).into_par_iter().zip(cut(&shares, &mut of_x, width));
        parts.zip(cut(&shares, &mut of_wide, self.wide)).zip(&shares).for_each(|(((of_out, of_x), of_wide), share)| {
            self.rows.drop_out(self.dropout, share.start, of_out, width);
            if below {
                let mut between = vec![0.0; share.len() * self.wide];
                linear_backward(&mut between, Write::Replace, of_out, &narrow);
                activate_backward(self.activation, &kept[share.start * self.wide..share.end * self.wide], &mut between);
                if wanted[0] {
                    linear_backward(of_x, Write::Replace, &between, &wide);
                }
                if weights {
                    of_wide.copy_from_slice(&between);
                }
            }
        });
        [
            Grad::when(wanted[0], || of_x),
            Grad::when(wanted[1], || weight_gradient(x, width, &of_wide, self.wide)),
            Grad::when(wanted[2], || sum_rows(&of_wide, self.wide)),
            Grad::when(wanted[3], || {
                let mut active = copied(kept);
                active.par_chunks_mut(self.wide).for_each(|row| activate(self.activation, row));
                weight_gradient(&active, self.wide, &of_out, width)
            }),
            Grad::when(wanted[4], || sum_rows(&of_out, width)),
        ]
    }
}
