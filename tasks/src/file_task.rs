//! A dataset of one's own: CSV, TSV, JSON or Parquet with named columns.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use crate::{
    Dataset, Example, Target, TaskKind,
    parquet::{self, ParquetTable},
    shuffle::split,
    source::{DataError, Encoding, Format, Ragged, Row, Table, Wanted, content_error, counted, read_text},
};

/// Which columns of which files make a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct FileTask {
    /// The examples to train on: `.csv`, `.tsv`, `.jsonl`, `.json` or `.parquet`, or a folder of `.parquet` files.
    pub path: PathBuf,
    /// The text's column.
    pub text_column: String,
    /// The second text's column.
    pub pair_column: Option<String>,
    /// The label's or score's column.
    pub label_column: String,
    /// What the label column holds. Several labels stand in one cell as a JSON list, or divided by `|`.
    pub kind: TaskKind,
    /// Examples to choose by.
    pub validation_file: Option<PathBuf>,
    /// Examples to report on.
    pub test_file: Option<PathBuf>,
    /// The labels and their order, where they are known already; otherwise the training file tells.
    pub known_labels: Option<Vec<String>>,
    /// Decides which examples are held back where a file is not given.
    pub split_seed: u64,
}

impl FileTask {
    /// Classes in the column `label` for the texts in `text`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            text_column: "text".to_owned(),
            pair_column: None,
            label_column: "label".to_owned(),
            kind: TaskKind::Classification,
            validation_file: None,
            test_file: None,
            known_labels: None,
            split_seed: 0,
        }
    }

    /// What the task is called: by its file's name, wherever that lies.
    pub fn name(&self) -> String {
        format!("file:{}", self.path.file_stem().unwrap_or_default().to_string_lossy())
    }

    /// Whether a file's name is that of a table: `.csv`, `.tsv`, `.jsonl`, `.json` or `.parquet`, or a folder of the last.
    pub fn is_table(path: &Path) -> bool {
        path.is_dir() || TABLES.contains(&&*extension(path))
    }

    /// The texts of [`path`](Self::path) in their order. A column of labels need not be there.
    ///
    /// # Errors
    /// If the file cannot be read or lacks a column.
    pub fn texts(&self) -> Result<Vec<Example>, DataError> {
        let example = |row: Raw| Example { id: row.line.to_string(), text: row.text, pair: row.pair, target: None };
        Ok(self.read(&self.path, false)?.into_iter().map(example).collect())
    }

    /// Reads the files. Labels are numbered in the order in which the training file shows them; what has no file of its
    /// own is held back from the training file (a tenth each), by the seed. A row without a label is left out, and counted in a note.
    ///
    /// # Errors
    /// If a file cannot be read, lacks a column, or has a label that the training file does not.
    pub fn load(&self) -> Result<Dataset, DataError> {
        if self.kind == TaskKind::Span {
            return Err(DataError::Request("a file cannot hold a span task; use SQuAD's format".to_owned()));
        }
        let mut unlabelled = 0;
        let mut labelled = |path: &Path| {
            let mut rows = self.read(path, true)?;
            let before = rows.len();
            rows.retain(|row| row.label.is_some());
            unlabelled += before - rows.len();
            if rows.is_empty() {
                let problem = format!("no row has a label in column `{}`", self.label_column);
                return Err(content_error(path, None, problem));
            }
            Ok(rows)
        };
        let rows = labelled(&self.path)?;
        let labels = self.known_labels.clone().unwrap_or_else(|| self.labels(&rows));
        self.check_labels(&labels, &rows)?;
        let numbers: HashMap<&str, usize> = labels.iter().map(String::as_str).zip(0..).collect();
        let examples = |rows: Vec<Raw>, path: &Path| -> Result<Vec<Example>, DataError> {
            rows.into_iter().map(|row| self.example(row, &labels, &numbers, path)).collect()
        };
        let validation = self.validation_file.as_ref().map(|path| examples(labelled(path)?, path));
        let test = self.test_file.as_ref().map(|path| examples(self.read(path, true)?, path));
        let (validation, test) = (validation.transpose()?, test.transpose()?);
        // A set that is to be predicted has no labels at all.
        let tested = test.iter().flatten().filter(|example| example.target.is_some()).count();
        let unscored = if tested > 0 { test.iter().flatten().count() - tested } else { 0 };
        let all = examples(rows, &self.path)?;
        let (train, validation, test) = match (validation, test) {
            (Some(validation), Some(test)) => (all, validation, test),
            (validation, test) => {
                let [mut train, held_for_validation, held_for_test] = split(all, self.split_seed);
                // What is not needed goes back to training.
                let mut choose = |given: Option<Vec<Example>>, held: Vec<Example>| match given {
                    Some(given) => {
                        train.extend(held);
                        given
                    }
                    None => held,
                };
                let validation = choose(validation, held_for_validation);
                let test = choose(test, held_for_test);
                (train, validation, test)
            }
        };
        if train.is_empty() || validation.is_empty() {
            let problem = "too few rows to hold some back for validation; give --validation-file";
            return Err(content_error(&self.path, None, problem));
        }
        let without_label = |rows: usize| (rows > 0).then(|| format!("{} without a label", counted(rows, "row")));
        let unlabelled_note = without_label(unlabelled).map(|rows| format!("{rows} left out"));
        let unscored_note = without_label(unscored).map(|rows| format!("{rows} in the test set: no score counts them"));
        let one_class = self.kind == TaskKind::Classification && labels.len() == 1;
        let one_class_note =
            one_class.then(|| format!("every row has the label `{}`: there is nothing to learn", labels[0]));
        Ok(Dataset {
            task: self.name(),
            kind: self.kind,
            labels,
            train,
            validation,
            test,
            extra: Vec::new(),
            notes: [unlabelled_note, unscored_note, one_class_note].into_iter().flatten().collect(),
        })
    }

    fn read(&self, path: &Path, has_labels: bool) -> Result<Vec<Raw>, DataError> {
        if path.is_dir() {
            return self.read_folder(path, has_labels);
        }
        let contents = || read_text(path, Encoding::Utf8);
        let mut wanted = vec![Wanted { column: &self.text_column, option: Some("--text-column") }];
        if has_labels {
            wanted.push(Wanted { column: &self.label_column, option: Some("--label-column") });
        }
        wanted.extend(self.pair_column.as_ref().map(|column| Wanted { column, option: Some("--pair-column") }));
        let divided = |format: Format| {
            let contents = contents()?;
            let header = contents.lines().next().unwrap_or_default();
            let is_column = wanted.iter().any(|wanted| wanted.column == header);
            if let Some(problem) = format.problem_with(header).filter(|_| !is_column) {
                return Err(content_error(path, 1, problem));
            }
            Table::parse(path, &contents, format, None, Ragged::Refuse)
        };
        // What a column's numbers mean, where the file tells.
        let mut names: Vec<String> = Vec::new();
        let table = match &*extension(path) {
            "csv" => divided(Format::Csv)?,
            "tsv" => divided(Format::Tsv)?,
            "jsonl" => Table::parse_json_lines(path, &contents()?, &wanted)?,
            "json" => Table::parse_json(path, &contents()?, &wanted)?,
            "parquet" => {
                let ParquetTable { table, mut classes } = parquet::read(path, &wanted)?;
                names = classes.remove(&self.label_column).unwrap_or_default();
                table
            }
            _ => {
                let problem = "the name must end in .csv, .tsv, .jsonl, .json or .parquet";
                return Err(content_error(path, None, problem));
            }
        };
        table.check(&wanted)?;
        let text = table.column(&self.text_column)?;
        let pair = self.pair_column.as_ref().map(|pair| table.column(pair)).transpose()?;
        let label = has_labels.then(|| table.column(&self.label_column)).transpose()?;
        let named = |label: &str| {
            let name = label.parse::<usize>().ok().and_then(|number| names.get(number));
            name.map_or(label, String::as_str).to_owned()
        };
        let raw = |row: &Row| Raw {
            line: row.line,
            text: row.cell(text).to_owned(),
            pair: pair.map(|pair| row.cell(pair).to_owned()),
            label: label.map(|label| row.cell(label)).filter(|cell| self.is_label(cell, &names)).map(named),
        };
        Ok(table.rows.iter().map(raw).collect())
    }

    /// Whether a cell holds a label. An empty one does not (a missing value is written so), unless no label at all is an answer too;
    /// nor does -1 where classes are numbered: it stands for a label that is not published.
    fn is_label(&self, cell: &str, names: &[String]) -> bool {
        let is_empty = cell.trim().is_empty() && self.kind != TaskKind::MultiLabel;
        !is_empty && (names.is_empty() || cell != "-1")
    }

    /// The rows of all Parquet files of a folder, in the order of their names, counted through.
    fn read_folder(&self, folder: &Path, has_labels: bool) -> Result<Vec<Raw>, DataError> {
        let io = |reason| DataError::Io { path: folder.to_owned(), reason };
        let entries = std::fs::read_dir(folder).map_err(io)?.map(|entry| entry.map(|entry| entry.path()));
        let mut files: Vec<PathBuf> = entries.collect::<Result<_, _>>().map_err(io)?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "parquet"));
        files.sort();
        if files.is_empty() {
            return Err(content_error(folder, None, "the folder has no .parquet files"));
        }
        let mut rows: Vec<Raw> = Vec::new();
        for file in files {
            let before = rows.len();
            rows.extend(self.read(&file, has_labels)?.into_iter().map(|row| Raw { line: before + row.line, ..row }));
        }
        Ok(rows)
    }

    /// The labels in order of appearance.
    fn labels(&self, rows: &[Raw]) -> Vec<String> {
        let mut labels: Vec<String> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for row in rows {
            for label in row.label.iter().flat_map(|label| self.cell_labels(label)) {
                if seen.insert(label.clone()) {
                    labels.push(label);
                }
            }
        }
        labels
    }

    /// Asks back where a column holds no classes but something of its own in nearly every row.
    fn check_labels(&self, labels: &[String], rows: &[Raw]) -> Result<(), DataError> {
        let (found, given) = (labels.len(), rows.len());
        if self.kind == TaskKind::Classification
            && self.known_labels.is_none()
            && found >= 100
            && 10 * found > 9 * given
        {
            let problem = format!(
                "column `{}` has {found} different labels in {given} rows: is it the right column? Numbers to predict are \
                 labels = score",
                self.label_column
            );
            return Err(content_error(&self.path, None, problem));
        }
        Ok(())
    }

    fn cell_labels(&self, cell: &str) -> Vec<String> {
        match self.kind {
            TaskKind::Classification => vec![cell.to_owned()],
            TaskKind::MultiLabel => {
                let mut labels: Vec<String> = match serde_json::from_str::<Vec<serde_json::Value>>(cell) {
                    Ok(list) => {
                        let plain =
                            |value: serde_json::Value| value.as_str().map(str::to_owned).unwrap_or(value.to_string());
                        list.into_iter().map(plain).collect()
                    }
                    Err(_) => cell.split('|').map(|part| part.trim().to_owned()).collect(),
                };
                labels.retain(|label| !label.is_empty());
                let mut seen = std::collections::HashSet::new();
                labels.retain(|label| seen.insert(label.clone()));
                labels
            }
            TaskKind::Regression | TaskKind::Span => Vec::new(),
        }
    }

    fn example(
        &self,
        row: Raw,
        labels: &[String],
        numbers: &HashMap<&str, usize>,
        path: &Path,
    ) -> Result<Example, DataError> {
        let number = |label: &String| {
            numbers.get(label.as_str()).copied().ok_or_else(|| {
                let more = if labels.len() > SHOWN { ", …" } else { "" };
                let known = labels[..labels.len().min(SHOWN)].join(", ");
                content_error(path, row.line, format!("label `{label}` is not one of {known}{more}"))
            })
        };
        let target = |label: &String| match self.kind {
            TaskKind::Classification => Ok(Target::Class(number(label)?)),
            TaskKind::MultiLabel => {
                let labels = self.cell_labels(label).iter().map(number).collect::<Result<_, _>>()?;
                Ok(Target::Labels(labels))
            }
            TaskKind::Regression | TaskKind::Span => {
                let score = label.parse::<f32>().ok().filter(|score| score.is_finite());
                let problem = format!("`{label}` in column `{}` is not a number", self.label_column);
                Ok(Target::Score(score.ok_or_else(|| content_error(path, row.line, problem))?))
            }
        };
        let target = row.label.as_ref().map(target).transpose()?;
        Ok(Example { id: row.line.to_string(), text: row.text, pair: row.pair, target })
    }
}

/// How the names of tables end.
const TABLES: [&str; 5] = ["csv", "tsv", "jsonl", "json", "parquet"];

/// What a file's name ends in, in lower case.
fn extension(path: &Path) -> String {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_lowercase()
}

/// Labels that an error names.
const SHOWN: usize = 20;

struct Raw {
    line: usize,
    text: String,
    pair: Option<String>,
    /// `None` if it is not published.
    label: Option<String>,
}
