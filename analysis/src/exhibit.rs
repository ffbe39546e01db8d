//! What a report shows: figures and tables, each with the experiment that it is made of.

use crate::{
    Examples, ExperimentRecord, Store,
    axis::{counted, exact},
    chart::{Figure, Panel},
    figures,
    names::task_name,
    own, paper,
    select::grouped as grouped_runs,
    setup::{ANSWER_F1, Run, configuration},
    table::{Table, grouped},
    tables::{self, search},
};

/// What an exhibit shows.
#[derive(Clone, Debug)]
pub enum Shown {
    /// A figure.
    Figure(Figure),
    /// A table.
    Table(Table),
}

impl Shown {
    /// Whether it has any data: without, it is a gap.
    pub fn has_data(&self) -> bool {
        match self {
            Shown::Figure(figure) => figure.has_data(),
            Shown::Table(table) => !table.rows.is_empty(),
        }
    }

    /// Whether it has values of such runs, that could have errors. The tables of a search and of a stream say their seeds
    /// themselves.
    fn has_values(&self, kind: &str) -> bool {
        let valued = |panel: &Panel| matches!(panel, Panel::Plot(_) | Panel::Rows(_) | Panel::Heat(_));
        match self {
            Shown::Figure(figure) => figure.panels.iter().any(valued),
            Shown::Table(_) => !["search", "stream"].contains(&kind),
        }
    }

    /// Adds a sentence to the caption; it has no full stop.
    fn note(&mut self, note: &str) {
        match self {
            Shown::Figure(figure) => {
                let about = figure.about.trim_end_matches('.');
                figure.about = if about.is_empty() { note.to_owned() } else { format!("{about}. {note}") };
            }
            Shown::Table(table) => table.notes.push(format!("{note}.")),
        }
    }

    /// Adds something to the title.
    fn call(&mut self, how: &str) {
        let title = match self {
            Shown::Figure(figure) => &mut figure.title,
            Shown::Table(table) => &mut table.title,
        };
        *title += &format!(" ({how})");
    }
}

/// How many examples the runs of each task used: tasks with the same numbers together, in the order of the runs.
fn examples(runs: &[&Run]) -> Option<String> {
    let mut sizes: Vec<(String, Vec<&str>)> = Vec::new();
    for run in runs.iter().filter(|run| run.examples != Examples::default()) {
        let Examples { train, validation, test } = run.examples;
        let parts = [train, validation, test].into_iter().take(if test > 0 { 3 } else { 2 });
        let mut parts: Vec<String> = parts.map(|number| grouped(number as f64)).collect();
        // Questions are cut into windows for training.
        if run.metric() == Some(ANSWER_F1) {
            parts[0] += " windows";
        }
        let said = parts.join(" / ");
        let tasks = match sizes.iter_mut().find(|(known, _)| *known == said) {
            Some((_, tasks)) => tasks,
            None => &mut sizes.push_mut((said, Vec::new())).1,
        };
        if !tasks.contains(&run.task.as_str()) {
            tasks.push(&run.task);
        }
    }
    let said = sizes
        .iter()
        .map(|(sizes, tasks)| {
            format!("{} {sizes}", tasks.iter().map(|task| task_name(task)).collect::<Vec<_>>().join(", "))
        })
        .collect::<Vec<_>>()
        .join("; ");
    let parts = if runs.iter().any(|run| run.examples.test > 0) { " / test" } else { "" };
    (!said.is_empty()).then(|| format!("Examples used (training / validation{parts}): {said}"))
}

