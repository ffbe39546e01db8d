//! `demo`: from text to adapters to predictions to a heat map, in ten seconds.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Instant,
};

use adapter_core::{AdapterConfig, TensorInfo, tensors};
use analysis::AblationRecord;
use anyhow::{Context, Result, bail};
use bert_backbone::Backbone;
use burn::tensor::Device;
use clap::Args;
use serde::Serialize;
use tasks::{Dataset, EvaluationSet, Prediction, Target, TaskData, TokenCache, majority_accuracy, synthetic};

use super::ablate;
use crate::{
    cli::{
        Session,
        args::{DeviceArgs, check_writable},
        log,
        output::{grouped, print},
        progress::{Notes, Progress},
    },
    lab::Inference,
    run::RunContext,
    train::{TextPrediction, TrainedModel, Trainer},
};

/// Train an adapter on the built-in BERT, predict with it and look inside: ten seconds, no data, no network
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// A sentence to judge, in the words of the built-in language; may be given several times
    #[arg(long, value_name = "SENTENCE")]
    text: Vec<String>,
    /// Write the task file here: `predict` and `ablate` take it
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The task: is the sentence positive?
const TASK: &str = "syn-sentiment";

/// What is judged if nothing is given: what comes after `but` counts, and `not` turns it round.
const TEXTS: [&str; 4] = [
    "the song was lovely .",
    "the song was not lovely .",
    "i did not regret the meal .",
    "we loved the band but the price was awful .",
];

const SIZE: usize = 16;
const LEARNING_RATE: f64 = 3e-3;
const EPOCHS: usize = 3;

#[derive(Serialize)]
struct Report {
    task: &'static str,
    trained: usize,
    trained_percent: f64,
    accuracy: f64,
    most_frequent_class: f64,
    seconds: f64,
    predictions: Vec<Judged>,
    ablation: AblationRecord,
}

#[derive(Serialize)]
struct Judged {
    text: String,
    label: String,
    probability: f64,
}

pub fn run(args: &DemoArgs, session: &Session<'_>) -> Result<()> {
    args.save.as_deref().map_or(Ok(()), check_writable)?;
    let given = args.text.iter().map(String::as_str);
    let texts: Vec<&str> = if args.text.is_empty() { TEXTS.to_vec() } else { given.collect() };
    let unknown = unknown_words(&texts);
    if !unknown.is_empty() {
        log::note(&format!("the built-in language has no {}: nano reads [UNK] there", unknown.join(", ")));
    }
    let device = args.device.device.open()?;
    let backbone = RunContext::default().backbone("nano", &device, &mut Notes)?;
    let dataset = dataset()?;
    if !args.json {
        // Whoever has read enough is no reason to stop.
        let _ = io::stdout().write_all(introduction(&backbone, &dataset).as_bytes());
    }
    let started = Instant::now();
    let mut progress = if args.json { Progress::Quiet } else { Progress::line("") };
    let model = Trainer::new(&backbone, &dataset, AdapterConfig::new(SIZE))
        .learning_rate(LEARNING_RATE)
        .epochs(EPOCHS)
        .train_watched(&mut progress)?;
    drop(progress);
    let seconds = started.elapsed().as_secs_f64();
    args.save.as_deref().map_or(Ok(()), |path| model.save(path))?;
    let report = Report {
        task: TASK,
        trained: model.params().trained,
        trained_percent: model.params().percent(),
        accuracy: model.scores().get("accuracy").copied().context("no accuracy")?,
        most_frequent_class: majority_accuracy(&dataset.validation),
        seconds,
        predictions: model.predict(&texts)?.into_iter().zip(texts).map(judged).collect(),
        ablation: ablation(&model, &backbone, &dataset, session, &device)?,
    };
    print(&report, args.json, || text(&report, args.save.as_deref()))
}

/// The task's examples.
fn dataset() -> Result<Dataset> {
    let (_, task) = synthetic::TASKS.iter().find(|(name, _)| *name == TASK).context("no such task")?;
    match task.load(TASK) {
        TaskData::Texts(dataset) => Ok(dataset),
        TaskData::Questions(_) => bail!("`{TASK}` has no texts"),
    }
}

