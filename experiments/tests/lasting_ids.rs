//! Ids of runs that were run for days and published (`docs/results`): every later version must find them again.

use std::collections::BTreeMap;

use bert_backbone::KnownBackbone;
use experiments::{Experiment, Keys, Lab, Scale, Suite, run_id};
use serde::Deserialize;
use serde_json::Value;

/// A run as its folder's `run.json` describes it. Made by starting `run EXPERIMENT --scale desk` on the real data.
#[derive(Deserialize)]
struct Known {
    experiment: String,
    id: String,
    config: Keys,
    fingerprints: BTreeMap<String, String>,
    /// What `--set` must say today to find a run whose experiment has had its budget raised since.
    #[serde(default)]
    set: Keys,
}

#[test]
fn the_desk_experiments_still_hold_the_runs_that_were_published() {
    let lab = Lab::paper();
    let all: Vec<Known> = serde_json::from_str(include_str!("golden/run_ids.json")).unwrap();
    assert!(all.len() >= 10);
    for Known { experiment, id, config, fingerprints, set } in all {
        assert_eq!(run_id(&config, &fingerprints).unwrap(), id, "an id is a hash of what it was");
        // Suites hold the tasks whose data is there; the run's own stands for them.
        let task = Keys::from_iter([("task".to_owned(), config["task"].clone())]);
        let above: &[&Keys] = if experiment.starts_with("table") { &[&task, &set] } else { &[&set] };
        let shape = |name: &str| {
            let known = KnownBackbone::find(name).unwrap();
            Ok((known.config, known.pooler))
        };
        let experiment = Experiment::load(&lab, &experiment, Scale::Desk, Suite::Paper, above).unwrap();
        let grid = experiment.grid(&lab, &shape, std::path::Path::new("")).unwrap();
        let found = grid.runs.iter().map(|run| run.keys().unwrap()).find(|keys| *keys == config);
        let near = || grid.runs.iter().find(|run| run.task == config["task"]).map(|run| run.keys().unwrap());
        assert!(found.is_some(), "run {id} of {} is gone: {:?}", experiment.name, near().map(Value::Object));
    }
}
