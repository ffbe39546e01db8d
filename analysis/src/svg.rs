//! An SVG document, written piece by piece.

use std::{fmt::Write, sync::OnceLock};

use ttf_parser::Face;

/// Families of every text; the last is what a machine without fonts gets from [`crate::render`].
const FONTS: &str = "system-ui, 'Helvetica Neue', Arial, sans-serif";

/// The colour of text and axes.
pub const INK: &str = "#1f2328";
/// The colour of what stands back.
pub const FAINT: &str = "#6b7280";
/// The colour of lines behind data.
pub const GRID: &str = "#e5e7eb";

/// The ground.
pub const GROUND: &str = "#ffffff";
/// What is filled in, but for data.
pub const FILL: &str = "#eceff3";
/// What is filled in to stand out.
pub const ACCENT: &str = "#cfe8d8";

/// Colours that a page may replace, as a dark one does, by a property of its style.
const THEME: [(&str, &str); 13] = [
    (INK, "--ink"),
    (FAINT, "--faint"),
    (GRID, "--grid"),
    (GROUND, "--ground"),
    (FILL, "--fill"),
    (ACCENT, "--accent"),
    ("#0072B2", "--blue"),
    ("#D55E00", "--orange"),
    ("#009E73", "--green"),
    ("#CC79A7", "--pink"),
    ("#E69F00", "--yellow"),
    ("#56B4E9", "--sky"),
    ("#3b3b3b", "--dark"),
];

/// Text in XML and HTML: markup is escaped, and what XML forbids is replaced.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Width of a text in the font of the rendered figures, which is wider than most: what fits there fits elsewhere.
pub fn text_width(text: &str, size: f64, bold: bool) -> f64 {
    static FACES: OnceLock<[Option<Face<'static>>; 2]> = OnceLock::new();
    let faces =
        FACES.get_or_init(|| [dejavu::sans::regular(), dejavu::sans::bold()].map(|data| Face::parse(data, 0).ok()));
    let advance = |character| {
        let face = faces[usize::from(bold)].as_ref()?;
        let glyph = face.glyph_index(character)?;
        Some(f64::from(face.glyph_hor_advance(glyph)?) / f64::from(face.units_per_em()))
    };
    text.chars().map(|character| advance(character).unwrap_or(1.0) * size).sum()
}

/// The text, shortened to a width.
pub fn fit(text: &str, size: f64, bold: bool, width: f64) -> String {
    if text_width(text, size, bold) <= width {
        return text.to_owned();
    }
    let mut kept: String = text.to_owned();
    while kept.pop().is_some() {
        let shortened = format!("{}…", kept.trim_end());
        if text_width(&shortened, size, bold) <= width {
            return shortened;
        }
    }
    String::new()
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It has its middle there.
    Middle,
    /// It ends there.
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub struct Font<'a> {
    /// In pixels.
    pub size: f64,
    /// Whether it is bold.
    pub bold: bool,
    /// Its colour.
    pub fill: &'a str,
}

impl Font<'static> {
    /// A plain text.
    pub const fn plain(size: f64) -> Self {
        Self { size, bold: false, fill: INK }
    }

    /// A heading.
    pub const fn bold(size: f64) -> Self {
        Self { size, bold: true, fill: INK }
    }
}

/// The shape of a data point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// ●
    Circle,
    /// ■
    Square,
    /// ◆
    Diamond,
    /// ▲
    Up,
    /// ▼
    Down,
    /// ✚
    Plus,
}

impl Marker {
    /// Every shape, in the order in which several series take them.
    pub const ALL: [Marker; 6] =
        [Marker::Circle, Marker::Square, Marker::Up, Marker::Diamond, Marker::Down, Marker::Plus];
}

/// A document under way.
#[derive(Default)]
pub struct Svg {
    body: String,
}

impl Svg {
    /// The finished document. `inline` leaves out what only a file needs.
    pub fn finish(self, (width, height): (f64, f64), title: &str, about: &str, inline: bool) -> String {
        let (title, about) = (escape(title), escape(about));
        let (namespace, heading) = if inline {
            ("", String::new())
        } else {
            (" xmlns=\"http://www.w3.org/2000/svg\"", format!("<title>{title}</title><desc>{about}</desc>"))
        };
        let body = if inline {
            let themed = |body: String, (colour, name): &(&str, &str)| {
                body.replace(&format!("\"{colour}\""), &format!("\"var({name},{colour})\""))
            };
            THEME.iter().fold(self.body, themed)
        } else {
            format!("<rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"{GROUND}\"/>\n{}", self.body)
        };
        format!(
            "<svg{namespace} viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" \
             aria-label=\"{title}: {about}\" font-family=\"{FONTS}\">{heading}{body}</svg>\n"
        )
    }

    fn push(&mut self, piece: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(piece);
        self.body.push('\n');
    }

