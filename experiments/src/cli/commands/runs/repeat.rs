//! `runs repeat`: finished runs, run again and compared.

use std::path::{Path, PathBuf};

use adapter_core::mix;
use analysis::{Listed, RunRecord, RunState, folder};
use anyhow::{Result, anyhow, ensure};
use clap::Args;
use serde::Serialize;

use super::{PlaceArgs, filter::Condition};
use crate::{
    cli::{
        Session,
        args::{OneDeviceArgs, check_folder},
        ctrl_c::request_stop,
        output::print,
        progress::{Progress, Show},
    },
    device::vector_bits,
    lab::Lab,
    run::RunStore,
    search::NO_BERT,
    study::Repeat,
    train::RunError,
};

/// Run finished runs again and compare: everything in their records must come out the same, to the bit
///
/// Only what depends on the clock and the machine (`measured`) may differ. On a processor with vectors of another width the last
/// bits can differ too; the answer says so. The records themselves are not touched.
#[derive(Args, Debug)]
pub struct RepeatArgs {
    /// Ids of runs, or how they begin
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Draw N of the finished runs instead
    #[arg(long, value_name = "N", conflicts_with = "ids")]
    sample: Option<usize>,
    /// Decides which are drawn
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    sample_seed: u64,
    /// Draw only from runs of which all of this holds, as for `runs list`
    #[arg(long = "where", value_name = "KEY=VALUE,…", value_delimiter = ',', requires = "sample")]
    conditions: Vec<Condition>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Keep the repetitions in this folder: an interrupted one continues
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    found: OneDeviceArgs,
    /// Files of word vectors that trials without BERT name; those that `fetch` knows are found
    #[arg(long, value_delimiter = ',', value_name = "FILE,…")]
    embeddings: Vec<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What came of a repetition.
#[derive(Serialize)]
struct Repeated {
    id: String,
    task: String,
    method: String,
    /// Fields of the record that came out otherwise.
    differ: Vec<String>,
    /// Whether the repetition was there already: nothing was computed now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    was_there: bool,
    /// Widths of the vectors that the processors computed with, if they are not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    vector_bits: Option<[usize; 2]>,
}

pub fn run(args: &RepeatArgs, session: &Session<'_>) -> Result<()> {
    let chosen = chosen(args, session.lab)?;
    if let Some(folder) = &args.keep {
        check_folder(folder)?;
        let is_same = folder.canonicalize().ok().zip(args.place.runs.canonicalize().ok()).is_some_and(|(a, b)| a == b);
        ensure!(!is_same, "--keep {}: the records are there already", folder.display());
    }
    let context = args.found.context(args.keep.clone());
    request_stop(&session.stop);
    let mut repeated = Vec::new();
    for run in &chosen {
        let record: RunRecord = serde_json::from_value(args.place.record(run)?)?;
        // An export does not say where a run found its data, and neither do trials: they go by the names in the record.
        let started = args.place.runs.join(&run.id).join(folder::RUN).is_file();
        let manifest = started.then(|| RunStore::new(&args.place.runs).manifest(&run.id)).transpose()?;
        if manifest.is_none() {
            check_found(&record)?;
        }
        let repeat = Repeat {
            lab: session.lab,
            context: &context,
            origin: manifest.map(|manifest| manifest.origin),
            embeddings: &args.embeddings,
            stop: &session.stop,
        };
        let show = if args.json { Show::None } else { Show::Line };
        let mut progress = Progress::of_run(show, args.json, &run.id, &session.stop)?;
        let (differ, was_there) = repeat.run(&record, &mut progress).map_err(|error| match error {
            RunError::Interrupted { kept: false, .. } => anyhow!("interrupted; with --keep DIR it would continue"),
            error => error.explained(args.keep.is_some()),
        })?;
        drop(progress);
        let widths = record.measured.vector_bits.zip(vector_bits()).filter(|(then, here)| then != here);
        let task = record.config.get("task").and_then(|task| task.as_str()).unwrap_or_default().to_owned();
        repeated.push(Repeated {
            id: record.id,
            task,
            method: record.method.label,
            differ,
            was_there,
            vector_bits: widths.map(|(then, here)| [then, here]),
        });
    }
    print(&repeated, args.json, || repeated.iter().map(Repeated::line).collect())?;
    let others = repeated.iter().filter(|run| !run.differ.is_empty()).count();
    ensure!(others == 0, "{others} of {} runs did not come out as their records say", repeated.len());
    Ok(())
}

/// Refuses a run on a file of somebody's own where only its record is there: that has the file's name, and not its place.
fn check_found(record: &RunRecord) -> Result<()> {
    let task = record.config.get("task").and_then(|task| task.as_str()).unwrap_or_default();
    let (id, is_gone) = (&record.id, task.strip_prefix("file:").is_some_and(|path| !Path::new(path).exists()));
    if record.method.name == NO_BERT {
        ensure!(!is_gone, "trial {id} is on a file of your own, `{task}`: its record does not say where that is");
    }
    ensure!(
        !is_gone,
        "run {id} is on a file of your own, `{task}`, and its record does not say where that is: repeat it from the folder in \
         which it was run (--runs)"
    );
    Ok(())
}

/// The runs to repeat.
fn chosen(args: &RepeatArgs, lab: &Lab) -> Result<Vec<Listed>> {
    let Some(sample) = args.sample else {
        ensure!(!args.ids.is_empty(), "which runs? Give their ids, or --sample N");
        return args.ids.iter().map(|id| args.place.find(id, lab)).collect();
    };
    let over = |run: &Listed| matches!(run.state, RunState::Finished | RunState::Diverged);
    let held = |run: &Listed| args.conditions.iter().all(|condition| condition.holds(run));
    let mut runs: Vec<Listed> = args.place.list(lab)?.into_iter().filter(|run| over(run) && held(run)).collect();
    ensure!((1..=runs.len()).contains(&sample), "--sample {sample}: there are {} runs to draw from", runs.len());
    let place = |run: &Listed| run.id.bytes().fold(mix(&[args.sample_seed]), |state, byte| mix(&[state, byte.into()]));
    runs.sort_by_cached_key(|run| (place(run), run.id.clone()));
    runs.truncate(sample);
    Ok(runs)
}

impl Repeated {
    fn line(&self) -> String {
        let Self { id, task, method, differ, was_there, vector_bits } = self;
        let came = if differ.is_empty() { "the same".to_owned() } else { format!("differs in {}", differ.join(", ")) };
        let widths = vector_bits.map(|[then, here]| format!(" (vectors of {then} bits then, of {here} here)"));
        let there = if *was_there { "; its repetition was there already" } else { "" };
        format!("{id} {task}, {method}: {came}{}{there}\n", widths.unwrap_or_default())
    }
}
