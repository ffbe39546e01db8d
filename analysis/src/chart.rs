//! What figures are made of: panels with points, bands and error bars, heat maps, legends and marked gaps.

use crate::{
    axis::{Axis, AxisSpec, minus},
    svg::{Anchor, FAINT, Font, GRID, INK, Marker, Svg, fit, text_width},
};

/// Colours that colour-blind readers tell apart (Okabe and Ito, without the yellow that is too light on white).
pub const PALETTE: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#3b3b3b"];

/// A panel among others, or in a narrow page.
const PLOT: (f64, f64) = (400.0, 310.0);
/// A panel that has a figure for itself.
const SINGLE: (f64, f64) = (600.0, 360.0);
/// A figure that has nothing to show.
const GAP: (f64, f64) = (600.0, 190.0);
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 54.0;
const EDGE: f64 = 12.0;
const TICK: f64 = 12.5;
const LABEL: f64 = 13.5;
const TITLE: f64 = 15.0;

/// How a series looks.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// Its colour.
    pub colour: &'static str,
    /// Its points; none for a line alone.
    pub marker: Option<Marker>,
    /// Dashes of its line; empty for a solid one.
    pub dash: &'static str,
    /// Whether points are joined.
    pub joined: bool,
}

/// A series' entry in the legend.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// A series.
    Series(String, Look),
    /// A half transparent area.
    Band(String),
    /// The colours of a heat map from the lowest change to the highest, in percent, and of what.
    Colours(f64, f64, String),
}

