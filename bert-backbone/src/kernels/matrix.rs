//! Matrices in host memory, and their product.

use std::{borrow::Cow, ops::Range};

use gemm::{Parallelism, gemm};

/// A matrix that is read: any strides, so that transposing and taking columns cost nothing.
#[derive(Clone, Copy)]
pub struct View<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> View<'a> {
    /// Rows of `columns` values each, one behind the other.
    pub fn new(values: &'a [f32], columns: usize) -> Self {
        assert!(values.len().is_multiple_of(columns), "a matrix of whole rows");
        Self { values, rows: values.len() / columns, columns, row_stride: columns, column_stride: 1 }
    }

    /// The transposed matrix.
    pub fn t(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Some rows, and of them some columns, of a matrix that is not transposed.
    pub fn block(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        assert!(self.column_stride == 1, "a block of a matrix that is not transposed");
        let values = &self.values[block(self.rows, self.columns, self.row_stride, &rows, &columns)];
        Self { values, rows: rows.len(), columns: columns.len(), ..self }
    }
}

/// A matrix that is written, its rows one behind the other or a constant distance apart.
pub struct ViewMut<'a> {
    values: &'a mut [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
}

impl<'a> ViewMut<'a> {
    /// Rows of `columns` values each, one behind the other.
    pub fn new(values: &'a mut [f32], columns: usize) -> Self {
        assert!(values.len().is_multiple_of(columns), "a matrix of whole rows");
        Self { rows: values.len() / columns, columns, row_stride: columns, values }
    }

    /// Some rows, and of them some columns.
    pub fn block(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        let place = block(self.rows, self.columns, self.row_stride, &rows, &columns);
        Self { rows: rows.len(), columns: columns.len(), values: &mut self.values[place], row_stride: self.row_stride }
    }
}

/// Where a block of a matrix with unit column stride lies among its values.
fn block(rows: usize, columns: usize, stride: usize, of: &Range<usize>, among: &Range<usize>) -> Range<usize> {
    assert!(of.start < of.end && of.end <= rows && among.start < among.end && among.end <= columns, "a block inside");
    of.start * stride + among.start..(of.end - 1) * stride + among.end
}

/// What becomes of the values that a product is written over.
#[derive(Clone, Copy, PartialEq)]
pub enum Write {
    /// They are lost.
    Replace,
    /// They are added to.
    Add,
}

/// `to = scale · a · b`, or `to += …`, on this thread.
pub fn multiply(to: ViewMut<'_>, write: Write, scale: f32, a: View<'_>, b: View<'_>) {
    product(to, write, scale, a, b, Parallelism::None);
}

fn product(to: ViewMut<'_>, write: Write, scale: f32, a: View<'_>, b: View<'_>, threads: Parallelism) {
    assert!(a.columns == b.rows && to.rows == a.rows && to.columns == b.columns, "shapes that can be multiplied");
    let kept = if write == Write::Add { 1.0 } else { 0.0 };
    let stride = |stride: usize| stride as isize;
    // SAFETY: every view is made so that its rows and columns lie within its values, `to` is borrowed for writing by us
    // alone, and the shapes were compared above.
    unsafe {
        gemm(
            to.rows,
            to.columns,
            a.columns,
            to.values.as_mut_ptr(),
            1,
            stride(to.row_stride),
            write == Write::Add,
            a.values.as_ptr(),
            stride(a.column_stride),
            stride(a.row_stride),
            b.values.as_ptr(),
            stride(b.column_stride),
            stride(b.row_stride),
            kept,
            scale,
            false,
            false,
            false,
            threads,
        );
    }
}

/// `to = x · weight + bias`, on this thread.
pub fn linear(to: &mut [f32], x: &[f32], weight: &[f32], bias: &[f32]) {
    to.chunks_exact_mut(bias.len()).for_each(|row| row.copy_from_slice(bias));
    add_product(to, x, weight, bias.len());
}

/// `x · weight + bias`, on this thread.
pub fn linear_rows(x: &[f32], weight: &[f32], bias: &[f32]) -> Vec<f32> {
    let mut to = bias.repeat(x.len() * bias.len() / weight.len());
    add_product(&mut to, x, weight, bias.len());
    to
}

