//! SQuAD: questions whose answers are spans of a text (v1.1), or are not there (v2.0).

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{
    TaskData, TaskSource,
    source::{DataError, content_error, read_bytes},
};

/// A question about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// SQuAD's name for it.
    pub id: String,
    /// The question.
    pub question: String,
    /// The text that holds the answer. Questions of a paragraph share it.
    pub context: std::sync::Arc<str>,
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
    /// The training and validation files under `data`.
    pub fn files(self, data: &Path) -> [PathBuf; 2] {
        let version = match self {
            SquadVersion::V1 => "v1.1",
            SquadVersion::V2 => "v2.0",
        };
        ["train", "dev"].map(|part| data.join("squad").join(format!("{part}-{version}.json")))
    }
}

impl TaskSource for SquadVersion {
    fn files(&self, data: &Path) -> Vec<PathBuf> {
        SquadVersion::files(*self, data).into()
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

/// Reads a file in SQuAD's format.
///
/// # Errors
/// If the file cannot be read, is not in the format, or an answer does not stand where it says.
pub fn read_squad(path: &Path) -> Result<Vec<Question>, DataError> {
    let bytes = read_bytes(path)?;
    let file: File = serde_json::from_slice(&bytes)
        .map_err(|error| content_error(path, error.line(), format!("not in SQuAD's format: {error}")))?;
    let mut questions = Vec::new();
    for paragraph in file.data.into_iter().flat_map(|article| article.paragraphs) {
        let context: std::sync::Arc<str> = paragraph.context.into();
        // SQuAD counts characters, Rust bytes.
        let starts: Vec<usize> = context.char_indices().map(|(byte, _)| byte).collect();
        for raw in paragraph.qas {
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
