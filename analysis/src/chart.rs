//! What figures are made of: a legend and panels with two axes, rows of points, heat maps or diagrams.

mod heat;
mod plot;
mod rows;

pub use heat::{Colours, Heat, HeatCell};
pub use plot::{Plot, Series};
pub use rows::Rows;

use crate::{
    diagram::Diagram,
    select::{Estimate, Point},
    standing::{Measure, Standing, standing},
    svg::{Anchor, FAINT, FILL, Font, GRID, INK, Marker, Svg, fit, text_width},
};

/// Colours that colour-blind readers tell apart (Okabe and Ito, without the yellow that is too light on white).
pub const PALETTE: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#3b3b3b"];

/// A panel among others, or in a narrow page.
const PLOT: (f64, f64) = (400.0, 310.0);
/// A panel that has a figure for itself.
const SINGLE: (f64, f64) = (600.0, 360.0);
/// A legend makes a figure no wider than this.
const NARROW: f64 = 400.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 54.0;
const EDGE: f64 = 12.0;
const SMALL: f64 = 11.0;
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

impl Look {
    /// How one of several lines looks, by its number from 0.
    pub fn nth(number: usize) -> Self {
        const DASHES: [&str; 3] = ["", "7 3", "2 3"];
        Self {
            colour: PALETTE[number % PALETTE.len()],
            marker: Some(Marker::ALL[number % Marker::ALL.len()]),
            dash: DASHES[number / PALETTE.len() % DASHES.len()],
            joined: true,
        }
    }

    /// Whether nobody can tell them apart where there are no lines.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.colour == other.colour && self.marker == other.marker
    }
}

/// An entry in the legend.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// A series.
    Series(String, Look),
    /// A half transparent area.
    Band(String),
    /// The ring around points whose runs may have learnt nothing.
    Ring(String),
    /// The colours of a heat map, and of what they are.
    Colours(Colours, String),
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
    /// What stands beside it, such as a size; may be empty.
    pub label: String,
    /// Whether its runs may have learnt nothing: it gets a ring.
    pub ringed: bool,
}

impl Dot {
    /// A value.
    pub fn new(x: f64, y: f64, tip: impl Into<String>) -> Self {
        Self { x, y, range: None, tip: tip.into(), label: String::new(), ringed: false }
    }

    /// A mean with its standard error as error bar.
    pub fn of(x: f64, name: &str, estimate: Estimate) -> Self {
        let tip = format!("{name}: {}", estimate.in_words());
        Self { range: estimate.range(), ringed: estimate.diverged > 0, ..Self::new(x, estimate.mean, tip) }
    }

    /// The score of a point; a ring says that it is not clearly better than the trivial answer, or diverged.
    pub(crate) fn of_point(x: f64, name: &str, point: &Point<'_>, measure: Measure) -> Self {
        let dot = Self::of(x, name, measure.estimate(point));
        Self { ringed: dot.ringed || standing(point, measure) == Standing::Floor, ..dot }
    }

    /// The same with a text beside it.
    #[must_use]
    pub fn labelled(self, label: impl Into<String>) -> Self {
        Self { label: label.into(), ..self }
    }
}

/// A part of a figure.
#[derive(Clone, Debug)]
pub enum Panel {
    /// With two axes.
    Plot(Plot),
    /// With named rows.
    Rows(Rows),
    /// A heat map.
    Heat(Heat),
    /// Boxes and arrows.
    Diagram(Diagram),
    /// Nothing yet, and why.
    Gap(String),
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Figure {
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
        self.draw(1, PLOT, true)
    }

