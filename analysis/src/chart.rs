//! What figures are made of: panels with points, bands and error bars, rows of points, heat maps and legends.

use crate::{
    axis::{Axis, AxisSpec, minus},
    diagram::Diagram,
    labels::{Area, Labels},
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

/// What the colours of a heat map mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Colours {
    /// Changes in percent, from the lowest to the highest: white at 0, blue for losses, orange for gains.
    Changes(f64, f64),
    /// Values, from the lowest to the highest: pale to dark.
    Values(f64, f64),
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

fn percent(change: f64) -> String {
    let sign = if change >= 0.5 { "+" } else { "" };
    format!("{sign}{} %", minus(&format!("{change:.0}")))
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
        self.draw_labels(svg, &at, Area(LEFT, TOP, LEFT + width + RIGHT, TOP + height));
    }

    fn draw_labels(&self, svg: &mut Svg, at: &impl Fn(f64, f64) -> (f64, f64), within: Area) {
        let mut labels = Labels::new(within);
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
        }
        let font = Font { fill: FAINT, ..Font::plain(SMALL) };
        for dot in self.series.iter().flat_map(|series| &series.dots).filter(|dot| !dot.label.is_empty()) {
            let place = labels.place(at(dot.x, dot.y), text_width(&dot.label, SMALL, false), SMALL);
            svg.text(place, Anchor::Start, font, &dot.label);
        }
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
                if dot.ringed {
                    svg.ring(place, 7.0, INK);
                }
            });
        }
    }
}

impl Rows {
    /// Of one row.
    const ROW: f64 = 25.0;

    fn height(&self) -> f64 {
        TOP + BOTTOM + Self::ROW * self.rows.len() as f64
    }

    fn draw(&self, svg: &mut Svg, size: f64) {
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

    fn size(&self) -> (f64, f64) {
        let (width, height) = self.cell();
        let (columns, rows) = (self.columns.len() as f64, self.rows.len() as f64);
        ((self.left() + columns * width + 14.0).max(250.0), rows * height + TOP + BOTTOM)
    }

    fn draw(&self, svg: &mut Svg) {
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
    fn ends(self) -> [String; 2] {
        match self {
            Colours::Changes(low, high) => [percent(low), percent(high)],
            Colours::Values(low, high) => [low, high].map(|value| minus(&format!("{value:.1}"))),
        }
    }

    /// The colour at a place from 0 to 1 between the ends.
    fn at(self, place: f64) -> (String, &'static str) {
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