/// A data point.
#[derive(Clone, Debug)]
pub struct Dot {
    /// Where.
    pub x: f64,
    /// Its value.
    pub y: f64,
    /// From where to where its error bar or band reaches.
    pub range: Option<(f64, f64)>,
    /// What is shown when it is pointed at.
    pub tip: String,
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub struct Series {
    /// How they look.
    pub look: Look,
    /// Whether ranges are a band instead of error bars.
    pub band: bool,
    /// The points, in the order of x.
    pub dots: Vec<Dot>,
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

/// A heat map of changes in percent by first and last layer.
#[derive(Clone, Debug)]
pub struct Heat {
    /// Its title.
    pub title: String,
    /// Layers.
    pub layers: usize,
    /// First layer, last layer, change in percent, what is shown when it is pointed at.
    pub cells: Vec<(usize, usize, f64, String)>,
    /// The lowest and the highest change of the colours.
    pub range: (f64, f64),
}

/// A part of a figure.
#[derive(Clone, Debug)]
pub enum Panel {
    /// With two axes.
    Plot(Plot),
    /// A heat map.
    Heat(Heat),
    /// Nothing yet, and why.
    Gap(String),
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name of its files.
    pub name: &'static str,
    /// What it is called.
    pub title: String,
    /// What can be seen in it.
    pub about: String,
    /// The legend.
    pub keys: Vec<Key>,
    /// Its parts.
    pub panels: Vec<Panel>,
}

impl Figure {
    /// Whether it shows any data.
    pub fn has_data(&self) -> bool {
        self.panels.iter().any(|panel| !matches!(panel, Panel::Gap(_)))
    }

    /// The figure as a file of its own.
    pub fn svg(&self) -> String {
        self.draw(self.columns(), self.single(), false)
    }

    /// The figure inside a page that has room for it.
    pub fn wide(&self) -> String {
        self.draw(self.columns(), self.single(), true)
    }

    /// The figure inside a narrow page: one panel below the other.
    pub fn narrow(&self) -> String {
        let gap = matches!(self.panels[..], [Panel::Gap(_)]);
        self.draw(1, if gap { (PLOT.0, GAP.1) } else { PLOT }, true)
    }

    fn single(&self) -> (f64, f64) {
        match &self.panels[..] {
            [Panel::Gap(_)] => GAP,
            [_] => SINGLE,
            _ => PLOT,
        }
    }

    fn columns(&self) -> usize {
        let (width, _) = self.panel_size(PLOT);
        let most = if width > 600.0 { 1 } else { 3 };
        // Four panels stand better in two rows of two.
        if self.panels.len() == 4 { most.min(2) } else { self.panels.len().clamp(1, most) }
    }

    fn panel_size(&self, plot: (f64, f64)) -> (f64, f64) {
        let sizes = self.panels.iter().map(|panel| match panel {
            Panel::Heat(heat) => heat.size(),
            Panel::Plot(_) | Panel::Gap(_) => plot,
        });
        sizes.fold((0.0, 0.0), |(width, height), (w, h)| (f64::max(width, w), f64::max(height, h)))
    }

    fn draw(&self, columns: usize, plot_size: (f64, f64), inline: bool) -> String {
        let (width, height) = self.panel_size(plot_size);
        let columns = columns.max(1);
        let rows = self.panels.len().div_ceil(columns);
        let total = columns as f64 * width + 2.0 * EDGE;
        let mut svg = Svg::default();
        let legend = legend(&mut svg, &self.keys, total - 2.0 * EDGE);
        for (number, panel) in self.panels.iter().enumerate() {
            let at = ((number % columns) as f64 * width + EDGE, (number / columns) as f64 * height + EDGE + legend);
            svg.moved(at, |svg| match panel {
                Panel::Plot(plot) => plot.draw(svg, plot_size),
                Panel::Heat(heat) => heat.draw(svg),
                Panel::Gap(why) => gap(svg, why, (width, height)),
            });
        }
        svg.finish((total, rows as f64 * height + legend + 2.0 * EDGE), &self.title, &self.about, inline)
    }
}

/// Draws the legend from left to right, in as many rows as it needs; returns its height.
fn legend(svg: &mut Svg, keys: &[Key], width: f64) -> f64 {
    const ROW: f64 = 24.0;
    if keys.is_empty() {
        return 0.0;
    }
    let (mut x, mut y) = (0.0, 0.0);
    for key in keys {
        let needs = match key {
            Key::Series(name, _) | Key::Band(name) => 40.0 + text_width(name, LABEL, false),
            Key::Colours(low, high, of) => 205.0 + text_width(&(percent(*low) + &percent(*high) + of), LABEL, false),
        };
        if x > 0.0 && x + needs > width {
            (x, y) = (0.0, y + ROW);
        }
        let middle = EDGE + y + 9.0;
        let left = EDGE + x;
        let name_at = (left + 34.0, middle + 4.8);
        match key {
            Key::Series(name, look) => {
                if look.joined {
                    svg.line((left, middle), (left + 28.0, middle), look.colour, 2.2, look.dash);
                }
                if let Some(marker) = look.marker {
                    svg.marker(marker, (left + 14.0, middle), 5.0, look.colour);
                }
                svg.text(name_at, Anchor::Start, Font::plain(LABEL), &fit(name, LABEL, false, width - 34.0));
            }
            Key::Band(name) => {
                svg.rect((left, middle - 7.0), (28.0, 14.0), "#d9dce1", ("", 0.0));
                svg.text(name_at, Anchor::Start, Font::plain(LABEL), &fit(name, LABEL, false, width - 34.0));
            }
            Key::Colours(low, high, of) => {
                let text = percent(*low);
                svg.text((left, middle + 4.8), Anchor::Start, Font::plain(LABEL), &text);
                let from = left + text_width(&text, LABEL, false) + 8.0;
                for step in 0..20 {
                    let change = low + (high - low) * (f64::from(step) + 0.5) / 20.0;
                    let (fill, _) = heat_colour(change, (*low, *high));
                    svg.rect((from + f64::from(step) * 8.0, middle - 7.0), (8.2, 14.0), &fill, ("", 0.0));
                }
                svg.text((from + 168.0, middle + 4.8), Anchor::Start, Font::plain(LABEL), &percent(*high));
                let behind = from + 188.0 + text_width(&percent(*high), LABEL, false);
                let room = EDGE + width - behind;
                svg.text((behind, middle + 4.8), Anchor::Start, Font::plain(LABEL), &fit(of, LABEL, false, room));
            }
        }
        x += needs + 18.0;
    }
    y + ROW + 4.0
}

fn percent(change: f64) -> String {
    let sign = if change >= 0.5 { "+" } else { "" };
    format!("{sign}{} %", minus(&format!("{change:.0}")))
}

fn gap(svg: &mut Svg, why: &str, (width, height): (f64, f64)) {
    svg.rect((8.0, 8.0), (width - 16.0, height - 16.0), "#fafafa", ("#c4c8ce", 1.2));
    let lines = wrap(why, 14.0, width - 60.0);
    let top = height / 2.0 - 10.0 * (lines.len() as f64 - 1.0);
    for (number, line) in lines.iter().enumerate() {
        let font = Font { fill: FAINT, ..Font::plain(14.0) };
        svg.text((width / 2.0, top + 20.0 * number as f64 + 5.0), Anchor::Middle, font, line);
    }
}

/// Lines that are no wider than `width`, as far as words allow.
fn wrap(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = fit(word, size, false, width);
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), size, false) <= width => {
                *line = format!("{line} {word}")
            }
            _ => lines.push(word),
        }
    }
    lines
}