/// On what an experiment ran, and the command that makes it again; nothing for a quick look.
fn made_by(record: &ExperimentRecord) -> Option<String> {
    let ExperimentRecord { name, scale, backbones, preset, .. } = record;
    if !preset || backbones.is_empty() || scale == "quick" {
        return None;
    }
    let backbones: Vec<String> = backbones
        .iter()
        .map(|(name, note)| if note.is_empty() { name.clone() } else { format!("{name} ({note})") })
        .collect();
    let command = format!("adapter-lab run {name} --scale {scale}");
    if record.kind == "search" {
        return Some(format!(
            "The word pieces of {} are one of the embeddings. Made by `{command}`",
            backbones.join(" and ")
        ));
    }
    Some(format!(
        "Backbone: {}. Made by `{command}`; with a GPU, `{command} --backbone bert-base-uncased` does the same on BERT-base",
        backbones.join(" and ")
    ))
}

/// With which learning rates and for how many epochs each method was trained.
fn settings(runs: &[&Run]) -> Option<String> {
    let mut methods: Vec<(&str, &str)> = Vec::new();
    for method in runs.iter().map(|run| run.method()).filter(|method| method.name != paper::NO_BERT) {
        if !methods.iter().any(|(known, _)| *known == method.name) {
            // Without what it is swept by: `adapters (by size)`.
            let called = method.family.split(" (").next().unwrap_or_default();
            methods.push((&method.name, called));
        }
    }
    let of_method = |(name, called): &(&str, &str)| {
        let range = |key: &str| {
            let own = runs.iter().filter(|run| run.method().name == *name);
            let values: Vec<f64> = own.filter_map(|run| run.number(key)).collect();
            let (low, high) = (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
            Some((high, if low < high { format!("{} to {}", exact(low), exact(high)) } else { exact(low) }))
        };
        let ((_, rate), (most, epochs)) = (range("lr")?, range("epochs")?);
        Some(format!("{called} {rate}, {epochs} epoch{}", if most == 1.0 { "" } else { "s" }))
    };
    let said: Vec<String> = methods.iter().filter_map(of_method).collect();
    (!said.is_empty()).then(|| format!("Learning rate and epochs: {}", said.join("; ")))
}

/// How many seeds each configuration has.
fn seeds(runs: &[&Run], shown: &Shown) -> Option<String> {
    let mut numbers: Vec<usize> =
        grouped_runs(runs.iter().copied(), configuration, Ord::cmp).iter().map(|(_, runs)| runs.len()).collect();
    numbers.sort_unstable();
    let said = match (*numbers.first()?, *numbers.last()?) {
        (1, 1) if matches!(shown, Shown::Table(_)) => "One seed: there are no standard errors".to_owned(),
        (1, 1) => "One seed: there are no error bars".to_owned(),
        (least, most) if least == most => format!("{most} seeds of each configuration"),
        (least, most) => format!("{least} to {most} seeds of each configuration"),
    };
    Some(said)
}

/// What is said of runs that diverged.
fn diverged(runs: &[&Run], shown: &Shown) -> Option<String> {
    let number = runs.iter().filter(|run| run.is_diverged()).count();
    // Only spans of layers have a diagonal.
    let is_of_spans = |panel: &Panel| matches!(panel, Panel::Heat(heat) if heat.diagonal);
    let counts_as = match shown {
        Shown::Figure(figure) if figure.panels.iter().any(is_of_spans) => "not in this figure",
        _ => {
            "each counts as the trivial answer, also on other sets than validation (test, mismatched), where the trivial \
             answer's score on validation stands for it"
        }
    };
    (number > 0).then(|| format!("{number} of {} diverged: {counts_as}", counted(runs.len(), "run")))
}

/// A figure or a table of a report.
///
/// [`paper_exhibits`] are those of the paper. One more is a function from the runs to a [`Figure`] or a [`Table`]:
///
/// ```
/// use analysis::*;
///
/// /// Scores against the time that training took.
/// fn times(store: &Store) -> Option<Figure> {
///     let runs = store.runs_of("mine");
///     let dots = runs.iter().filter_map(|run| {
///         let (x, y) = (run.measured.training_seconds, 100.0 * run.validation()?);
///         Some(Dot::new(x, y, run.summary()))
///     });
///     let series = vec![Series::new("runs", Look { joined: false, ..Look::nth(0) }, dots.collect())];
///     let x = AxisSpec { label: "seconds".to_owned(), log: false, format: Format::Exact, ticks: Vec::new() };
///     let plot = Plot { title: "all runs".to_owned(), x, y: AxisSpec::score("score"), level: None, series };
///     let title = "Score against time".to_owned();
///     // Without runs there is nothing to show: the report says so in one line.
///     (!runs.is_empty()).then(|| Figure { title, about: String::new(), keys: Vec::new(), panels: vec![Panel::Plot(plot)] })
/// }
///
/// let mut exhibits = paper_exhibits();
/// exhibits.push(Exhibit::figure("times", "Times", "mine", times));
/// # let (runs, out) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// let report = write_report(runs.path(), out.path(), &exhibits, &Made::default())?;
/// assert!(report.gaps.contains(&"times".to_owned()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Exhibit {
    name: String,
    short: String,
    experiment: String,
    preset: bool,
    /// The exhibit that it stands behind.
    behind: Option<String>,
    /// Whether nobody misses it where there are no runs.
    optional: bool,
    /// The file of the experiment, where its name is not enough to find it.
    file: Option<String>,
    /// Which runs of the experiment it shows.
    shown_runs: fn(Vec<&Run>) -> Vec<&Run>,
    show: Box<Show>,
}

