//! A panel with two axes: lines, bands, points and their labels.

use super::{BOTTOM, Dot, LABEL, LEFT, Look, RIGHT, SMALL, TICK, TITLE, TOP};
use crate::{
    axis::{Axis, AxisSpec},
    labels::{Area, Labels},
    svg::{Anchor, FAINT, Font, GRID, INK, Svg, fit, text_width},
};

/// Points that belong together.
#[derive(Clone, Debug)]
pub struct Series {
    /// What they are called.
    pub name: String,
    /// How they look.
    pub look: Look,
    /// Whether ranges are a band instead of error bars.
    pub band: bool,
    /// Whether it is one value for every x: a line across, whose ends are no data.
    pub across: bool,
    /// The points, in the order of x.
    pub dots: Vec<Dot>,
}

impl Series {
    /// Points with error bars, in any order.
    pub fn new(name: impl Into<String>, look: Look, mut dots: Vec<Dot>) -> Self {
        dots.sort_by(|a, b| a.x.total_cmp(&b.x));
        Self { name: name.into(), look, band: false, across: false, dots }
    }
}

/// A panel with two axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// Below.
    pub x: AxisSpec,
    /// To the left.
    pub y: AxisSpec,
    /// A value with a dashed line across.
    pub level: Option<f64>,
    /// The data.
    pub series: Vec<Series>,
}

impl Plot {
    pub(super) fn draw(&self, svg: &mut Svg, size: (f64, f64)) {
        let (width, height) = (size.0 - LEFT - RIGHT, size.1 - TOP - BOTTOM);
        let dots = || self.series.iter().flat_map(|series| &series.dots);
        let x = Axis::new(&self.x, dots().map(|dot| dot.x));
        let ends = dots().flat_map(|dot| {
            let (low, high) = dot.range.unwrap_or((dot.y, dot.y));
            [dot.y, low, high]
        });
        let y = Axis::new(&self.y, ends.chain(self.level));
        let at = |px: f64, py: f64| (LEFT + x.place(px) * width, TOP + (1.0 - y.place(py)) * height);

        let title = fit(&self.title, TITLE, true, width);
        svg.text((LEFT + width / 2.0, TOP - 12.0), Anchor::Middle, Font::bold(TITLE), &title);
        for (place, text) in y.upward_labels() {
            let line = TOP + (1.0 - place) * height;
            svg.line((LEFT, line), (LEFT + width, line), GRID, 1.0, "");
            svg.text((LEFT - 7.0, line + 4.3), Anchor::End, Font::plain(TICK), &text);
        }
        for (place, text) in x.labels(width, TICK) {
            let line = LEFT + place * width;
            svg.line((line, TOP), (line, TOP + height), GRID, 1.0, "");
            svg.line((line, TOP + height), (line, TOP + height + 4.0), INK, 1.0, "");
            svg.text((line, TOP + height + 18.0), Anchor::Middle, Font::plain(TICK), &text);
        }
        if let Some(level) = self.level {
            let (left, line) = (LEFT, at(0.0, level).1);
            svg.line((left, line), (left + width, line), INK, 1.4, "5 4");
        }
        svg.line((LEFT, TOP), (LEFT, TOP + height), INK, 1.0, "");
        svg.line((LEFT, TOP + height), (LEFT + width, TOP + height), INK, 1.0, "");
        let below = fit(&self.x.label, LABEL, false, size.0 - 8.0);
        svg.text((LEFT + width / 2.0, TOP + height + 40.0), Anchor::Middle, Font::plain(LABEL), &below);
        let beside = fit(&self.y.label, LABEL, false, size.1 - 8.0);
        svg.turned_text((14.0, TOP + height / 2.0), Anchor::Middle, Font::plain(LABEL), &beside, true);

        // One layer over the other, so that nothing hides a point.
        self.series.iter().for_each(|series| series.draw_band(svg, &at));
        self.series.iter().for_each(|series| series.draw_line(svg, &at));
        self.series.iter().for_each(|series| series.draw_dots(svg, &at));
        self.draw_labels(svg, &at, Area(LEFT, TOP, LEFT + width + RIGHT, TOP + height));
    }

    fn draw_labels(&self, svg: &mut Svg, at: &impl Fn(f64, f64) -> (f64, f64), within: Area) {
        let mut labels = Labels::new(within);
        let Area(left, _, right, _) = within;
        if let Some(level) = self.level {
            let (_, line) = at(0.0, level);
            labels.add_path(&[(left, line), (right, line)]);
        }
        for series in &self.series {
            if series.look.joined {
                labels.add_path(&series.dots.iter().map(|dot| at(dot.x, dot.y)).collect::<Vec<_>>());
            }
            for dot in &series.dots {
                labels.add_point(at(dot.x, dot.y));
                if let (Some((low, high)), false) = (dot.range, series.band) {
                    labels.add_path(&[at(dot.x, low), at(dot.x, high)]);
                }
            }
            if series.band {
                let [low, high] = series.edges(at);
                labels.add_path(&low);
                labels.add_path(&high);
            }
        }
        let font = Font { fill: FAINT, ..Font::plain(SMALL) };
        for dot in self.series.iter().flat_map(|series| &series.dots).filter(|dot| !dot.label.is_empty()) {
            let place = labels.place(at(dot.x, dot.y), text_width(&dot.label, SMALL, false), SMALL);
            svg.text(place, Anchor::Start, font, &dot.label);
        }
    }
}

impl Series {
    /// The lower and the upper edge of its ranges.
    fn edges(&self, at: &impl Fn(f64, f64) -> (f64, f64)) -> [Vec<(f64, f64)>; 2] {
        let edge = |end: fn((f64, f64)) -> f64| {
            let ranged = self.dots.iter().filter_map(|dot| dot.range.map(|range| at(dot.x, end(range))));
            ranged.collect::<Vec<_>>()
        };
        [edge(|(low, _)| low), edge(|(_, high)| high)]
    }

    fn draw_band(&self, svg: &mut Svg, at: &impl Fn(f64, f64) -> (f64, f64)) {
        if self.band {
            let colour = self.look.colour;
            let [low, high] = self.edges(at);
            let around: Vec<_> = high.iter().chain(low.iter().rev()).copied().collect();
            svg.area(&around, colour);
            svg.path(&low, colour, 0.8, "");
            svg.path(&high, colour, 0.8, "");
        }
    }

    fn draw_line(&self, svg: &mut Svg, at: &impl Fn(f64, f64) -> (f64, f64)) {
        let Look { colour, dash, joined, .. } = self.look;
        if joined {
            svg.path(&self.dots.iter().map(|dot| at(dot.x, dot.y)).collect::<Vec<_>>(), colour, 2.2, dash);
        }
    }

    fn draw_dots(&self, svg: &mut Svg, at: &impl Fn(f64, f64) -> (f64, f64)) {
        let Look { colour, marker, .. } = self.look;
        for dot in &self.dots {
            let place = at(dot.x, dot.y);
            svg.tipped(&dot.tip, |svg| {
                if let (Some((low, high)), false) = (dot.range, self.band) {
                    let ((x, low), (_, high)) = (at(dot.x, low), at(dot.x, high));
                    svg.line((x, low), (x, high), colour, 1.4, "");
                    svg.line((x - 4.5, low), (x + 4.5, low), colour, 1.4, "");
                    svg.line((x - 4.5, high), (x + 4.5, high), colour, 1.4, "");
                }
                svg.hit(place, 11.0);
                if let Some(marker) = marker {
                    svg.marker(marker, place, 3.9, colour);
                }
                if dot.ringed {
                    svg.ring(place, 7.0, INK);
                }
            });
        }
    }
}
