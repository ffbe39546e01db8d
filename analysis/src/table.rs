//! A table, and its forms: Markdown, CSV, LaTeX and HTML.

use askama::Template;

use crate::{
    axis::{exact, minus},
    select::Estimate,
};

/// What stands in a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A text.
    Text(String),
    /// A number, its standard error where there is one, and its decimals.
    Number(f64, Option<f64>, usize),
    /// A value of a configuration, to six digits: 64, 0.1, 3e-4.
    Exact(f64),
    /// Nothing yet.
    Gap,
    /// Nothing to say.
    Empty,
}

impl Cell {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Cell::Text(text.into())
    }

    /// A number, or a gap.
    pub fn number(value: Option<f64>, decimals: usize) -> Self {
        value.map_or(Cell::Gap, |value| Cell::Number(value, None, decimals))
    }

    /// Mean and standard error, or a gap.
    pub fn estimate(estimate: Option<Estimate>) -> Self {
        estimate.map_or(Cell::Gap, |Estimate { mean, sem, .. }| Cell::Number(mean, sem, 1))
    }

    fn plain(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(value, None, 0) => grouped(*value),
            Cell::Number(value, None, decimals) => minus(&format!("{value:.decimals$}")),
            Cell::Number(value, Some(sem), decimals) => {
                minus(&format!("{value:.decimals$}")) + &format!(" ± {sem:.decimals$}")
            }
            Cell::Exact(value) => exact(*value),
            Cell::Gap => "—".to_owned(),
            Cell::Empty => String::new(),
        }
    }

    fn is_number(&self) -> bool {
        !matches!(self, Cell::Text(_))
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What it is called.
    pub title: String,
    /// Its columns.
    pub head: Vec<String>,
    /// Its rows, each as long as `head`; what is too short ends with gaps.
    pub rows: Vec<Vec<Cell>>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

impl Table {
    /// The cells of a row, as many as there are columns.
    fn cells<'a>(&self, row: &'a [Cell]) -> impl Iterator<Item = &'a Cell> {
        row.iter().chain(std::iter::repeat(&Cell::Gap)).take(self.head.len())
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let safe = |text: &str| {
            let mut safe = String::new();
            for c in text.chars() {
                match c {
                    '\\' | '|' | '*' | '_' | '`' | '[' | ']' => safe.extend(['\\', c]),
                    '<' => safe.push_str("&lt;"),
                    '>' => safe.push_str("&gt;"),
                    '&' => safe.push_str("&amp;"),
                    c if c.is_control() => safe.push(' '),
                    c => safe.push(c),
                }
            }
            safe
        };
        let mut text = format!("**{}**\n\n", safe(&self.title));
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        text += &line(self.head.iter().map(|name| safe(name)).collect());
        let rule = |column| if self.is_numeric(column) { "---:" } else { "---" };
        text += &line((0..self.head.len()).map(|column| rule(column).to_owned()).collect());
        for row in &self.rows {
            text += &line(self.cells(row).map(|cell| safe(&cell.plain())).collect());
        }
        for note in &self.notes {
            text += &format!("\n{}\n", safe(note));
        }
        text
    }

    /// As CSV: numbers in full, as few digits as make the same number when they are read, and standard errors in columns of
    /// their own. A gap is an empty cell.
    pub fn csv(&self) -> String {
        let quoted = csv_cell;
        let errors: Vec<bool> = (0..self.head.len())
            .map(|column| self.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Number(_, Some(_), _)))))
            .collect();
        let mut lines: Vec<Vec<String>> = vec![Vec::new()];
        for (name, &error) in self.head.iter().zip(&errors) {
            lines[0].push(quoted(name));
            if error {
                lines[0].push(quoted(&format!("{name} s.e.m.")));
            }
        }
        for row in &self.rows {
            let mut line = Vec::new();
            for (cell, &error) in self.cells(row).zip(&errors) {
                let (value, sem) = match cell {
                    Cell::Text(text) => (quoted(text), None),
                    Cell::Number(value, sem, _) => (value.to_string(), *sem),
                    Cell::Exact(value) => (value.to_string(), None),
                    Cell::Gap | Cell::Empty => (String::new(), None),
                };
                line.push(value);
                if error {
                    line.push(sem.map(|sem| sem.to_string()).unwrap_or_default());
                }
            }
            lines.push(line);
        }
        lines.into_iter().map(|line| line.join(",") + "\n").collect()
    }

    /// As a LaTeX table that needs no package.
    pub fn latex(&self) -> String {
        let title = latex(&self.title);
        let columns: String =
            (0..self.head.len()).map(|column| if self.is_numeric(column) { 'r' } else { 'l' }).collect();
        let line = |cells: Vec<String>| format!("    {} \\\\\n", cells.join(" & "));
        let mut text = format!(
            "\\begin{{table}}\n  \\centering\n  \\caption{{{title}}}\n  \\begin{{tabular}}{{{columns}}}\n    \\hline\n"
        );
        text += &line(self.head.iter().map(|name| latex(name)).collect());
        text += "    \\hline\n";
        for row in &self.rows {
            text += &line(self.cells(row).map(|cell| latex(&cell.plain())).collect());
        }
        text += "    \\hline\n  \\end{tabular}\n";
        for note in &self.notes {
            text += &format!("  \\par\\footnotesize {}\n", latex(note));
        }
        text + "\\end{table}\n"
    }

    /// As HTML.
    pub(crate) fn html(&self) -> askama::Result<String> {
        let head = self.head.iter().enumerate().map(|(at, name)| HeadHtml { name, number: self.is_numeric(at) });
        let cell = |(at, cell): (usize, &Cell)| CellHtml {
            text: cell.plain(),
            number: self.is_numeric(at),
            gap: *cell == Cell::Gap,
        };
        let rows = self.rows.iter().map(|row| self.cells(row).enumerate().map(cell).collect());
        TableHtml { title: &self.title, head: head.collect(), rows: rows.collect(), notes: &self.notes }.render()
    }

    fn is_numeric(&self, column: usize) -> bool {
        self.rows.iter().all(|row| row.get(column).is_none_or(Cell::is_number))
    }
}

