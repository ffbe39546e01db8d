//! The attention sub-layer up to its dropout: queries, keys and values, attention within each sequence, and the projection
//! of what it mixed.

use std::{ops::Range, sync::Arc};

use adapter_core::DropoutMask;
use burn::{nn::Linear, tensor::Tensor};
use rayon::prelude::*;

use super::{
    inputs,
    math::{drop_out, exp, largest, sum, vectorised},
    matrix::{Transposed, View, ViewMut, Write, linear, linear_backward, multiply, weight_gradient},
    operation::{Grad, Input, Operation},
    rows::{Rows, copied, cut, share, sum_rows, zeros},
};
use crate::PackedBatch;

/// Multi-head attention within each sequence, with all its projections and dropout.
///
/// # Shapes
/// - `x`: `[tokens, width]`
/// - `projections`: query, key, value and output, `[width, width]`
/// - `added`: to queries `[rows, width]`, keys and values `[tokens, width]`, if anything is
/// - `dropout`: of the probabilities, and of the result
/// - result: `[rows, width]`
pub fn attention(
    x: Tensor<2>,
    projections: [&Linear; 4],
    added: [Option<Tensor<2>>; 3],
    heads: usize,
    batch: &PackedBatch,
    rows: &Rows,
    dropout: [Option<DropoutMask>; 2],
) -> Tensor<2> {
    let [probabilities, dropout] = dropout;
    let operation = Attention {
        boundaries: batch.shared_boundaries(),
        first_only: matches!(rows, Rows::First(_)),
        width: x.dims()[1],
        heads,
        added: added.each_ref().map(Option::is_some),
        probabilities,
        dropout,
    };
    let device = x.device();
    let [to_query, to_key, to_value] =
        added.map(|added| Input::from(added.unwrap_or_else(|| Tensor::zeros([1, 1], &device))));
    let [[query, query_bias], [key, key_bias], [value, value_bias], [output, output_bias]] = projections.map(inputs);
    operation.apply([
        x.into(),
        query,
        query_bias,
        key,
        key_bias,
        value,
        value_bias,
        output,
        output_bias,
        to_query,
        to_key,
        to_value,
    ])
}

/// The operation's settings.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Where each sequence begins, and at last the number of tokens.
    boundaries: Arc<[usize]>,
    /// Whether only the first token of each sequence asks; all tokens are asked.
    first_only: bool,
    width: usize,
    heads: usize,
    /// Whether something is added to queries, keys and values.
    added: [bool; 3],
    /// Dropout of the probabilities, numbered as in `[sequences, heads, longest, longest]`.
    probabilities: Option<DropoutMask>,
    /// Dropout of the result.
    dropout: Option<DropoutMask>,
}

/// What the backward pass needs. Probabilities are computed again: that is cheaper than keeping them.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    /// What attention mixed, if the last projection is trained.
    mixed: Vec<f32>,
}

/// Whole sequences that a thread takes at a time.
struct Share {
    sequences: Range<usize>,
    /// Their tokens.
    tokens: Range<usize>,
    /// Those of them that ask.
    asking: Range<usize>,
}

/// One head of one sequence.
struct Head {
    sequence: usize,
    head: usize,
    /// Its tokens, counted within the share.
    tokens: Range<usize>,
    /// Those of them that ask, counted within the share's.
    asking: Range<usize>,
    columns: Range<usize>,
}

impl Attention {
    fn tokens(&self) -> usize {
        self.boundaries[self.boundaries.len() - 1]
    }

    fn rows(&self) -> Rows {
        if self.first_only { Rows::First(self.boundaries.clone()) } else { Rows::All(self.tokens()) }
    }

    fn shares(&self) -> Vec<Share> {
        let mut shares: Vec<Share> = Vec::new();
        let (mut first, sequences) = (0, self.boundaries.len() - 1);
        // An even number of nearly the same size, so that two threads end together.
        let count = self.tokens().div_ceil(share(self.width)).next_multiple_of(2).max(1);
        let size = self.tokens().div_ceil(count);
        for end in 1..=sequences {
            let tokens = self.boundaries[first]..self.boundaries[end];
            if tokens.end >= size * (shares.len() + 1) || end == sequences {
                let asking = if self.first_only { first..end } else { tokens.clone() };
                shares.push(Share { sequences: first..end, tokens, asking });
                first = end;
            }
        }
        shares
    }