    /// A text.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, font: Font<'_>, text: &str) {
        self.turned_text((x, y), anchor, font, text, false);
    }

    /// A text that may run upwards.
    pub fn turned_text(&mut self, (x, y): (f64, f64), anchor: Anchor, font: Font<'_>, text: &str, upwards: bool) {
        let Font { size, bold, fill } = font;
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        let turn = if upwards { format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"") } else { String::new() };
        let text = escape(text);
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{fill}\"{weight}{anchor}{turn}>{text}</text>"
        ));
    }

    /// A line.
    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), stroke: &str, width: f64, dash: &str) {
        let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        self.push(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{stroke}\" stroke-width=\"{width}\"{dash}/>"
        ));
    }

    /// Lines from point to point.
    pub fn path(&mut self, points: &[(f64, f64)], stroke: &str, width: f64, dash: &str) {
        let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        let points = coordinates(points);
        self.push(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}/>"
        ));
    }

    /// A filled area, half transparent.
    pub fn area(&mut self, points: &[(f64, f64)], fill: &str) {
        let points = coordinates(points);
        self.push(format_args!("<polygon points=\"{points}\" fill=\"{fill}\" fill-opacity=\"0.16\"/>"));
    }

    /// A filled shape.
    pub fn polygon(&mut self, points: &[(f64, f64)], fill: &str) {
        let points = coordinates(points);
        self.push(format_args!("<polygon points=\"{points}\" fill=\"{fill}\"/>"));
    }

    /// A rectangle; no stroke if its width is 0.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str, stroke: (&str, f64)) {
        let stroke = match stroke {
            (_, 0.0) => String::new(),
            (colour, thick) => format!(" stroke=\"{colour}\" stroke-width=\"{thick}\""),
        };
        self.push(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"{stroke}/>"
        ));
    }

    /// A data point's shape.
    pub fn marker(&mut self, marker: Marker, (x, y): (f64, f64), r: f64, fill: &str) {
        let shape = |corners: &[(f64, f64)]| {
            coordinates(&corners.iter().map(|(dx, dy)| (x + dx * r, y + dy * r)).collect::<Vec<_>>())
        };
        let corners = match marker {
            Marker::Circle => {
                self.push(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\" fill=\"{fill}\" stroke=\"#ffffff\" stroke-width=\"0.8\"/>"));
                return;
            }
            Marker::Square => shape(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            Marker::Diamond => shape(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
            Marker::Up => shape(&[(0.0, -1.2), (1.1, 0.85), (-1.1, 0.85)]),
            Marker::Down => shape(&[(0.0, 1.2), (1.1, -0.85), (-1.1, -0.85)]),
            Marker::Plus => {
                let (a, b) = (0.42, 1.15);
                shape(&[
                    (-a, -b),
                    (a, -b),
                    (a, -a),
                    (b, -a),
                    (b, a),
                    (a, a),
                    (a, b),
                    (-a, b),
                    (-a, a),
                    (-b, a),
                    (-b, -a),
                    (-a, -a),
                ])
            }
        };
        self.push(format_args!(
            "<polygon points=\"{corners}\" fill=\"{fill}\" stroke=\"#ffffff\" stroke-width=\"0.8\"/>"
        ));
    }

    /// What `draw` draws shows `tip` when pointed at.
    pub fn tipped(&mut self, tip: &str, draw: impl FnOnce(&mut Self)) {
        let tip = escape(tip);
        self.push(format_args!("<g class=\"pt\"><title>{tip}</title>"));
        draw(self);
        self.push(format_args!("</g>"));
    }

    /// A circle around a point.
    pub fn ring(&mut self, (x, y): (f64, f64), r: f64, stroke: &str) {
        self.push(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"1.3\" \
             stroke-dasharray=\"2 2\"/>"
        ));
    }

    /// An invisible disc, so that a small point is easy to hit.
    pub fn hit(&mut self, (x, y): (f64, f64), r: f64) {
        self.push(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\" fill=\"#ffffff\" fill-opacity=\"0\"/>"
        ));
    }

    /// What `draw` draws, moved.
    pub fn moved(&mut self, (x, y): (f64, f64), draw: impl FnOnce(&mut Self)) {
        self.push(format_args!("<g transform=\"translate({x:.1} {y:.1})\">"));
        draw(self);
        self.push(format_args!("</g>"));
    }
}

fn coordinates(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_do_not_pass() {
        assert_eq!(escape("<a b=\"1\">&'\u{0}\u{1b}\n"), "&lt;a b=&quot;1&quot;&gt;&amp;&#39;\u{fffd}\u{fffd} ");
    }

    #[test]
    fn a_dark_page_can_replace_every_colour_of_a_series() {
        let known = |colour: &str| THEME.iter().any(|(replaced, _)| *replaced == colour);
        assert!(crate::chart::PALETTE.into_iter().all(known));
    }

    #[test]
    fn a_long_text_is_shortened_to_its_width() {
        let text = "a name that is much too long for the space that there is";
        let short = fit(text, 12.0, false, 100.0);
        assert!(short.ends_with('…') && text_width(&short, 12.0, false) <= 100.0);
        assert_eq!(fit("short", 12.0, false, 100.0), "short");
    }
}