/// How an exhibit is made of runs.
type Show = dyn Fn(&Store) -> Option<Shown> + Send + Sync;

impl Exhibit {
    /// A figure: the name of its files and of its place on the page, a short one for the page's list of contents, the
    /// experiment whose runs it shows, and how it is made of them; `None` if there are none. Names differ from each other;
    /// what is not fit for a file name is replaced.
    pub fn figure(
        name: &str,
        short: &str,
        experiment: &str,
        make: impl Fn(&Store) -> Option<Figure> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, short, experiment, move |store| make(store).map(Shown::Figure))
    }

    /// A table, as [`figure`](Self::figure).
    pub fn table(
        name: &str,
        short: &str,
        experiment: &str,
        make: impl Fn(&Store) -> Option<Table> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, short, experiment, move |store| make(store).map(Shown::Table))
    }

    fn new(
        name: &str,
        short: &str,
        experiment: &str,
        show: impl Fn(&Store) -> Option<Shown> + Send + Sync + 'static,
    ) -> Self {
        let (short, experiment) = (short.to_owned(), experiment.to_owned());
        Self {
            name: own::file_name(name),
            short,
            experiment,
            preset: false,
            behind: None,
            optional: false,
            file: None,
            shown_runs: |runs| runs,
            show: Box::new(show),
        }
    }

    /// Whether its name is that of a part of every report.
    pub fn has_reserved_name(&self) -> bool {
        own::PAGE_IDS.contains(&self.name.as_str())
    }

    /// Of a preset: a user's own experiment of the same name is not meant.
    #[must_use]
    pub fn of_preset(self) -> Self {
        Self { preset: true, ..self }
    }

    /// Behind another exhibit: the page shows it folded, below the one of that name.
    #[must_use]
    pub fn standing_behind(self, other: &str) -> Self {
        Self { behind: Some(other.to_owned()), ..self }
    }

    /// Not missed where there are no runs.
    #[must_use]
    pub fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// Of some of the experiment's runs: its caption speaks of no others.
    fn showing(self, shown_runs: fn(Vec<&Run>) -> Vec<&Run>) -> Self {
        Self { shown_runs, ..self }
    }

    /// Whether a report without it has a gap.
    pub(crate) fn is_missed(&self) -> bool {
        !self.optional
    }

    /// Of the experiment in a file.
    pub(crate) fn of_file(self, file: &str) -> Self {
        Self { file: Some(file.to_owned()), ..self }
    }

    /// The name of its files and of its place on the page.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A short name.
    pub fn short(&self) -> &str {
        &self.short
    }

    /// The exhibit that it stands behind.
    pub fn behind(&self) -> Option<&str> {
        self.behind.as_deref()
    }

    /// The experiment that it is made of.
    pub fn experiment(&self) -> &str {
        &self.experiment
    }

    /// Whether it is made of this experiment, which then needs no figure of its own.
    pub fn claims(&self, experiment: &ExperimentRecord) -> bool {
        experiment.name == self.experiment && (experiment.preset || !self.preset)
    }

    /// What it shows, with what a reader must know of its runs: how many examples they used, how many diverged, how many are
    /// still to do, what was changed on a preset; and the paper's own numbers. `None` is a gap.
    pub fn show(&self, store: &Store) -> Option<Shown> {
        let mut shown = (self.show)(store).filter(Shown::has_data)?;
        if let Some(record) = self.record(store) {
            let runs = (self.shown_runs)(store.runs(record));
            let overridden = record.overridden();
            let changed = overridden.clone().map(|how| format!("Run {how}"));
            let theirs = paper::says(&self.name).filter(|_| self.preset).and_then(|said| said.beside(&runs));
            let seeds = seeds(&runs, &shown).filter(|_| shown.has_values(&record.kind));
            let settings = settings(&runs).filter(|_| shown.has_values(&record.kind));
            let notes = [settings, seeds, theirs, examples(&runs), diverged(&runs, &shown), changed, made_by(record)];
            notes.iter().flatten().for_each(|note| shown.note(note));
            let unfinished = record.unfinished(store).map(|left| format!("unfinished: {left}"));
            overridden.iter().chain(&unfinished).for_each(|how| shown.call(how));
        }
        Some(shown)
    }

    /// The experiment that it is made of.
    fn record<'a>(&self, store: &'a Store) -> Option<&'a ExperimentRecord> {
        match &self.file {
            Some(file) => store.experiments.get(file),
            None if self.preset => store.preset(&self.experiment),
            None => store.experiment(&self.experiment),
        }
    }
}

