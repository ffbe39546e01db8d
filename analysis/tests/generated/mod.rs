//! Folders of runs, made up for tests.
#![allow(dead_code)]

use std::{collections::BTreeMap, fs, path::PathBuf};

use analysis::{
    AblationRecord, DimensionRecord, Evaluation, Examples, ExperimentRecord, FailedRun, Kept, Measured, MethodRecord,
    Network, Params, Recall, RunRecord, SCHEMA, Scored, SpanScore, Stage, Status, StreamRecord, folder,
};
use serde_json::{Map, Value, json};

/// Parameters of the made-up backbone.
pub const BACKBONE: usize = 110_000_000;

/// Experiments that are presets; others are a user's own.
const PRESETS: [&str; 12] = [
    "table1",
    "table2",
    "baseline",
    "fig3",
    "fig4",
    "fig5",
    "fig6-spans",
    "fig6-init",
    "fig7",
    "sizes",
    "variants",
    "stream",
];

/// A run to be written.
#[derive(Clone)]
pub struct Spec {
    pub task: String,
    pub method: MethodRecord,
    /// Keys of the method.
    pub own: Map<String, Value>,
    /// Keys of the run beside the usual ones.
    pub more: Map<String, Value>,
    pub metric: &'static str,
    pub score: f64,
    pub test: Option<f64>,
    /// The trivial answer's score.
    pub trivial: f64,
    pub diverged: bool,
    pub lr: f64,
    pub epochs: u64,
    pub seed: u64,
    pub trained: usize,
    pub examples: Option<Examples>,
}

impl Spec {
    pub fn adapters(task: &str, size: usize, score: f64) -> Self {
        let own = json!({
            "adapter_size": size, "layer_sizes": [], "sites": ["attention", "feed-forward"], "activation": "gelu",
            "depth": 1, "norm": "none", "placement": "serial", "interaction": "additive", "init_std": 0.01,
        });
        let Value::Object(own) = own else { unreachable!() };
        let trained = 24 * (2 * size * 768 + 768 + size) + 40_000;
        let method =
            method("adapters", &format!("adapters {size}"), "adapters (by size)", Some(("adapter_size", size)));
        Self { method, own, trained, ..Self::tuned(task, "head", score) }
    }

    /// Anything but adapters; `top-3` is the three highest layers.
    pub fn tuned(task: &str, tuning: &str, score: f64) -> Self {
        let k: Option<usize> = tuning.strip_prefix("top-").and_then(|k| k.parse().ok());
        let trained = match tuning {
            "full" => BACKBONE,
            "layer-norm" => 40_000,
            "head" => 1_500,
            "bias" => 100_000,
            _ => k.unwrap_or_default() * 7_090_000 + 1_500,
        };
        let label = match tuning {
            "full" => "full fine-tuning",
            "layer-norm" => "LayerNorm only",
            "head" => "head only",
            "bias" => "biases only",
            other => other,
        };
        let mut own = Map::new();
        own.extend(k.map(|k| ("k".to_owned(), json!(k))));
        let method = k.map_or_else(
            || method(tuning, label, label, None),
            |k| method("top-k", &format!("top {k}"), "top layers (by k)", Some(("k", k))),
        );
        Self {
            task: task.to_owned(),
            method,
            own,
            more: Map::new(),
            metric: "accuracy",
            score,
            test: None,
            trivial: 0.02,
            diverged: false,
            lr: 1e-3,
            epochs: 3,
            seed: 0,
            trained,
            examples: None,
        }
    }

    /// A method that this crate never heard of, with a size called `rank`.
    pub fn lora(task: &str, rank: usize, score: f64) -> Self {
        let own = Map::from_iter([("rank".to_owned(), json!(rank))]);
        let method = method("lora", &format!("LoRA {rank}"), "LoRA (by rank)", Some(("rank", rank)));
        Self { method, own, trained: rank * 40_000 + 1_500, ..Self::tuned(task, "head", score) }
    }

    /// A trial of the search without BERT, with `layers` hidden layers.
    pub fn trial(task: &str, layers: usize, score: f64) -> Self {
        let own = Map::from_iter([("hidden_layers".to_owned(), json!(layers)), ("samples".to_owned(), json!(1000))]);
        Self { method: method("no-bert", "no BERT", "no BERT", None), own, ..Self::tuned(task, "head", score) }
    }

    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    pub fn rate(self, lr: f64) -> Self {
        Self { lr, ..self }
    }

