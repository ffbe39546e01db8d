//! The tasks of GLUE, from the official `glue_data` files.

use std::path::{Path, PathBuf};

use crate::{
    Dataset, Example, Target, TaskData, TaskKind, TaskSource, TestSet,
    source::{DataError, Encoding, Format, Ragged, Table, content_error, read_text},
};

/// How a GLUE task's files are laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glue {
    pub folder: &'static str,
    text: &'static str,
    pair: Option<&'static str>,
    label: &'static str,
    /// The classes; none for STS-B's scores.
    pub labels: &'static [&'static str],
    validation: &'static str,
    /// A second validation set, and the task that is called by its name.
    extra: Option<(&'static str, &'static str)>,
    test: &'static str,
    /// Columns of train and validation, for CoLA's files without a header.
    columns: Option<&'static [&'static str]>,
    ragged: Ragged,
    /// The name of the GLUE server's file for this task.
    pub submission: &'static str,
}

const DEFAULT: Glue = Glue {
    folder: "",
    text: "sentence1",
    pair: Some("sentence2"),
    label: "label",
    labels: &["0", "1"],
    validation: "dev.tsv",
    extra: None,
    test: "test.tsv",
    columns: None,
    ragged: Ragged::Refuse,
    submission: "",
};

const MNLI: Glue = Glue {
    folder: "MNLI",
    label: "gold_label",
    labels: &["contradiction", "entailment", "neutral"],
    validation: "dev_matched.tsv",
    extra: Some(("mnli-mm", "dev_mismatched.tsv")),
    test: "test_matched.tsv",
    submission: "MNLI-m.tsv",
    ..DEFAULT
};

/// The diagnostic set: never trained on, and answered by a model of MNLI.
pub(crate) const DIAGNOSTIC: Glue = Glue { folder: "diagnostic", test: "diagnostic.tsv", submission: "AX.tsv", ..MNLI };

const ENTAILMENT: &[&str] = &["entailment", "not_entailment"];

/// Every task with its name.
pub(crate) const TASKS: [(&str, Glue); 10] = [
    (
        "cola",
        Glue {
            folder: "CoLA",
            text: "sentence",
            pair: None,
            columns: Some(&["source", "label", "author's mark", "sentence"]),
            submission: "CoLA.tsv",
            ..DEFAULT
        },
    ),
    ("sst-2", Glue { folder: "SST-2", text: "sentence", pair: None, submission: "SST-2.tsv", ..DEFAULT }),
    (
        "mrpc",
        Glue {
            folder: "MRPC",
            text: "#1 String",
            pair: Some("#2 String"),
            label: "Quality",
            submission: "MRPC.tsv",
            ..DEFAULT
        },
    ),
    ("sts-b", Glue { folder: "STS-B", label: "score", labels: &[], submission: "STS-B.tsv", ..DEFAULT }),
    (
        "qqp",
        Glue {
            folder: "QQP",
            text: "question1",
            pair: Some("question2"),
            label: "is_duplicate",
            // The official training file has a few broken rows; everybody leaves them out.
            ragged: Ragged::LeaveOut,
            submission: "QQP.tsv",
            ..DEFAULT
        },
    ),
    ("mnli", MNLI),
    (
        "mnli-mm",
        Glue {
            validation: "dev_mismatched.tsv",
            extra: None,
            test: "test_mismatched.tsv",
            submission: "MNLI-mm.tsv",
            ..MNLI
        },
    ),
    (
        "qnli",
        Glue {
            folder: "QNLI",
            text: "question",
            pair: Some("sentence"),
            labels: ENTAILMENT,
            submission: "QNLI.tsv",
            ..DEFAULT
        },
    ),
    ("rte", Glue { folder: "RTE", labels: ENTAILMENT, submission: "RTE.tsv", ..DEFAULT }),
    ("wnli", Glue { folder: "WNLI", submission: "WNLI.tsv", ..DEFAULT }),
];

