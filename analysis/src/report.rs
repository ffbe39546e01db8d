//! Everything that runs show, as files.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
};

use crate::{
    Store, StoreError,
    chart::Figure,
    figures,
    findings::{Finding, findings},
    page::{Page, link},
    render::{Drawing, RenderError},
    store::Problem,
    tables,
};

/// What was written.
#[derive(Clone, Debug)]
pub struct Report {
    /// The page.
    pub page: PathBuf,
    /// Finished runs that were read.
    pub runs: usize,
    /// The verdicts.
    pub findings: Vec<Finding>,
    /// Figures and tables whose runs are not there.
    pub gaps: Vec<&'static str>,
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
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A figure cannot be drawn.
    #[error(transparent)]
    Render(#[from] RenderError),
}

/// Reads the runs in `runs` and writes the page, the figures and the tables into `out`. A file is there whole or not at all.
///
/// # Errors
/// If there is no such folder of runs, or a file cannot be written. Runs that are missing or damaged are gaps, not errors.
pub fn write_report(runs: &Path, out: &Path) -> Result<Report, ReportError> {
    let store = Store::read(runs)?;
    let (figures, tables, findings) = (figures::all(&store), tables::all(&store), findings(&store));
    for folder in [out.join("figures"), out.join("tables")] {
        fs::create_dir_all(&folder).map_err(|source| ReportError::Write { path: folder, source })?;
    }
    // Pictures cost most: each figure has a thread.
    thread::scope(|scope| {
        let drawn: Vec<_> = figures.iter().map(|figure| scope.spawn(|| write_figure(figure, out))).collect();
        drawn.into_iter().try_for_each(|figure| figure.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    for table in &tables {
        for (kind, text) in [("md", table.markdown()), ("csv", table.csv()), ("tex", table.latex())] {
            write(&out.join("tables").join(format!("{}.{kind}", table.name)), text.as_bytes())?;
        }
    }
    let absolute = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let link = link(&absolute(out), &absolute(runs));
    let page = Page { store: &store, link, figures: &figures, tables: &tables, findings: &findings }.html();
    let path = out.join("report.html");
    write(&path, page.as_bytes())?;
    let gaps = figures.iter().filter(|figure| !figure.has_data()).map(|figure| figure.name);
    let gaps = gaps.chain(tables.iter().filter(|table| table.gap.is_some()).map(|table| table.name)).collect();
    Ok(Report { page: path, runs: store.finished(), findings, gaps, problems: store.problems })
}

fn write_figure(figure: &Figure, out: &Path) -> Result<(), ReportError> {
    let svg = figure.svg();
    let drawing = Drawing::new(&svg)?;
    for (kind, bytes) in [("svg", svg.into_bytes()), ("png", drawing.png()?), ("pdf", drawing.pdf()?)] {
        write(&out.join("figures").join(format!("{}.{kind}", figure.name)), &bytes)?;
    }
    Ok(())
}

/// Writes a file beside its place and then moves it there.
fn write(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&beside);
        ReportError::Write { path: path.to_owned(), source }
    })
}
