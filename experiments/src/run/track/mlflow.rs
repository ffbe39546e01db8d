//! MLflow's tracking server: a run of ours is a run there, found again by its id. What the server has already is not sent again, so
//! that a run may be told in parts, by several processes, and once more from its folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write as _,
    fs,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use analysis::{Evaluation, RunRecord, Status, folder};
use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use ureq::{
    Agent, AsSendBody,
    http::{Method, Request, header},
};

use super::{
    super::{StepLine, StepLog},
    unix_time,
};
use crate::lab::Keys;

/// Where the server is.
const URI: &str = "MLFLOW_TRACKING_URI";
/// The tag that holds our id.
const TAG: &str = "adapter_lab.run";

/// Metrics and parameters that one request may carry.
const METRICS: usize = 1000;
const PARAMETERS: usize = 100;
/// Characters of a parameter's value.
const VALUE: usize = 500;

/// An experiment of a tracking server.
#[derive(Debug)]
pub struct Mlflow {
    agent: Agent,
    uri: String,
    authorization: Option<String>,
    experiment: String,
    experiment_id: Option<String>,
}

/// Why the server does not have something.
#[derive(Debug, thiserror::Error)]
pub enum MlflowError {
    /// It is down, slow or overloaded: later it may take it.
    #[error("MLflow at {uri} does not answer: {reason}")]
    Away {
        /// Where it should be.
        uri: String,
        /// What happened.
        reason: String,
    },
    /// It does not want it, or there is nothing to send.
    #[error(transparent)]
    Refused(#[from] anyhow::Error),
}

/// A run as the server has it.
struct Remote {
    id: String,
    artifacts: String,
    /// Steps and evaluations that it knows of.
    steps: BTreeSet<usize>,
    evaluations: BTreeSet<usize>,
    is_complete: bool,
}

/// What became of a run that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The server has all of it now.
    Now,
    /// The server had all of it.
    Before,
}

type Answer<T> = Result<T, MlflowError>;

