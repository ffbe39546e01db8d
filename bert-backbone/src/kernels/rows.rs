//! Which rows of a packed batch an operation works on, and how they are shared among threads.

use std::{mem::MaybeUninit, ops::Range, sync::Arc};

use adapter_core::DropoutMask;
use rayon::prelude::*;

use super::math::{column_sums, drop_out};

/// Rows that a thread takes at a time in a network of this width: enough that packing a weight matrix for a product pays, few
/// enough that what is computed between two products stays in the cache. Results do not depend on threads because this does
/// not.
pub fn share(width: usize) -> usize {
    if width > 512 { 1024 } else { 256 }
}

/// The rows of a packed batch that an operation computes.
#[derive(Clone, Debug)]
pub enum Rows {
    /// All of them.
    All(usize),
    /// The first of each sequence, whose place in the batch is given.
    First(Arc<[usize]>),
}

impl Rows {
    /// Their number.
    pub fn len(&self) -> usize {
        match self {
            Rows::All(rows) => *rows,
            Rows::First(boundaries) => boundaries.len() - 1,
        }
    }

    /// Shares for threads, of rows of `width` values.
    pub fn shares(&self, width: usize) -> Vec<Range<usize>> {
        let rows = self.len();
        // Shares of nearly the same size, so that two threads end together.
        let count = rows.div_ceil(share(width)).next_multiple_of(2).max(1);
        let size = rows.div_ceil(count).max(1);
        (0..rows).step_by(size).map(|start| start..(start + size).min(rows)).collect()
    }

    /// Multiplies rows, of which the first is number `start`, by the mask. A row's mask is that of its place in the batch,
    /// whichever rows are computed.
    pub fn drop_out(&self, mask: Option<DropoutMask>, start: usize, values: &mut [f32], width: usize) {
        match self {
            Rows::All(_) => drop_out(mask, start * width, values),
            Rows::First(boundaries) => {
                let rows = values.chunks_exact_mut(width).zip(&boundaries[start..]);
                rows.for_each(|(row, &place)| drop_out(mask, place * width, row));
            }
        }
    }
}

/// Cuts rows of `width` values into the parts of `shares`, which cover them. What nobody wants has no rows, and makes empty
/// parts.
pub fn cut<'a>(shares: &[Range<usize>], mut rows: &'a mut [f32], width: usize) -> Vec<&'a mut [f32]> {
    let covered: usize = shares.iter().map(ExactSizeIterator::len).sum();
    assert!(rows.is_empty() || rows.len() == covered * width, "rows that the shares cover");
    let mut parts = Vec::with_capacity(shares.len());
    for share in shares {
        let (part, rest) = rows.split_at_mut((share.len() * width).min(rows.len()));
        parts.push(part);
        rows = rest;
    }
    parts
}

/// Zeros, written by all threads.
pub fn zeros(count: usize) -> Vec<f32> {
    written(count, |_, values| values.fill(MaybeUninit::new(0.0)))
}

/// The same values once more, copied by all threads.
pub fn copied(values: &[f32]) -> Vec<f32> {
    written(values.len(), |place, to| {
        to.write_copy_of_slice(&values[place..place + to.len()]);
    })
}

/// Values that `write` writes, a piece at a time; it is told where each begins.
fn written(count: usize, write: impl Fn(usize, &mut [MaybeUninit<f32>]) + Sync) -> Vec<f32> {
    /// Values of a piece: so many that a thread takes longer to write them than to be woken up.
    const PIECE: usize = 1 << 18;
    let mut values = Vec::with_capacity(count);
    let pieces = values.spare_capacity_mut()[..count].par_chunks_mut(PIECE).enumerate();
    pieces.for_each(|(number, piece)| write(number * PIECE, piece));
    // SAFETY: the pieces are all of the first `count` places, and were written.
    unsafe { values.set_len(count) };
    values
}

/// The sum of all rows: shares in parallel, their sums in order.
pub fn sum_rows(values: &[f32], width: usize) -> Vec<f32> {
    add_up(values.par_chunks(share(width) * width).map(|share| column_sums(share, width)).collect(), width)
}

/// The sum of rows that are given one by one.
pub fn add_up(rows: Vec<Vec<f32>>, width: usize) -> Vec<f32> {
    column_sums(&rows.concat(), width)
}