    pub fn test(self, score: f64) -> Self {
        Self { test: Some(score), ..self }
    }

    pub fn metric(self, metric: &'static str) -> Self {
        Self { metric, ..self }
    }

    pub fn trivial(self, trivial: f64) -> Self {
        Self { trivial, ..self }
    }

    /// How many examples it used: training, validation, test.
    pub fn examples(self, [train, validation, test]: [usize; 3]) -> Self {
        Self { examples: Some(Examples { train, validation, test }), ..self }
    }

    pub fn diverged(self) -> Self {
        Self { diverged: true, ..self }
    }

    /// Three seeds around the score: the second has it, the others are off by `spread`.
    pub fn seeds(self, spread: f64) -> [Self; 3] {
        [0, 1, 2].map(|seed| {
            let off = spread * (seed as f64 - 1.0);
            Self { score: self.score + off, test: self.test.map(|test| test + off), ..self.clone() }.seed(seed)
        })
    }

    pub fn trained(self, trained: usize) -> Self {
        Self { trained, ..self }
    }

    /// Another value of a key of the method, which then differs from the default.
    pub fn with(mut self, key: &str, value: Value) -> Self {
        if self.own.insert(key.to_owned(), value.clone()).as_ref() != Some(&value) {
            self.method.variant.insert(key.to_owned(), value);
        }
        self
    }

    /// Another key of the run.
    pub fn key(mut self, key: &str, value: Value) -> Self {
        self.more.insert(key.to_owned(), value);
        self
    }

    pub fn record(&self, id: &str) -> RunRecord {
        let config = json!({
            "task": self.task, "backbone": "bert-base-uncased", "tuning": self.method.name, "lr": self.lr,
            "epochs": self.epochs, "batch_size": 32, "seed": self.seed, "limit": null,
        });
        let Value::Object(mut config) = config else { unreachable!() };
        config.extend(self.own.clone());
        config.extend(self.more.clone());
        let full = self.method.name == "full";
        let mut validation = BTreeMap::from([(self.metric.to_owned(), self.score)]);
        let mut majority = BTreeMap::from([(self.metric.to_owned(), self.trivial)]);
        if self.metric != "answer_f1" {
            validation.entry("accuracy".to_owned()).or_insert(0.9 * self.score + 0.1);
            majority.entry("accuracy".to_owned()).or_insert(0.9 * self.trivial + 0.1);
        }
        let scored = Scored { epoch: 1, steps: 10, metric: self.metric.to_owned(), validation: validation.clone() };
        RunRecord {
            schema: SCHEMA,
            id: id.to_owned(),
            status: if self.diverged { Status::Diverged } else { Status::Finished },
            config,
            method: self.method.clone(),
            fingerprints: BTreeMap::from([("device".to_owned(), "flex".to_owned())]),
            moves: Vec::new(),
            skipped_steps: 0,
            software: BTreeMap::from([("burn".to_owned(), "0.22.1".to_owned())]),
            params: Params {
                trained: self.trained,
                total: if full { BACKBONE } else { BACKBONE + self.trained },
                backbone: BACKBONE,
                shared_backbone: !full,
                groups: BTreeMap::from([("all".to_owned(), self.trained)]),
            },
            evaluations: vec![Evaluation { epoch: 1, steps: 10, loss: 0.5, validation }],
            best: Some(scored.clone()),
            last: Some(scored),
            kept: Kept::Last,
            majority,
            extra: BTreeMap::new(),
            examples: self.examples.unwrap_or_default(),
            loss_curve: vec![(5, 0.7), (10, 0.5)],
            network: Network { layers: 12, hidden: 768, heads: 12, intermediate: 3072 },
            test: self.test.iter().map(|score| (self.metric.to_owned(), *score)).collect(),
            measured: Measured {
                training_seconds: 12.0,
                evaluation_seconds: 1.5,
                cpu_seconds: Some(27.0),
                tokens_per_second: 1e4,
                peak_memory_bytes: Some(900_000_000),
                resumes: 0,
                vector_bits: Some(256),
                threads: Some(2),
            },
        }
    }
}

