//! How commands print.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

/// Prints a result: as one JSON document, or as text for people.
pub fn print<T: Serialize>(result: &T, json: bool, text: impl FnOnce() -> String) -> Result<()> {
    let mut output = if json { serde_json::to_string_pretty(result)? } else { text() };
    if !output.ends_with('\n') {
        output.push('\n');
    }
    print_text(output.as_bytes())
}

/// Prints this on standard output.
pub fn print_text(text: &[u8]) -> Result<()> {
    match io::stdout().write_all(text) {
        // Whoever reads our output (`head`, a pager) had enough of it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Lines up the columns of a table, the first row being its head. Columns of numbers are right-aligned.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    // A number may have a unit behind it: `12 s`. A word that begins with a digit, such as an id, is none.
    let is_number = |cell: &str| {
        let first = cell.split(' ').next().unwrap_or_default();
        first.starts_with(|c: char| c.is_ascii_digit()) && first.replace([',', '×', '%'], "").parse::<f64>().is_ok()
    };
    let numeric: Vec<_> = (0..columns)
        .map(|column| rows.iter().skip(1).filter_map(|row| row.get(column)).all(|cell| is_number(cell)))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            // Nothing follows the last.
            let last = column + 1 == row.len() && !numeric[column];
            let space = " ".repeat(if last { 0 } else { widths[column] - cell.chars().count() });
            if numeric[column] { format!("{space}{cell}") } else { format!("{cell}{space}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A number with its thousands set apart: `2,419,202`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things in words: "1 example", "3 examples".
pub fn counted(number: usize, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}