fn add_product(to: &mut [f32], x: &[f32], weight: &[f32], width: usize) {
    let x = View::new(x, weight.len() / width);
    multiply(ViewMut::new(to, width), Write::Add, 1.0, x, View::new(weight, width));
}

/// The gradient of [`linear`]'s `x` from that of its result.
pub fn linear_backward(to: &mut [f32], write: Write, gradient: &[f32], weight: &Transposed<'_>) {
    let weight = weight.view();
    let to = ViewMut::new(to, weight.columns);
    multiply(to, write, 1.0, View::new(gradient, weight.rows), weight);
}

/// A transposed matrix for products with many shares of rows. Each packs it anew, which is faster if it lies in memory as it
/// is read: where there are enough of them, it pays to put it in order once.
pub struct Transposed<'a> {
    values: Cow<'a, [f32]>,
    /// Of the matrix that was transposed.
    columns: usize,
}

impl<'a> Transposed<'a> {
    /// Shares from which putting in order pays, and values that are put in order in no time.
    const ENOUGH: usize = 4;
    const SMALL: usize = 1 << 16;

    /// The transpose of a matrix of `columns` columns, for so many shares.
    pub fn new(values: &'a [f32], columns: usize, shares: usize) -> Self {
        let pays = shares >= Self::ENOUGH || values.len() <= Self::SMALL;
        let values = if pays { in_order(values, columns).into() } else { values.into() };
        Self { values, columns }
    }

    fn view(&self) -> View<'_> {
        match &self.values {
            Cow::Borrowed(values) => View::new(values, self.columns).t(),
            Cow::Owned(values) => View::new(values, values.len() / self.columns),
        }
    }
}

/// The transpose of a matrix of `columns` columns, row by row.
pub fn in_order(values: &[f32], columns: usize) -> Vec<f32> {
    /// Rows and columns that are moved at a time: both fit the cache.
    const TILE: usize = 16;
    let rows = values.len() / columns;
    let mut to = vec![0.0; values.len()];
    for top in (0..rows).step_by(TILE) {
        for left in (0..columns).step_by(TILE) {
            for column in left..(left + TILE).min(columns) {
                for row in top..(top + TILE).min(rows) {
                    to[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    to
}

/// The gradient of [`linear`]'s weight from that of its result, on all threads.
pub fn weight_gradient(x: &[f32], x_width: usize, gradient: &[f32], width: usize) -> Vec<f32> {
    let mut to = vec![0.0; x_width * width];
    let (x, gradient) = (View::new(x, x_width).t(), View::new(gradient, width));
    product(ViewMut::new(&mut to, width), Write::Replace, 1.0, x, gradient, Parallelism::Rayon(0));
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_the_same_whether_it_was_put_in_order_or_not() {
        let (rows, columns) = (300, 256);
        let weight: Vec<f32> = (0..rows * columns).map(|i| (i % 97) as f32 - 48.0).collect();
        let gradient: Vec<f32> = (0..3 * columns).map(|i| (i % 13) as f32 - 6.0).collect();
        let product = |shares| {
            let mut to = vec![0.0; 3 * rows];
            linear_backward(&mut to, Write::Replace, &gradient, &Transposed::new(&weight, columns, shares));
            to
        };
        // Whole numbers: sums are exact in any order.
        let (as_it_is, in_order) = (product(1), product(Transposed::ENOUGH));
        assert!(weight.len() > Transposed::SMALL && as_it_is == in_order);
        let plain = |row: usize, column: usize| -> f32 {
            (0..columns).map(|i| gradient[row * columns + i] * weight[column * columns + i]).sum()
        };
        assert_eq!(as_it_is[rows + 7], plain(1, 7));
    }

    #[test]
    #[should_panic(expected = "a block of a matrix that is not transposed")]
    fn a_block_of_a_transposed_matrix_is_refused() {
        let _ = View::new(&[0.0; 6], 2).t().block(0..1, 0..1);
    }
}
