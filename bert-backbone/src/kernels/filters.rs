//! Filters over the words of packed texts: the strongest response of each in each text.
//!
//! The backward pass follows from what is kept: only the words that gave the strongest response have a gradient, so that it needs
//! no product of whole matrices.

use std::{ops::Range, sync::Arc};

use burn::tensor::{Device, Int, Tensor, TensorData};
use rayon::prelude::*;

use super::{
    math::vectorised,
    matrix::{View, ViewMut, Write, in_order, multiply},
    operation::{Grad, Operation, is_fast},
    rows::cut,
};

/// The highest response of each filter in each text; with `lowest` the lowest ones stand behind them.
///
/// A filter reads some words in a row. In a text that is shorter it reads what there is, once.
///
/// # Shapes
/// - `words`: `[words, width]`, the texts' words end to end
/// - `filters`: `[reach · width, filters]`: the weights of the first word it reads, of the second, and so on
/// - `starts`: where each text begins, and where the last one ends; none is empty
/// - result: `[texts, filters]`, or `[texts, 2 · filters]`
pub fn filter_peaks(words: Tensor<2>, filters: Tensor<2>, starts: &Arc<[usize]>, lowest: bool) -> Tensor<2> {
    if !is_fast(&words) {
        return composed(words, filters, starts, lowest);
    }
    let ([_, width], [values, number]) = (words.dims(), filters.dims());
    let operation = FilterPeaks { starts: starts.clone(), width, number, reach: values / width, lowest };
    operation.apply([words.into(), filters.into()])
}

/// [`filter_peaks`] on any device.
fn composed(words: Tensor<2>, filters: Tensor<2>, starts: &[usize], lowest: bool) -> Tensor<2> {
    let ([_, width], [values, number], device) = (words.dims(), filters.dims(), words.device());
    let windows = Windows::new(starts, values / width);
    let nothing = Tensor::zeros([1, width], &device);
    let words = Tensor::cat(vec![words, nothing], 0);
    let parts = windows.words.iter().map(|places| words.clone().select(0, ints(places, &device))).collect();
    let responses = Tensor::cat(parts, 1).matmul(filters);
    let extreme = |never: f32, choose: fn(Tensor<3>) -> Tensor<3>| {
        let all = Tensor::cat(vec![responses.clone(), Tensor::full([1, number], never, &device)], 0);
        let of_text: Tensor<3> =
            all.select(0, ints(&windows.of_text, &device)).reshape([starts.len() - 1, windows.most, number]);
        choose(of_text).squeeze_dim::<2>(1)
    };
    let highest = extreme(f32::MIN, |responses| responses.max_dim(1));
    if lowest { Tensor::cat(vec![highest, extreme(f32::MAX, |responses| responses.min_dim(1))], 1) } else { highest }
}

fn ints(values: &[usize], device: &Device) -> Tensor<1, Int> {
    let values: Vec<i64> = values.iter().map(|&value| value as i64).collect();
    let size = values.len();
    Tensor::from_data(TensorData::new(values, [size]), device)
}

/// All windows of a number of words. A text that is shorter has one, which ends with words that are not there.
struct Windows {
    /// The first word of each window, the second, and so on; one past the last word where there is none.
    words: Vec<Vec<usize>>,
    /// The windows of each text, as many as the text with most has; one past the last window where there are no more.
    of_text: Vec<usize>,
    /// As many as the text with most has.
    most: usize,
}

impl Windows {
    fn new(starts: &[usize], reach: usize) -> Self {
        let texts = || starts.windows(2).map(|ends| (ends[0], ends[1]));
        let number = |(start, end): (usize, usize)| (end - start + 1).saturating_sub(reach).max(1);
        let all: usize = texts().map(number).sum();
        let most = texts().map(number).max().unwrap_or(1);
        let (mut words, mut of_text, mut window) = (vec![Vec::with_capacity(all); reach], Vec::new(), 0);
        for (start, end) in texts() {
            for first in start..start + number((start, end)) {
                for (place, words) in words.iter_mut().enumerate() {
                    words.push(if first + place < end { first + place } else { starts[starts.len() - 1] });
                }
            }
            of_text.extend((0..most).map(|n| if n < number((start, end)) { window + n } else { all }));
            window += number((start, end));
        }
        Self { words, of_text, most }
    }
}

/// The operation's settings.
#[derive(Clone, Debug)]
pub struct FilterPeaks {
    starts: Arc<[usize]>,
    /// Of a word's vector.
    width: usize,
    /// Of filters.
    number: usize,
    /// Words that a filter reads.
    reach: usize,
    lowest: bool,
}

/// Texts that a thread takes at a time; results do not depend on threads because this does not.
const TEXTS: usize = 32;

