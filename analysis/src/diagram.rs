//! A drawing of boxes and arrows.

use crate::svg::{Anchor, FAINT, Font, INK, Svg};

/// Boxes and arrows, with room for them.
#[derive(Clone, Debug)]
pub struct Diagram {
    /// Its title.
    pub title: String,
    /// Its width and height.
    pub size: (f64, f64),
    /// The boxes.
    pub boxes: Vec<Block>,
    /// Lines from point to point, each with an arrow at its end.
    pub arrows: Vec<Vec<(f64, f64)>>,
    /// Texts without a box, each with its middle at a point.
    pub texts: Vec<((f64, f64), String)>,
}

/// A box with a name.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its middle.
    pub at: (f64, f64),
    /// Its width and height.
    pub size: (f64, f64),
    /// What it is called.
    pub name: String,
    /// A second, smaller line.
    pub detail: String,
    /// Its colour.
    pub fill: &'static str,
    /// What is shown when it is pointed at.
    pub tip: String,
}

impl Block {
    /// The middle of its upper side.
    pub fn top(&self) -> (f64, f64) {
        (self.at.0, self.at.1 - self.size.1 / 2.0)
    }

    /// The middle of its lower side.
    pub fn bottom(&self) -> (f64, f64) {
        (self.at.0, self.at.1 + self.size.1 / 2.0)
    }
}

impl Diagram {
    pub(crate) fn draw(&self, svg: &mut Svg) {
        svg.text((self.size.0 / 2.0, 18.0), Anchor::Middle, Font::bold(15.0), &self.title);
        for points in &self.arrows {
            svg.path(points, INK, 1.4, "");
            if let [.., from, to] = points[..] {
                let (dx, dy) = (to.0 - from.0, to.1 - from.1);
                let length = dx.hypot(dy).max(f64::MIN_POSITIVE);
                let (ux, uy) = (dx / length, dy / length);
                let side = |sign: f64| (to.0 - 7.0 * ux - sign * 3.5 * uy, to.1 - 7.0 * uy + sign * 3.5 * ux);
                svg.polygon(&[to, side(1.0), side(-1.0)], INK);
            }
        }
        for block in &self.boxes {
            let Block { at: (x, y), size: (width, height), name, detail, fill, tip } = block;
            svg.tipped(tip, |svg| {
                svg.rect((x - width / 2.0, y - height / 2.0), (*width, *height), fill, (INK, 1.2));
                let rise = if detail.is_empty() { 4.5 } else { -2.0 };
                svg.text((*x, y + rise), Anchor::Middle, Font::plain(13.0), name);
                if !detail.is_empty() {
                    svg.text((*x, y + 13.0), Anchor::Middle, Font { fill: FAINT, ..Font::plain(11.0) }, detail);
                }
            });
        }
        for (at, text) in &self.texts {
            svg.text(*at, Anchor::Middle, Font { fill: FAINT, ..Font::plain(12.0) }, text);
        }
    }
}