    fn single(&self) -> (f64, f64) {
        if self.panels.len() == 1 { SINGLE } else { PLOT }
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
            Panel::Diagram(diagram) => diagram.size,
            Panel::Rows(rows) => (plot.0, rows.height()),
            Panel::Plot(_) | Panel::Gap(_) => plot,
        });
        sizes.fold((0.0, 0.0), |(width, height), (w, h)| (f64::max(width, w), f64::max(height, h)))
    }

    fn draw(&self, columns: usize, plot_size: (f64, f64), inline: bool) -> String {
        let (width, height) = self.panel_size(plot_size);
        let columns = columns.max(1);
        let rows = self.panels.len().div_ceil(columns);
        let keys = self.legend();
        // A single small panel may be narrower than its legend.
        let widest = keys.iter().map(Key::width).fold(0.0, f64::max).min(NARROW);
        let total = f64::max(columns as f64 * width, widest) + 2.0 * EDGE;
        let mut svg = Svg::default();
        let legend = legend(&mut svg, &keys, total - 2.0 * EDGE);
        for (number, panel) in self.panels.iter().enumerate() {
            let at = ((number % columns) as f64 * width + EDGE, (number / columns) as f64 * height + EDGE + legend);
            svg.moved(at, |svg| match panel {
                Panel::Plot(plot) => plot.draw(svg, plot_size),
                Panel::Rows(rows) => rows.draw(svg, plot_size.0),
                Panel::Heat(heat) => heat.draw(svg),
                Panel::Diagram(diagram) => diagram.draw(svg),
                Panel::Gap(why) => gap(svg, why, (width, height)),
            });
        }
        svg.finish((total, rows as f64 * height + legend + 2.0 * EDGE), &self.title, &self.in_words(), inline)
    }

    /// The legend, with what rings mean where there are any.
    fn legend(&self) -> Vec<Key> {
        let mut keys = self.keys.clone();
        let dots = self.panels.iter().flat_map(|panel| match panel {
            Panel::Plot(plot) => plot.series.iter().flat_map(|series| &series.dots).collect::<Vec<_>>(),
            Panel::Rows(rows) => rows.rows.iter().map(|(_, _, dot)| dot).collect(),
            Panel::Heat(_) | Panel::Diagram(_) | Panel::Gap(_) => Vec::new(),
        });
        if dots.into_iter().any(|dot| dot.ringed) {
            keys.push(Key::Ring("not clearly better than the trivial answer, or diverged".to_owned()));
        }
        keys
    }
}

impl Key {
    /// How much room it needs.
    fn width(&self) -> f64 {
        match self {
            Key::Series(name, _) | Key::Band(name) | Key::Ring(name) => 40.0 + text_width(name, LABEL, false),
            Key::Colours(colours, of) => 205.0 + text_width(&(colours.ends().concat() + of), LABEL, false),
        }
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
        let needs = key.width();
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
                svg.rect((left, middle - 7.0), (28.0, 14.0), FILL, ("", 0.0));
                svg.text(name_at, Anchor::Start, Font::plain(LABEL), &fit(name, LABEL, false, width - 34.0));
            }
            Key::Ring(name) => {
                svg.ring((left + 14.0, middle), 7.0, INK);
                svg.text(name_at, Anchor::Start, Font::plain(LABEL), &fit(name, LABEL, false, width - 34.0));
            }
            Key::Colours(colours, of) => {
                let [low, high] = colours.ends();
                svg.text((left, middle + 4.8), Anchor::Start, Font::plain(LABEL), &low);
                let from = left + text_width(&low, LABEL, false) + 8.0;
                for step in 0..20 {
                    let (fill, _) = colours.at((f64::from(step) + 0.5) / 20.0);
                    svg.rect((from + f64::from(step) * 8.0, middle - 7.0), (8.2, 14.0), &fill, ("", 0.0));
                }
                svg.text((from + 168.0, middle + 4.8), Anchor::Start, Font::plain(LABEL), &high);
                let behind = from + 188.0 + text_width(&high, LABEL, false);
                let room = EDGE + width - behind;
                svg.text((behind, middle + 4.8), Anchor::Start, Font::plain(LABEL), &fit(of, LABEL, false, room));
            }
        }
        x += needs + 18.0;
    }
    y + ROW + 4.0
}

fn gap(svg: &mut Svg, why: &str, (width, height): (f64, f64)) {
    svg.rect((8.0, 8.0), (width - 16.0, height - 16.0), "none", (GRID, 1.2));
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
