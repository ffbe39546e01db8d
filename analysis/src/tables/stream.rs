//! Tasks one after the other: what is remembered.

use super::note_of_metrics;
use crate::{
    Store, StreamRecord,
    axis::counted,
    names::task_name,
    paper,
    table::{Cell, Table},
};

pub(crate) fn stream(store: &Store) -> Option<Table> {
    let streams = store.streams(store.preset("stream")?);
    remembered("Tasks one after the other: what is remembered", &streams)
}

/// What a stream's method is called.
pub(crate) fn called(tuning: &str) -> &str {
    if tuning == paper::FULL { "full fine-tuning, one network" } else { tuning }
}

/// A row for each stage of some streams.
pub(crate) fn remembered(title: &str, streams: &[&StreamRecord]) -> Option<Table> {
    let mut tasks: Vec<&str> = Vec::new();
    for stage in streams.iter().flat_map(|stream| &stream.stages) {
        if !tasks.contains(&stage.task.as_str()) {
            tasks.push(&stage.task);
        }
    }
    if tasks.is_empty() {
        return None;
    }
    let mut head: Vec<String> = ["tuning", "seed", "after", "trained", "total"].map(str::to_owned).to_vec();
    head.extend(tasks.iter().map(|task| task_name(task)));
    head.push("identical".to_owned());
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for stream in streams {
        for stage in &stream.stages {
            let mut row = vec![
                Cell::text(called(&stream.tuning)),
                Cell::Number(stream.seed as f64, None, 0),
                Cell::text(task_name(&stage.task)),
                Cell::Number(stage.trained as f64, None, 0),
                Cell::Number(stage.total as f64, None, 0),
            ];
            row.extend(tasks.iter().map(|task| {
                let recall = stage.recall.iter().find(|recall| recall.task == **task);
                recall.map_or(Cell::Empty, |recall| Cell::Number(100.0 * recall.now, None, 1))
            }));
            // The stage's own task was just learnt: it says nothing of memory.
            let earlier = || stage.recall.iter().filter(|recall| recall.task != stage.task);
            let same = earlier().filter(|recall| recall.identical).count();
            row.push(match earlier().count() {
                0 => Cell::Empty,
                all => Cell::text(format!("{same} of {all}")),
            });
            rows.push(row);
        }
    }
    let note = "Validation scores of every task so far, after each task. Trained: parameters for the new task; total: all that \
                must be kept. Identical: earlier tasks whose every output is the same as when they were learnt, bit for bit.";
    let recalls = || streams.iter().flat_map(|stream| &stream.stages).flat_map(|stage| &stage.recall);
    let metric = |task: &str| recalls().find(|recall| recall.task == task).map(|recall| recall.metric.as_str());
    let metrics = note_of_metrics(tasks.iter().filter_map(|task| Some((*task, metric(task)?))));
    let full = streams.iter().any(|stream| stream.tuning == paper::FULL).then(|| {
        format!(
            "Full fine-tuning trains one network on: each task begins where the one before ended, and earlier tasks keep their heads. \
             With a network for each task it would forget nothing either, and need {} in all.",
            counted(tasks.len(), "backbone")
        )
    });
    let notes = [Some(note.to_owned()), full, metrics].into_iter().flatten().collect();
    Some(Table { title: title.to_owned(), head, rows, notes })
}