fn method(name: &str, label: &str, family: &str, size: Option<(&str, usize)>) -> MethodRecord {
    MethodRecord {
        name: name.to_owned(),
        label: label.to_owned(),
        size: size.map(|(_, size)| size as f64),
        size_key: size.map(|(key, _)| key.to_owned()),
        family: family.to_owned(),
        variant: BTreeMap::new(),
    }
}

/// A folder under way.
pub struct Folder {
    pub path: PathBuf,
    _kept: Option<tempfile::TempDir>,
    number: usize,
    experiments: BTreeMap<String, ExperimentRecord>,
}

impl Folder {
    pub fn new() -> Self {
        let kept = tempfile::tempdir().unwrap();
        Self { path: kept.path().join("runs"), _kept: Some(kept), number: 0, experiments: BTreeMap::new() }.made()
    }

    pub fn at(path: PathBuf) -> Self {
        Self { path, _kept: None, number: 0, experiments: BTreeMap::new() }.made()
    }

    /// A folder that stays if `REPORT_OUT` says where.
    pub fn kept(name: &str) -> Self {
        std::env::var_os("REPORT_OUT")
            .map_or_else(Self::new, |out| Self::at(PathBuf::from(out).join(name).join("runs")))
    }

    fn made(self) -> Self {
        fs::create_dir_all(&self.path).unwrap();
        self
    }

    /// A folder of one experiment.
    pub fn with(experiment: &str, specs: impl IntoIterator<Item = Spec>) -> Self {
        let mut folder = Self::new();
        folder.add(experiment, specs);
        folder
    }

    /// Trials of the search without BERT, over a space of one key.
    pub fn search(&mut self, specs: impl IntoIterator<Item = Spec>) {
        self.experiment("baseline").space = vec![DimensionRecord {
            key: "hidden_layers".to_owned(),
            about: "hidden layers".to_owned(),
            values: "0, 1, 2".to_owned(),
            when: Some("towers = deep".to_owned()),
        }];
        self.add("baseline", specs);
    }

    pub fn experiment(&mut self, name: &str) -> &mut ExperimentRecord {
        self.experiments.entry(name.to_owned()).or_insert_with(|| ExperimentRecord {
            schema: SCHEMA,
            name: name.to_owned(),
            preset: PRESETS.contains(&name),
            about: format!("what {name} shows"),
            kind: match name {
                "fig6-spans" => "ablate",
                "stream" => "stream",
                "baseline" => "search",
                _ => "train",
            }
            .to_owned(),
            scale: "quick".to_owned(),
            backbones: BTreeMap::new(),
            overrides: BTreeMap::new(),
            planned: 0,
            runs: Vec::new(),
            streams: Vec::new(),
            failed: Vec::new(),
            missing: Vec::new(),
            space: Vec::new(),
        })
    }

    /// Writes a run of no experiment; returns its id.
    pub fn run(&mut self, spec: &Spec) -> String {
        let id = format!("{:016x}", self.number * 7919 + 0xabc0_0000);
        self.number += 1;
        self.write(&format!("{id}/{}", folder::RECORD), &spec.record(&id));
        id
    }

    pub fn add(&mut self, experiment: &str, specs: impl IntoIterator<Item = Spec>) -> Vec<String> {
        let ids: Vec<String> = specs.into_iter().map(|spec| self.run(&spec)).collect();
        let record = self.experiment(experiment);
        record.planned += ids.len();
        record.runs.extend(ids.clone());
        let record = record.clone();
        self.write(&format!("experiments/{experiment}.json"), &record);
        ids
    }

    pub fn fail(&mut self, experiment: &str, run: &str, error: &str) {
        let record = self.experiment(experiment);
        record.planned += 1;
        record.failed.push(FailedRun { run: run.to_owned(), error: error.to_owned() });
        let record = record.clone();
        self.write(&format!("experiments/{experiment}.json"), &record);
    }

    /// Writes a run of fig6-spans with adapters of size 64 and its ablation; `change` is the relative change by first and last
    /// layer. Returns the run's id.
    pub fn ablation(
        &mut self,
        task: &str,
        seed: u64,
        layers: usize,
        whole: f64,
        change: impl Fn(usize, usize) -> f64,
    ) -> String {
        self.ablated(Spec::adapters(task, 64, whole).seed(seed), layers, change)
    }

