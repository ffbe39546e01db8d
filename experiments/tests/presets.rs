//! Presets and experiment files: the runs that they stand for.

mod common;

use std::{fs, path::Path};

use bert_backbone::BertConfig;
use common::place::{Place, errors};
use experiments::{Experiment, Lab, Preset, Scale, Suite};
use rstest::rstest;
use serde_json::{Map, Value, json};

#[test]
fn every_preset_has_runs_at_every_scale() {
    let (lab, network) = (Lab::paper(), BertConfig::new(768, 12, 12));
    for Preset { name, text, .. } in lab.presets() {
        assert!(text.lines().count() <= 84, "{name} is short");
        for scale in Scale::ALL {
            // Suites depend on the data that is there: a task of each stands for them.
            let backbone = Map::from_iter([("backbone".to_owned(), json!("bert-base-uncased"))]);
            let suite = Map::from_iter([(
                "task".to_owned(),
                json!(if text.contains("\"additional\"") { "sms-spam" } else { "cola" }),
            )]);
            let above = if text.contains("\"glue\"") || text.contains("\"additional\"") {
                vec![&backbone, &suite]
            } else {
                vec![&backbone]
            };
            let experiment = Experiment::load(&lab, name, scale, Suite::Paper, &above).unwrap();
            let grid = experiment.grid(&lab, &|_| Ok((network.clone(), true)), Path::new("")).unwrap();
            assert!(!grid.runs.is_empty() && !experiment.about.is_empty() && experiment.preset, "{name}");
            match name.as_str() {
                "fig4" if scale == Scale::Paper => assert_eq!(grid.runs.len(), 2 * 3 * 3 * (10 + 12 + 3)),
                "fig4" if scale == Scale::Desk => {
                    assert_eq!(grid.runs.len(), 2 * 3 * (4 + 3 + 3));
                    let limits =
                        |task: &str| grid.runs.iter().filter(|run| run.task == task).map(|run| run.limit).max();
                    assert_eq!((limits("mnli"), limits("cola")), (Some(Some(2500)), Some(None)), "CoLA is whole");
                }
                "variants" => {
                    let mut adapters: Vec<_> = grid.runs.iter().map(|run| format!("{:?}", run.own)).collect();
                    adapters.sort();
                    adapters.dedup();
                    assert_eq!(adapters.len(), 8, "the paper's own, and six that are eight less one by their settings");
                }
                "table2" if scale == Scale::Paper => {
                    let epochs = |adapters: bool| {
                        let runs = grid.runs.iter().filter(|run| (run.tuning == "adapters") == adapters);
                        let mut all: Vec<_> = runs.map(|run| run.train.epochs).collect();
                        all.dedup();
                        all
                    };
                    assert_eq!((epochs(false), epochs(true)), (vec![50], vec![20]), "the paper's, for this task");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn every_preset_runs_on_the_built_in_language() {
    let (lab, nano) = (Lab::paper(), bert_backbone::KnownBackbone::find("nano").unwrap());
    let backbone = Map::from_iter([("backbone".to_owned(), json!("nano"))]);
    for Preset { name, .. } in lab.presets() {
        let experiment = Experiment::load(&lab, name, Scale::Quick, Suite::Synthetic, &[&backbone]).unwrap();
        if name == "baseline" {
            let (searches, missing) = experiment.searches(&lab, Path::new("")).unwrap();
            assert_eq!((searches.len(), missing.len()), (7, 0));
            continue;
        }
        let grid = experiment.grid(&lab, &|_| Ok((nano.config.clone(), nano.pooler)), Path::new("")).unwrap();
        let mut tasks: Vec<_> = grid.runs.iter().map(|run| run.task.as_str()).collect();
        tasks.dedup();
        assert!(!tasks.is_empty() && tasks.iter().all(|task| task.starts_with("syn-")), "{name}: {tasks:?}");
        assert!(grid.missing.is_empty() && grid.too_large.is_empty(), "{name}");
        let expected = match name.as_str() {
            "table1" | "sizes" => 8,
            "table2" => 7,
            "fig3" => 15,
            "fig5" | "variants" => 1,
            "stream" => 5,
            _ => 2,
        };
        assert_eq!(tasks.len(), expected, "{name}");
    }
}

/// Stage 2 of the desk adds to stage 1: nothing of it is run again.
#[test]
fn the_wide_scale_holds_every_run_of_the_desk() {
    let (lab, network) = (Lab::paper(), BertConfig::new(384, 12, 12));
    for Preset { name, text, .. } in lab.presets() {
        let task = json!(if text.contains("\"additional\"") { "sms-spam" } else { "rte" });
        let task = Map::from_iter([("task".to_owned(), task)]);
        let above: Vec<&Map<_, _>> =
            if text.contains("= \"glue\"") || text.contains("= \"additional\"") { vec![&task] } else { vec![] };
        let runs = |scale| {
            let experiment = Experiment::load(&lab, name, scale, Suite::Paper, &above).unwrap();
            experiment.grid(&lab, &|_| Ok((network.clone(), true)), Path::new("")).unwrap().runs
        };
        let (desk, wide) = (runs(Scale::Desk), runs(Scale::Wide));
        assert!(desk.iter().all(|run| wide.contains(run)), "{name}");
    }
}

/// What figures and tables share is trained once.
#[rstest]
#[case("sizes", "table1", &["cola", "mrpc", "rte", "sst-2", "mnli"])]
#[case("table1", "fig3", &["cola", "mrpc", "rte", "sst-2", "mnli"])]
#[case("table2", "fig3", &["sms-spam"])]
fn at_desk_scale_the_runs_of_one_preset_are_another_s_too(
    #[case] some: &str,
    #[case] all: &str,
    #[case] tasks: &[&str],
) {
    let (lab, network) = (Lab::paper(), BertConfig::new(384, 6, 12));
    for task in tasks {
        let task = Map::from_iter([("task".to_owned(), json!(task))]);
        let runs = |name| {
            let experiment = Experiment::load(&lab, name, Scale::Desk, Suite::Paper, &[&task]).unwrap();
            experiment.grid(&lab, &|_| Ok((network.clone(), true)), Path::new("")).unwrap().runs
        };
        let (some, all) = (runs(some), runs(all));
        assert!(!some.is_empty() && some.iter().all(|run| all.contains(run)), "{task:?}");
    }
}

#[test]
fn what_differs_on_a_task_is_said_by_task_and_options_win_over_it() {
    let lab = Lab::paper();
    let read = |text: &str, above: &[&Map<String, Value>]| {
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        fs::write(file.path(), text).unwrap();
        let name = file.path().display().to_string();
        let experiment = Experiment::load(&lab, &name, Scale::Quick, Suite::Paper, above)?;
        let grid = experiment.grid(&lab, &|_| Ok((BertConfig::new(384, 12, 12), true)), Path::new(""))?;
        anyhow::Ok(grid.runs.iter().map(|run| (run.task.clone(), run.limit, run.train.seed)).collect::<Vec<_>>())
    };
    let text = "backbone = \"b\"\ntask = [\"mnli\", \"cola\"]\nlimit = 9\nquick.by_task.mnli = { limit = [2, 3] }";
    let run = |task: &str, limit| (task.to_owned(), Some(limit), 0);
    assert_eq!(read(text, &[]).unwrap(), [run("mnli", 2), run("mnli", 3), run("cola", 9)]);
    let spelled = text.replace("[\"mnli\"", "[\"MNLI\"");
    assert_eq!(read(&spelled, &[]).unwrap(), read(text, &[]).unwrap(), "a task is the same however it is spelled");
    let above = Map::from_iter([("limit".to_owned(), json!(5))]);
    assert_eq!(read(text, &[&above]).unwrap(), [run("mnli", 5), run("cola", 5)]);
    for (wrong, message) in [
        ("by_task.mnlli.limit = 2", "mnli"),
        ("by_task.mnli.limits = 2", "unknown key `limits`"),
        ("by_task = 3", "it needs keys"),
    ] {
        let error = format!("{:#}", read(wrong, &[]).unwrap_err());
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_list_of_lists_is_a_grid_of_lists() {
    let place = Place::new("task = \"file:task0.csv\"\nlayer_sizes = [0, 4, 8]");
    let sizes = |options: &[&str]| -> Vec<Value> {
        let output = place.command(&[options, &["--dry-run"]].concat()).output().unwrap();
        assert!(output.status.success(), "{}", errors(&output));
        let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
        plan["runs"].as_array().unwrap().iter().map(|run| run["layer_sizes"].clone()).collect()
    };
    assert_eq!(sizes(&[]), [json!([0, 4, 8])]);
    assert_eq!(sizes(&["--set", "layer_sizes=[[0, 4, 8], [2, 2, 2]]"]), [json!([0, 4, 8]), json!([2, 2, 2])]);
}