    fn longest(&self) -> usize {
        self.boundaries.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }

    fn head_width(&self) -> usize {
        self.width / self.heads
    }

    fn scale(&self) -> f32 {
        1.0 / (self.head_width() as f32).sqrt()
    }

    /// All heads of a share's sequences.
    fn heads_of<'a>(&'a self, share: &'a Share) -> impl Iterator<Item = Head> + 'a {
        share.sequences.clone().flat_map(move |sequence| {
            let tokens =
                self.boundaries[sequence] - share.tokens.start..self.boundaries[sequence + 1] - share.tokens.start;
            let place = sequence - share.sequences.start;
            let asking = if self.first_only { place..place + 1 } else { tokens.clone() };
            (0..self.heads).map(move |head| Head {
                sequence,
                head,
                tokens: tokens.clone(),
                asking: asking.clone(),
                columns: head * self.head_width()..(head + 1) * self.head_width(),
            })
        })
    }

    /// The probabilities of a head, before dropout.
    ///
    /// # Shapes
    /// - `query`: `[asking of the share, width]`
    /// - `key`: `[tokens of the share, width]`
    /// - `to`: `[asking, tokens]` of the head
    fn probabilities(&self, head: &Head, query: &[f32], key: &[f32], to: &mut [f32]) {
        let (width, tokens) = (self.width, head.tokens.len());
        let query = View::new(query, width).block(head.asking.clone(), head.columns.clone());
        let key = View::new(key, width).block(head.tokens.clone(), head.columns.clone());
        multiply(ViewMut::new(to, tokens), Write::Replace, self.scale(), query, key.t());
        vectorised(
            #[inline(always)]
            || {
                for row in to.chunks_exact_mut(tokens) {
                    let most = largest(row);
                    for value in row {
                        *value -= most;
                    }
                }
                // All rows at once: one of a short sequence does not fill a vector register.
                for value in to.iter_mut() {
                    *value = exp(*value);
                }
                for row in to.chunks_exact_mut(tokens) {
                    let inverse = 1.0 / sum(row.len(), |i| row[i]);
                    for value in row {
                        *value *= inverse;
                    }
                }
            },
        );
    }

    /// Multiplies a head's probabilities by the mask.
    fn drop_probabilities(&self, head: &Head, longest: usize, values: &mut [f32]) {
        let first = (head.sequence * self.heads + head.head) * longest * longest;
        if head.tokens.len() == longest {
            return drop_out(self.probabilities, first, values);
        }
        for (row, values) in values.chunks_exact_mut(head.tokens.len()).enumerate() {
            drop_out(self.probabilities, first + row * longest, values);
        }
    }
}

impl Operation<12> for Attention {
    type Kept = Kept;

    fn width(&self) -> usize {
        self.width
    }

    fn reads(&self, wanted: [bool; 12]) -> [bool; 12] {
        let [x, query, _, key, _, value, ..] = wanted;
        let below = is_below(wanted);
        [query || key || value, x, false, x, false, x, false, below, false, false, false, false]
    }