    /// The same of any run.
    pub fn ablated(&mut self, spec: Spec, layers: usize, change: impl Fn(usize, usize) -> f64) -> String {
        let (task, whole) = (spec.task.clone(), spec.score);
        let id = self.add("fig6-spans", [spec]).remove(0);
        let spans = (0..layers).flat_map(|first| (first..layers).map(move |last| (first, last)));
        let spans = spans.map(|(first, last)| SpanScore {
            first,
            last,
            scores: BTreeMap::from([("accuracy".to_owned(), whole * (1.0 + change(first, last)))]),
            relative_change: change(first, last),
        });
        let record = AblationRecord {
            schema: SCHEMA,
            task,
            metric: "accuracy".to_owned(),
            layers,
            majority: Some(0.37),
            whole: BTreeMap::from([("accuracy".to_owned(), whole)]),
            spans: spans.collect(),
            layer_passes: 1,
        };
        self.write(&format!("{id}/ablation.json"), &record);
        id
    }

    /// Writes a stream of tasks; `now` is the score of a task after another was learnt.
    pub fn stream(&mut self, tuning: &str, tasks: &[&str], identical: bool) {
        let mut stages: Vec<Stage> = Vec::new();
        for (number, task) in tasks.iter().enumerate() {
            let recall = tasks[..=number].iter().enumerate().map(|(old, other)| Recall {
                task: other.to_string(),
                metric: "accuracy".to_owned(),
                then: 0.8,
                now: if identical || old == number { 0.8 } else { 0.8 - 0.1 * (number - old) as f64 },
                identical: identical || old == number,
            });
            stages.push(Stage {
                task: task.to_string(),
                run: format!("{tuning}{number}"),
                trained: 1000,
                total: BACKBONE + 1000 * (number + 1),
                recall: recall.collect(),
            });
        }
        let id = format!("stream-{tuning}");
        let (backbone, tuning) = ("bert-base-uncased".to_owned(), tuning.to_owned());
        let record = StreamRecord { schema: SCHEMA, id: id.clone(), backbone, tuning, seed: 0, stages };
        self.write(&format!("streams/{id}.json"), &record);
        self.experiment("stream").streams.push(id);
        let record = self.experiment("stream").clone();
        self.write("experiments/stream.json", &record);
    }

    pub fn write(&self, file: &str, value: &impl serde::Serialize) {
        let path = self.path.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, serde_json::to_vec_pretty(value).unwrap()).unwrap();
    }
}

/// A cell of CSV, its number to four decimals: the files have numbers in full, with what sums lose in their last bits.
pub fn rounded(cell: &str) -> String {
    let is_long = cell.split_once('.').is_some_and(|(_, digits)| digits.len() > 4);
    match cell.parse::<f64>() {
        Ok(number) if is_long => ((1e4 * number).round() / 1e4).to_string(),
        _ => cell.to_owned(),
    }
}

/// A small deterministic number from -1 to 1.
fn noise(key: &str) -> f64 {
    let hash =
        key.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mixed = (hash ^ (hash >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed >> 20) % 2001) as f64 / 1000.0 - 1.0
}

/// How good a made-up method is.
fn score(task: &str, tuning: &str, size: usize, seed: u64) -> f64 {
    let base = 0.82 + 0.1 * noise(task);
    let loss = match tuning {
        "full" => 0.0,
        "adapters" => 0.004 + 0.03 / (size as f64 + 1.0),
        "layer-norm" => 0.04,
        "head" => 0.2,
        top => 0.18 / top.trim_start_matches("top-").parse::<f64>().unwrap_or(1.0).powf(1.3),
    };
    base - loss + 0.015 * noise(&format!("{task}{tuning}{size}{seed}"))
}

