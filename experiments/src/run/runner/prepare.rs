//! What a run needs before its first step: all that decides it, its data, and its model as it starts.

use std::{collections::BTreeMap, sync::Arc};

use adapter_core::{Init, TaskInfo};
use anyhow::{Context, Result, ensure};
use bert_backbone::{Backbone, BertConfig};
use burn::{module::Module, tensor::Device};
use serde_json::Value;
use tasks::{EvaluationSet, Head, HeadKind, TaskData, TaskKind};

use super::{DEVICE, Runner};
use crate::{
    device::{Precision, memory},
    lab::{AnyMethod, AnyModel},
    run::{
        NUMERICS, PreparedData, RunConfig, RunManifest,
        data::validation,
        store::{DTYPE, Origin},
    },
    train::{Optimizer, Training, TrainingData, Watch},
};

/// A run that can begin: its data, and its model as it starts.
pub(in crate::run) struct Ready {
    pub(super) method: Box<dyn AnyMethod>,
    optimizer: Box<dyn Optimizer>,
    pub(in crate::run) prepared: PreparedData,
    pub(super) metric: String,
    devices: Vec<Device>,
    pub(in crate::run) model: Box<dyn AnyModel>,
    info: TaskInfo,
}

impl Ready {
    /// What its model is trained with; nothing is probed.
    pub(in crate::run) fn training<'r>(
        &'r self,
        config: &'r RunConfig,
        network: &'r BertConfig,
        precision: Precision,
    ) -> Training<'r> {
        let (train, validation) = (&self.prepared.train, &self.prepared.validation);
        Training {
            info: &self.info,
            data: TrainingData { train, validation, metric: &self.metric, network },
            config: &config.train,
            optimizer: &*self.optimizer,
            devices: &self.devices,
            precision,
            probe_every: None,
        }
    }
}

