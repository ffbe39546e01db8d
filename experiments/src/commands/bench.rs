//! `bench`: how fast this build is on this machine.

use std::{hint::black_box, time::Instant};

use adapter_core::{Adapter, AdapterConfig, BackboneId, DropoutKey, Init, LayerSpan, ParamCount, TaskInfo, Tuning};
use analysis::percentile;
use anyhow::{Context, Result, bail};
use bert_backbone::{Bert, BertConfig, Encoded, PackedBatch, Tokenizer};
use burn::tensor::Device;
use clap::{Args, Subcommand};
use serde::Serialize;
use tasks::{
    Dataset, EvaluationSet, FrozenPrefix, Head, HeadInput, TaskData, TaskModel, TokenCache, TrainingSet,
    loss::cross_entropy, outputs,
};

use super::{grouped, print};
use crate::{
    ablation::ablate_spans,
    adam::{Adam, StepGradients},
    backbones::BackboneArgs,
    device_args::ComputeArgs,
    memory,
    precision::Precision,
    profile::Profile,
    task_args::{TaskArgs, token_cache},
    trainer::{Course, Lessons, Safety, Step, train},
    tuning_args::{TuningArgs, parse_tuning},
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
    /// Passes over a task's validation texts with untrained adapters, word pieces at hand
    Inference(PassArgs),
}

pub fn run(args: &BenchArgs) -> Result<()> {
    match &args.bench {
        Bench::Step(args) => step(args),
        Bench::Epoch(args) => epoch(args),
        Bench::Ablate(args) => ablate(args),
        Bench::Inference(args) => inference(args),
    }
}

/// What every measurement takes.
#[derive(Args, Debug)]
struct Repeats {
    /// Measurements; the median is given
    #[arg(long, default_value_t = 5, value_name = "N")]
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
    #[serde(flatten)]
    compute: ComputeArgs,
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
            compute: self.compute.clone(),
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
            let (seconds, of, threads) = (self.median_s, self.repeats, self.threads);
            format!("{}: {seconds:.4} s (median of {of}, {threads} threads); {more}\n", self.bench)
        })
    }
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
    #[arg(long, alias = "batch-size", default_value_t = 32)]
    batch: usize,
    /// Tokens of a sequence
    #[arg(long, default_value_t = 128)]
    seq: usize,
    #[command(flatten)]
    tuning: TuningArgs,
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

fn step(args: &StepArgs) -> Result<()> {
    let StepArgs { layers, hidden, heads, batch, seq, .. } = *args;
    let device = args.repeats.compute.open()?.autodiff();
    let config = BertConfig { vocab_size: 30_522, ..BertConfig::new(hidden, layers, heads) };
    let tuning = parse_tuning(&args.tuning.tuning, args.tuning.k, layers)?;
    let bert = Bert::random(&config, Init::new(0), &device)?;
    let precision = args.repeats.compute.dtype;
    let mut model = model(bert, 2, tuning, args.tuning.adapter_size, precision, &device)?;
    let trained = ParamCount::of(&model, tuning).trained;

    // Any word pieces will do; these are not all the same.
    let sequence = |row: usize| Encoded {
        input_ids: (0..seq).map(|place| ((row * 7919 + place * 104_729) % config.vocab_size) as u32).collect(),
        token_type_ids: vec![0; seq],
        ..Encoded::default()
    };
    let sequences: Vec<_> = (0..batch).map(sequence).collect();
    let packed = PackedBatch::new(&sequences, &config, &device)?;
    let classes = vec![0; batch];

    let mut adam = Adam::new(Profile::Paper.settings().adam);
    let mut number = 0;
    let mut take = || {
        let packed = packed.clone().with_dropout(DropoutKey { seed: 0, step: number });
        number += 1;
        let loss = cross_entropy(model.forward(&packed), &classes);
        let gradients = StepGradients::of(&model, &loss.backward());
        model = adam.update(model.clone(), &gradients, 1e-4);
        // Some devices only take down what is to be done.
        device.sync().context("the device did not finish")?;
        Ok(0.0)
    };
    // The first step makes weights and Adam's memory.
    take()?;
    let (tuning, dropout) = (tuning.to_string(), config.hidden_dropout_prob);
    let details = StepDetails { layers, hidden, heads, batch, seq, tuning, trained, dropout };
    let measured = args.repeats.measure("step", details, take)?;
    let tokens = (batch * seq) as f64 / measured.median_s;
    measured.print(args.repeats.json, &format!("{tokens:.0} tokens/s, {} trained values", grouped(trained)))
}

