//! The tasks of GLUE, from the official `glue_data` files or from those of the Hugging Face hub.

use std::path::{Path, PathBuf};

use bert_backbone::Source;

use crate::{
    Dataset, Example, Home, Target, Task, TaskData, TaskKind, TaskSource, TestSet,
    parquet::{self, ParquetTable},
    source::{DataError, Encoding, Format, Ragged, Row, Table, Wanted, content_error, counted, read_text},
};

/// How a GLUE task's files are laid out: the official ones, and the hub's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glue {
    pub folder: &'static str,
    text: &'static str,
    pair: Option<&'static str>,
    label: &'static str,
    /// The classes; none for STS-B's scores.
    pub labels: &'static [&'static str],
    validation: Part,
    /// A second validation set, and the task that is called by its name.
    extra: Option<(&'static str, Part)>,
    test: Part,
    /// Columns of train and validation, for CoLA's files without a header.
    columns: Option<&'static [&'static str]>,
    ragged: Ragged,
    hub: HubLayout,
    /// The name of the GLUE server's file for this task.
    pub submission: &'static str,
}

/// A file of a task, as the official download and as the hub call it.
#[derive(Clone, Copy, Debug)]
struct Part {
    official: &'static str,
    hub: &'static str,
}

impl Part {
    const fn new(official: &'static str, hub: &'static str) -> Self {
        Self { official, hub }
    }

    /// What the hub's file is called here.
    fn hub_file(self) -> String {
        format!("{}.parquet", self.hub)
    }
}

/// What a task looks like on the hub.
#[derive(Clone, Copy, Debug)]
struct HubLayout {
    config: &'static str,
    text: &'static str,
    pair: Option<&'static str>,
    /// What its numbered classes are called there.
    labels: &'static [&'static str],
    /// Whether a row's number is its place. Otherwise `idx` tells, which skips rows that were left out.
    by_place: bool,
}

/// GLUE on the Hugging Face hub.
const REPOSITORY: &str = "nyu-mll/glue";

const TRAIN: Part = Part::new("train.tsv", "train");

const DEFAULT: Glue = Glue {
    folder: "",
    text: "sentence1",
    pair: Some("sentence2"),
    label: "label",
    labels: &["0", "1"],
    validation: Part::new("dev.tsv", "validation"),
    extra: None,
    test: Part::new("test.tsv", "test"),
    columns: None,
    ragged: Ragged::Refuse,
    hub: PAIRS,
    submission: "",
};

const PAIRS: HubLayout =
    HubLayout { config: "", text: "sentence1", pair: Some("sentence2"), labels: &[], by_place: false };

const SENTENCES: HubLayout = HubLayout { text: "sentence", pair: None, ..PAIRS };

const MISMATCHED: Part = Part::new("dev_mismatched.tsv", "validation_mismatched");

const MNLI: Glue = Glue {
    folder: "MNLI",
    label: "gold_label",
    labels: &["contradiction", "entailment", "neutral"],
    validation: Part::new("dev_matched.tsv", "validation_matched"),
    extra: Some(("mnli-mm", MISMATCHED)),
    test: Part::new("test_matched.tsv", "test_matched"),
    hub: HubLayout {
        config: "mnli",
        text: "premise",
        pair: Some("hypothesis"),
        labels: &["entailment", "neutral", "contradiction"],
        by_place: false,
    },
    submission: "MNLI-m.tsv",
    ..DEFAULT
};

