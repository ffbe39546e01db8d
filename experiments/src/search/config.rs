//! The search: which trials are run, and which of them is the best.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
    thread,
};

use analysis::{DimensionRecord, RunRecord, Status};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tasks::FileTask;

use super::{Space, TrialConfig, TrialRunner, space::NO_BERT, trial::embedding_name};
use crate::{
    lab::{Keys, Lab},
    run::{BUSY_PAUSE, FileOptions, RunContext, SEARCH_KEYS, is_no_limit, read_keys},
    train::{Ended, RunError, Silent, Stop, SweepWatch},
};

/// How a search is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchOptions {
    /// Trials that are drawn.
    pub trials: usize,
    /// Examples that a trial trains on: at first, and each time the best third goes on. None draws them from the space, and no
    /// trial goes on.
    pub samples: Vec<usize>,
    /// Decides what is drawn.
    pub search_seed: u64,
    /// Seeds with which the best trial is trained.
    pub seeds: u64,
    /// Files of word vectors to choose from.
    pub embeddings: Vec<PathBuf>,
    /// The backbone whose word pieces are an embedding to choose.
    pub backbone: Option<String>,
    /// Training examples that are kept.
    pub limit: Option<usize>,
    /// Decides which a limit keeps.
    pub limit_seed: u64,
    /// Validation examples that are kept.
    pub limit_validation: Option<usize>,
    /// Choices that are not drawn.
    pub fixed: Keys,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            trials: 30,
            samples: vec![100_000, 300_000, 1_000_000],
            search_seed: 0,
            seeds: 3,
            embeddings: Vec::new(),
            backbone: None,
            limit: None,
            limit_seed: 0,
            limit_validation: None,
            fixed: Keys::new(),
        }
    }
}

/// A search for one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// The task.
    pub task: String,
    /// How its file is read.
    #[serde(default, skip_serializing_if = "FileOptions::is_default")]
    pub files: FileOptions,
    /// How it is made.
    #[serde(flatten)]
    pub options: SearchOptions,
}

/// What a search found.
#[derive(Clone, Debug, Serialize)]
pub struct Searched {
    /// The task.
    pub task: String,
    /// Every trial, in the order of the search.
    pub trials: Vec<RunRecord>,
    /// The ids of the best trial, one for each seed.
    pub best: Vec<String>,
}

/// One trial of so many goes on.
const GOES_ON: usize = 3;
/// The best trial is trained with no more seeds than this.
const MOST_SEEDS: u64 = 1000;

impl SearchOptions {
    /// The space that is searched.
    pub fn space(&self) -> Space {
        Space::paper(&self.embedding_names())
    }

    /// What trials call the embeddings that they can choose.
    fn embedding_names(&self) -> Vec<String> {
        let files = self.embeddings.iter().map(|path| embedding_name(path));
        let random = ["random-50", "random-128", "random-512"].map(str::to_owned);
        files.chain(self.backbone.clone()).chain(random).collect()
    }

    /// The space as a report writes it down, with the samples that a trial trains on.
    pub fn space_record(&self) -> Vec<DimensionRecord> {
        let samples = if self.samples.is_empty() { &Space::SAMPLES[..] } else { &self.samples };
        let all = |samples: &[usize]| samples.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let values = match &self.samples[..] {
            [first, more @ ..] if !more.is_empty() => format!("{first}; {} for the best third each time", all(more)),
            _ => all(samples),
        };
        let mut record = self.space().record();
        record.push(DimensionRecord {
            key: "samples".to_owned(),
            about: "examples that a trial trains on".to_owned(),
            values,
            when: None,
        });
        record
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<()> {
        ensure!(self.trials > 0, "trials 0: give a positive number");
        ensure!((1..=MOST_SEEDS).contains(&self.seeds), "seeds {}: give a number from 1 to {MOST_SEEDS}", self.seeds);
        for (key, limit) in [("limit", self.limit), ("limit_validation", self.limit_validation)] {
            ensure!(limit != Some(0), "{key} 0: give a positive number");
        }
        let names = self.embedding_names();
        for (place, name) in names.iter().enumerate() {
            ensure!(!names[..place].contains(name), "two embeddings are called {name}: rename a file");
        }
        let rising = self.samples.windows(2).all(|pair| pair[0] < pair[1]);
        ensure!(rising && !self.samples.contains(&0), "samples {:?}: give rising positive numbers", self.samples);
        self.space().draw("", self.search_seed, 0, &self.fixed).map(drop)
    }
}

impl Search {
    /// A search for a task, which can be written in any way that names it.
    pub fn new(lab: &Lab, task: &str, files: FileOptions, options: SearchOptions) -> Self {
        let task = lab.tasks.find(task).map_or(task, |known| &known.name).to_owned();
        Self { task, files, options }
    }

