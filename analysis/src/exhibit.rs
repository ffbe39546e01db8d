//! What a report shows: figures and tables, each with the experiment that it is made of.

use crate::{ExperimentRecord, Store, chart::Figure, figures, own, table::Table, tables};

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
///         let (x, y) = (run.record.measured.training_seconds, 100.0 * run.validation()?);
///         Some(Dot { x, y, range: None, tip: run.summary() })
///     });
///     let series = vec![Series::new(Look { joined: false, ..Look::nth(0) }, dots.collect())];
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
/// let report = write_report(runs.path(), out.path(), &exhibits)?;
/// assert!(report.gaps.contains(&"times".to_owned()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Exhibit {
    name: String,
    short: String,
    experiment: String,
    preset: bool,
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
        Self { name: own::file_name(name), short, experiment, preset: false, show: Box::new(show) }
    }

    /// Of a preset: a user's own experiment of the same name is not meant.
    #[must_use]
    pub fn of_preset(self) -> Self {
        Self { preset: true, ..self }
    }

    /// The name of its files and of its place on the page.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A short name.
    pub fn short(&self) -> &str {
        &self.short
    }

    /// The experiment that it is made of.
    pub fn experiment(&self) -> &str {
        &self.experiment
    }

    /// Whether it is made of this experiment, which then needs no figure of its own.
    pub fn claims(&self, experiment: &ExperimentRecord) -> bool {
        experiment.name == self.experiment && (experiment.preset || !self.preset)
    }

    /// What it shows; `None` is a gap.
    pub fn show(&self, store: &Store) -> Option<Shown> {
        (self.show)(store).filter(Shown::has_data)
    }
}

/// The paper's figures and tables, in its order.
pub fn paper_exhibits() -> Vec<Exhibit> {
    let all = [
        Exhibit::figure("fig1", "Fig. 1", "fig3", figures::fig1),
        Exhibit::table("table1", "Table 1", "table1", tables::table1),
        Exhibit::table("table2", "Table 2", "table2", tables::table2),
        Exhibit::figure("fig3", "Fig. 3", "fig3", figures::fig3),
        Exhibit::figure("fig4", "Fig. 4", "fig4", figures::fig4),
        Exhibit::figure("fig5", "Fig. 5", "fig5", figures::fig5),
        Exhibit::figure("fig6-spans", "Fig. 6, spans", "fig6-spans", figures::fig6_spans),
        Exhibit::figure("fig6-init", "Fig. 6, σ", "fig6-init", figures::fig6_init),
        Exhibit::figure("fig7", "Fig. 7", "fig7", figures::fig7),
        Exhibit::table("sizes", "Sizes", "sizes", tables::sizes),
        Exhibit::table("variants", "Variants", "variants", tables::variants),
        Exhibit::table("stream", "Stream", "stream", tables::stream),
    ];
    all.into_iter().map(Exhibit::of_preset).collect()
}
