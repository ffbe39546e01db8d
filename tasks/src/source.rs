//! Files of examples: decoding, rows, columns, and errors that say where.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use adapter_core::read_file;

use crate::{TaskKind, nearest};

/// Why data cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The file cannot be read.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// Something in the file is not as it must be.
    #[error("{place}: {problem}")]
    Content {
        /// Where.
        place: FilePlace,
        /// What was found and what was expected.
        problem: String,
    },
    /// No task has that name.
    #[error("unknown task `{name}`{}; `list tasks` shows all, `file:PATH` takes your own", did_you_mean(nearest))]
    UnknownTask {
        /// The name.
        name: String,
        /// The known name that is most like it.
        nearest: Option<String>,
    },
    /// A task that cannot be called so.
    #[error("a task cannot be called `{name}`: {problem}")]
    TaskName {
        /// The name.
        name: String,
        /// What speaks against it.
        problem: &'static str,
    },
    /// A task's reader gives data of another kind than the task says.
    #[error("task `{task}` is a {expected} task, but its reader gives a {found} one")]
    OtherKind {
        /// The task.
        task: String,
        /// The task's kind.
        expected: TaskKind,
        /// The data's kind.
        found: TaskKind,
    },
    /// What the reader of a program's own task says.
    #[error(transparent)]
    Reader(Box<dyn std::error::Error + Send + Sync>),
    /// A known task's files are not there.
    #[error("task `{task}` needs {}: {how}", path.display())]
    Missing {
        /// The task.
        task: String,
        /// The file that was looked for.
        path: PathBuf,
        /// How to get it.
        how: String,
    },
    /// A request that fits no data.
    #[error("{0}")]
    Request(String),
}

/// A file, and a line where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1.
    pub line: Option<usize>,
}

impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.path.display()),
            None => write!(f, "{}", self.path.display()),
        }
    }
}

/// A hint at the known name that is nearest to a mistyped one.
pub(crate) fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|nearest| format!(" (did you mean `{nearest}`?)")).unwrap_or_default()
}

pub(crate) fn content_error(path: &Path, line: impl Into<Option<usize>>, problem: impl Into<String>) -> DataError {
    let place = FilePlace { path: path.to_owned(), line: line.into() };
    DataError::Content { place, problem: problem.into() }
}

pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    read_file(path, u64::MAX).map_err(|reason| DataError::Io { path: path.to_owned(), reason })
}

/// How a file's bytes stand for characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    /// ISO 8859-1: every byte is a character.
    Latin1,
}

/// Reads a text file without its byte-order mark.
pub(crate) fn read_text(path: &Path, encoding: Encoding) -> Result<String, DataError> {
    decode(path, read_bytes(path)?, encoding)
}

pub(crate) fn decode(path: &Path, bytes: Vec<u8>, encoding: Encoding) -> Result<String, DataError> {
    let mut text = match encoding {
        Encoding::Latin1 => bytes.into_iter().map(char::from).collect(),
        Encoding::Utf8 => String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let line = 1 + error.as_bytes()[..valid].iter().filter(|&&byte| byte == b'\n').count();
            content_error(path, line, "invalid UTF-8; convert it to UTF-8 (iconv -f latin1 -t utf8)")
        })?,
    };
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    if text.trim().is_empty() {
        return Err(content_error(path, None, "the file is empty"));
    }
    Ok(text)
}

/// A number of things in words: "1 row", "3 rows", "2 classes".
pub(crate) fn counted(number: usize, thing: &str) -> String {
    let ending = match number {
        1 => "",
        _ if thing.ends_with('s') => "es",
        _ => "s",
    };
    format!("{number} {thing}{ending}")
}

/// A column that is read, and the option that names another where a user may.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub column: &'a str,
    pub option: Option<&'static str>,
}

/// A column of an official file.
impl<'a> From<&'a str> for Wanted<'a> {
    fn from(column: &'a str) -> Self {
        Self { column, option: None }
    }
}