    /// How many trials it runs.
    pub fn planned(&self) -> usize {
        self.stages().into_iter().map(|(trials, _)| trials).sum()
    }

    /// Its stages: the trials that each has, and the examples that they train on; `None` if those are drawn. The last
    /// repeats the best of all with other seeds; it may have gone less far.
    pub(super) fn stages(&self) -> Vec<(usize, Option<usize>)> {
        // Options that nothing can be drawn by are refused before anything is run.
        let mut going = self.drawn().map_or(self.options.trials, |drawn| drawn.len());
        let mut stages = Vec::new();
        for samples in self.rungs() {
            stages.push((going, samples));
            going = going.div_ceil(GOES_ON);
        }
        stages.push((self.options.seeds as usize - 1, self.options.samples.last().copied()));
        stages
    }

    /// The examples that its trials train on, stage by stage.
    fn rungs(&self) -> Vec<Option<usize>> {
        match &self.options.samples[..] {
            [] => vec![None],
            samples => samples.iter().copied().map(Some).collect(),
        }
    }

    /// The numbers of the trials: one that is drawn again is drawn once.
    pub(super) fn drawn(&self) -> Result<Vec<usize>> {
        let (mut drawn, mut known) = (Vec::new(), BTreeSet::new());
        for number in 0..self.options.trials {
            let trial = self.trial(number, self.options.samples.first().copied())?;
            if known.insert(serde_json::to_string(&trial)?) {
                drawn.push(number);
            }
        }
        Ok(drawn)
    }

    /// The trial `number` with so many samples.
    pub(super) fn trial(&self, number: usize, samples: Option<usize>) -> Result<TrialConfig> {
        let SearchOptions { search_seed, limit, limit_seed, limit_validation, fixed, .. } = &self.options;
        // A file is known by its name, wherever it lies.
        let known_as = self.task.strip_prefix("file:").map(|path| FileTask::new(path).name());
        let (task, number) = (known_as.as_ref().unwrap_or(&self.task), number as u64);
        Ok(TrialConfig {
            task: self.task.clone(),
            tuning: NO_BERT.to_owned(),
            seed: 0,
            samples: samples.unwrap_or_else(|| Space::draw_samples(task, *search_seed, number)),
            limit: *limit,
            limit_seed: *limit_seed,
            limit_validation: *limit_validation,
            chosen: self.options.space().draw(task, *search_seed, number, fixed)?,
        })
    }

    /// Runs the search. Several processes can do so in one folder of runs: each takes trials that no other has, and finds the
    /// others' results.
    ///
    /// # Errors
    /// If data or embeddings cannot be used, or it was interrupted.
    pub fn run(&self, lab: &Lab, context: &RunContext, stop: &Stop, watch: &mut dyn SweepWatch) -> Result<Searched> {
        self.options.check()?;
        let mut runner = TrialRunner::new(lab, context, stop.clone(), &self.options.embeddings)?;
        let mut progress = Progress { done: 0, of: self.planned(), watch };
        let searched = self.walk(|configs| self.stage(&mut runner, configs, stop, &mut progress).map(Some))?;
        searched.context("no trials")
    }

