//! SQuAD: questions whose answers are spans of a text (v1.1), or are not there (v2.0).

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use bert_backbone::Source;
use serde::Deserialize;

use crate::{
    Home, TaskData, TaskSource,
    parquet::{self, ParquetTable},
    source::{DataError, Wanted, content_error, read_bytes},
};

/// A question about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// SQuAD's name for it.
    pub id: String,
    /// The question.
    pub question: String,
    /// The text that holds the answer. Questions of a paragraph share it.
    pub context: Arc<str>,
    /// The answers that are right; none for a question that cannot be answered.
    pub answers: Vec<Answer>,
}

/// A span of a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its first byte in the context.
    pub start: usize,
    /// Its text.
    pub text: String,
}

/// Which SQuAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SquadVersion {
    /// Every question has an answer.
    V1,
    /// Some questions have none.
    V2,
}

impl SquadVersion {
    fn name(self) -> &'static str {
        match self {
            SquadVersion::V1 => "v1.1",
            SquadVersion::V2 => "v2.0",
        }
    }

    /// The training and validation files under `data`: the official ones, unless only the hub's are there.
    pub fn files(self, data: &Path) -> [PathBuf; 2] {
        let (folder, version) = (data.join("squad"), self.name());
        [("train", "train"), ("dev", "validation")].map(|(official, hub)| {
            let official = folder.join(format!("{official}-{version}.json"));
            let hub = folder.join(version).join(format!("{hub}.parquet"));
            if hub.is_file() && !official.is_file() { hub } else { official }
        })
    }
}

impl TaskSource for SquadVersion {
    fn files(&self, data: &Path) -> Vec<PathBuf> {
        SquadVersion::files(*self, data).into()
    }

    fn home(&self) -> Option<Home> {
        let (repository, config) = match self {
            SquadVersion::V1 => ("rajpurkar/squad", "plain_text"),
            SquadVersion::V2 => ("rajpurkar/squad_v2", "squad_v2"),
        };
        let file = |part: &str| (format!("{config}/{part}-00000-of-00001.parquet"), format!("{part}.parquet"));
        let files = ["train", "validation"].map(file).into();
        let source = Source::Dataset { repository: repository.to_owned(), files };
        Some(Home::new(Path::new("squad").join(self.name()), source))
    }

    fn load(&self, _name: &str, data: &Path) -> Result<TaskData, DataError> {
        Questions::load(*self, data).map(TaskData::Questions)
    }
}

/// A task's questions.
#[derive(Clone, Debug)]
pub struct Questions {
    /// Which SQuAD.
    pub version: SquadVersion,
    /// Questions to train on.
    pub train: Vec<Question>,
    /// Questions to choose by and to report on.
    pub validation: Vec<Question>,
}

impl Questions {
    /// Reads both files of `version`.
    ///
    /// # Errors
    /// If a file cannot be read or is not SQuAD's.
    pub fn load(version: SquadVersion, data: &Path) -> Result<Self, DataError> {
        let [train, validation] = version.files(data);
        Ok(Self { version, train: read_squad(&train)?, validation: read_squad(&validation)? })
    }
}

#[derive(Deserialize)]
struct File {
    data: Vec<Article>,
}

#[derive(Deserialize)]
struct Article {
    paragraphs: Vec<Paragraph>,
}

#[derive(Deserialize)]
struct Paragraph {
    context: String,
    qas: Vec<RawQuestion>,
}

#[derive(Deserialize)]
struct RawQuestion {
    id: String,
    question: String,
    #[serde(default)]
    answers: Vec<RawAnswer>,
    #[serde(default)]
    is_impossible: bool,
}

#[derive(Deserialize)]
struct RawAnswer {
    text: String,
    answer_start: usize,
}

/// Reads a file in SQuAD's format, or a Parquet file of the hub's with the same questions.
///
/// # Errors
/// If the file cannot be read, is not in the format, or an answer does not stand where it says.
pub fn read_squad(path: &Path) -> Result<Vec<Question>, DataError> {
    let is_parquet = path.extension().is_some_and(|extension| extension == "parquet");
    let paragraphs = if is_parquet { read_hub(path)? } else { read_json(path)? };
    let mut questions = Vec::new();
    for Paragraph { context, qas } in paragraphs {
        let context: Arc<str> = context.into();
        // SQuAD counts characters, Rust bytes.
        let starts: Vec<usize> = context.char_indices().map(|(byte, _)| byte).collect();
        for raw in qas {
            let answers = if raw.is_impossible { Vec::new() } else { raw.answers };
            let answer = |answer: RawAnswer| {
                let start = starts.get(answer.answer_start).copied().unwrap_or(context.len());
                if !context[start..].starts_with(&answer.text) {
                    let (id, at, text) = (&raw.id, answer.answer_start, &answer.text);
                    let problem = format!("question {id}: `{text}` does not stand at character {at}");
                    return Err(content_error(path, None, problem));
                }
                Ok(Answer { start, text: answer.text })
            };
            questions.push(Question {
                answers: answers.into_iter().map(answer).collect::<Result<_, _>>()?,
                id: raw.id.clone(),
                question: raw.question,
                context: context.clone(),
            });
        }
    }
    if questions.is_empty() {
        return Err(content_error(path, None, "the file has no questions"));
    }
    Ok(questions)
}

fn read_json(path: &Path) -> Result<Vec<Paragraph>, DataError> {
    let bytes = read_bytes(path)?;
    let file: File = serde_json::from_slice(&bytes)
        .map_err(|error| content_error(path, error.line(), format!("not in SQuAD's format: {error}")))?;
    Ok(file.data.into_iter().flat_map(|article| article.paragraphs).collect())
}

/// The hub has a row for each question; those of a paragraph follow each other.
fn read_hub(path: &Path) -> Result<Vec<Paragraph>, DataError> {
    /// The hub's form of a list of answers.
    #[derive(Deserialize)]
    struct Answers {
        text: Vec<String>,
        answer_start: Vec<usize>,
    }
    let ParquetTable { table, .. } = parquet::read(path, &["id", "context", "question", "answers"].map(Wanted::from))?;
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    for row in &table.rows {
        let Answers { text, answer_start } = serde_json::from_str(row.cell(3))
            .map_err(|error| content_error(path, None, format!("row {}: answers: {error}", row.line)))?;
        let answers = text.into_iter().zip(answer_start).map(|(text, answer_start)| RawAnswer { text, answer_start });
        let question = RawQuestion {
            id: row.cell(0).to_owned(),
            question: row.cell(2).to_owned(),
            answers: answers.collect(),
            is_impossible: false,
        };
        match paragraphs.last_mut().filter(|paragraph| paragraph.context == row.cell(1)) {
            Some(paragraph) => paragraph.qas.push(question),
            None => paragraphs.push(Paragraph { context: row.cell(1).to_owned(), qas: vec![question] }),
        }
    }
    Ok(paragraphs)
}
