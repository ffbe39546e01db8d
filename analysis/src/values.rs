//! What a figure shows, without the drawing: its values as a table, and in words for those who cannot see it.

use crate::{
    axis::{count, exact, minus},
    chart::{Dot, Figure, HeatCell, Panel},
    table::{Cell, Table},
};

impl Figure {
    /// Every value that it shows; a figure without any has no rows.
    pub fn data(&self) -> Table {
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        let number = |value: f64| Cell::Number(value, None, 2);
        let of_dot = |panel: &str, series: &str, x: Cell, dot: &Dot| {
            let [low, high] = dot.range.map_or([Cell::Empty, Cell::Empty], |(low, high)| [low, high].map(number));
            vec![Cell::text(panel), Cell::text(series), x, number(dot.y), low, high, Cell::text(&dot.tip)]
        };
        for panel in &self.panels {
            match panel {
                Panel::Plot(plot) => {
                    let all = plot.series.iter().flat_map(|series| {
                        let shown = if series.across { 1 } else { series.dots.len() };
                        series.dots.iter().take(shown).map(move |dot| (series, dot))
                    });
                    rows.extend(all.map(|(series, dot)| {
                        let x = if series.across { Cell::Empty } else { Cell::text(exact(dot.x)) };
                        of_dot(&plot.title, &series.name, x, dot)
                    }));
                }
                Panel::Rows(of) => {
                    rows.extend(of.rows.iter().map(|(name, _, dot)| of_dot(&of.title, name, Cell::Empty, dot)));
                }
                Panel::Heat(heat) => {
                    let name = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_default();
                    rows.extend(heat.cells.iter().map(|cell| {
                        let row = format!("{} {}", heat.y_label, name(&heat.rows, cell.row));
                        let x = Cell::text(name(&heat.columns, cell.column));
                        of_dot(&heat.title, &row, x, &Dot::new(0.0, cell.value, &cell.tip))
                    }));
                }
                Panel::Diagram(_) | Panel::Gap(_) => {}
            }
        }
        let head = ["panel", "series", "x", "value", "low", "high", "in words"].map(str::to_owned).to_vec();
        Table { title: format!("{}: the data", self.title), head, rows, notes: Vec::new() }
    }

    /// What it shows, for those who cannot see it.
    pub fn in_words(&self) -> String {
        let said: Vec<String> = self.panels.iter().filter_map(Panel::in_words).collect();
        if said.is_empty() { self.about.clone() } else { said.join(". ") }
    }
}

impl Panel {
    fn in_words(&self) -> Option<String> {
        let score = |value: f64| minus(&format!("{value:.1}"));
        match self {
            Panel::Plot(plot) => {
                let series = plot.series.iter().filter_map(|series| {
                    let (first, last) = (series.dots.first()?, series.dots.last()?);
                    let at = |dot: &Dot| format!("{} at {}", score(dot.y), compact(dot.x));
                    let name = if series.name.is_empty() { "values" } else { &series.name };
                    Some(match series.dots.len() {
                        _ if series.across => format!("{name} {} throughout", score(first.y)),
                        1 => format!("{name} {}", at(first)),
                        all => format!("{name} from {} to {} in {all} points", at(first), at(last)),
                    })
                });
                let series: Vec<String> = series.collect();
                Some(format!("{}, {} against {}: {}", plot.title, plot.y.label, plot.x.label, series.join("; ")))
            }
            Panel::Rows(rows) => {
                let all: Vec<String> =
                    rows.rows.iter().map(|(name, _, dot)| format!("{name} {}", score(dot.y))).collect();
                Some(format!("{}, {}: {}", rows.title, rows.x.label, all.join("; ")))
            }
            Panel::Heat(heat) => {
                let by_value = |a: &&HeatCell, b: &&HeatCell| a.value.total_cmp(&b.value);
                let (low, high) = (heat.cells.iter().min_by(by_value)?, heat.cells.iter().max_by(by_value)?);
                Some(format!("{}: {} cells; lowest: {}; highest: {}", heat.title, heat.cells.len(), low.tip, high.tip))
            }
            Panel::Diagram(_) => None,
            Panel::Gap(why) => Some(why.clone()),
        }
    }
}

/// A number as one would say it: counts in thousands and millions, small ones in full.
fn compact(value: f64) -> String {
    if value.abs() >= 1000.0 { count(value) } else { exact(value) }
}