    /// The trials that are finished; nothing is run.
    ///
    /// # Errors
    /// If data or embeddings cannot be used, or a record cannot.
    pub fn finished(&self, lab: &Lab, context: &RunContext) -> Result<Vec<RunRecord>> {
        let mut runner = TrialRunner::new(lab, context, Stop::default(), &self.options.embeddings)?;
        let mut finished = Vec::new();
        self.walk(|configs| {
            let records = configs.iter().map(|config| runner.finished(config, &self.files, &mut Silent));
            let records: Vec<RunRecord> = records.filter_map(Result::transpose).collect::<Result<_>>()?;
            finished.extend(records.iter().cloned());
            Ok((records.len() == configs.len()).then_some(records))
        })?;
        Ok(finished)
    }

    /// Goes through the search: `stage` is told the trials of each stage and answers with their records. Where it has none, it is not
    /// known how the search goes on, and that is all.
    pub(super) fn walk(
        &self,
        mut stage: impl FnMut(&[TrialConfig]) -> Result<Option<Vec<RunRecord>>>,
    ) -> Result<Option<Searched>> {
        let mut trials: Vec<(TrialConfig, RunRecord)> = Vec::new();
        let mut left = self.drawn()?;
        for (rung, samples) in self.rungs().into_iter().enumerate() {
            if rung > 0 {
                left.truncate(left.len().div_ceil(GOES_ON));
            }
            let configs = left.iter().map(|&number| self.trial(number, samples)).collect::<Result<Vec<_>>>()?;
            let Some(ended) = stage(&configs)? else { return Ok(None) };
            // The best first; of equal ones the one that was drawn first.
            let mut order: Vec<usize> = (0..left.len()).collect();
            order.sort_by(|&a, &b| score(&ended[b]).total_cmp(&score(&ended[a])).then(left[a].cmp(&left[b])));
            left = order.iter().map(|&place| left[place]).collect();
            trials.extend(configs.into_iter().zip(ended));
        }
        // Of equal ones the first.
        let best =
            trials.iter().rev().max_by(|(_, a), (_, b)| score(a).total_cmp(&score(b))).context("no trials")?.0.clone();
        let repeats: Vec<TrialConfig> =
            (1..self.options.seeds).map(|seed| TrialConfig { seed, ..best.clone() }).collect();
        let Some(ended) = stage(&repeats)? else { return Ok(None) };
        trials.extend(repeats.into_iter().zip(ended));
        let of_best =
            |(config, _): &&(TrialConfig, RunRecord)| TrialConfig { seed: best.seed, ..config.clone() } == best;
        let best = trials.iter().filter(of_best).map(|(_, record)| record.id.clone()).collect();
        let trials = trials.into_iter().map(|(_, record)| record).collect();
        Ok(Some(Searched { task: self.task.clone(), trials, best }))
    }

    /// Runs these trials; one that another process has is waited for.
    fn stage(
        &self,
        runner: &mut TrialRunner<'_>,
        configs: &[TrialConfig],
        stop: &Stop,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<RunRecord>> {
        let mut ended: BTreeMap<usize, RunRecord> = BTreeMap::new();
        let mut queue: VecDeque<usize> = (0..configs.len()).collect();
        // Others may have taken all that is left: only then is it worth a pause.
        let mut busy = 0;
        while let Some(number) = queue.pop_front() {
            let config = &configs[number];
            let label = config.describe();
            let mut watch = progress.watch.run(&label);
            match runner.run(config, &self.files, &mut *watch) {
                Ok((record, before)) => {
                    drop(watch);
                    progress.ended(&label, &record, before);
                    ended.insert(number, record);
                    busy = 0;
                }
                Err(RunError::Busy { .. }) => {
                    ensure!(!stop.requested(), "interrupted; run the same command again to continue");
                    queue.push_back(number);
                    busy += 1;
                    if busy >= queue.len() {
                        thread::sleep(BUSY_PAUSE);
                        busy = 0;
                    }
                }
                Err(error) if error.ends_everything() => return Err(error.explained(true)),
                Err(error) => bail!("{label}: {}", error.message()),
            }
        }
        Ok(ended.into_values().collect())
    }
}

struct Progress<'a> {
    done: usize,
    of: usize,
    watch: &'a mut dyn SweepWatch,
}

impl Progress<'_> {
    fn ended(&mut self, label: &str, record: &RunRecord, before: bool) {
        self.done += 1;
        self.watch.ended(Ended { done: self.done, of: self.of, label, result: Ok(record), before });
    }
}

