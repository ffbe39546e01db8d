//! Everything that runs show, as files.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    Store, StoreError,
    chart::Figure,
    exhibit::{Exhibit, Shown},
    files::{sweep, write_file},
    findings::{Finding, findings, verdicts},
    made::Made,
    own,
    page::{Page, link},
    parallel::one_by_one,
    render::{Drawing, RenderError},
    store::Problem,
    table::Table,
};

/// What was written.
#[derive(Clone, Debug)]
pub struct Report {
    /// The page.
    pub page: PathBuf,
    /// Finished runs that were read.
    pub runs: usize,
    /// How many of them belong to no experiment, so that nothing is drawn of them.
    pub without_experiment: usize,
    /// Names of the figures and tables of experiments that none of the exhibits is made of.
    pub own: Vec<String>,
    /// The verdicts that belong to any of the exhibits.
    pub findings: Vec<Finding>,
    /// Names of the exhibits that have nothing to show.
    pub gaps: Vec<String>,
    /// Records that could not be used.
    pub problems: Vec<Problem>,
}

/// A report that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The runs cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be written.
    #[error("cannot write {}: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// The page cannot be put together.
    #[error("cannot put the page together: {0}")]
    Page(#[from] askama::Error),
    /// A figure cannot be drawn.
    #[error(transparent)]
    Render(#[from] RenderError),
}

/// Reads the runs in `runs` and [writes](Store::write_report) what they show.
///
/// # Errors
/// If there is no such folder of runs, or a file cannot be written. Runs that are missing or damaged are gaps, not errors.
pub fn write_report(runs: &Path, out: &Path, exhibits: &[Exhibit], made: &Made) -> Result<Report, ReportError> {
    Store::read(runs)?.write_report(out, exhibits, made)
}

impl Store {
    /// Writes the page, the figures and the tables into `out`: those of `exhibits`, such as
    /// [`paper_exhibits`](crate::paper_exhibits), and before them a figure and a table of every experiment that none of them is
    /// made of; the page's foot says how it was `made`. The verdicts are a table of their own, `findings`. A file is there whole
    /// or not at all.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_report(self, out: &Path, exhibits: &[Exhibit], made: &Made) -> Result<Report, ReportError> {
        let own = own::exhibits(&self, exhibits);
        let show = |of: &[Exhibit]| one_by_one(of, &|exhibit| exhibit.show(&self));
        let (own_shown, shown) = (show(&own), show(exhibits));
        let named = |name: &str| exhibits.iter().any(|exhibit| exhibit.name() == name);
        let mut findings = findings(&self);
        findings.retain(|finding| finding.shown_in.iter().any(|name| named(name)));
        for folder in [out.to_owned(), out.join("figures"), out.join("tables")] {
            fs::create_dir_all(&folder).map_err(|reason| ReportError::Write { path: folder.clone(), reason })?;
            sweep(&folder);
        }
        let all = || own.iter().chain(exhibits).zip(own_shown.iter().chain(&shown));
        let figures: Vec<(&Exhibit, &Figure)> = all()
            .filter_map(|(exhibit, shown)| match shown {
                Some(Shown::Figure(figure)) => Some((exhibit, figure)),
                Some(Shown::Table(_)) | None => None,
            })
            .collect();
        // Pictures cost most, in time and in memory: no more than there are cores at once.
        let written = one_by_one(&figures, &|(exhibit, figure)| write_figure(exhibit.name(), figure, out));
        written.into_iter().collect::<Result<(), ReportError>>()?;
        for (exhibit, shown) in all() {
            if let Some(Shown::Table(table)) = shown {
                write_table(exhibit.name(), table, out)?;
            }
        }
        if !findings.is_empty() {
            write_table("findings", &verdicts(&findings), out)?;
        }
        let absolute = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let page = Page {
            store: &self,
            link: self.folder.is_dir().then(|| link(&absolute(out), &absolute(&self.folder))),
            own: own.iter().zip(&own_shown).collect(),
            exhibits: exhibits.iter().zip(&shown).collect(),
            findings: &findings,
            made,
        };
        let path = out.join("report.html");
        write(&path, page.html()?.as_bytes())?;
        let missing = all().filter(|(exhibit, shown)| shown.is_none() && exhibit.is_missed());
        let gaps = missing.map(|(exhibit, _)| exhibit.name().to_owned()).collect();
        let drawn = own.iter().zip(&own_shown).filter(|(_, shown)| shown.is_some());
        let own = drawn.map(|(exhibit, _)| exhibit.name().to_owned()).collect();
        let (runs, without_experiment) = (self.finished(), self.without_experiment());
        Ok(Report { page: path, runs, without_experiment, own, findings, gaps, problems: self.problems })
    }
}

fn write_figure(name: &str, figure: &Figure, out: &Path) -> Result<(), ReportError> {
    let (svg, data) = (figure.svg(), figure.data());
    let drawing = Drawing::new(&svg)?;
    for (kind, bytes) in [("svg", svg.into_bytes()), ("png", drawing.png()?), ("pdf", drawing.pdf()?)] {
        write(&out.join("figures").join(format!("{name}.{kind}")), &bytes)?;
    }
    if data.rows.is_empty() {
        Ok(())
    } else {
        write(&out.join("figures").join(format!("{name}.csv")), data.csv().as_bytes())
    }
}

fn write_table(name: &str, table: &Table, out: &Path) -> Result<(), ReportError> {
    for (kind, text) in [("md", table.markdown()), ("csv", table.csv()), ("tex", table.latex())] {
        write(&out.join("tables").join(format!("{name}.{kind}")), text.as_bytes())?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    write_file(path, bytes).map_err(|reason| ReportError::Write { path: path.to_owned(), reason })
}