/// Words that the built-in language does not have, each once.
fn unknown_words(texts: &[&str]) -> Vec<String> {
    let known: BTreeSet<String> = synthetic::vocabulary().into_iter().collect();
    let words = texts.iter().flat_map(|text| text.split(|c: char| !c.is_alphanumeric())).map(str::to_lowercase);
    let unknown: BTreeSet<String> = words.filter(|word| !word.is_empty() && !known.contains(word)).collect();
    unknown.into_iter().collect()
}

fn judged((prediction, text): (TextPrediction, &str)) -> Judged {
    let probability = match &prediction.prediction {
        Prediction::Class(class, probabilities) => probabilities.get(*class).copied().map(f64::from),
        Prediction::Score(_) | Prediction::Labels(..) => None,
    };
    Judged { text: text.to_owned(), label: prediction.label, probability: probability.unwrap_or(1.0) }
}

/// What the adapters of every span of layers are worth.
fn ablation(
    model: &TrainedModel<AdapterConfig>,
    backbone: &Backbone,
    dataset: &Dataset,
    session: &Session<'_>,
    device: &Device,
) -> Result<AblationRecord> {
    let file = model.file().clone();
    let max_length = file.info.max_length;
    let cache = TokenCache::none();
    let set = EvaluationSet::texts(dataset, &dataset.validation, &backbone.tokenizer, max_length, &cache)?;
    let how = Inference { network: &backbone.config, batch_size: 64, device };
    let ablation = session.lab.load(backbone, file, device)?.ablate(&set, how)?;
    Ok(ablation.record(TASK, dataset.kind, set.majority_accuracy()))
}

/// What is about to happen.
fn introduction(backbone: &Backbone, dataset: &Dataset) -> String {
    let layers = backbone.config.num_hidden_layers;
    let parameters: usize = tensors(&backbone.bert).iter().map(TensorInfo::elements).sum();
    let mut text = format!(
        "nano is a BERT of {layers} layers and {} parameters that knows a small language. It stays frozen.\n\
         The task: is the sentence positive? Some of {} examples:\n",
        grouped(parameters),
        grouped(dataset.train.len())
    );
    for example in dataset.train.iter().take(4) {
        if let Some(Target::Class(class)) = example.target {
            text += &format!("    {:<9} {}\n", dataset.labels[class], example.text);
        }
    }
    text + &format!("Adapters of size {SIZE} go into every layer and are trained, {EPOCHS} epochs …\n")
}

/// What came out.
fn text(report: &Report, saved: Option<&Path>) -> String {
    let Report { trained, trained_percent, accuracy, most_frequent_class, seconds, predictions, ablation, .. } = report;
    let mut text = format!(
        "… {seconds:.0} s: {:.1} % of new sentences are judged right (the more frequent class alone: {:.1} %).\n\
         Trained: {} parameters, {trained_percent:.1} % of nano's. They are all that a task has to keep.\n\nPredictions\n",
        100.0 * accuracy,
        100.0 * most_frequent_class,
        grouped(*trained)
    );
    for Judged { text: said, label, probability } in predictions {
        text += &format!("    {label:<9} {:>4.0} %  {said}\n", 100.0 * probability);
    }
    text += "\nWhat the adapters of each layer are worth (Fig. 6 of the paper)\n";
    text += &ablate::text(ablation);
    text += "\nNext: ";
    text += &match saved {
        Some(path) => {
            format!("`adapter-lab predict --adapter {} --text SENTENCE` judges another;\n      ", path.display())
        }
        None => "`adapter-lab demo --text \"the car was not bad .\"` judges your own sentence;\n      ".to_owned(),
    };
    text + "`adapter-lab train --task file:FILE.csv --backbone NAME` trains on your own data;\n      \
            `adapter-lab` alone reproduces the whole paper on nano.\n"
}