/// The diagnostic set: never trained on, and answered by a model of MNLI.
pub(crate) const DIAGNOSTIC: Glue = Glue {
    folder: "diagnostic",
    test: Part::new("diagnostic.tsv", "test"),
    hub: HubLayout { config: "ax", ..MNLI.hub },
    submission: "AX.tsv",
    ..MNLI
};

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
            hub: HubLayout { config: "cola", labels: &["unacceptable", "acceptable"], ..SENTENCES },
            submission: "CoLA.tsv",
            ..DEFAULT
        },
    ),
    (
        "sst-2",
        Glue {
            folder: "SST-2",
            text: "sentence",
            pair: None,
            hub: HubLayout { config: "sst2", labels: &["negative", "positive"], ..SENTENCES },
            submission: "SST-2.tsv",
            ..DEFAULT
        },
    ),
    (
        "mrpc",
        Glue {
            folder: "MRPC",
            text: "#1 String",
            pair: Some("#2 String"),
            label: "Quality",
            // There `idx` counts training and validation rows together.
            hub: HubLayout { config: "mrpc", labels: &["not_equivalent", "equivalent"], by_place: true, ..PAIRS },
            submission: "MRPC.tsv",
            ..DEFAULT
        },
    ),
    (
        "sts-b",
        Glue {
            folder: "STS-B",
            label: "score",
            labels: &[],
            hub: HubLayout { config: "stsb", ..PAIRS },
            submission: "STS-B.tsv",
            ..DEFAULT
        },
    ),
    (
        "qqp",
        Glue {
            folder: "QQP",
            text: "question1",
            pair: Some("question2"),
            label: "is_duplicate",
            // The official training file has a few broken rows; everybody leaves them out.
            ragged: Ragged::LeaveOut,
            hub: HubLayout {
                config: "qqp",
                text: "question1",
                pair: Some("question2"),
                labels: &["not_duplicate", "duplicate"],
                ..PAIRS
            },
            submission: "QQP.tsv",
            ..DEFAULT
        },
    ),
    ("mnli", MNLI),
    (
        "mnli-mm",
        Glue {
            validation: MISMATCHED,
            extra: None,
            test: Part::new("test_mismatched.tsv", "test_mismatched"),
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
            hub: HubLayout { config: "qnli", text: "question", pair: Some("sentence"), labels: ENTAILMENT, ..PAIRS },
            submission: "QNLI.tsv",
            ..DEFAULT
        },
    ),
    (
        "rte",
        Glue {
            folder: "RTE",
            labels: ENTAILMENT,
            hub: HubLayout { config: "rte", labels: ENTAILMENT, ..PAIRS },
            submission: "RTE.tsv",
            ..DEFAULT
        },
    ),
    (
        "wnli",
        Glue {
            folder: "WNLI",
            hub: HubLayout { config: "wnli", labels: &["not_entailment", "entailment"], ..PAIRS },
            submission: "WNLI.tsv",
            ..DEFAULT
        },
    ),
];

/// The diagnostic set, as something that can be fetched.
pub(crate) fn diagnostic() -> Task {
    Task::from_source(DIAGNOSTIC.folder, DIAGNOSTIC.kind(), DIAGNOSTIC).suite("glue")
}

impl TaskSource for Glue {
    fn files(&self, data: &Path) -> Vec<PathBuf> {
        let needed = if self.folder == DIAGNOSTIC.folder { vec![self.test] } else { vec![TRAIN, self.validation] };
        needed.into_iter().map(|part| self.path(data, part)).collect()
    }

    fn home(&self) -> Option<Home> {
        let parts = if self.folder == DIAGNOSTIC.folder {
            vec![self.test]
        } else {
            // Both tasks of MNLI are read from one folder.
            let together = TASKS.iter().map(|(_, glue)| glue).filter(|glue| glue.folder == self.folder);
            [TRAIN].into_iter().chain(together.flat_map(|glue| [glue.validation, glue.test])).collect()
        };
        let there = |part: &Part| format!("{}/{}-00000-of-00001.parquet", self.hub.config, part.hub);
        let files = parts.iter().map(|part| (there(part), part.hub_file())).collect();
        let source = Source::Dataset { repository: REPOSITORY.to_owned(), files };
        Some(Home::new(Path::new("glue_data").join(self.folder), source))
    }