impl FilterPeaks {
    /// The words that the response at the word `first` of `text` comes from, as a range of all words' values.
    fn read(&self, text: usize, first: usize) -> Range<usize> {
        let end = (first + self.reach).min(self.starts[text + 1]);
        first * self.width..end * self.width
    }

    /// The strongest responses in a share of the texts, and the first word of each.
    fn respond(&self, words: &[f32], filters: &[f32], share: usize, out: &mut [f32], kept: &mut [u32]) {
        let Self { starts, width, number, reach, .. } = self;
        let texts = share * TEXTS..(share * TEXTS + out.len() / self.width());
        let (first, last) = (starts[texts.start], starts[texts.end]);
        let weights = |place: usize| View::new(&filters[place * width * number..(place + 1) * width * number], *number);
        let mut responses = vec![0.0f32; (last - first) * number];
        // Some of these windows reach into the next text: nobody looks at them.
        for place in 0..(*reach).min(last - first) {
            let to = ViewMut::new(&mut responses[..(last - first - place) * number], *number);
            let write = if place == 0 { Write::Replace } else { Write::Add };
            multiply(to, write, 1.0, View::new(&words[(first + place) * width..last * width], *width), weights(place));
        }
        let results = out.chunks_exact_mut(self.width()).zip(kept.chunks_exact_mut(self.width()));
        for (text, (out, kept)) in texts.zip(results) {
            let (start, end) = (starts[text], starts[text + 1]);
            if end - start < *reach {
                let row = &mut responses[(start - first) * number..(start - first + 1) * number];
                row.fill(0.0);
                for place in 0..end - start {
                    let word = View::new(&words[(start + place) * width..(start + place + 1) * width], *width);
                    multiply(ViewMut::new(row, *number), Write::Add, 1.0, word, weights(place));
                }
            }
            let windows = (end - start + 1).saturating_sub(*reach).max(1);
            let all = &responses[(start - first) * number..(start - first + windows) * number];
            let (highest, lowest) = out.split_at_mut(*number);
            let (highest_at, lowest_at) = kept.split_at_mut(*number);
            find(all, start, highest, highest_at, |new, best| new > best);
            if self.lowest {
                find(all, start, lowest, lowest_at, |new, best| new < best);
            }
        }
    }
}

/// The best value of each column and the row it is in, rows counted from `start`; of equal ones the first.
#[inline]
fn find(rows: &[f32], start: usize, best: &mut [f32], at: &mut [u32], better: impl Fn(f32, f32) -> bool) {
    let number = best.len();
    best.copy_from_slice(&rows[..number]);
    at.fill(start as u32);
    vectorised(
        #[inline(always)]
        || {
            for (row, place) in rows.chunks_exact(number).zip(start as u32..).skip(1) {
                for ((best, at), new) in best.iter_mut().zip(at.iter_mut()).zip(row) {
                    let is_better = better(*new, *best);
                    *best = if is_better { *new } else { *best };
                    *at = if is_better { place } else { *at };
                }
            }
        },
    );
}

/// `to += scale · x`
#[inline(always)]
fn add(to: &mut [f32], scale: f32, x: &[f32]) {
    for (to, x) in to.iter_mut().zip(x) {
        *to = scale.mul_add(*x, *to);
    }
}

impl Operation<2> for FilterPeaks {
    /// The first word of each response, row by row as the result.
    type Kept = Vec<u32>;

    fn width(&self) -> usize {
        if self.lowest { 2 * self.number } else { self.number }
    }

    fn reads(&self, [words, filters]: [bool; 2]) -> [bool; 2] {
        [filters, words]
    }

    fn forward(&self, [words, filters]: [&[f32]; 2], _: [bool; 2]) -> (Vec<f32>, Vec<u32>) {
        let size = (self.starts.len() - 1) * self.width();
        let (mut out, mut kept) = (vec![0.0f32; size], vec![0u32; size]);
        let share = TEXTS * self.width();
        out.par_chunks_mut(share)
            .zip(kept.par_chunks_mut(share))
            .enumerate()
            .for_each(|(share, (out, kept))| self.respond(words, filters, share, out, kept));
        (out, kept)
    }

