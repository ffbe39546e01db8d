//! A small synthetic language with its tasks: what runs without any data.
//!
//! Sentences say who did what to what, where, in a few hundred English words: verbs agree with their subjects, things are
//! negated and counted, many words have a synonym, some name a kind of others. The tasks mirror the kinds of the paper's:
//! acceptability, sentiment, paraphrase, similarity, inference, topics, question answering.
//!
//! Everything is a function of the task's name and the example's number.

mod corpus;
mod dice;
mod lexicon;
mod makers;
mod sentence;
mod tasks;

pub use corpus::{Passage, corpus, fingerprint, vocabulary};
pub use tasks::{Synthetic, TASKS};