    fn forward(&self, inputs: [&[f32]; 12], wanted: [bool; 12]) -> (Vec<f32>, Kept) {
        let [x, query, query_bias, key, key_bias, value, value_bias, output, output_bias, ..] = inputs;
        let [.., to_query, to_key, to_value] = inputs;
        let (width, longest, rows, shares) = (self.width, self.longest(), self.rows(), self.shares());
        let (tokens, asking): (Vec<_>, Vec<_>) = shares.iter().map(|s| (s.tokens.clone(), s.asking.clone())).unzip();
        let new = |rows: usize| zeros(rows * width);
        let (mut queries, mut keys, mut values) = (new(rows.len()), new(self.tokens()), new(self.tokens()));
        let (mut mixed, mut out) = (new(rows.len()), new(rows.len()));
        let projected = cut(&asking, &mut queries, width).into_par_iter();
        let projected = projected.zip(cut(&tokens, &mut keys, width)).zip(cut(&tokens, &mut values, width));
        let results = cut(&asking, &mut mixed, width).into_par_iter().zip(cut(&asking, &mut out, width));
        projected.zip(results).zip(&shares).for_each(|((((queries, keys), values), (mixed, out)), share)| {
            let x = &x[share.tokens.start * width..share.tokens.end * width];
            if self.first_only {
                linear(queries, &self.first_rows(share, x), query, query_bias);
            } else {
                linear(queries, x, query, query_bias);
            }
            linear(keys, x, key, key_bias);
            linear(values, x, value, value_bias);
            let more = [(to_query, &share.asking), (to_key, &share.tokens), (to_value, &share.tokens)];
            let more = more.into_iter().zip(self.added).zip([&mut *queries, &mut *keys, &mut *values]);
            for (((added, rows), _), to) in more.filter(|((_, is_added), _)| *is_added) {
                add(to, &added[rows.start * width..rows.end * width]);
            }
            let mut scores = vec![0.0; longest * longest];
            for head in self.heads_of(share) {
                let scores = &mut scores[..head.asking.len() * head.tokens.len()];
                self.probabilities(&head, queries, keys, scores);
                self.drop_probabilities(&head, longest, scores);
                let to = ViewMut::new(mixed, width).block(head.asking.clone(), head.columns.clone());
                let values = View::new(values, width).block(head.tokens.clone(), head.columns.clone());
                multiply(to, Write::Replace, 1.0, View::new(scores, head.tokens.len()), values);
            }
            linear(out, mixed, output, output_bias);
            rows.drop_out(self.dropout, share.asking.start, out, width);
        });
        let mixed = if wanted[7] { mixed } else { Vec::new() };
        let keep = wanted.contains(&true);
        (out, if keep { Kept { query: queries, key: keys, value: values, mixed } } else { Kept::default() })
    }

    fn backward(&self, inputs: [&[f32]; 12], kept: &Kept, gradient: &[f32], wanted: [bool; 12]) -> [Grad; 12] {
        let [x, query, _, key, _, value, _, output, ..] = inputs;
        let (width, longest, rows, shares) = (self.width, self.longest(), self.rows(), self.shares());
        let (tokens, asking): (Vec<_>, Vec<_>) = shares.iter().map(|s| (s.tokens.clone(), s.asking.clone())).unzip();
        let below = is_below(wanted);
        let new = |wanted: bool, rows: usize| zeros(if wanted { rows * width } else { 0 });
        let [query, key, value, output] =
            [query, key, value, output].map(|weight| Transposed::new(weight, width, shares.len()));
        let mut of_out = copied(gradient);
        let (mut of_query, mut of_key) = (new(below, rows.len()), new(below, self.tokens()));
        let (mut of_value, mut of_x) = (new(below, self.tokens()), new(wanted[0], self.tokens()));
        let projected = cut(&asking, &mut of_query, width).into_par_iter();
        let projected = projected.zip(cut(&tokens, &mut of_key, width)).zip(cut(&tokens, &mut of_value, width));
        let ends = cut(&asking, &mut of_out, width).into_par_iter().zip(cut(&tokens, &mut of_x, width));
        projected.zip(ends).zip(&shares).for_each(|((((of_query, of_key), of_value), (of_out, of_x)), share)| {
            rows.drop_out(self.dropout, share.asking.start, of_out, width);
            if !below {
                return;
            }
            let queries = &kept.query[share.asking.start * width..share.asking.end * width];
            let place = share.tokens.start * width..share.tokens.end * width;
            let (keys, values) = (&kept.key[place.clone()], &kept.value[place]);
            let mut of_mixed = vec![0.0; of_out.len()];
            linear_backward(&mut of_mixed, Write::Replace, of_out, &output);
            let (mut scores, mut of_scores) = (vec![0.0; longest * longest], vec![0.0; longest * longest]);
            let mut dropped = vec![0.0; longest * longest];
            for head in self.heads_of(share) {
                let (asking, tokens, columns) = (head.asking.clone(), head.tokens.clone(), head.columns.clone());
                let size = asking.len() * tokens.len();
                let (scores, of_scores, dropped) = (&mut scores[..size], &mut of_scores[..size], &mut dropped[..size]);
                let of_mixed = View::new(&of_mixed, width).block(asking.clone(), columns.clone());
                self.probabilities(&head, queries, keys, scores);
                dropped.copy_from_slice(scores);
                self.drop_probabilities(&head, longest, dropped);
                let to = ViewMut::new(of_value, width).block(tokens.clone(), columns.clone());
                multiply(to, Write::Replace, 1.0, View::new(dropped, tokens.len()).t(), of_mixed);

                let values = View::new(values, width).block(tokens.clone(), columns.clone());
                multiply(ViewMut::new(of_scores, tokens.len()), Write::Replace, 1.0, of_mixed, values.t());
                vectorised(
                    #[inline(always)]
                    || {
                        let rows = scores.chunks_exact(tokens.len()).zip(dropped.chunks_exact(tokens.len()));
                        for (gradient, (row, dropped)) in of_scores.chunks_exact_mut(tokens.len()).zip(rows) {
                            softmax_backward(gradient, row, dropped);
                        }
                    },
                );
                let of_scores = View::new(of_scores, tokens.len());
                let keys = View::new(keys, width).block(tokens.clone(), columns.clone());
                let to = ViewMut::new(of_query, width).block(asking.clone(), columns.clone());
                multiply(to, Write::Replace, self.scale(), of_scores, keys);
                let queries = View::new(queries, width).block(asking, columns.clone());
                let to = ViewMut::new(of_key, width).block(tokens, columns);
                multiply(to, Write::Replace, self.scale(), of_scores.t(), queries);
            }
            if wanted[0] {
                linear_backward(of_x, Write::Replace, of_key, &key);
                linear_backward(of_x, Write::Add, of_value, &value);
                if self.first_only {
                    self.add_first_rows(share, of_query, &query, of_x);
                } else {
                    linear_backward(of_x, Write::Add, of_query, &query);
                }
            }
        });
        let asked = if self.first_only && wanted[1] { self.all_first_rows(x) } else { Vec::new() };
        let asked = if self.first_only { &asked } else { x };
        [
            Grad::when(wanted[0], || of_x),
            Grad::when(wanted[1], || weight_gradient(asked, width, &of_query, width)),
            Grad::when(wanted[2], || sum_rows(&of_query, width)),
            Grad::when(wanted[3], || weight_gradient(x, width, &of_key, width)),
            Grad::when(wanted[4], || sum_rows(&of_key, width)),
            Grad::when(wanted[5], || weight_gradient(x, width, &of_value, width)),
            Grad::when(wanted[6], || sum_rows(&of_value, width)),
            Grad::when(wanted[7], || weight_gradient(&kept.mixed, width, &of_out, width)),
            Grad::when(wanted[8], || sum_rows(&of_out, width)),
            Grad::when(wanted[9], || of_query),
            Grad::when(wanted[10], || of_key),
            Grad::when(wanted[11], || of_value),
        ]
    }
}