impl Runner<'_> {
    /// How the run of `config` would be started here: all that decides it.
    ///
    /// # Errors
    /// If data or backbone cannot be used.
    pub fn started_as(&mut self, config: &RunConfig, watch: &mut dyn Watch) -> Result<RunManifest> {
        let backbone = self.backbone(&config.backbone, watch)?;
        let data = self.data(&config.task, &config.files, watch)?;
        self.manifest(config, &data, &backbone)
    }

    /// Everything that decides a run, and where it was found.
    pub(in crate::run) fn manifest(
        &self,
        config: &RunConfig,
        data: &TaskData,
        backbone: &Backbone,
    ) -> Result<RunManifest> {
        Ok(RunManifest {
            config: config.clone().for_data(data, backbone),
            origin: Origin {
                backbone: config.backbone.clone(),
                task: config.task.clone(),
                files: config.files.clone(),
                data_dir: self.context.data_dir.clone(),
            }
            .absolute(),
            fingerprints: self.fingerprints(data, backbone, self.precision())?,
            moves: Vec::new(),
        })
    }

    /// What a run takes of its task's data.
    pub(in crate::run) fn tokenise(
        &self,
        config: &RunConfig,
        data: &TaskData,
        backbone: &Backbone,
    ) -> Result<PreparedData> {
        PreparedData::new(data, config, backbone, &self.context.token_cache(), &self.lab.metrics)
    }

    /// Makes a run's data and its untrained model.
    pub(in crate::run) fn prepare(
        &self,
        config: &RunConfig,
        origin: &Origin,
        data: &TaskData,
        backbone: &Backbone,
        precision: Precision,
    ) -> Result<Ready> {
        let (method, optimizer) = (config.method(self.lab)?, config.configure_optimizer(self.lab)?);
        let shared = self.devices.len() == 1 || !method.needs_whole_batches();
        ensure!(shared, "`{}` needs whole batches: use one device", config.tuning);
        let mut prepared = self.tokenise(config, data, backbone)?;
        let metric = self.metric(config, &prepared)?;

        // w is shared; v is new, and only v is trained.
        let devices: Vec<Device> = self.devices.iter().map(|device| device.clone().autodiff()).collect();
        let init = Init::new(config.train.seed);
        let head_kind = self.head(config, prepared.kind)?;
        let head = Head::new(&backbone.config.shape(), prepared.outputs, head_kind, init, &devices[0]);
        let head = head.with_dropout(config.head_dropout);
        let count = method.count(backbone.bert.clone(), head.clone(), init, &devices[0])?;
        check_memory(count.trained)?;
        let model = method.build(backbone.bert.clone().train(), head, init, &devices[0])?.in_precision(precision);
        if config.cache_prefix {
            prepared = prepared.with_prefix(&*model, config, &backbone.config, self.device())?;
        }
        let info = TaskInfo {
            task: prepared.task.clone(),
            kind: prepared.kind.to_string(),
            labels: prepared.labels.clone(),
            pairs: prepared.pairs,
            head: model.head().kind().name().to_owned(),
            max_length: config.max_length,
            method: method.info(),
            backbone: backbone.id(),
            origin: match serde_json::to_value(origin).context("the run's origin")? {
                Value::Object(origin) => origin,
                _ => serde_json::Map::new(),
            },
        };
        Ok(Ready { method, optimizer, prepared, metric, devices, model, info })
    }

    /// The metric that a run chooses by.
    fn metric(&self, config: &RunConfig, prepared: &PreparedData) -> Result<String> {
        let own = || self.lab.tasks.find(&config.task).map(|task| task.metric.clone());
        let kind = prepared.kind;
        let name = config.metric.clone().unwrap_or_else(|| own().unwrap_or_else(|_| kind.metric().to_owned()));
        self.lab.metrics.find_for(&name, kind, prepared.labels.len())?;
        Ok(name)
    }

    /// The head that a run trains: a span needs one that answers for every token.
    fn head(&self, config: &RunConfig, kind: TaskKind) -> Result<Arc<dyn HeadKind>> {
        let head = self.lab.heads.find(&config.head)?;
        let (spans, name) = (kind == TaskKind::Span, &config.head);
        // The paper's heads read `[CLS]`; for spans the same linear layer reads every token.
        if spans && ["cls", "pooler"].contains(&name.as_str()) {
            return Ok(self.lab.heads.find("tokens")?);
        }
        ensure!(
            spans == head.per_token(),
            "the head `{name}` does not fit {kind}: it answers for every {}",
            if spans { "sequence" } else { "token" }
        );
        Ok(head)
    }

    /// The examples that a run is judged by, as it sees them.
    ///
    /// # Errors
    /// If the data cannot be used.
    pub fn validation(
        &mut self,
        config: &RunConfig,
        backbone: &Backbone,
        watch: &mut dyn Watch,
    ) -> Result<EvaluationSet> {
        let data = self.data(&config.task, &config.files, watch)?;
        let config = config.clone().for_data(&data, backbone);
        validation(&data, &config, backbone, &self.context.token_cache(), &self.lab.metrics)
    }

    /// Everything that decides a run beside its configuration.
    pub(super) fn fingerprints(
        &self,
        data: &TaskData,
        backbone: &Backbone,
        precision: Precision,
    ) -> Result<BTreeMap<String, String>> {
        let BertConfig { hidden_dropout_prob, attention_probs_dropout_prob, .. } = backbone.config;
        let mut fingerprints = BTreeMap::from([
            // They decide training, but not what the network computes: no part of the backbone's own hash.
            ("dropout".to_owned(), format!("{hidden_dropout_prob} {attention_probs_dropout_prob}")),
            ("backbone".to_owned(), backbone.id().hash),
            ("data".to_owned(), data.fingerprint()),
            ("tokenizer".to_owned(), backbone.tokenizer.hash()?),
            (DEVICE.to_owned(), self.context.devices.kinds()),
            ("numerics".to_owned(), NUMERICS.to_string()),
        ]);
        // Runs in f32 are called what they were before there was anything else.
        if precision != Precision::F32 {
            fingerprints.insert(DTYPE.to_owned(), precision.to_string());
        }
        Ok(fingerprints)
    }
}

impl RunConfig {
    /// The same configuration under the names that data and backbone have, however the user spelled them.
    fn for_data(self, data: &TaskData, backbone: &Backbone) -> Self {
        let backbone_name = backbone.name.clone();
        match data {
            TaskData::Texts(dataset) => Self { task: dataset.task.clone(), backbone: backbone_name, ..self },
            TaskData::Questions(_) => Self { backbone: backbone_name, ..self },
        }
    }
}

/// Refuses to train more than the memory holds: v, its gradient, and Adam's two means.
fn check_memory(trained: usize) -> Result<()> {
    let needed = 16 * trained as u64;
    if let Some(free) = memory::free() {
        ensure!(
            needed < free,
            "{trained} parameters are to be trained: that takes {:.1} GB, {:.1} GB of memory are free",
            needed as f64 / 1e9,
            free as f64 / 1e9
        );
    }
    Ok(())
}
