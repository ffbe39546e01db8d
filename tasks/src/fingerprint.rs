//! A hash of a task's data, of the values alone: it does not change with the names or the layout of types.

use crate::{Answer, Example, Question, SquadVersion, Target, TaskData};

/// Raised when the encoding changes. Every run that was started before then counts as one on other data.
const VERSION: u64 = 1;

impl TaskData {
    /// A hash of every value that training or evaluation sees: labels, and all examples of all parts with ids and
    /// targets; or questions with contexts and answers, and SQuAD's version. The task's name and notes are no part of it.
    pub fn fingerprint(&self) -> String {
        let mut encoder = Encoder(blake3::Hasher::new());
        encoder.number(VERSION);
        match self {
            TaskData::Texts(dataset) => {
                encoder.tag(0);
                encoder.list(&dataset.labels, |encoder, label| encoder.text(label));
                for part in [&dataset.train, &dataset.validation, &dataset.test] {
                    encoder.list(part, Encoder::example);
                }
                for (task, part) in &dataset.extra {
                    encoder.text(task);
                    encoder.list(part, Encoder::example);
                }
            }
            TaskData::Questions(questions) => {
                encoder.tag(1);
                encoder.tag(match questions.version {
                    SquadVersion::V1 => 1,
                    SquadVersion::V2 => 2,
                });
                for part in [&questions.train, &questions.validation] {
                    encoder.list(part, Encoder::question);
                }
            }
        }
        encoder.0.finalize().to_hex().to_string()
    }
}

/// Writes values one after the other into a hash: numbers as 8 bytes, little end first; texts and lists behind their
/// length; which of several forms a value has as one byte. Different data is different bytes.
struct Encoder(blake3::Hasher);

impl Encoder {
    fn tag(&mut self, tag: u8) {
        self.0.update(&[tag]);
    }

    fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
    }

    fn list<T>(&mut self, list: &[T], item: impl Fn(&mut Self, &T)) {
        self.number(list.len() as u64);
        list.iter().for_each(|value| item(self, value));
    }

    fn example(&mut self, Example { id, text, pair, target }: &Example) {
        self.text(id);
        self.text(text);
        match pair {
            None => self.tag(0),
            Some(pair) => {
                self.tag(1);
                self.text(pair);
            }
        }
        match target {
            None => self.tag(0),
            Some(Target::Class(class)) => {
                self.tag(1);
                self.number(*class as u64);
            }
            Some(Target::Score(score)) => {
                self.tag(2);
                self.number(u64::from(score.to_bits()));
            }
            Some(Target::Labels(labels)) => {
                self.tag(3);
                self.list(labels, |encoder, &label| encoder.number(label as u64));
            }
        }
    }

    fn question(&mut self, Question { id, question, context, answers }: &Question) {
        self.text(id);
        self.text(question);
        self.text(context);
        self.list(answers, |encoder, Answer { start, text }| {
            encoder.number(*start as u64);
            encoder.text(text);
        });
    }
}