/// A model of `bert` for texts, as it is trained.
fn model(
    bert: Bert,
    outputs: usize,
    tuning: Tuning,
    size: usize,
    precision: Precision,
    device: &Device,
) -> Result<TaskModel<Option<Adapter>>> {
    let (init, hidden) = (Init::new(0), bert.embeddings.word_embeddings.weight.dims()[1]);
    let adapter = (tuning == Tuning::Adapters).then(|| AdapterConfig::new(size));
    if let Some(adapter) = &adapter {
        adapter.check(bert.encoder.layer.len())?;
    }
    let bert = bert.insert(|place| adapter.as_ref().and_then(|adapter| adapter.init(place, hidden, init, device)));
    let head = Head::new(hidden, outputs, HeadInput::Cls, init, device);
    Ok(precision.of(tuning.apply(TaskModel::new(bert, head)?)))
}

/// A backbone and a task's texts.
#[derive(Args, Debug)]
struct TextArgs {
    #[command(flatten)]
    backbone: BackboneArgs,
    #[command(flatten)]
    task: TaskArgs,
    /// Instead of the backbone's weights random ones, in so many layers of width 256 with 4 heads
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
    fn load(&self, device: &Device) -> Result<Texts> {
        let TaskData::Texts(dataset) = self.task.load(None)? else {
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
        let cache = token_cache(&self.backbone.cache.fetcher());
        Ok(Texts { network, bert, tokenizer: backbone.tokenizer, dataset, cache })
    }

    fn details(&self, texts: &Texts, batch: usize, tuning: Tuning, lengths: &[usize], trained: usize) -> TextDetails {
        TextDetails {
            backbone: self.backbone.backbone.clone().unwrap_or_default(),
            task: texts.dataset.task.clone(),
            layers: texts.network.num_hidden_layers,
            hidden: texts.network.hidden_size,
            batch,
            tuning: tuning.to_string(),
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

/// One epoch of training on a task's texts, in random order, word pieces at hand
#[derive(Args, Debug)]
struct EpochArgs {
    #[command(flatten)]
    texts: TextArgs,
    /// Examples of a step
    #[arg(long, alias = "batch-size", default_value_t = 32)]
    batch: usize,
    /// Keep what the frozen layers say: an epoch after the first with `cache_prefix`
    #[arg(long)]
    cache_prefix: bool,
    #[command(flatten)]
    tuning: TuningArgs,
    #[command(flatten)]
    repeats: Repeats,
}

fn epoch(args: &EpochArgs) -> Result<()> {
    let plain = args.repeats.compute.open()?;
    let device = plain.clone().autodiff();
    let texts = args.texts.load(&device)?;
    let Texts { network, bert, tokenizer, dataset, cache } = &texts;
    let tuning = parse_tuning(&args.tuning.tuning, args.tuning.k, network.num_hidden_layers)?;
    let precision = args.repeats.compute.dtype;
    let model = model(bert.clone(), dataset.outputs(), tuning, args.tuning.adapter_size, precision, &device)?;
    let mut set = TrainingSet::texts(dataset, &dataset.train, tokenizer, MAX_LENGTH, cache)?;
    if args.cache_prefix {
        let layers = model.frozen_layers(tuning).context("the embeddings are trained: there is no prefix")?;
        let tokens = set.tokens.clone();
        let prefix =
            FrozenPrefix::compute(&burn::module::Module::valid(model.bert()), layers, &tokens, network, 64, &plain)?;
        set = set.with_prefix(prefix);
    }
    // Training chooses by something: as little as possible.
    let few = &dataset.validation[..dataset.validation.len().min(32)];
    let validation = EvaluationSet::texts(dataset, few, tokenizer, MAX_LENGTH, cache)?;
    let metric = args.texts.task.metric().unwrap_or(texts.dataset.kind.metric());
    let lessons = Lessons { train: &set, validation: &validation, metric, network };
    let info = TaskInfo {
        task: dataset.task.clone(),
        kind: dataset.kind.to_string(),
        labels: dataset.labels.clone(),
        head: HeadInput::Cls.to_string(),
        max_length: MAX_LENGTH,
        tuning,
        adapter: (tuning == Tuning::Adapters).then(|| AdapterConfig::new(args.tuning.adapter_size)),
        // Nothing is kept, so nobody asks.
        backbone: BackboneId { name: String::new(), hash: String::new() },
    };
    let trained = ParamCount::of(&model, tuning).trained;
    let course = Course { batch_size: args.batch, precision, ..Course::new(Profile::Paper.settings(), 3e-4, 1, 0) };
    let lengths = lengths(&set.tokens);
    let details = args.texts.details(&texts, args.batch, tuning, &lengths, trained);
    let measured = args.repeats.measure("epoch", details, || {
        let mut unseen = |_: &Step| {};
        let trained = train(model.clone(), &info, &lessons, &course, &device, Safety::default(), &mut unseen)?;
        Ok(trained.measured.evaluation_seconds)
    })?;
    let tokens = lengths.iter().sum::<usize>() as f64 / measured.median_s;
    measured.print(args.repeats.json, &format!("{tokens:.0} tokens/s, {} trained values", grouped(trained)))
}

/// Passes over a task's validation texts, with untrained adapters and word pieces at hand.
#[derive(Args, Debug)]
struct PassArgs {
    #[command(flatten)]
    texts: TextArgs,
    /// Examples of a pass
    #[arg(long, alias = "batch-size", default_value_t = 64)]
    batch: usize,
    /// Width of the adapters' bottleneck
    #[arg(long, default_value_t = 64, value_name = "M")]
    adapter_size: usize,
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

fn ablate(args: &PassArgs) -> Result<()> {
    let device = args.repeats.compute.open()?;
    let texts = args.texts.load(&device)?;
    let (network, layers) = (&texts.network, texts.network.num_hidden_layers);
    let tuning = Tuning::Adapters;
    let precision = args.repeats.compute.dtype;
    let model = model(texts.bert.clone(), texts.dataset.outputs(), tuning, args.adapter_size, precision, &device)?;
    let set = texts.validation()?;
    let spans = (0..layers).flat_map(|first| (first..layers).filter_map(move |last| LayerSpan::new(first, last).ok()));
    let spans: Vec<LayerSpan> = spans.collect();
    let anew = args.repeats.measure("anew", (), || {
        for span in &spans {
            let without = model.clone().map_insertions(|place, adapter| match span.contains(place.layer) {
                true => None,
                false => adapter,
            });
            black_box(outputs(&without, set.tokens(), network, args.batch, &device)?);
        }
        Ok(0.0)
    })?;
    let trained = ParamCount::of(&model, tuning).trained;
    let texts = args.texts.details(&texts, args.batch, tuning, &lengths(set.tokens()), trained);
    let details = AblateDetails { texts, anew_s: anew.median_s };
    let measured = args.repeats.measure("ablate", details, || {
        black_box(ablate_spans(&model, &set, network, args.batch, &device)?);
        Ok(0.0)
    })?;
    let ratio = anew.median_s / measured.median_s;
    measured.print(args.repeats.json, &format!("every span anew: {:.4} s, {ratio:.2} times as long", anew.median_s))
}

fn inference(args: &PassArgs) -> Result<()> {
    let device = args.repeats.compute.open()?;
    let texts = args.texts.load(&device)?;
    let tuning = Tuning::Adapters;
    let precision = args.repeats.compute.dtype;
    let model = model(texts.bert.clone(), texts.dataset.outputs(), tuning, args.adapter_size, precision, &device)?;
    let set = texts.validation()?;
    let lengths = lengths(set.tokens());
    let trained = ParamCount::of(&model, tuning).trained;
    let details = args.texts.details(&texts, args.batch, tuning, &lengths, trained);
    let measured = args.repeats.measure("inference", details, || {
        black_box(outputs(&model, set.tokens(), &texts.network, args.batch, &device)?);
        Ok(0.0)
    })?;
    let each = lengths.len() as f64 / measured.median_s;
    measured.print(args.repeats.json, &format!("{each:.0} texts/s"))
}