impl Mlflow {
    /// The server and the experiment that MLflow's own variables name.
    ///
    /// # Errors
    /// If they name none that can be reached by HTTP.
    pub fn from_environment() -> Result<Self> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let uri = variable(URI)
            .with_context(|| format!("set {URI} to the address of a server, such as http://127.0.0.1:5000"))?;
        let is_http = uri.starts_with("http://") || uri.starts_with("https://");
        ensure!(
            is_http,
            "{URI}={uri}: this program speaks to a server; start one with `mlflow server` and give its address"
        );
        let authorization = match (variable("MLFLOW_TRACKING_TOKEN"), variable("MLFLOW_TRACKING_USERNAME")) {
            (Some(token), _) => Some(format!("Bearer {token}")),
            (None, Some(user)) => {
                let password = variable("MLFLOW_TRACKING_PASSWORD").unwrap_or_default();
                Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))))
            }
            (None, None) => None,
        };
        let agent = Agent::config_builder()
            // Whoever is led elsewhere would take the password there.
            .max_redirects(0)
            .timeout_connect(Some(Duration::from_secs(5)))
            .timeout_recv_response(Some(Duration::from_secs(30)))
            .timeout_per_read(Some(Duration::from_secs(30)))
            .http_status_as_error(false)
            .build();
        let experiment = variable("MLFLOW_EXPERIMENT_NAME").unwrap_or_else(|| "adapter-lab".to_owned());
        let uri = uri.trim_end_matches('/').to_owned();
        Ok(Self { agent: agent.into(), uri, authorization, experiment, experiment_id: None })
    }

    /// Where it is.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Tells of a run that is under way.
    ///
    /// # Errors
    /// If the server does not answer, or does not want it.
    pub fn progress(&mut self, id: &str, keys: &Keys, steps: &[StepLine], evaluations: &[Evaluation]) -> Answer<()> {
        let remote = match self.find(id)? {
            Some(remote) => remote,
            None => self.create(id, keys, unix_time())?,
        };
        self.metrics(&remote, steps, evaluations)
    }

    /// Tells all of a finished run that the server does not know, from its folder.
    ///
    /// # Errors
    /// If the folder cannot be read, the server does not answer, or does not want it.
    pub fn finished(&mut self, runs: &Path, id: &str) -> Answer<Sent> {
        let found = self.find(id)?;
        if found.as_ref().is_some_and(|remote| remote.is_complete) {
            return Ok(Sent::Before);
        }
        let place = runs.join(id);
        let (record, ended) = read(&place.join(folder::RECORD))?;
        let steps = StepLog::read(&place.join(folder::STEPS))?;
        let seconds = record.measured.training_seconds + record.measured.evaluation_seconds;
        let remote = match found {
            Some(remote) => remote,
            None => self.create(id, &record.config, ended - seconds)?,
        };
        self.metrics(&remote, &steps, &record.evaluations)?;
        self.conclude(&remote, &record, ended)?;
        for file in [folder::RECORD, folder::PARAMETERS] {
            let path = place.join(file);
            if path.is_file() {
                self.upload(&remote, file, &path)?;
            }
        }
        let status = if record.status == Status::Finished { "FINISHED" } else { "FAILED" };
        self.post("runs/update", &json!({ "run_id": remote.id, "status": status, "end_time": milliseconds(ended) }))?;
        Ok(Sent::Now)
    }

    /// Ids of all runs that the server has whole.
    ///
    /// # Errors
    /// If the server does not answer as it should.
    pub fn complete(&mut self) -> Answer<BTreeSet<String>> {
        let experiment = self.experiment_id()?;
        let (mut complete, mut page) = (BTreeSet::new(), None::<String>);
        loop {
            let mut question = json!({ "experiment_ids": [experiment], "max_results": 1000 });
            if let Some(page) = &page {
                question["page_token"] = json!(page);
            }
            let answer = self.post("runs/search", &question)?;
            let runs = answer["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
            complete.extend(runs.iter().filter(|run| is_complete(run)).filter_map(own_id));
            page = answer["next_page_token"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
            if page.is_none() {
                return Ok(complete);
            }
        }
    }

    /// The experiment, which is made if it is not there.
    fn experiment_id(&mut self) -> Answer<String> {
        if let Some(id) = &self.experiment_id {
            return Ok(id.clone());
        }
        let by_name = format!("experiments/get-by-name?experiment_name={}", escaped(&self.experiment));
        let named = |answer: Value| answer["experiment"]["experiment_id"].as_str().map(str::to_owned);
        let mut found = self.get_if_there(&by_name)?.and_then(named);
        if found.is_none() {
            let made = self.post("experiments/create", &json!({ "name": self.experiment }));
            // Another process may have been faster.
            found = match made {
                Ok(answer) => answer["experiment_id"].as_str().map(str::to_owned),
                Err(MlflowError::Refused(error)) => Some(self.get_if_there(&by_name)?.and_then(named).ok_or(error)?),
                Err(away) => return Err(away),
            };
        }
        let id = found.with_context(|| format!("MLflow at {} gives its experiment no id", self.uri))?;
        self.experiment_id = Some(id.clone());
        Ok(id)
    }

    fn find(&mut self, id: &str) -> Answer<Option<Remote>> {
        let experiment = self.experiment_id()?;
        let filter = format!("tags.`{TAG}` = '{id}'");
        let question = json!({ "experiment_ids": [experiment], "filter": filter, "max_results": 1 });
        let answer = self.post("runs/search", &question)?;
        let Some(run) = answer["runs"].get(0) else { return Ok(None) };
        let mut remote = remote(run)?;
        if !remote.is_complete {
            remote.steps = self.history(&remote.id, "train/loss")?;
            // Each evaluation has the same metrics.
            let metrics = run["data"]["metrics"].as_array().map(Vec::as_slice).unwrap_or_default();
            let mut keys = metrics.iter().filter_map(|metric| metric["key"].as_str());
            if let Some(key) = keys.find(|key| key.starts_with("validation/")) {
                remote.evaluations = self.history(&remote.id, key)?;
            }
        }
        Ok(Some(remote))
    }

    /// Steps at which a metric was told.
    fn history(&self, run: &str, metric: &str) -> Answer<BTreeSet<usize>> {
        let (mut steps, mut page) = (BTreeSet::new(), String::new());
        loop {
            let key = escaped(metric);
            let mut question = format!("metrics/get-history?run_id={run}&metric_key={key}&max_results=25000");
            if !page.is_empty() {
                let _ = write!(question, "&page_token={}", escaped(&page));
            }
            let Some(answer) = self.get_if_there(&question)? else { return Ok(steps) };
            let told = answer["metrics"].as_array().map(Vec::as_slice).unwrap_or_default();
            let step = |metric: &Value| match &metric["step"] {
                Value::String(step) => step.parse().ok(),
                step => step.as_u64().map(|step| step as usize),
            };
            steps.extend(told.iter().filter_map(step));
            page = answer["next_page_token"].as_str().unwrap_or_default().to_owned();
            if page.is_empty() {
                return Ok(steps);
            }
        }
    }

    fn create(&mut self, id: &str, keys: &Keys, began: f64) -> Answer<Remote> {
        let experiment = self.experiment_id()?;
        let key = |name: &str| keys.get(name).and_then(Value::as_str).unwrap_or_default();
        let name = [key("task"), key("tuning"), &id[..id.len().min(8)]].join(" ");
        let user = env::var("USER").or_else(|_| env::var("LOGNAME")).unwrap_or_default();
        let version = env!("CARGO_PKG_VERSION");
        let tags = [
            (TAG, id),
            ("mlflow.user", &user),
            ("mlflow.source.name", "adapter-lab"),
            ("adapter_lab.version", version),
        ];
        let tags: Vec<Value> = tags.into_iter().filter(|(_, value)| !value.is_empty()).map(pair).collect();
        let run = json!({ "experiment_id": experiment, "run_name": name.trim(), "start_time": milliseconds(began), "tags": tags });
        let remote = remote(&self.post("runs/create", &run)?["run"])?;
        let values = keys.iter().filter(|(_, value)| !value.is_null());
        let parameters: Vec<Value> = values.map(|(key, value)| pair((key, &written(value)))).collect();
        for part in parameters.chunks(PARAMETERS) {
            self.post("runs/log-batch", &json!({ "run_id": remote.id, "params": part }))?;
        }
        Ok(remote)
    }

    /// What the server does not know of these. A step's metrics go together: the server has all of them or none.
    fn metrics(&self, remote: &Remote, steps: &[StepLine], evaluations: &[Evaluation]) -> Answer<()> {
        let steps_times: BTreeMap<usize, f64> = steps.iter().map(|line| (line.step, line.time)).collect();
        let mut groups: Vec<Vec<Value>> = Vec::new();
        for line in steps.iter().filter(|line| !remote.steps.contains(&line.step)) {
            groups.push(line.scalars().map(|(name, value)| metric(&name, value, line.step, line.time)).collect());
        }
        for evaluation in evaluations.iter().filter(|evaluation| !remote.evaluations.contains(&evaluation.steps)) {
            let time = steps_times.get(&evaluation.steps).copied().unwrap_or_default();
            let told =
                |(name, value): (&String, &f64)| metric(&format!("validation/{name}"), *value, evaluation.steps, time);
            groups.push(evaluation.validation.iter().map(told).collect());
        }
        let mut batch = Vec::new();
        for group in groups {
            if batch.len() + group.len() > METRICS {
                self.batch(remote, &std::mem::take(&mut batch))?;
            }
            batch.extend(group);
        }
        self.batch(remote, &batch)
    }

    /// What is known of a run when it is over.
    fn conclude(&self, remote: &Remote, record: &RunRecord, ended: f64) -> Answer<()> {
        let last = record.last.as_ref().map_or(0, |last| last.steps);
        let kept = super::super::kept_evaluation(record);
        let reported =
            kept.iter().flat_map(|kept| &kept.validation).map(|(name, value)| (format!("reported/{name}"), *value));
        let test = record.test.iter().map(|(name, value)| (format!("test/{name}"), *value));
        let extra = record
            .extra
            .iter()
            .flat_map(|(set, scores)| scores.iter().map(move |(name, value)| (format!("{set}/{name}"), *value)));
        let costs = [
            ("parameters/trained".to_owned(), record.params.trained as f64),
            ("seconds/training".to_owned(), record.measured.training_seconds),
        ];
        let all = reported.chain(test).chain(extra).chain(costs);
        let metrics: Vec<Value> = all.map(|(name, value)| metric(&name, value, last, ended)).collect();
        self.batch(remote, &metrics)?;
        let tags: Vec<Value> =
            record.fingerprints.iter().map(|(key, value)| pair((&format!("adapter_lab.{key}"), value))).collect();
        self.post("runs/log-batch", &json!({ "run_id": remote.id, "tags": tags })).map(drop)
    }

    fn batch(&self, remote: &Remote, metrics: &[Value]) -> Answer<()> {
        if metrics.is_empty() {
            return Ok(());
        }
        self.post("runs/log-batch", &json!({ "run_id": remote.id, "metrics": metrics })).map(drop)
    }

    /// A file of a run. A server that leaves files to others (a bucket, say) gets none.
    fn upload(&self, remote: &Remote, name: &str, path: &Path) -> Answer<()> {
        let Some(place) = remote.artifacts.strip_prefix("mlflow-artifacts:/") else { return Ok(()) };
        // `mlflow-artifacts:/PLACE`, or `mlflow-artifacts://SERVER/PLACE`.
        let place = place.strip_prefix('/').and_then(|rest| rest.split_once('/')).map_or(place, |(_, place)| place);
        let url = format!("{}/api/2.0/mlflow-artifacts/artifacts/{place}/{name}", self.uri);
        let file = fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        self.send(self.request(Method::PUT, &url), file).map(drop)
    }

    fn post(&self, path: &str, body: &Value) -> Answer<Value> {
        let url = format!("{}/api/2.0/mlflow/{path}", self.uri);
        let request = self.request(Method::POST, &url).header(header::CONTENT_TYPE, "application/json");
        self.send(request, body.to_string())
    }

    /// The answer to a question, if the server knows what it is about.
    fn get_if_there(&self, path: &str) -> Answer<Option<Value>> {
        let url = format!("{}/api/2.0/mlflow/{path}", self.uri);
        match self.send(self.request(Method::GET, &url), ()) {
            Err(MlflowError::Refused(error)) if error.is::<NotThere>() => Ok(None),
            answer => answer.map(Some),
        }
    }

    fn request(&self, method: Method, url: &str) -> ureq::http::request::Builder {
        let request = Request::builder().method(method).uri(url);
        match &self.authorization {
            Some(authorization) => request.header(header::AUTHORIZATION, authorization),
            None => request,
        }
    }

    fn send(&self, request: ureq::http::request::Builder, body: impl AsSendBody) -> Answer<Value> {
        let away = |reason: String| MlflowError::Away { uri: self.uri.clone(), reason };
        let request = request.body(body).map_err(|error| anyhow!("{}: {error}", self.uri))?;
        let mut response = self.agent.run(request).map_err(|error| away(error.to_string()))?;
        let text = response.body_mut().read_to_string().map_err(|error| away(error.to_string()))?;
        let status = response.status();
        if status.is_success() {
            let answer = if text.trim().is_empty() { Ok(Value::Null) } else { serde_json::from_str(&text) };
            return Ok(answer.with_context(|| format!("{} is no MLflow server", self.uri))?);
        }
        if status.is_server_error() || [408, 425, 429].contains(&status.as_u16()) {
            return Err(away(format!("it says {status}")));
        }
        let said: Value = serde_json::from_str(&text).unwrap_or_default();
        let said = said["message"].as_str().map_or(String::new(), |message| format!(": {message}"));
        let refusal = anyhow!("MLflow at {} says {status}{said}", self.uri);
        Err(if status.as_u16() == 404 { refusal.context(NotThere).into() } else { refusal.into() })
    }
}

/// The server does not know what it was asked about.
#[derive(Debug, thiserror::Error)]
#[error("it does not know that")]
struct NotThere;

/// A record, and when it was written.
fn read(path: &Path) -> Result<(RunRecord, f64)> {
    let context = || format!("cannot read {}", path.display());
    let record = serde_json::from_slice(&fs::read(path).with_context(context)?).with_context(context)?;
    let written = fs::metadata(path).and_then(|metadata| metadata.modified()).with_context(context)?;
    Ok((record, written.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())))
}

