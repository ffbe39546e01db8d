//! `bench`: how fast this build is on this machine.

use std::{hint::black_box, sync::Arc, time::Instant};

use adapter_core::{BackboneId, Init, LayerSpan, TaskInfo};
use analysis::percentile;
use anyhow::{Context, Result, bail};
use bert_backbone::{Bert, BertConfig, Encoded, PackedBatch, Tokenizer};
use burn::tensor::Device;
use clap::{Args, Subcommand, builder::RangedU64ValueParser};
use serde::Serialize;
use tasks::{Dataset, EvaluationSet, Head, HeadKind, TaskData, TokenCache, TrainingSet};

use super::params::chosen_method;
use crate::{
    cli::{
        Session,
        args::{BackboneArgs, ComputeArgs, DataArgs},
        output::{counted, grouped, print},
        progress::Notes,
    },
    device::{DeviceName, Precision, memory},
    lab::{AnyMethod, AnyModel, Inference},
    run::{FileOptions, RunContext, file_options},
    train::{Adam, CheckpointPolicy, Silent, TrainConfig, Training, TrainingData},
};

/// Measure how fast this build is on this machine
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    Step(StepArgs),
    Epoch(EpochArgs),
    /// Removal of adapters from every span of layers, beside evaluating every span anew
    Ablate(PassArgs),
    /// Passes over a task's validation texts with an untrained method; texts are tokenised beforehand
    Inference(PassArgs),
}

pub fn run(args: &BenchArgs, session: &Session<'_>) -> Result<()> {
    let method = chosen_method(session.lab, &session.keys)?;
    match &args.bench {
        Bench::Step(args) => step(args, &*method, session),
        Bench::Epoch(args) => epoch(args, &*method, session),
        Bench::Ablate(args) => ablate(args, &*method, session),
        Bench::Inference(args) => inference(args, &*method, session),
    }
}

/// What every measurement takes.
#[derive(Args, Debug)]
struct Repeats {
    /// Measurements; the median is given
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = up_to(1_000_000))]
    repeats: usize,
    #[command(flatten)]
    compute: ComputeArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What was measured.
#[derive(Serialize)]
struct Measurement<D> {
    bench: &'static str,
    #[serde(flatten)]
    details: D,
    device: DeviceName,
    dtype: Precision,
    threads: usize,
    median_s: f64,
    best_s: f64,
    repeats: usize,
    /// Every measurement, the shortest first.
    seconds: Vec<f64>,
    peak_memory_bytes: Option<u64>,
}

impl Repeats {
    /// Times `f`, which returns what of its time does not count.
    fn measure<D>(
        &self,
        bench: &'static str,
        details: D,
        mut f: impl FnMut() -> Result<f64>,
    ) -> Result<Measurement<D>> {
        memory::forget_peak();
        let mut seconds = Vec::with_capacity(self.repeats);
        for _ in 0..self.repeats {
            let started = Instant::now();
            let beside = f()?;
            seconds.push(started.elapsed().as_secs_f64() - beside);
        }
        seconds.sort_by(f64::total_cmp);
        let median_s = percentile(&seconds, 0.5).context("--repeats 0: there is nothing to measure")?;
        Ok(Measurement {
            bench,
            details,
            device: self.compute.device.device,
            dtype: self.compute.dtype,
            threads: rayon::current_num_threads(),
            median_s,
            best_s: seconds[0],
            repeats: self.repeats,
            seconds,
            peak_memory_bytes: memory::peak(),
        })
    }
}

impl<D: Serialize> Measurement<D> {
    fn print(&self, json: bool, more: &str) -> Result<()> {
        print(self, json, || {
            let (seconds, of, threads) = (self.median_s, self.repeats, counted(self.threads, "thread"));
            format!("{}: {seconds:.4} s (median of {of}, {threads}); {more}\n", self.bench)
        })
    }
}