/// What a trial is chosen by; one that diverged is worse than any other.
fn score(record: &RunRecord) -> f64 {
    let scored = record.last.as_ref().filter(|_| record.status == Status::Finished);
    scored.and_then(|last| last.validation.get(&last.metric)).copied().unwrap_or(f64::NEG_INFINITY)
}

/// Reads a search's keys out of an experiment's.
pub(crate) fn search_options(keys: &Keys) -> Result<SearchOptions> {
    let own = keys.iter().filter(|(key, value)| is_search_key(key) && !is_no_limit(key, value));
    // One of a list need not be written as one.
    let listed = |key: &str, value: &Value| match value {
        Value::Array(_) => value.clone(),
        Value::String(word) if key == "samples" && word == "random" => Value::Array(Vec::new()),
        value if LISTS.contains(&key) => vec![value.clone()].into(),
        value => value.clone(),
    };
    let options = own.map(|(key, value)| (key.clone(), listed(key, value))).collect();
    let mut options: SearchOptions = read_keys(options)?;
    options.embeddings.retain(|file| file.as_os_str() != "none");
    Ok(options)
}

/// Whether a key decides anything in a search.
pub(crate) fn is_search_key(key: &str) -> bool {
    SEARCH_KEYS.iter().any(|known| known.name == key) || SHARED.contains(&key)
}

/// Keys that are lists.
const LISTS: [&str; 2] = ["samples", "embeddings"];

/// Keys of a search that runs have too.
const SHARED: [&str; 4] = ["backbone", "limit", "limit_seed", "limit_validation"];

#[cfg(test)]
mod tests {
    use super::*;

    /// What one task's thirty trials leave out, others try.
    #[test]
    fn the_searches_of_table_2_together_try_every_value_of_the_space() {
        let lab = Lab::paper();
        let options = SearchOptions {
            backbone: Some("minilm-l6".to_owned()),
            embeddings: vec!["glove-50d".into()],
            ..SearchOptions::default()
        };
        let mut tried: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for task in lab.tasks.iter().filter(|task| task.suite == "additional") {
            let search = Search::new(&lab, &task.name, FileOptions::default(), options.clone());
            for number in search.drawn().unwrap() {
                for (key, value) in search.trial(number, Some(1000)).unwrap().chosen {
                    tried.entry(key).or_default().insert(value.to_string());
                }
            }
        }
        for dimension in options.space().dimensions() {
            let all: BTreeSet<String> = dimension.domain.values().iter().map(Value::to_string).collect();
            assert_eq!(tried[dimension.key], all, "{}", dimension.key);
        }
    }

    /// Of a space with four choices, thirty draws are four trials.
    #[test]
    fn a_trial_that_is_drawn_again_is_not_planned_again() {
        let fixed =
            [("towers", "wide".into()), ("wide_ngram", 1.into()), ("wide_lr", 0.5.into()), ("wide_l2", 0.0.into())];
        let fixed = Keys::from_iter(fixed.map(|(key, value)| (key.to_owned(), value)));
        let options = SearchOptions { samples: vec![100, 200], fixed, ..SearchOptions::default() };
        let search = Search { task: "sms-spam".to_owned(), files: FileOptions::default(), options };
        assert_eq!((search.options.trials, search.drawn().unwrap().len()), (30, 4));
        assert_eq!(search.planned(), 4 + 2 + 2, "the best two go on, the best has two more seeds");
    }

    #[test]
    fn samples_can_be_drawn_in_a_file_too() {
        let keys = Keys::from_iter([("samples".to_owned(), "random".into())]);
        assert_eq!(search_options(&keys).unwrap().samples, Vec::<usize>::new());
    }
}