impl TaskSource for Glue {
    fn files(&self, data: &Path) -> Vec<PathBuf> {
        let folder = self.folder(data);
        vec![folder.join("train.tsv"), folder.join(self.validation)]
    }

    fn load(&self, name: &str, data: &Path) -> Result<TaskData, DataError> {
        let folder = self.folder(data);
        let mut notes = Vec::new();
        let mut read = |file: &str| self.read(&folder.join(file), true, &mut notes);
        let (train, validation) = (read("train.tsv")?, read(self.validation)?);
        let mut extra = Vec::new();
        if let Some((task, file)) = self.extra.filter(|(_, file)| folder.join(file).is_file()) {
            extra.push((task.to_owned(), read(file)?));
        }
        let test = self.test_set(data)?.map_or_else(Vec::new, |set| set.examples);
        if test.is_empty() {
            notes.push(format!("no {} in {}", self.test, folder.display()));
        }
        Ok(TaskData::Texts(Dataset {
            task: name.to_owned(),
            kind: self.kind(),
            labels: self.labels.iter().map(|&label| label.to_owned()).collect(),
            train,
            validation,
            test,
            extra,
            notes,
        }))
    }
}

impl Glue {
    /// The layout of the task called `name`.
    pub fn find(name: &str) -> Option<Self> {
        TASKS.iter().find(|(task, _)| *task == name).map(|(_, glue)| *glue)
    }

    pub fn kind(&self) -> TaskKind {
        if self.labels.is_empty() { TaskKind::Regression } else { TaskKind::Classification }
    }

    /// The task's folder under `data`.
    fn folder(&self, data: &Path) -> PathBuf {
        data.join("glue_data").join(self.folder)
    }

    /// The server's test set, or nothing if its file is not there.
    pub fn test_set(&self, data: &Path) -> Result<Option<TestSet>, DataError> {
        let path = self.folder(data).join(self.test);
        if !path.is_file() {
            return Ok(None);
        }
        let examples = self.read(&path, false, &mut Vec::new())?;
        Ok(Some(TestSet { file: self.submission, kind: self.kind(), labels: self.labels, examples }))
    }

    fn read(&self, path: &Path, has_labels: bool, notes: &mut Vec<String>) -> Result<Vec<Example>, DataError> {
        let text = read_text(path, Encoding::Utf8)?;
        let columns = self.columns.filter(|_| has_labels);
        let ragged = if path.ends_with("train.tsv") { self.ragged } else { Ragged::Refuse };
        let table = Table::parse(path, &text, Format::Tsv, columns, ragged)?;
        if table.ragged > 0 {
            notes.push(format!("{}: {} rows with missing cells left out", path.display(), table.ragged));
        }
        let text = table.column(self.text)?;
        let pair = self.pair.map(|pair| table.column(pair)).transpose()?;
        let label = has_labels.then(|| table.column(self.label)).transpose()?;
        // The first column numbers the rows of a test file, and the server wants that number back.
        let id = if has_labels { None } else { Some(0) };
        table
            .rows
            .iter()
            .map(|row| {
                let target = label.map(|label| self.target(row.cell(label)));
                let target = target.transpose().map_err(|problem| content_error(path, row.line, problem))?;
                Ok(Example {
                    id: id.map_or_else(|| row.line.to_string(), |id| row.cell(id).to_owned()),
                    text: row.cell(text).to_owned(),
                    pair: pair.map(|pair| row.cell(pair).to_owned()),
                    target,
                })
            })
            .collect()
    }

    fn target(&self, cell: &str) -> Result<Target, String> {
        if self.labels.is_empty() {
            let score = cell.parse::<f32>().ok().filter(|score| score.is_finite());
            return score.map(Target::Score).ok_or_else(|| format!("`{cell}` is no score"));
        }
        let class = self.labels.iter().position(|label| *label == cell);
        class.map(Target::Class).ok_or_else(|| format!("label `{cell}`, expected one of {}", self.labels.join(", ")))
    }
}