#[derive(Template)]
#[template(path = "table.html")]
struct TableHtml<'a> {
    title: &'a str,
    head: Vec<HeadHtml<'a>>,
    rows: Vec<Vec<CellHtml>>,
    notes: &'a [String],
}

struct HeadHtml<'a> {
    name: &'a str,
    number: bool,
}

struct CellHtml {
    text: String,
    number: bool,
    gap: bool,
}

/// A cell of CSV.
pub fn csv_cell(text: &str) -> String {
    // A spreadsheet would compute it, whoever wrote it.
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    let special = text.contains([',', '"', '\n', '\r']);
    if special { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// A whole number with its digits in groups of three.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 && digits.as_bytes()[at - 1].is_ascii_digit() {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    minus(&grouped)
}

/// Text in LaTeX.
fn latex(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '\\' => safe.push_str("\\textbackslash{}"),
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => safe.extend(['\\', c]),
            '~' => safe.push_str("\\textasciitilde{}"),
            '^' => safe.push_str("\\textasciicircum{}"),
            '<' => safe.push_str("\\textless{}"),
            '>' => safe.push_str("\\textgreater{}"),
            '±' => safe.push_str("$\\pm$"),
            '×' => safe.push_str("$\\times$"),
            '−' => safe.push_str("$-$"),
            '≤' => safe.push_str("$\\le$"),
            'σ' => safe.push_str("$\\sigma$"),
            '—' => safe.push_str("---"),
            '–' => safe.push_str("--"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn table(task: &str) -> Table {
        Table {
            title: "A title".to_owned(),
            head: vec!["task".to_owned(), "score".to_owned()],
            rows: vec![
                vec![Cell::text(task), Cell::Number(84.25, Some(0.5), 1)],
                vec![Cell::text("b"), Cell::Number(-1.0, None, 1)],
                vec![Cell::text("c"), Cell::Gap],
            ],
            notes: vec!["50 % of x_y".to_owned()],
        }
    }

    #[test]
    fn every_form_has_values_errors_and_gaps() {
        let table = table("a");
        let markdown = table.markdown();
        assert!(
            markdown.contains("| task | score |\n| --- | ---: |\n| a | 84.2 ± 0.5 |\n| b | −1.0 |\n| c | — |\n"),
            "{markdown}"
        );
        assert_eq!(table.csv(), "task,score,score s.e.m.\na,84.25,0.5\nb,-1,\nc,,\n");
        let latex = table.latex();
        assert!(latex.contains("\\begin{tabular}{lr}") && latex.contains("a & 84.2 $\\pm$ 0.5 \\\\"), "{latex}");
        assert!(latex.contains("50 \\% of x\\_y"), "{latex}");
        assert!(table.html().unwrap().contains("<td class=\"n\" title=\"no runs\">—</td>"));
    }

    #[rstest]
    #[case::small(1e-5, "0.00001")]
    #[case::negative(-0.25, "-0.25")]
    #[case::large(1_234_567.0, "1234567")]
    #[case::endless(200.0 / 3.0, "66.66666666666667")]
    #[case::of_a_sum(0.1 + 0.2, "0.30000000000000004")]
    fn numbers_in_csv_are_read_back_to_the_bit(#[case] number: f64, #[case] text: &str) {
        let rows = vec![vec![Cell::Number(number, Some(number), 1), Cell::Exact(number)]];
        let csv = Table { rows, ..table("") }.csv();
        assert_eq!(csv, format!("task,task s.e.m.,score\n{text},{text},{text}\n"));
        assert_eq!(text.parse(), Ok(number));
    }

    #[rstest]
    #[case(0.0, "0")]
    #[case(999.0, "999")]
    #[case(-1000.0, "−1,000")]
    #[case(110_001_000.0, "110,001,000")]
    fn large_numbers_are_in_groups(#[case] value: f64, #[case] text: &str) {
        assert_eq!(Cell::Number(value, None, 0).plain(), text);
    }

    #[test]
    fn a_row_that_is_too_short_or_too_long_has_as_many_cells_as_columns() {
        let rows = vec![vec![Cell::text("a")], vec![], vec![Cell::text("b"), Cell::Empty, Cell::text("lost")]];
        let table = Table { rows, ..table("") };
        assert_eq!(table.csv(), "task,score\na,\n,\nb,\n");
        let forms = [table.markdown(), table.latex(), table.html().unwrap()];
        assert!(forms.iter().all(|form| !form.contains("lost")));
    }

    #[test]
    fn hostile_names_stay_text() {
        let table = table("a|b_c*<script>\\input{x}%$&#~^\",\n");
        assert!(table.markdown().contains("a\\|b\\_c\\*&lt;script&gt;\\\\input{x}%$&amp;#~^\",  |"));
        assert!(table.csv().contains("\"a|b_c*<script>\\input{x}%$&#~^\"\",\n\",84.25"));
        assert!(table.latex().contains(
            "a|b\\_c*\\textless{}script\\textgreater{}\\textbackslash{}input\\{x\\}\\%\\$\\&\\#\\textasciitilde{}\\textasciicircum{}\","
        ));
        assert!(table.html().unwrap().contains("a|b_c*&#60;script&#62;\\input{x}%$&#38;#~^&#34;,"));
    }

    #[rstest::rstest]
    #[case("=1+1", "'=1+1")]
    #[case("@x", "'@x")]
    #[case("+x, y", "\"'+x, y\"")]
    #[case("-0.5", "-0.5")]
    #[case("+3", "+3")]
    #[case("adapters", "adapters")]
    fn no_cell_is_a_formula(#[case] text: &str, #[case] cell: &str) {
        assert_eq!(csv_cell(text), cell);
    }
}