    fn load(&self, name: &str, data: &Path) -> Result<TaskData, DataError> {
        let mut notes = Vec::new();
        let mut read = |part: Part| self.read(&self.path(data, part), true, &mut notes);
        let (train, validation) = (read(TRAIN)?, read(self.validation)?);
        let mut extra = Vec::new();
        if let Some((task, part)) = self.extra.filter(|(_, part)| self.path(data, *part).is_file()) {
            extra.push((task.to_owned(), read(part)?));
        }
        let test = self.test_set(data)?.map_or_else(Vec::new, |set| set.examples);
        if test.is_empty() {
            notes.push(format!("no {} in {}", self.test.official, self.folder(data).display()));
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

    /// The file of a part: the official one, unless only the hub's is there.
    fn path(&self, data: &Path, part: Part) -> PathBuf {
        let folder = self.folder(data);
        let (official, hub) = (folder.join(part.official), folder.join(part.hub_file()));
        if hub.is_file() && !official.is_file() { hub } else { official }
    }

    /// The server's test set, or nothing if its file is not there.
    pub fn test_set(&self, data: &Path) -> Result<Option<TestSet>, DataError> {
        let path = self.path(data, self.test);
        if !path.is_file() {
            return Ok(None);
        }
        let examples = self.read(&path, false, &mut Vec::new())?;
        Ok(Some(TestSet { file: self.submission, kind: self.kind(), labels: self.labels, examples }))
    }

    fn read(&self, path: &Path, has_labels: bool, notes: &mut Vec<String>) -> Result<Vec<Example>, DataError> {
        if path.extension().is_some_and(|extension| extension == "parquet") {
            return self.read_hub(path, has_labels);
        }
        let text = read_text(path, Encoding::Utf8)?;
        let columns = self.columns.filter(|_| has_labels);
        let ragged = if path.ends_with(TRAIN.official) { self.ragged } else { Ragged::Refuse };
        let table = Table::parse(path, &text, Format::Tsv, columns, ragged)?;
        if table.ragged > 0 {
            notes.push(format!("{}: {} with missing cells left out", path.display(), counted(table.ragged, "row")));
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

    /// Reads a file of the hub. Examples are what they are in the official file, the numbers of its lines included.
    fn read_hub(&self, path: &Path, has_labels: bool) -> Result<Vec<Example>, DataError> {
        let HubLayout { text, pair, labels, by_place, .. } = self.hub;
        let mut columns = ["idx", "label", text].map(Wanted::from).to_vec();
        columns.extend(pair.map(Wanted::from));
        let ParquetTable { table, classes } = parquet::read(path, &columns)?;
        if let Some(named) = classes.get("label").filter(|named| *named != labels) {
            let named = named.join(", ");
            let problem = format!("its classes are {}, expected {}", named.escape_debug(), labels.join(", "));
            return Err(content_error(path, None, problem));
        }
        let first_line = if self.columns.is_some() { 1 } else { 2 };
        let example = |place: usize, row: &Row| -> Result<Example, String> {
            let number = row.cell(0).parse::<usize>().map_err(|_| format!("`idx` is `{}`", row.cell(0)))?;
            let line = first_line + if by_place { place } else { number };
            Ok(Example {
                id: if has_labels { line } else { number }.to_string(),
                text: row.cell(2).to_owned(),
                pair: pair.map(|_| row.cell(3).to_owned()),
                target: if has_labels { Some(self.hub_target(row.cell(1))?) } else { None },
            })
        };
        let example = |(place, row): (usize, &Row)| {
            example(place, row).map_err(|problem| content_error(path, None, format!("row {}: {problem}", row.line)))
        };
        table.rows.iter().enumerate().map(example).collect()
    }

    /// A label of the hub: a score, or a class by the hub's number.
    fn hub_target(&self, cell: &str) -> Result<Target, String> {
        if self.labels.is_empty() {
            return self.target(cell);
        }
        let number = cell.parse::<usize>().ok().filter(|&number| number < self.hub.labels.len());
        let number =
            number.ok_or_else(|| format!("label {cell}, expected a number below {}", self.hub.labels.len()))?;
        let named = self.labels.iter().position(|label| *label == self.hub.labels[number]);
        Ok(Target::Class(named.unwrap_or(number)))
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