impl Plot {
    fn draw(&self, svg: &mut Svg, size: (f64, f64)) {
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
    }
}

impl Series {
    fn draw_band(&self, svg: &mut Svg, at: &impl Fn(f64, f64) -> (f64, f64)) {
        if self.band {
            let colour = self.look.colour;
            let ranged = || self.dots.iter().filter_map(|dot| dot.range.map(|range| (dot.x, range)));
            let low: Vec<_> = ranged().map(|(x, (low, _))| at(x, low)).collect();
            let high: Vec<_> = ranged().map(|(x, (_, high))| at(x, high)).collect();
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
            });
        }
    }
}

impl Heat {
    /// Room for a number in every cell.
    fn cell(&self) -> f64 {
        match self.layers {
            0..=8 => 46.0,
            9..=14 => 36.0,
            _ => 30.0,
        }
    }

    fn size(&self) -> (f64, f64) {
        let side = self.layers as f64 * self.cell();
        ((side + 62.0).max(250.0), side + TOP + BOTTOM)
    }

    fn draw(&self, svg: &mut Svg) {
        let (cell, left) = (self.cell(), 48.0);
        let (side, font) = (cell * self.layers as f64, (cell * 0.3).clamp(10.0, 13.0));
        let title = fit(&self.title, TITLE, true, side.max(180.0));
        svg.text((left + side / 2.0, TOP - 12.0), Anchor::Middle, Font::bold(TITLE), &title);
        svg.rect((left, TOP), (side, side), "#f3f4f6", ("", 0.0));
        let corner = |first: usize, last: usize| (left + last as f64 * cell, TOP + first as f64 * cell);
        for (first, last, change, tip) in &self.cells {
            let (fill, ink) = heat_colour(*change, self.range);
            let (x, y) = corner(*first, *last);
            svg.tipped(tip, |svg| {
                svg.rect((x, y), (cell, cell), &fill, ("#ffffff", 0.8));
                let number = if change.abs() < 9.95 { format!("{change:.1}") } else { format!("{change:.0}") };
                let font = Font { fill: ink, ..Font::plain(font) };
                svg.text((x + cell / 2.0, y + cell / 2.0 + font.size * 0.36), Anchor::Middle, font, &minus(&number));
            });
        }
        for layer in 0..self.layers {
            svg.rect(corner(layer, layer), (cell, cell), "none", (INK, 1.8));
            let ((x, y), name) = (corner(layer, layer), layer.to_string());
            svg.text((x + cell / 2.0, TOP + side + 16.0), Anchor::Middle, Font::plain(TICK), &name);
            svg.text((left - 7.0, y + cell / 2.0 + 4.4), Anchor::End, Font::plain(TICK), &name);
        }
        svg.text((left + side / 2.0, TOP + side + 38.0), Anchor::Middle, Font::plain(LABEL), "last layer removed");
        svg.turned_text((14.0, TOP + side / 2.0), Anchor::Middle, Font::plain(LABEL), "first layer removed", true);
    }
}

/// The colour of a change, and one for text on it: white at 0, blue for losses, orange for gains.
fn heat_colour(change: f64, (low, high): (f64, f64)) -> (String, &'static str) {
    const LOSS: [[f64; 3]; 4] =
        [[250.0, 250.0, 250.0], [158.0, 202.0, 225.0], [49.0, 130.0, 189.0], [8.0, 48.0, 107.0]];
    const GAIN: [[f64; 3]; 3] = [[250.0, 250.0, 250.0], [253.0, 200.0, 120.0], [217.0, 95.0, 14.0]];
    // Both sides share one scale: a small gain is as pale as a small loss.
    let most = f64::max(-low, high).max(1e-9);
    let share = (change.abs() / most).clamp(0.0, 1.0);
    let stops: &[[f64; 3]] = if change < 0.0 { &LOSS } else { &GAIN };
    let place = share * (stops.len() - 1) as f64;
    let from = (place.floor() as usize).min(stops.len() - 2);
    let part = place - from as f64;
    let [r, g, b] = std::array::from_fn(|i| stops[from][i] + (stops[from + 1][i] - stops[from][i]) * part);
    let bright = 0.299 * r + 0.587 * g + 0.114 * b;
    (format!("#{:02x}{:02x}{:02x}", r as u8, g as u8, b as u8), if bright > 140.0 { INK } else { "#ffffff" })
}