/// The paper's figures and tables, in its order.
pub fn paper_exhibits() -> Vec<Exhibit> {
    let all = [
        Exhibit::figure("fig1", "Fig. 1", "fig3", figures::fig1).showing(figures::of_fig1),
        Exhibit::figure("fig2", "Fig. 2", "fig6-spans", figures::fig2),
        Exhibit::table("table1", "Table 1", "table1", tables::table1),
        Exhibit::table("table2", "Table 2", "table2", tables::table2),
        Exhibit::figure("fig3", "Fig. 3", "fig3", figures::fig3),
        Exhibit::figure("fig3-tasks", "Fig. 3, task by task", "fig3", figures::fig3_tasks).standing_behind("fig3"),
        Exhibit::figure("fig4", "Fig. 4", "fig4", figures::fig4),
        Exhibit::figure("fig5", "Fig. 5", "fig5", figures::fig5),
        Exhibit::figure("fig6-spans", "Fig. 6, spans", "fig6-spans", figures::fig6_spans),
        Exhibit::figure("fig6-init", "Fig. 6, σ", "fig6-init", figures::fig6_init),
        Exhibit::figure("fig7", "Fig. 7", "fig7", figures::fig7),
        Exhibit::table("table5", "Table 5", search::PRESET, search::table5),
        Exhibit::table("table6", "Table 6", search::PRESET, search::table6),
        Exhibit::table("table7", "Table 7", search::PRESET, search::table7),
        Exhibit::table("sizes", "Sizes", "sizes", tables::sizes).showing(tables::of_sizes),
        Exhibit::table("variants", "Variants", "variants", tables::variants),
        Exhibit::table("stream", "Stream", "stream", tables::stream),
        Exhibit::figure("methods-compared", "Methods compared", "methods", figures::beyond).optional(),
    ];
    all.into_iter().map(Exhibit::of_preset).collect()
}