const GLUE: [&str; 9] = ["cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "mnli-mm", "qnli", "rte"];
const MORE: [&str; 6] =
    ["20-newsgroups", "sms-spam", "news-aggregator", "crowdflower-us-economic-performance", "emotion", "disasters"];

/// Every experiment of the paper, on tasks of `panels` for those that draw one panel a task, with `layers` layers.
pub fn everything(folder: &mut Folder, panels: &[&str], layers: usize, seeds: u64) {
    let metric = |task: &str| if task == "cola" { "matthews" } else { "accuracy" };
    let tuned = |task: &str, tuning: &str, seed: u64| {
        Spec::tuned(task, tuning, score(task, tuning, 0, seed)).seed(seed).metric(metric(task))
    };
    let adapters = |task: &str, size: usize, seed: u64| {
        Spec::adapters(task, size, score(task, "adapters", size, seed)).seed(seed).metric(metric(task))
    };
    let tested = |spec: Spec| spec.clone().test(spec.score - 0.01);
    let ks: Vec<usize> = (1..=layers).collect();
    for seed in 0..seeds {
        for task in GLUE {
            let sizes = [8, 64, 256].map(|size| adapters(task, size, seed));
            folder.add("table1", [tuned(task, "full", seed)]);
            folder.add("table1", sizes.clone());
            folder.add("sizes", sizes.clone());
            folder.add("fig3", sizes);
            folder.add("fig3", [tuned(task, "full", seed)]);
            folder.add("fig3", ks.iter().map(|k| tuned(task, &format!("top-{k}"), seed)));
        }
        for task in MORE {
            folder.search([tested(Spec::trial(task, 1, score(task, "head", 0, seed)).seed(seed))]);
            let tops: Vec<Spec> = ks.iter().map(|k| tested(tuned(task, &format!("top-{k}"), seed))).collect();
            for experiment in ["table2", "fig3"] {
                folder.add(experiment, [tested(tuned(task, "full", seed))]);
                folder.add(experiment, tops.clone());
                folder.add(experiment, [2, 4, 8, 16, 32, 64].map(|size| tested(adapters(task, size, seed))));
            }
        }
        for &task in panels {
            folder.add("fig4", [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].map(|size| adapters(task, size, seed)));
            folder.add("fig4", ks.iter().map(|k| tuned(task, &format!("top-{k}"), seed)));
            folder.add("fig4", ["layer-norm", "head", "full"].map(|tuning| tuned(task, tuning, seed)));
            let whole = score(task, "full", 0, seed);
            folder.ablation(task, seed, layers, whole, |first, last| {
                let share =
                    (first..=last).map(|layer| layer as f64 + 1.0).sum::<f64>() * 2.0 / (layers * (layers + 1)) as f64;
                -0.5 * share.powf(1.6) + 0.003 * noise(&format!("{task}{first}{last}{seed}"))
            });
            let sigmas = [1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];
            folder.add(
                "fig6-init",
                sigmas.map(|sigma: f64| {
                    let mut spec = adapters(task, 64, seed).with("init_std", json!(sigma));
                    spec.score +=
                        0.008 * noise(&format!("{sigma}{seed}{task}")) - 0.2 * (sigma - 0.01).max(0.0).powf(0.7);
                    spec
                }),
            );
            for rate in [2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3] {
                let off = (f64::log10(rate) + 4.3).max(0.0);
                let mut full = tuned(task, "full", seed).rate(rate);
                full.score -= 0.12 * off * off;
                folder.add("fig7", [full, adapters(task, 64, seed).rate(rate)]);
            }
            let paper = adapters(task, 64, seed);
            let off = |mut spec: Spec, points: f64| {
                spec.score += 0.01 * points;
                spec
            };
            folder.add(
                "variants",
                [
                    paper.clone(),
                    off(paper.clone().with("norm", json!("layer")), -0.4),
                    off(paper.clone().with("depth", json!(2)), 0.2),
                    off(paper.clone().with("activation", json!("tanh")), -0.1),
                    paper.clone().with("sites", json!(["attention"])),
                    paper.clone().with("placement", json!("parallel")).with("interaction", json!("multiplicative")),
                ],
            );
        }
        let spans = |spec: Spec| spec.metric("answer_f1");
        folder.add("fig5", [2, 8, 64, 256].map(|size| spans(adapters("squad", size, seed))));
        folder.add("fig5", ks.iter().map(|k| spans(tuned("squad", &format!("top-{k}"), seed))));
        folder.add("fig5", [spans(tuned("squad", "full", seed))]);
    }
    folder.stream("adapters", &["cola", "mrpc", "rte"], true);
    folder.stream("full", &["cola", "mrpc", "rte"], false);
}