/// Counts from 1 on that can be reserved.
fn up_to(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

/// One training step: forward, loss, backward and Adam, on a network with random weights
#[derive(Args, Debug)]
struct StepArgs {
    /// Number of layers
    #[arg(long, default_value_t = 6)]
    layers: usize,
    /// Width of the network
    #[arg(long, default_value_t = 384)]
    hidden: usize,
    /// Number of attention heads
    #[arg(long, default_value_t = 12)]
    heads: usize,
    /// Sequences of a step
    #[arg(long, alias = "batch-size", default_value_t = 32, value_parser = up_to(100_000))]
    batch: usize,
    /// Tokens of a sequence
    #[arg(long, default_value_t = 128, value_parser = up_to(100_000))]
    seq: usize,
    #[command(flatten)]
    repeats: Repeats,
}

#[derive(Serialize)]
struct StepDetails {
    layers: usize,
    hidden: usize,
    heads: usize,
    batch: usize,
    seq: usize,
    tuning: String,
    trained: usize,
    dropout: f64,
}

fn step(args: &StepArgs, method: &dyn AnyMethod, session: &Session<'_>) -> Result<()> {
    let StepArgs { layers, hidden, heads, batch, seq, .. } = *args;
    let device = args.repeats.compute.devices().first()?.autodiff();
    let config = BertConfig { vocab_size: 30_522, ..BertConfig::new(hidden, layers, heads) };
    let bert = Bert::random(&config, Init::new(0), &device)?;
    let model = model(bert, 2, method, session.lab.usual_head(method)?, args.repeats.compute.dtype, &device)?;
    let trained = model.count().trained;

    // Any word pieces will do; these are not all the same.
    let sequence = |row: usize| Encoded {
        input_ids: (0..seq).map(|place| ((row * 7919 + place * 104_729) % config.vocab_size) as u32).collect(),
        token_type_ids: vec![0; seq],
        ..Encoded::default()
    };
    let sequences: Vec<_> = (0..batch).map(sequence).collect();
    let packed = PackedBatch::new(&sequences, &config, &device)?;
    let optimizer = Adam::default();
    let mut step = model.stepper(packed, vec![0; batch], &optimizer);
    let mut take = || {
        step();
        // Some devices only take down what is to be done.
        device.sync().context("the device did not finish")?;
        Ok(0.0)
    };
    // The first step makes weights and the optimiser's memory.
    take()?;
    let (tuning, dropout) = (method.info().name, config.hidden_dropout_prob);
    let details = StepDetails { layers, hidden, heads, batch, seq, tuning, trained, dropout };
    let measured = args.repeats.measure("step", details, take)?;
    let tokens = (batch * seq) as f64 / measured.median_s;
    measured.print(args.repeats.json, &format!("{tokens:.0} tokens/s, {} trained values", grouped(trained)))
}

/// A model of `bert` for texts, as it is trained.
fn model(
    bert: Bert,
    outputs: usize,
    method: &dyn AnyMethod,
    head: Arc<dyn HeadKind>,
    precision: Precision,
    device: &Device,
) -> Result<Box<dyn AnyModel>> {
    let init = Init::new(0);
    let head = Head::new(&bert.shape(), outputs, head, init, device);
    Ok(method.build(bert, head, init, device)?.in_precision(precision))
}

/// A backbone and a task's texts.
#[derive(Args, Debug)]
struct TextArgs {
    #[command(flatten)]
    backbone: BackboneArgs,
    /// A known task (see `list tasks`), file:PATH with a file of your own, or hub:OWNER/NAME
    #[arg(long, value_name = "NAME|file:PATH|hub:NAME")]
    task: Option<String>,
    #[command(flatten)]
    data: DataArgs,
    /// Use N random layers of width 256 with 4 heads instead of the backbone's weights
    #[arg(long, value_name = "N")]
    random_layers: Option<usize>,
}

/// What [`TextArgs`] name.
struct Texts {
    network: BertConfig,
    bert: Bert,
    tokenizer: Tokenizer,
    dataset: Dataset,
    cache: TokenCache,
}

#[derive(Serialize)]
struct TextDetails {
    backbone: String,
    task: String,
    layers: usize,
    hidden: usize,
    batch: usize,
    tuning: String,
    examples: usize,
    tokens: usize,
    trained: usize,
}

/// Longest text in tokens, as in the paper's experiments.
const MAX_LENGTH: usize = 128;

impl TextArgs {
    fn load(&self, device: &Device, session: &Session<'_>) -> Result<Texts> {
        let context = RunContext { data_dir: self.data.data_dir.clone(), ..self.backbone.cache.context() };
        let name = self.task.as_deref().context("give --task: a name of `list tasks`, file:PATH or hub:OWNER/NAME")?;
        FileOptions::check_given(session.lab, &session.keys, name)?;
        let files = file_options(&session.keys)?;
        let TaskData::Texts(dataset) = context.load_task(session.lab, name, &files, None, &mut Notes)? else {
            bail!("this is measured on texts, not on questions")
        };
        let backbone = self.backbone.load(device)?;
        let (network, bert) = match self.random_layers {
            None => (backbone.config, backbone.bert),
            Some(layers) => {
                let network = BertConfig { vocab_size: backbone.config.vocab_size, ..BertConfig::new(256, layers, 4) };
                let bert = Bert::random(&network, Init::new(0), device)?;
                (network, bert)
            }
        };
        Ok(Texts { network, bert, tokenizer: backbone.tokenizer, dataset, cache: context.token_cache() })
    }

    fn details(
        &self,
        texts: &Texts,
        batch: usize,
        method: &dyn AnyMethod,
        lengths: &[usize],
        trained: usize,
    ) -> TextDetails {
        TextDetails {
            backbone: self.backbone.backbone.clone().unwrap_or_default(),
            task: texts.dataset.task.clone(),
            layers: texts.network.num_hidden_layers,
            hidden: texts.network.hidden_size,
            batch,
            tuning: method.info().name,
            examples: lengths.len(),
            tokens: lengths.iter().sum(),
            trained,
        }
    }
}

impl Texts {
    fn validation(&self) -> Result<EvaluationSet> {
        let (dataset, tokenizer) = (&self.dataset, &self.tokenizer);
        Ok(EvaluationSet::texts(dataset, &dataset.validation, tokenizer, MAX_LENGTH, &self.cache)?)
    }
}

fn lengths(tokens: &tasks::Tokenised) -> Vec<usize> {
    (0..tokens.len()).map(|text| tokens.length(text)).collect()
}

/// One epoch of training on a task's texts, in random order; texts are tokenised beforehand
#[derive(Args, Debug)]
struct EpochArgs {
    #[command(flatten)]
    texts: TextArgs,
    /// Examples of a step
    #[arg(long, alias = "batch-size", default_value_t = 32)]
    batch: usize,
    /// Take the frozen layers' output from the cache, as `cache_prefix` does from the second epoch on
    #[arg(long)]
    cache_prefix: bool,
    #[command(flatten)]
    repeats: Repeats,
}

fn epoch(args: &EpochArgs, method: &dyn AnyMethod, session: &Session<'_>) -> Result<()> {
    let plain = args.repeats.compute.devices().first()?;
    let device = plain.clone().autodiff();
    let texts = args.texts.load(&device, session)?;
    let Texts { network, bert, tokenizer, dataset, cache } = &texts;
    let precision = args.repeats.compute.dtype;
    let model = model(bert.clone(), dataset.outputs(), method, session.lab.usual_head(method)?, precision, &device)?;
    let mut set = TrainingSet::texts(dataset, &dataset.train, tokenizer, MAX_LENGTH, cache)?;
    if args.cache_prefix || method.run_keys().get("cache_prefix") == Some(&true.into()) {
        let layers = model.frozen_layers().context("the embeddings are trained: there is no prefix")?;
        let tokens = set.tokens.clone();
        let how = Inference { network, batch_size: 64, device: &plain };
        set = set.with_prefix(model.prefix(layers, &tokens, how)?);
    }
    // Training chooses by something: as little as possible.
    let few = &dataset.validation[..dataset.validation.len().min(32)];
    let validation = EvaluationSet::texts(dataset, few, tokenizer, MAX_LENGTH, cache)?;
    let info = TaskInfo {
        task: dataset.task.clone(),
        kind: dataset.kind.to_string(),
        labels: dataset.labels.clone(),
        pairs: None,
        head: model.head().kind().name().to_owned(),
        max_length: MAX_LENGTH,
        method: method.info(),
        // Nothing is kept, so nobody asks.
        backbone: BackboneId { name: String::new(), hash: String::new() },
        origin: Default::default(),
    };
    let trained = model.count().trained;
    let config = TrainConfig { batch_size: args.batch, epochs: 1, ..TrainConfig::default() };
    let training = Training {
        info: &info,
        data: TrainingData { train: &set, validation: &validation, metric: dataset.kind.metric(), network },
        config: &config,
        optimizer: &Adam::default(),
        devices: std::slice::from_ref(&device),
        precision,
        probe_every: None,
    };
    let lengths = lengths(&set.tokens);
    let details = args.texts.details(&texts, args.batch, method, &lengths, trained);
    let measured = args.repeats.measure("epoch", details, || {
        let trained = model.train(&training, CheckpointPolicy::default(), &mut Silent)?;
        Ok(trained.measured.evaluation_seconds)
    })?;
    let tokens = lengths.iter().sum::<usize>() as f64 / measured.median_s;
    measured.print(args.repeats.json, &format!("{tokens:.0} tokens/s, {} trained values", grouped(trained)))
}

/// Passes over a task's validation texts, with an untrained method; texts are tokenised beforehand.
#[derive(Args, Debug)]
struct PassArgs {
    #[command(flatten)]
    texts: TextArgs,
    /// Examples of a pass
    #[arg(long, alias = "batch-size", default_value_t = 64)]
    batch: usize,
    #[command(flatten)]
    repeats: Repeats,
}

#[derive(Serialize)]
struct AblateDetails {
    #[serde(flatten)]
    texts: TextDetails,
    /// Median time of evaluating every span anew.
    anew_s: f64,
}

fn ablate(args: &PassArgs, method: &dyn AnyMethod, session: &Session<'_>) -> Result<()> {
    let device = args.repeats.compute.devices().first()?;
    let texts = args.texts.load(&device, session)?;
    let (network, layers) = (&texts.network, texts.network.num_hidden_layers);
    let precision = args.repeats.compute.dtype;
    let head = session.lab.usual_head(method)?;
    let model = model(texts.bert.clone(), texts.dataset.outputs(), method, head, precision, &device)?;
    let set = texts.validation()?;
    let how = Inference { network, batch_size: args.batch, device: &device };
    let anew = args.repeats.measure("anew", (), || {
        for span in LayerSpan::all(layers) {
            black_box(model.without(span).outputs(set.tokens(), how)?);
        }
        Ok(0.0)
    })?;
    let texts = args.texts.details(&texts, args.batch, method, &lengths(set.tokens()), model.count().trained);
    let details = AblateDetails { texts, anew_s: anew.median_s };
    let measured = args.repeats.measure("ablate", details, || {
        black_box(model.ablate(&set, how)?);
        Ok(0.0)
    })?;
    let ratio = anew.median_s / measured.median_s;
    measured.print(args.repeats.json, &format!("every span anew: {:.4} s, {ratio:.2} times as long", anew.median_s))
}

fn inference(args: &PassArgs, method: &dyn AnyMethod, session: &Session<'_>) -> Result<()> {
    let device = args.repeats.compute.devices().first()?;
    let texts = args.texts.load(&device, session)?;
    let precision = args.repeats.compute.dtype;
    let head = session.lab.usual_head(method)?;
    let model = model(texts.bert.clone(), texts.dataset.outputs(), method, head, precision, &device)?;
    let set = texts.validation()?;
    let lengths = lengths(set.tokens());
    let details = args.texts.details(&texts, args.batch, method, &lengths, model.count().trained);
    let how = Inference { network: &texts.network, batch_size: args.batch, device: &device };
    let measured = args.repeats.measure("inference", details, || {
        black_box(model.outputs(set.tokens(), how)?);
        Ok(0.0)
    })?;
    let each = lengths.len() as f64 / measured.median_s;
    measured.print(args.repeats.json, &format!("{each:.0} texts/s"))
}