impl Wanted<'_> {
    /// What is said of a file that has only the columns `there`; nothing if it has all that are wanted.
    pub fn lacking(all: &[Self], there: &[&str]) -> Option<String> {
        let missing: Vec<&Self> = all.iter().filter(|wanted| !there.contains(&wanted.column)).collect();
        let columns = match &missing[..] {
            [] => return None,
            [_] => "column",
            _ => "columns",
        };
        let free = there.iter().copied().filter(|name| all.iter().all(|wanted| wanted.column != *name));
        let near = |wanted: &Self| nearest(wanted.column, free.clone());
        let options = missing.iter().filter_map(|wanted| match (wanted.option?, near(wanted)) {
            (option, Some(near)) => Some(format!("{option} {}", plain(near))),
            (option, None) => Some(option.to_owned()),
        });
        let options: Vec<String> = options.collect();
        let advice = match missing.iter().all(|wanted| near(wanted).is_some()) {
            _ if options.is_empty() => String::new(),
            true => format!("; did you mean {}?", options.join(" ")),
            false => format!("; give {}", options.join(" and ")),
        };
        let missing: Vec<String> = missing.iter().map(|wanted| format!("`{}`", wanted.column)).collect();
        let there: Vec<String> = there.iter().map(|name| plain(name)).collect();
        Some(format!("no {columns} {}; there are: {}{advice}", missing.join(" and "), there.join(", ")))
    }
}

/// A name out of a stranger's file, without control characters for the terminal.
fn plain(name: &str) -> String {
    name.chars().map(|c| if "'\"".contains(c) { c.to_string() } else { c.escape_debug().to_string() }).collect()
}

/// How rows and cells are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Tabs; quotes are ordinary characters.
    Tsv,
    /// Commas, with quoting.
    Csv,
}

impl Format {
    /// What is said of a header that is one cell in this format, and several in another.
    pub fn problem_with(self, header: &str) -> Option<&'static str> {
        let (own, others) = match self {
            Format::Csv => (
                ',',
                [
                    ('\t', "the columns seem to be separated by tabs: name the file .tsv, or write commas"),
                    (';', "the columns seem to be separated by semicolons: write commas"),
                ],
            ),
            Format::Tsv => (
                '\t',
                [
                    (',', "the columns seem to be separated by commas: name the file .csv, or write tabs"),
                    (';', "the columns seem to be separated by semicolons: write tabs"),
                ],
            ),
        };
        let is_one_cell = !header.contains(own);
        others.into_iter().find(|(other, _)| is_one_cell && header.contains(*other)).map(|(_, problem)| problem)
    }
}

/// A table of text: named columns, and rows with the lines they came from.
#[derive(Debug)]
pub(crate) struct Table {
    pub path: PathBuf,
    columns: Vec<String>,
    pub rows: Vec<Row>,
    /// Rows that were left out because their number of cells was wrong.
    pub ragged: usize,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub line: usize,
    cells: Vec<String>,
}

/// What to do with a row that has another number of cells than the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ragged {
    Refuse,
    /// For official files that are known to have some.
    LeaveOut,
}

impl Table {
    /// A table of these rows, each as long as `columns`.
    pub fn new(path: &Path, columns: Vec<String>, rows: Vec<Row>) -> Result<Self, DataError> {
        if rows.is_empty() {
            return Err(content_error(path, None, "the file has no rows"));
        }
        Ok(Self { path: path.to_owned(), columns, rows, ragged: 0 })
    }

