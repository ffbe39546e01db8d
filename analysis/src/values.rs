//! What a figure shows, without the drawing: its values as a table, and in words for those who cannot see it.

use crate::{
    axis::{count, counted, exact, minus},
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
                        let x = if series.across { Cell::Empty } else { Cell::Exact(dot.x) };
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
                        let x = name(&heat.columns, cell.column);
                        let x = number_of(&x).map_or_else(|| Cell::text(x), Cell::Exact);
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
                let cells = counted(heat.cells.len(), "cell");
                Some(format!("{}: {cells}; lowest: {}; highest: {}", heat.title, low.tip, high.tip))
            }
            Panel::Diagram(_) => None,
            Panel::Gap(why) => Some(why.clone()),
        }
    }
}

/// The number that a name stands for, if it is one.
fn number_of(name: &str) -> Option<f64> {
    name.replace('−', "-").parse().ok().filter(|number: &f64| number.is_finite())
}

/// A number as one would say it: counts in thousands and millions, small ones in full.
fn compact(value: f64) -> String {
    if value.abs() >= 1000.0 { count(value) } else { exact(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        axis::{AxisSpec, Format},
        chart::{Colours, Heat, Look, Plot, Series},
    };

    fn figure(panel: Panel) -> Figure {
        Figure { title: String::new(), about: String::new(), keys: Vec::new(), panels: vec![panel] }
    }

    /// The third column of the only row.
    fn x_in_csv(panel: Panel) -> String {
        let csv = figure(panel).data().csv();
        csv.lines().nth(1).and_then(|line| line.split(',').nth(2)).unwrap_or_default().to_owned()
    }

    #[test]
    fn places_on_an_axis_are_numbers_that_a_program_can_read() {
        for number in [1_234_567.0, 3e-7, -5.0, 0.1 + 0.2] {
            let axis = || AxisSpec { label: String::new(), log: false, format: Format::Exact, ticks: Vec::new() };
            let series = vec![Series::new("s", Look::nth(0), vec![Dot::new(number, 1.0, "tip")])];
            let plot = Plot { title: String::new(), x: axis(), y: axis(), level: None, series };
            assert_eq!(x_in_csv(Panel::Plot(plot)).parse(), Ok(number));
        }
    }

    #[test]
    fn columns_of_a_heat_map_are_numbers_where_their_names_are() {
        for (name, expected) in [("−5", "-5"), ("3e-4", "0.0003"), ("11", "11"), ("gelu", "gelu")] {
            let heat = Heat {
                title: String::new(),
                x_label: String::new(),
                y_label: String::new(),
                columns: vec![name.to_owned()],
                rows: vec!["0".to_owned()],
                cells: vec![HeatCell { column: 0, row: 0, value: 1.0, tip: "tip".to_owned() }],
                colours: Colours::Values(0.0, 1.0),
                diagonal: false,
            };
            assert_eq!(x_in_csv(Panel::Heat(heat)), expected);
        }
    }
}