    fn backward(
        &self,
        [words, filters]: [&[f32]; 2],
        kept: &Vec<u32>,
        gradient: &[f32],
        [of_words, of_filters]: [bool; 2],
    ) -> [Grad; 2] {
        let Self { starts, width, number, reach, .. } = self;
        let (both, all_words) = (self.width(), starts[starts.len() - 1]);
        let words_gradient = Grad::when(of_words, || {
            let by_filter = in_order(filters, *number);
            let mut to = vec![0.0f32; all_words * width];
            let texts: Vec<Range<usize>> = starts.windows(2).map(|ends| ends[0]..ends[1]).collect();
            cut(&texts, &mut to, *width).into_par_iter().enumerate().for_each(|(text, to)| {
                let row = text * both..(text + 1) * both;
                vectorised(
                    #[inline(always)]
                    || {
                        for (column, (&gradient, &first)) in gradient[row.clone()].iter().zip(&kept[row]).enumerate() {
                            let read = self.read(text, first as usize);
                            let place = read.start - starts[text] * width..read.end - starts[text] * width;
                            let filter = &by_filter[column % number * reach * width..][..place.len()];
                            add(&mut to[place], gradient, filter);
                        }
                    },
                );
            });
            to
        });
        let filters_gradient = Grad::when(of_filters, || {
            let mut by_filter = vec![0.0f32; number * reach * width];
            by_filter.par_chunks_mut(reach * width).enumerate().for_each(|(filter, to)| {
                vectorised(
                    #[inline(always)]
                    || {
                        for text in 0..starts.len() - 1 {
                            for column in (filter..both).step_by(*number) {
                                let place = text * both + column;
                                let read = self.read(text, kept[place] as usize);
                                add(to, gradient[place], &words[read]);
                            }
                        }
                    },
                );
            });
            in_order(&by_filter, reach * width)
        });
        [words_gradient, filters_gradient]
    }
}

#[cfg(test)]
mod tests {
    use adapter_core::Init;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn windows_stay_within_their_texts() {
        // Three words and one word: two windows of the first text, one of the second, whose second word is not there.
        let Windows { words, of_text, most } = Windows::new(&[0, 3, 4], 2);
        assert_eq!((words, of_text, most), (vec![vec![0, 1, 3], vec![1, 2, 4]], vec![0, 1, 2, 3], 2));
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let operation = FilterPeaks {
            starts: (0..=70).map(|text| 5 * text).collect(),
            width: 33,
            number: 21,
            reach: 3,
            lowest: true,
        };
        let values = |name: &str, count: usize| Init::new(0).values(name, count, 1.0);
        let (words, filters) = (values("words", 350 * 33), values("filters", 3 * 33 * 21));
        let gradient = values("gradient", 70 * 2 * 21);
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<u32>>();
        let everything = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let (result, kept) = operation.forward([&words, &filters], [true; 2]);
                let gradients = operation.backward([&words, &filters], &kept, &gradient, [true; 2]);
                let gradients =
                    gradients.map(|grad| if let Grad::Values(values) = grad { bits(values) } else { vec![] });
                (bits(result), gradients)
            })
        };
        let one = everything(1);
        assert!(one.1.iter().all(|gradient| !gradient.is_empty()));
        assert!([2, 3].map(everything).iter().all(|other| *other == one));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Texts that are shorter than a filter, more texts than one share, widths that fill no vector register.
        #[test]
        fn the_fused_operation_is_the_composition_forward_and_backward(
            lengths in prop_oneof![prop::collection::vec(1usize..9, 1..6), prop::collection::vec(1usize..5, 60..80)],
            (width, number, reach) in (1usize..20, 1usize..20, 1usize..4),
            (lowest, tracked) in (any::<bool>(), prop_oneof![Just([true, true]), Just([true, false]), Just([false, true])]),
            seed in 0u64..1000,
        ) {
            let device = Device::flex().autodiff();
            let mut starts = vec![0];
            starts.extend(lengths.iter().scan(0, |end, length| { *end += length; Some(*end) }));
            let starts: Arc<[usize]> = starts.into();
            let random = |name: &str, shape: [usize; 2], tracked: bool| {
                let values = Init::new(seed).values(name, shape[0] * shape[1], 1.0);
                let tensor = Tensor::<2>::from_data(TensorData::new(values, shape), &device);
                if tracked { tensor.require_grad() } else { tensor }
            };
            let everything = |peaks: &dyn Fn(Tensor<2>, Tensor<2>) -> Tensor<2>| {
                let words = random("words", [starts[starts.len() - 1], width], tracked[0]);
                let filters = random("filters", [reach * width, number], tracked[1]);
                let result = peaks(words.clone(), filters.clone());
                let weights = random("weights", result.dims(), false);
                let gradients = (result.clone() * weights).sum().backward();
                let of = |tensor: &Tensor<2>| tensor.grad(&gradients).map(|gradient| gradient.into_data());
                (result.into_data(), of(&words), of(&filters))
            };
            let fused = everything(&|words, filters| filter_peaks(words, filters, &starts, lowest));
            let plain = everything(&|words, filters| composed(words, filters, &starts, lowest));
            let close = |a: &TensorData, b: &TensorData| a.assert_approx_eq::<f32>(b, burn::tensor::Tolerance::absolute(1e-4));
            close(&fused.0, &plain.0);
            prop_assert_eq!([fused.1.is_some(), fused.2.is_some()], tracked);
            fused.1.iter().zip(&plain.1).chain(fused.2.iter().zip(&plain.2)).for_each(|(a, b)| close(a, b));
        }
    }
}