/// Whether a gradient is wanted of anything before the last projection.
fn is_below(wanted: [bool; 12]) -> bool {
    wanted[..7].contains(&true) || wanted[9..].contains(&true)
}

fn add(to: &mut [f32], added: &[f32]) {
    to.iter_mut().zip(added).for_each(|(to, added)| *to += added);
}

/// The gradient of a row of scores from that of its probabilities after dropout, in place.
#[inline(always)]
fn softmax_backward(gradient: &mut [f32], probabilities: &[f32], dropped: &[f32]) {
    let mean = sum(gradient.len(), |i| gradient[i] * dropped[i]);
    for (gradient, (probability, dropped)) in gradient.iter_mut().zip(probabilities.iter().zip(dropped)) {
        *gradient = *gradient * dropped - mean * probability;
    }
}

impl Attention {
    /// The first row of each of a share's sequences.
    fn first_rows(&self, share: &Share, x: &[f32]) -> Vec<f32> {
        let first = self.boundaries[share.sequences.clone()].iter().map(|&row| row - share.tokens.start);
        first.flat_map(|row| &x[row * self.width..(row + 1) * self.width]).copied().collect()
    }

    /// The first row of every sequence.
    fn all_first_rows(&self, x: &[f32]) -> Vec<f32> {
        let first = &self.boundaries[..self.boundaries.len() - 1];
        first.iter().flat_map(|&row| &x[row * self.width..(row + 1) * self.width]).copied().collect()
    }

    /// Adds the queries' part to the gradient of the rows that asked.
    fn add_first_rows(&self, share: &Share, of_query: &[f32], query: &Transposed<'_>, of_x: &mut [f32]) {
        let mut part = vec![0.0; of_query.len()];
        linear_backward(&mut part, Write::Replace, of_query, query);
        for (row, part) in self.boundaries[share.sequences.clone()].iter().zip(part.chunks_exact(self.width)) {
            let start = (row - share.tokens.start) * self.width;
            of_x[start..start + self.width].iter_mut().zip(part).for_each(|(to, part)| *to += part);
        }
    }
}
