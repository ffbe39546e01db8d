//! A heat map, and what its colours mean.

use super::{BOTTOM, LABEL, TICK, TITLE, TOP};
use crate::{
    axis::minus,
    svg::{Anchor, FILL, Font, Svg, fit, text_width},
};

/// A heat map: a number in each cell.
#[derive(Clone, Debug)]
pub struct Heat {
    /// Its title.
    pub title: String,
    /// What the columns are.
    pub x_label: String,
    /// What the rows are.
    pub y_label: String,
    /// The name of each column, from the left.
    pub columns: Vec<String>,
    /// The name of each row, from above.
    pub rows: Vec<String>,
    /// Some or all cells.
    pub cells: Vec<HeatCell>,
    /// What the colours mean; panels beside each other share them.
    pub colours: Colours,
    /// Whether the cells of the diagonal are outlined.
    pub diagonal: bool,
}

/// A cell of a heat map.
#[derive(Clone, Debug)]
pub struct HeatCell {
    /// Its column's number, from 0.
    pub column: usize,
    /// Its row's number, from 0.
    pub row: usize,
    /// Its value.
    pub value: f64,
    /// What is shown when it is pointed at.
    pub tip: String,
}

/// What the colours of a heat map mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Colours {
    /// Changes in percent, from the lowest to the highest: white at 0, blue for losses, orange for gains.
    Changes(f64, f64),
    /// Values, from the lowest to the highest: pale to dark.
    Values(f64, f64),
}

impl Heat {
    /// Width and height of a cell: room for a number in every cell, and for its column's name.
    fn cell(&self) -> (f64, f64) {
        let side = match self.columns.len().max(self.rows.len()) {
            0..=8 => 46.0,
            9..=14 => 36.0,
            _ => 30.0,
        };
        let widest = self.columns.iter().map(|name| text_width(name, TICK, false)).fold(0.0, f64::max);
        ((widest + 8.0).clamp(side, 90.0), side)
    }

    /// Where the cells begin.
    fn left(&self) -> f64 {
        let widest = self.rows.iter().map(|name| text_width(name, TICK, false)).fold(0.0, f64::max);
        (widest + 31.0).clamp(48.0, 180.0)
    }

    pub(super) fn size(&self) -> (f64, f64) {
        let (width, height) = self.cell();
        let (columns, rows) = (self.columns.len() as f64, self.rows.len() as f64);
        ((self.left() + columns * width + 14.0).max(250.0), rows * height + TOP + BOTTOM)
    }

    pub(super) fn draw(&self, svg: &mut Svg) {
        let (cell, left) = (self.cell(), self.left());
        let (width, height) = (cell.0 * self.columns.len() as f64, cell.1 * self.rows.len() as f64);
        let font = (cell.1 * 0.3).clamp(10.0, 13.0);
        let title = fit(&self.title, TITLE, true, width.max(180.0));
        svg.text((left + width / 2.0, TOP - 12.0), Anchor::Middle, Font::bold(TITLE), &title);
        svg.rect((left, TOP), (width, height), FILL, ("", 0.0));
        let corner = |column: usize, row: usize| (left + column as f64 * cell.0, TOP + row as f64 * cell.1);
        for HeatCell { column, row, value, tip } in &self.cells {
            let (fill, ink) = self.colours.of(*value);
            let (x, y) = corner(*column, *row);
            svg.tipped(tip, |svg| {
                svg.rect((x, y), cell, &fill, ("white", 0.8));
                let font = Font { fill: ink, ..Font::plain(font) };
                let place = (x + cell.0 / 2.0, y + cell.1 / 2.0 + font.size * 0.36);
                svg.text(place, Anchor::Middle, font, &minus(&self.colours.number(*value)));
            });
        }
        if self.diagonal {
            for number in 0..self.columns.len().min(self.rows.len()) {
                svg.rect(corner(number, number), cell, "none", ("black", 1.8));
            }
        }
        for (column, name) in self.columns.iter().enumerate() {
            let (place, name) = (corner(column, 0).0 + cell.0 / 2.0, fit(name, TICK, false, cell.0 - 4.0));
            svg.text((place, TOP + height + 16.0), Anchor::Middle, Font::plain(TICK), &name);
        }
        for (row, name) in self.rows.iter().enumerate() {
            let (place, name) = (corner(0, row).1 + cell.1 / 2.0, fit(name, TICK, false, left - 29.0));
            svg.text((left - 7.0, place + 4.4), Anchor::End, Font::plain(TICK), &name);
        }
        let below = fit(&self.x_label, LABEL, false, self.size().0 - 8.0);
        svg.text((left + width / 2.0, TOP + height + 38.0), Anchor::Middle, Font::plain(LABEL), &below);
        let beside = fit(&self.y_label, LABEL, false, height + TOP);
        svg.turned_text((14.0, TOP + height / 2.0), Anchor::Middle, Font::plain(LABEL), &beside, true);
    }
}

impl Colours {
    const LOSS: [[f64; 3]; 4] =
        [[250.0, 250.0, 250.0], [158.0, 202.0, 225.0], [49.0, 130.0, 189.0], [8.0, 48.0, 107.0]];
    const GAIN: [[f64; 3]; 3] = [[250.0, 250.0, 250.0], [253.0, 200.0, 120.0], [217.0, 95.0, 14.0]];

    /// The lowest and the highest value in words.
    pub(super) fn ends(self) -> [String; 2] {
        match self {
            Colours::Changes(low, high) => [percent(low), percent(high)],
            Colours::Values(low, high) => [low, high].map(|value| minus(&format!("{value:.1}"))),
        }
    }

    /// The colour at a place from 0 to 1 between the ends.
    pub(super) fn at(self, place: f64) -> (String, &'static str) {
        let (Colours::Changes(low, high) | Colours::Values(low, high)) = self;
        self.of(low + (high - low) * place)
    }

    /// The colour of a value, and one for text on it.
    fn of(self, value: f64) -> (String, &'static str) {
        let (stops, share): (&[[f64; 3]], f64) = match self {
            // Both sides share one scale: a small gain is as pale as a small loss.
            Colours::Changes(low, high) => {
                let most = f64::max(-low, high).max(1e-9);
                (if value < 0.0 { &Self::LOSS } else { &Self::GAIN }, value.abs() / most)
            }
            // One value alone stands in the middle.
            Colours::Values(low, high) => (&Self::LOSS, if high > low { (value - low) / (high - low) } else { 0.5 }),
        };
        let place = share.clamp(0.0, 1.0) * (stops.len() - 1) as f64;
        let from = (place.floor() as usize).min(stops.len() - 2);
        let part = place - from as f64;
        let [r, g, b] = std::array::from_fn(|i| stops[from][i] + (stops[from + 1][i] - stops[from][i]) * part);
        let bright = 0.299 * r + 0.587 * g + 0.114 * b;
        (format!("#{:02x}{:02x}{:02x}", r as u8, g as u8, b as u8), if bright > 140.0 { "black" } else { "white" })
    }

    /// A cell's number: changes that are large have no decimals.
    fn number(self, value: f64) -> String {
        match self {
            Colours::Changes(..) if value.abs() >= 9.95 => format!("{value:.0}"),
            Colours::Changes(..) | Colours::Values(..) => format!("{value:.1}"),
        }
    }
}

fn percent(change: f64) -> String {
    let sign = if change >= 0.5 { "+" } else { "" };
    format!("{sign}{} %", minus(&format!("{change:.0}")))
}