    /// Parses `text`; `columns` names them where the file has no header.
    pub fn parse(
        path: &Path,
        text: &str,
        format: Format,
        columns: Option<&[&str]>,
        ragged: Ragged,
    ) -> Result<Self, DataError> {
        let columns = columns.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        let mut table = match format {
            Format::Tsv => Self::parse_tsv(path, text, columns),
            Format::Csv => Self::parse_csv(path, text, columns)?,
        };
        let expected = table.columns.len();
        let uneven = table.rows.iter().find(|row| row.cells.len() != expected);
        match (uneven, ragged) {
            (Some(row), Ragged::Refuse) => {
                let (found, columns) = (counted(row.cells.len(), "cell"), table.columns.join(", "));
                let problem = format!("{found}, expected {expected} ({columns})");
                return Err(content_error(path, row.line, problem));
            }
            (Some(_), Ragged::LeaveOut) => {
                let before = table.rows.len();
                table.rows.retain(|row| row.cells.len() == expected);
                table.ragged = before - table.rows.len();
            }
            (None, _) => {}
        }
        if table.rows.is_empty() {
            return Err(content_error(path, None, "the file has no rows"));
        }
        Ok(table)
    }

    fn parse_tsv(path: &Path, text: &str, columns: Option<Vec<String>>) -> Self {
        // `lines` would do, but for a carriage return inside a cell.
        let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).zip(1..);
        let cells = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
        let columns = columns.unwrap_or_else(|| lines.next().map(|(line, _)| cells(line)).unwrap_or_default());
        let rows = lines
            .filter(|(line, _)| !line.is_empty())
            .map(|(line, number)| Row { line: number, cells: cells(line) })
            .collect();
        Self { path: path.to_owned(), columns, rows, ragged: 0 }
    }

    fn parse_csv(path: &Path, text: &str, columns: Option<Vec<String>>) -> Result<Self, DataError> {
        check_quotes(text).map_err(|(line, problem)| content_error(path, line, problem))?;
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
        let mut rows = Vec::new();
        let (mut counted, mut line) = (0, 1);
        for record in reader.records() {
            let record = record.map_err(|error| content_error(path, line, error.to_string()))?;
            let mut start = record.position().map_or(0, |position| position.byte() as usize);
            // The reader leaves a line's end to the record that follows.
            start += text.as_bytes()[start..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            line += text.as_bytes()[counted..start].iter().filter(|&&byte| byte == b'\n').count();
            counted = start;
            rows.push(Row { line, cells: record.iter().map(str::to_owned).collect() });
        }
        let columns = match (columns, rows.is_empty()) {
            (Some(columns), _) => columns,
            (None, false) => rows.remove(0).cells,
            (None, true) => return Err(content_error(path, None, "the file is empty")),
        };
        Ok(Self { path: path.to_owned(), columns, rows, ragged: 0 })
    }

    /// Parses a JSON object a line, of which only the `wanted` values matter.
    pub fn parse_json_lines(path: &Path, text: &str, wanted: &[Wanted<'_>]) -> Result<Self, DataError> {
        let mut rows = Vec::new();
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
            let object = serde_json::from_str(line)
                .map_err(|error| content_error(path, number, format!("not a JSON object: {error}")))?;
            if rows.is_empty() {
                check_keys(&object, wanted).map_err(|problem| content_error(path, number, problem))?;
            }
            let cells = json_cells(&object, wanted).map_err(|problem| content_error(path, number, problem))?;
            rows.push(Row { line: number, cells });
        }
        Self::of_json(path, rows, wanted)
    }

    /// Parses a JSON list of objects, or an object with such a list under `data`. Rows are counted from 1.
    pub fn parse_json(path: &Path, text: &str, wanted: &[Wanted<'_>]) -> Result<Self, DataError> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum File {
            List(Vec<JsonObject>),
            Data { data: Vec<JsonObject> },
        }
        // Where it is no JSON at all, the place of the mistake helps; where it is, its form.
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| content_error(path, error.line(), format!("not JSON: {error}")))?;
        let (File::List(objects) | File::Data { data: objects }) = serde_json::from_value(value)
            .map_err(|_| content_error(path, None, "not a list of objects, nor one under `data`"))?;
        let rows = objects.iter().zip(1..).map(|(object, number)| {
            let problem = |problem| content_error(path, None, format!("row {number}: {problem}"));
            if number == 1 {
                check_keys(object, wanted).map_err(problem)?;
            }
            Ok(Row { line: number, cells: json_cells(object, wanted).map_err(problem)? })
        });
        Self::of_json(path, rows.collect::<Result<_, DataError>>()?, wanted)
    }

    fn of_json(path: &Path, rows: Vec<Row>, wanted: &[Wanted<'_>]) -> Result<Self, DataError> {
        Self::new(path, wanted.iter().map(|wanted| wanted.column.to_owned()).collect(), rows)
    }

    /// Refuses a table without the columns of a user's own file.
    pub fn check(&self, wanted: &[Wanted<'_>]) -> Result<(), DataError> {
        let there: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        Wanted::lacking(wanted, &there).map_or(Ok(()), |problem| Err(content_error(&self.path, 1, problem)))
    }

    /// The place of the column called `name`.
    pub fn column(&self, name: &str) -> Result<usize, DataError> {
        self.columns.iter().position(|column| column == name).ok_or_else(|| {
            let problem = format!("no column `{name}`; there are: {}", self.columns.join(", "));
            content_error(&self.path, 1, problem)
        })
    }

    /// The first column whose name fulfils `condition`.
    pub fn column_where(&self, what: &str, condition: impl Fn(&str) -> bool) -> Result<usize, DataError> {
        self.columns.iter().position(|column| condition(column)).ok_or_else(|| {
            let problem = format!("no column {what}; there are: {}", self.columns.join(", "));
            content_error(&self.path, 1, problem)
        })
    }
}

/// Refuses quotes that swallow rows: one that nothing closes, or that closes in the middle of a cell further down. The error has the
/// line where the quote begins.
fn check_quotes(text: &str) -> Result<(), (usize, &'static str)> {
    enum Within {
        Start,
        Plain,
        Quoted,
        Closed,
    }
    let (mut within, mut line, mut opened) = (Within::Start, 1, 1);
    for byte in text.bytes() {
        within = match (within, byte) {
            (Within::Start, b'"') => {
                opened = line;
                Within::Quoted
            }
            (Within::Quoted, b'"') => Within::Closed,
            // A doubled quote is one that belongs to the text.
            (Within::Closed, b'"') | (Within::Quoted, _) => Within::Quoted,
            (Within::Closed | Within::Start | Within::Plain, b',' | b'\n' | b'\r') => Within::Start,
            (Within::Closed, _) => return Err((opened, "the quote that begins here ends in the middle of a cell")),
            (Within::Start | Within::Plain, _) => Within::Plain,
        };
        line += usize::from(byte == b'\n');
    }
    match within {
        Within::Quoted => Err((opened, "the quote that begins here is never closed")),
        _ => Ok(()),
    }
}

type JsonObject = serde_json::Map<String, serde_json::Value>;

/// Refuses an object, the first of its file, without the `wanted` values.
fn check_keys(object: &JsonObject, wanted: &[Wanted<'_>]) -> Result<(), String> {
    let there: Vec<&str> = object.keys().map(String::as_str).collect();
    Wanted::lacking(wanted, &there).map_or(Ok(()), Err)
}

/// The `wanted` values of an object as text.
fn json_cells(object: &JsonObject, wanted: &[Wanted<'_>]) -> Result<Vec<String>, String> {
    let cell = |wanted: &Wanted<'_>| match object.get(wanted.column) {
        Some(serde_json::Value::String(text)) => Ok(text.clone()),
        Some(serde_json::Value::Null) | None => Err(format!("no value for `{}`", wanted.column)),
        Some(value) => Ok(value.to_string()),
    };
    wanted.iter().map(cell).collect()
}

impl Row {
    /// A row of a file that has no lines of text.
    #[cfg(feature = "parquet")]
    pub fn new(number: usize, cells: Vec<String>) -> Self {
        Self { line: number, cells }
    }

    pub fn cell(&self, column: usize) -> &str {
        &self.cells[column]
    }
}
