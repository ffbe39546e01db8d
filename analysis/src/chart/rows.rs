//! A panel with a named row for each value.

use super::{BOTTOM, Dot, LABEL, Look, RIGHT, TICK, TITLE, TOP};
use crate::{
    axis::{Axis, AxisSpec},
    svg::{Anchor, Font, GRID, INK, Svg, fit, text_width},
};

/// A panel with a named row for each value.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Its title.
    pub title: String,
    /// Below: the values.
    pub x: AxisSpec,
    /// From above: the name of each, and its point, whose y is the value (its x is not used).
    pub rows: Vec<(String, Look, Dot)>,
}

impl Rows {
    /// Of one row.
    const ROW: f64 = 25.0;

    pub(super) fn height(&self) -> f64 {
        TOP + BOTTOM + Self::ROW * self.rows.len() as f64
    }

    pub(super) fn draw(&self, svg: &mut Svg, size: f64) {
        let widest = self.rows.iter().map(|(name, ..)| text_width(name, TICK, false)).fold(0.0, f64::max);
        let left = (widest + 12.0).min(0.5 * size);
        let (width, height) = (size - left - RIGHT, Self::ROW * self.rows.len() as f64);
        let ends = self.rows.iter().flat_map(|(_, _, dot)| {
            let (low, high) = dot.range.unwrap_or((dot.y, dot.y));
            [dot.y, low, high]
        });
        let axis = Axis::new(&self.x, ends);
        let at = |value: f64| left + axis.place(value) * width;
        // A text that is wider than the axis still ends inside of the panel.
        let middle = |width_of: f64| (left + width / 2.0).min(size - width_of / 2.0 - 4.0);
        let title = fit(&self.title, TITLE, true, size - 8.0);
        let place = (middle(text_width(&title, TITLE, true)), TOP - 12.0);
        svg.text(place, Anchor::Middle, Font::bold(TITLE), &title);
        for (place, text) in axis.labels(width, TICK) {
            let line = left + place * width;
            svg.line((line, TOP), (line, TOP + height), GRID, 1.0, "");
            svg.line((line, TOP + height), (line, TOP + height + 4.0), INK, 1.0, "");
            svg.text((line, TOP + height + 18.0), Anchor::Middle, Font::plain(TICK), &text);
        }
        svg.line((left, TOP), (left, TOP + height), INK, 1.0, "");
        svg.line((left, TOP + height), (left + width, TOP + height), INK, 1.0, "");
        let below = fit(&self.x.label, LABEL, false, size - 8.0);
        let place = (middle(text_width(&below, LABEL, false)), TOP + height + 40.0);
        svg.text(place, Anchor::Middle, Font::plain(LABEL), &below);
        for (number, (name, look, dot)) in self.rows.iter().enumerate() {
            let line = TOP + Self::ROW * (number as f64 + 0.5);
            let name = fit(name, TICK, false, left - 12.0);
            svg.text((left - 8.0, line + 4.3), Anchor::End, Font::plain(TICK), &name);
            svg.line((left, line), (left + width, line), GRID, 1.0, "2 3");
            svg.tipped(&dot.tip, |svg| {
                if let Some((low, high)) = dot.range {
                    svg.line((at(low), line), (at(high), line), look.colour, 1.4, "");
                    svg.line((at(low), line - 4.5), (at(low), line + 4.5), look.colour, 1.4, "");
                    svg.line((at(high), line - 4.5), (at(high), line + 4.5), look.colour, 1.4, "");
                }
                svg.hit((at(dot.y), line), 11.0);
                if let Some(marker) = look.marker {
                    svg.marker(marker, (at(dot.y), line), 4.4, look.colour);
                }
                if dot.ringed {
                    svg.ring((at(dot.y), line), 7.5, INK);
                }
            });
        }
    }
}
