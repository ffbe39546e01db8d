//! The paper's adapter in one operation: `x + up(f(down(x)))`.

use adapter_core::{Activation, At, Insertion};
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{
    inputs,
    math::{activate, activate_backward, knows},
    matrix::{Transposed, View, ViewMut, Write, linear, linear_backward, multiply, weight_gradient},
    operation::{Grad, Operation, is_fast},
    rows::{Rows, copied, cut, sum_rows, zeros},
};

/// What `insertion` makes of `output`.
///
/// # Shapes
/// - `output`, `input`, result: `[rows, width]`
pub fn insert<I: Insertion>(insertion: &I, output: Tensor<2>, input: Tensor<2>, at: &At<'_>) -> Tensor<2> {
    match insertion.as_bottleneck() {
        Some(adapter) if is_fast(&output) && knows(adapter.activation) => {
            let ([rows, width], size) = (output.dims(), adapter.down.weight.dims()[1]);
            let operation = Bottleneck { rows, width, size, activation: adapter.activation };
            let ([down, down_bias], [up, up_bias]) = (inputs(adapter.down), inputs(adapter.up));
            operation.apply([output.into(), down, down_bias, up, up_bias])
        }
        _ => {
            let shape = output.dims();
            let result = insertion.forward(output, input, at);
            let (found, place) = (result.dims(), at.place);
            assert_eq!(found, shape, "what is inserted at {place} returns another shape than it is given");
            result
        }
    }
}

/// The operation's settings.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    rows: usize,
    width: usize,
    size: usize,
    activation: Activation,
}

impl Operation<5> for Bottleneck {
    /// Down-projected rows, before the non-linearity.
    type Kept = Vec<f32>;

    fn width(&self) -> usize {
        self.width
    }

    fn reads(&self, [x, down, down_bias, ..]: [bool; 5]) -> [bool; 5] {
        [down, x, false, x || down || down_bias, false]
    }

    fn forward(&self, [x, down, down_bias, up, up_bias]: [&[f32]; 5], wanted: [bool; 5]) -> (Vec<f32>, Vec<f32>) {
        let Self { width, size, .. } = *self;
        let shares = Rows::All(self.rows).shares(self.width);
        let keep = wanted.contains(&true);
        let mut out = copied(x);
        let mut kept = zeros(self.rows * size);
        let parts = cut(&shares, &mut out, width).into_par_iter().zip(cut(&shares, &mut kept, size));
        parts.zip(&shares).for_each(|((out, hidden), share)| {
            linear(hidden, &x[share.start * width..share.end * width], down, down_bias);
            let mut active = hidden.to_vec();
            activate(self.activation, &mut active);
            let rows = out.chunks_exact_mut(width);
            rows.for_each(|row| row.iter_mut().zip(up_bias).for_each(|(out, bias)| *out += bias));
            multiply(ViewMut::new(out, width), Write::Add, 1.0, View::new(&active, size), View::new(up, width));
        });
        (out, if keep { kept } else { Vec::new() })
    }

    fn backward(&self, inputs: [&[f32]; 5], kept: &Vec<f32>, gradient: &[f32], wanted: [bool; 5]) -> [Grad; 5] {
        let [x, down, _, up, _] = inputs;
        let Self { width, size, .. } = *self;
        let shares = Rows::All(self.rows).shares(self.width);
        let below = wanted[0] || wanted[1] || wanted[2];
        let (down, up) = (Transposed::new(down, size, shares.len()), Transposed::new(up, width, shares.len()));
        let mut of_x = copied(if wanted[0] { gradient } else { &[] });
        let mut of_hidden = zeros(if below { kept.len() } else { 0 });
        let parts = cut(&shares, &mut of_x, width).into_par_iter().zip(cut(&shares, &mut of_hidden, size));
        parts.zip(&shares).filter(|_| below).for_each(|((of_x, of_hidden), share)| {
            let gradient = &gradient[share.start * width..share.end * width];
            linear_backward(of_hidden, Write::Replace, gradient, &up);
            activate_backward(self.activation, &kept[share.start * size..share.end * size], of_hidden);
            if wanted[0] {
                linear_backward(of_x, Write::Add, of_hidden, &down);
            }
        });
        [
            Grad::when(wanted[0], || of_x),
            Grad::when(wanted[1], || weight_gradient(x, width, &of_hidden, size)),
            Grad::when(wanted[2], || sum_rows(&of_hidden, size)),
            Grad::when(wanted[3], || {
                let mut active = kept.clone();
                activate(self.activation, &mut active);
                weight_gradient(&active, size, gradient, width)
            }),
            Grad::when(wanted[4], || sum_rows(gradient, width)),
        ]
    }
}
