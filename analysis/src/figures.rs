//! The paper's figures, from the runs of their experiments.

mod init;
mod parameters;
mod rates;
mod relative;
mod spans;

use crate::{
    Store,
    axis::{AxisSpec, Format},
    chart::{Dot, Figure, Look, PALETTE, Panel, Series},
    select::{Estimate, Point},
    setup::{Method, Run},
    svg::Marker,
};

pub(crate) use relative::{groups, relative};
pub(crate) use spans::mean_spans;

/// Every figure, in the paper's order.
pub fn all(store: &Store) -> Vec<Figure> {
    vec![
        relative::fig1(store),
        relative::fig3(store),
        parameters::fig4(store),
        parameters::fig5(store),
        spans::fig6(store),
        init::fig6(store),
        rates::fig7(store),
    ]
}

/// A figure whose runs are not there.
fn missing(name: &'static str, title: &str, why: &str, experiment: &str) -> Figure {
    let about = format!("{why}: adapter-lab run {experiment}");
    Figure { name, title: title.to_owned(), keys: Vec::new(), panels: vec![Panel::Gap(about.clone())], about }
}

/// How a method looks in every figure.
fn look(method: &Method) -> Look {
    let (colour, marker, joined) = match method {
        Method::Adapters(_) => (PALETTE[0], Marker::Circle, true),
        Method::Top(_) => (PALETTE[1], Marker::Square, true),
        Method::LayerNorm => (PALETTE[2], Marker::Up, false),
        Method::Head => (PALETTE[3], Marker::Down, false),
        Method::Bias => (PALETTE[4], Marker::Plus, false),
        Method::Full => (PALETTE[6], Marker::Diamond, false),
        Method::Other(_) => (PALETTE[5], Marker::Plus, false),
    };
    Look { colour, marker: Some(marker), dash: "", joined }
}

/// What a method's series is called.
fn family(method: &Method) -> String {
    match method {
        Method::Adapters(_) => "adapters (by size)".to_owned(),
        Method::Top(_) => "top layers (by k)".to_owned(),
        other => other.to_string(),
    }
}

/// How several lines of one figure look, one for each task.
fn task_look(number: usize) -> Look {
    const MARKERS: [Marker; 6] =
        [Marker::Circle, Marker::Square, Marker::Up, Marker::Diamond, Marker::Down, Marker::Plus];
    const DASHES: [&str; 3] = ["", "7 3", "2 3"];
    Look {
        colour: PALETTE[number % PALETTE.len()],
        marker: Some(MARKERS[number % MARKERS.len()]),
        dash: DASHES[number / PALETTE.len() % DASHES.len()],
        joined: true,
    }
}

/// A point with its standard error as error bar.
fn dot(x: f64, name: &str, estimate: Estimate) -> Dot {
    let Estimate { mean, sem, n } = estimate;
    let range = sem.map(|sem| (mean - sem, mean + sem));
    Dot { x, y: mean, range, tip: format!("{name}: {}, {}", written(estimate), seeds(n)) }
}

fn series(look: Look, mut dots: Vec<Dot>) -> Series {
    dots.sort_by(|a, b| a.x.total_cmp(&b.x));
    Series { look, band: false, dots }
}

/// An estimate in words.
pub(crate) fn written(Estimate { mean, sem, .. }: Estimate) -> String {
    match sem {
        Some(sem) => format!("{mean:.1} ± {sem:.1}"),
        None => format!("{mean:.1}"),
    }
}

fn seeds(n: usize) -> String {
    if n == 1 { "1 seed".to_owned() } else { format!("{n} seeds") }
}

fn score_axis(metric: &str) -> AxisSpec {
    let label = format!("validation {} × 100", metric_name(metric));
    AxisSpec { label, log: false, format: Format::Plain, ticks: Vec::new() }
}

fn parameter_axis() -> AxisSpec {
    let label = "trained parameters per task".to_owned();
    AxisSpec { label, log: true, format: Format::Count, ticks: Vec::new() }
}

/// An axis of powers with marks at its own values.
fn power_axis(label: &str, ticks: Vec<f64>) -> AxisSpec {
    AxisSpec { label: label.to_owned(), log: true, format: Format::Power, ticks }
}

/// A metric as it is said.
pub(crate) fn metric_name(metric: &str) -> String {
    let said = metric.split('_').map(|word| match word {
        "f1" => "F1",
        "matthews" => "Matthews",
        "pearson" => "Pearson",
        "spearman" => "Spearman",
        other => other,
    });
    said.collect::<Vec<_>>().join(" ")
}

/// The metric of a task's runs; several are all named.
fn metric_of(runs: &[&Run], task: &str) -> String {
    let mut metrics: Vec<&str> = runs.iter().filter(|run| run.task == task).filter_map(|run| run.metric()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    if metrics.is_empty() { "score".to_owned() } else { metrics.join(", ") }
}

/// Points of a task's runs by a number of their configuration, in its order.
fn by_value<'a>(runs: impl Iterator<Item = &'a Run>, value: impl Fn(&Run) -> Option<f64>) -> Vec<(f64, Point<'a>)> {
    let mut groups: Vec<(f64, Vec<&Run>)> = Vec::new();
    for run in runs {
        let Some(value) = value(run) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, group)) => group.push(run),
            None => groups.push((value, vec![run])),
        }
    }
    groups.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    groups.into_iter().filter_map(|(value, runs)| Some((value, Point::of(runs)?))).collect()
}

/// Scores of a task against the adapters' initial σ.
pub(crate) fn by_sigma<'a>(runs: &[&'a Run], task: &str) -> Vec<(f64, Point<'a>)> {
    by_value(runs.iter().copied().filter(|run| run.task == task), |run| run.init_std)
}

/// Scores of a task against the learning rate, for adapters or for full fine-tuning.
pub(crate) fn by_rate<'a>(runs: &[&'a Run], task: &str, full: bool) -> Vec<(f64, Point<'a>)> {
    let wanted = |method: &Method| if full { *method == Method::Full } else { method.adapter_size().is_some() };
    by_value(runs.iter().copied().filter(|run| run.task == task && wanted(&run.method)), |run| Some(run.learning_rate))
}