fn remote(run: &Value) -> Result<Remote> {
    let info = &run["info"];
    let (Some(id), Some(artifacts)) = (info["run_id"].as_str(), info["artifact_uri"].as_str()) else {
        bail!("an answer that MLflow does not give: {info}")
    };
    Ok(Remote {
        id: id.to_owned(),
        artifacts: artifacts.to_owned(),
        steps: BTreeSet::new(),
        evaluations: BTreeSet::new(),
        is_complete: is_complete(run),
    })
}

/// Whether the server was told that the run is over: that comes last.
fn is_complete(run: &Value) -> bool {
    matches!(run["info"]["status"].as_str(), Some("FINISHED" | "FAILED"))
}

fn own_id(run: &Value) -> Option<String> {
    let tags = run["data"]["tags"].as_array()?;
    tags.iter().find(|tag| tag["key"] == TAG)?["value"].as_str().map(str::to_owned)
}

fn pair((key, value): (&str, &str)) -> Value {
    json!({ "key": key, "value": value })
}

/// A value of a metric; `time` is in seconds, 0 if nobody knows it.
fn metric(key: &str, value: f64, step: usize, time: f64) -> Value {
    // JSON has no such numbers; the server reads their names.
    let value = match value {
        value if value.is_finite() => json!(value),
        value if value.is_nan() => json!("NaN"),
        value if value > 0.0 => json!("Infinity"),
        _ => json!("-Infinity"),
    };
    let time = if time > 0.0 { time } else { unix_time() };
    json!({ "key": key, "value": value, "step": step, "timestamp": milliseconds(time) })
}

fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0) as u64
}

fn written(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.chars().take(VALUE).collect()
}

/// A text as a part of an address.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => escaped.push(char::from(byte)),
            _ => drop(write!(escaped, "%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_hold_any_name() {
        assert_eq!(escaped("train/loss é"), "train%2Floss%20%C3%A9");
    }

    #[test]
    fn numbers_that_json_does_not_have_are_told_by_name() {
        let value = |value: f64| metric("train/loss", value, 1, 1.0)["value"].clone();
        assert_eq!([value(0.5), value(f64::NAN), value(f64::INFINITY)], [json!(0.5), json!("NaN"), json!("Infinity")]);
    }
}
