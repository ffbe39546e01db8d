//! The page: everything that the runs show, in one file that needs no network. Its text is in `templates`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path},
};

use askama::Template;
use serde_json::{Value, json};

use crate::{
    Evaluation, ExperimentRecord, RunRecord, Store,
    axis::{count, counted},
    evidence::Verdict,
    exhibit::{Exhibit, Shown},
    findings::{Finding, headline},
    folder::{ABLATION, EXPERIMENTS, RECORD},
    made::Made,
    names::{task_name, task_title},
    setup::Run,
    table::{Cell, Table},
    thresholds::{Threshold, rule, thresholds},
};

/// An exhibit and what it shows; `None` is a gap.
type Part<'a> = (&'a Exhibit, &'a Option<Shown>);

/// What a page shows.
pub struct Page<'a> {
    /// The runs.
    pub store: &'a Store,
    /// Where their files are, seen from the page; an export has none.
    pub link: Option<String>,
    /// Of experiments that drew themselves.
    pub own: Vec<Part<'a>>,
    /// Of the report's own list.
    pub exhibits: Vec<Part<'a>>,
    /// All verdicts.
    pub findings: &'a [Finding],
    /// How the page came about.
    pub made: &'a Made,
}

/// Figures that tell the paper's story at a glance, the best first.
const HEROES: [&str; 3] = ["fig1", "fig4", "fig5"];
/// The same on the paper's own network, where Fig. 4 has the paper's points.
const BERT_HEROES: [&str; 3] = ["fig4", "fig1", "fig5"];

#[derive(Template)]
#[template(path = "report.html")]
struct ReportHtml<'a> {
    style: &'static str,
    script: &'static str,
    headline: String,
    facts: Vec<String>,
    contents: Vec<Link>,
    empty: Option<&'static str>,
    incomplete: Option<String>,
    hero: Option<String>,
    own: Vec<String>,
    verdicts: String,
    findings: Vec<FindingHtml<'a>>,
    rule: String,
    thresholds: String,
    sections: Vec<String>,
    unrun: String,
    runs: String,
    made: Vec<String>,
}

struct Link {
    target: String,
    text: String,
}

struct FindingHtml<'a> {
    class: &'static str,
    mark: &'static str,
    said: &'static str,
    name: &'a str,
    paper: &'a str,
    shows: &'a str,
    brief: String,
    likely: Option<&'a str>,
    /// The exhibit that shows it.
    place: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "section.html")]
struct SectionHtml<'a> {
    name: &'a str,
    title: &'a str,
    figure: Option<FigureHtml>,
    table: Option<String>,
    files: Vec<FileHtml>,
    findings: Vec<FindingHtml<'a>>,
    behind: Vec<BehindHtml<'a>>,
}

struct FigureHtml {
    wide: String,
    /// Where a narrow page shows it otherwise.
    narrow: Option<String>,
    about: String,
    data: Option<String>,
}

struct FileHtml {
    path: String,
    kind: &'static str,
}

struct BehindHtml<'a> {
    title: &'a str,
    section: String,
}

#[derive(Template)]
#[template(path = "runs.html")]
struct RunsHtml {
    experiments: Vec<ExperimentHtml>,
    /// Of each its kind and the rest of the sentence.
    gaps: Vec<(String, String)>,
    runs: Vec<RunHtml>,
    /// How many runs there are.
    of: usize,
    data: String,
}

struct ExperimentHtml {
    document: Document,
    about: String,
    scale: String,
    changed: String,
    planned: usize,
    finished: usize,
    failed: usize,
    missing: String,
}

struct RunHtml {
    id: String,
    record: Document,
    ablation: Option<Document>,
    experiments: String,
    task: String,
    /// What it is found by.
    words: String,
    summary: String,
    diverged: bool,
    seed: u64,
    trained: usize,
    trained_said: String,
    validation: String,
    test: String,
    seconds: String,
}

/// A document, with a link to its file where there is one.
struct Document {
    name: String,
    link: Option<String>,
}

impl Page<'_> {
    /// The whole document.
    pub fn html(&self) -> askama::Result<String> {
        let is_bert = self.store.preset_runs("fig4").iter().all(|run| run.backbone.starts_with("bert-base"));
        let hero = if is_bert { BERT_HEROES } else { HEROES }.iter().find_map(|name| {
            let has_data = |(exhibit, shown): &&Part<'_>| exhibit.name() == *name && shown.is_some();
            self.exhibits.iter().find(has_data).copied()
        });
        let is_hero = |part: &Part<'_>| hero.is_some_and(|(of, _)| of.name() == part.0.name());
        let others: Vec<Part<'_>> = self.exhibits.iter().copied().filter(|part| !is_hero(part)).collect();
        let findings: Vec<FindingHtml<'_>> = self.findings.iter().map(|finding| self.finding(finding)).collect();
        let page = ReportHtml {
            style: include_str!("../templates/report.css"),
            script: include_str!("../templates/report.js"),
            headline: headline(self.store).unwrap_or_else(|| "What these runs show".to_owned()),
            facts: self.facts(),
            contents: self.contents(),
            empty: self.store.runs.is_empty().then_some(if self.store.problems.is_empty() {
                "There are no finished runs in this folder yet."
            } else {
                "None of the records in this folder can be read; see below why."
            }),
            incomplete: self.incomplete(),
            hero: hero.map(|part| self.sections(&[part])).transpose()?.map(|sections| sections.concat()),
            own: self.sections(&self.own)?,
            verdicts: self.verdicts(),
            findings,
            rule: rule(),
            thresholds: thresholds_table()?,
            sections: self.sections(&others)?,
            unrun: self.not_run(),
            runs: self.runs()?,
            made: self.made.lines(),
        };
        page.render()
    }

    fn contents(&self) -> Vec<Link> {
        let link = |target: &str, text: &str| Link { target: target.to_owned(), text: text.to_owned() };
        let shown = |parts: &[Part<'_>]| {
            let shown = parts.iter().filter(|(exhibit, shown)| shown.is_some() && exhibit.behind().is_none());
            shown.map(|(of, _)| link(of.name(), of.short())).collect::<Vec<_>>()
        };
        let mut links = shown(&self.own);
        if !self.findings.is_empty() {
            links.push(link("findings", "Findings"));
        }
        links.extend(shown(&self.exhibits));
        links.push(link("runs", "Runs"));
        links
    }

    /// What was run, on what, and how long: two lines.
    fn facts(&self) -> Vec<String> {
        let runs: Vec<&Run> = self.store.runs.values().collect();
        if runs.is_empty() {
            return Vec::new();
        }
        let distinct = |values: &mut dyn Iterator<Item = String>| {
            let all: BTreeSet<String> = values.filter(|value| !value.is_empty()).collect();
            all.into_iter().collect::<Vec<_>>().join(", ")
        };
        let experiments = || self.store.experiments();
        let seconds = runs.iter().map(|run| run.measured.training_seconds + run.measured.evaluation_seconds);
        let backbones: BTreeMap<&str, usize> =
            runs.iter().map(|run| (run.backbone.as_str(), run.params.backbone)).collect();
        // A stream makes a backbone of its own of every task, called `name+task`: one name stands for all of them.
        let streamed = |name: &str| name.rmatch_indices('+').any(|(place, _)| backbones.contains_key(&name[..place]));
        let backbones: Vec<String> = backbones
            .iter()
            .filter(|(name, _)| !name.is_empty() && !streamed(name))
            .map(|(name, parameters)| format!("{name} ({} parameters)", count(*parameters as f64)))
            .collect();
        let software = runs.iter().flat_map(|run| &*run.software).map(|(name, version)| format!("{name} {version}"));
        let devices = runs.iter().filter_map(|run| {
            let fingerprints = &run.fingerprints;
            let device = fingerprints.get("device")?;
            Some(fingerprints.get("dtype").map_or(device.clone(), |dtype| format!("{device} ({dtype})")))
        });
        let tasks: BTreeSet<&str> = runs.iter().map(|run| run.task.as_str()).collect();
        let scales = distinct(&mut experiments().map(|experiment| experiment.scale.clone()));
        let failed: usize = experiments().map(|experiment| experiment.failed.len()).sum();
        let diverged = runs.iter().filter(|run| run.is_diverged()).count();
        let memory = runs.iter().filter_map(|run| run.measured.peak_memory_bytes).max();
        let on = if backbones.is_empty() { String::new() } else { format!(" on {}", backbones.join(", ")) };
        let scale = if scales.is_empty() { String::new() } else { format!(", scale {scales}") };
        let first = format!(
            "{} of {}{on}{scale}: {} of computing.",
            counted(runs.len(), "run"),
            counted(tasks.len(), "task"),
            duration(seconds.sum())
        );
        let count_as = if diverged == 1 { "counts" } else { "count" };
        let mut second = vec![match (failed, diverged) {
            (0, 0) => "No run failed or diverged".to_owned(),
            (failed, 0) => format!("{} failed", counted(failed, "run")),
            (failed, diverged) => {
                format!("{} failed, {diverged} diverged and {count_as} as the trivial answer", counted(failed, "run"))
            }
        }];
        let device = distinct(&mut devices.into_iter());
        second.extend((!device.is_empty()).then(|| format!("device {device}")));
        second.extend(memory.map(|bytes| format!("largest process {:.1} GB", bytes as f64 / 1e9)));
        second.extend(Some(distinct(&mut software.into_iter())).filter(|software| !software.is_empty()));
        vec![first, second.join("; ") + "."]
    }

    fn finding<'f>(&'f self, finding: &'f Finding) -> FindingHtml<'f> {
        let (class, mark) = match finding.verdict {
            Verdict::Agrees => ("yes", "✓"),
            Verdict::Disagrees => ("no", "✗"),
            Verdict::CannotSay => ("open", "○"),
        };
        let is_shown = |place: &&&str| self.exhibits.iter().any(|(of, shown)| of.name() == **place && shown.is_some());
        FindingHtml {
            class,
            mark,
            said: finding.verdict.in_words(),
            name: finding.name,
            paper: finding.paper,
            shows: &finding.shows,
            brief: finding.brief(),
            likely: finding.likely.as_deref(),
            place: finding.shown_in.iter().find(is_shown).copied(),
        }
    }

    fn verdicts(&self) -> String {
        let number = |wanted| self.findings.iter().filter(|finding| finding.verdict == wanted).count();
        let verb = |number: usize, verb: &str| format!("{number} {verb}{}", if number == 1 { "s" } else { "" });
        format!(
            "Of {} of the paper, {} with these runs and {}; {} cannot be judged.",
            counted(self.findings.len(), "finding"),
            verb(number(Verdict::Agrees), "agree"),
            verb(number(Verdict::Disagrees), "disagree"),
            number(Verdict::CannotSay)
        )
    }

    /// What exhibits show, one section for each that has anything to show.
    fn sections(&self, parts: &[Part<'_>]) -> askama::Result<Vec<String>> {
        let is_shown = |name: &str| self.exhibits.iter().any(|(of, shown)| of.name() == name && shown.is_some());
        let mut sections = Vec::new();
        // What stands behind nothing that is shown stands for itself.
        for &(exhibit, shown) in parts.iter().filter(|(exhibit, _)| !exhibit.behind().is_some_and(is_shown)) {
            let Some(shown) = shown else { continue };
            let mut behind = Vec::new();
            for (other, more) in self.exhibits.iter().filter(|(other, _)| other.behind() == Some(exhibit.name())) {
                if let Some(more) = more {
                    let section = self.section(other, more, Vec::new())?.render()?;
                    behind.push(BehindHtml { title: other.short(), section });
                }
            }
            sections.push(self.section(exhibit, shown, behind)?.render()?);
        }
        Ok(sections)
    }

    fn section<'s>(
        &'s self,
        exhibit: &'s Exhibit,
        shown: &'s Shown,
        behind: Vec<BehindHtml<'s>>,
    ) -> askama::Result<SectionHtml<'s>> {
        let name = exhibit.name();
        let own = self.findings.iter().filter(|finding| finding.shown_in.contains(&name));
        let file = |folder: &str, kind| FileHtml { path: format!("{folder}/{name}.{kind}"), kind };
        let (title, figure, table, files) = match shown {
            Shown::Figure(figure) => {
                let (wide, narrow, data) = (figure.wide(), figure.narrow(), figure.data());
                let has_data = !data.rows.is_empty();
                let kinds = ["svg", "png", "pdf", "csv"].into_iter().take(if has_data { 4 } else { 3 });
                let html = FigureHtml {
                    narrow: (wide != narrow).then_some(narrow),
                    wide,
                    about: format!("{}.", figure.about.trim_end_matches('.')),
                    data: if has_data { Some(data.html()?) } else { None },
                };
                (&figure.title, Some(html), None, kinds.map(|kind| file("figures", kind)).collect())
            }
            Shown::Table(table) => {
                let files = ["md", "csv", "tex"].map(|kind| file("tables", kind)).into();
                (&table.title, None, Some(table.html()?), files)
            }
        };
        let findings = own.map(|finding| self.finding(finding)).collect();
        Ok(SectionHtml { name, title, figure, table, files, findings, behind })
    }

    /// What has nothing to show, in one line.
    fn not_run(&self) -> String {
        let gaps = || {
            self.own
                .iter()
                .chain(&self.exhibits)
                .filter(|(of, shown)| shown.is_none() && of.is_missed())
                .map(|(of, _)| *of)
        };
        let has_runs = |exhibit: &&Exhibit| {
            let mut own = self.store.experiments().filter(|record| exhibit.claims(record));
            own.any(|record| !self.store.runs(record).is_empty())
        };
        let (begun, missing): (Vec<&Exhibit>, Vec<&Exhibit>) = gaps().partition(has_runs);
        let name = |exhibit: &&Exhibit| {
            let (name, experiment) = (exhibit.name(), exhibit.experiment());
            if name == experiment { name.to_owned() } else { format!("{name} (of {experiment})") }
        };
        let said = [("Not run", missing), ("Nothing to draw", begun)].into_iter().filter(|(_, of)| !of.is_empty());
        let said = said.map(|(what, of)| format!("{what}: {}", of.iter().map(name).collect::<Vec<_>>().join(", ")));
        said.collect::<Vec<_>>().join(". ")
    }

    /// Experiments with the names of their files: first those that drew themselves, then in the order of the exhibits.
    fn ordered(&self) -> Vec<(&String, &ExperimentRecord)> {
        let place = |record: &ExperimentRecord| self.exhibits.iter().position(|(exhibit, _)| exhibit.claims(record));
        let mut all: Vec<_> = self.store.experiments.iter().collect();
        all.sort_by_key(|(_, record)| place(record));
        all
    }

    fn document(&self, file: &str, name: &str) -> Document {
        Document { name: name.to_owned(), link: self.link.as_ref().map(|folder| format!("{folder}/{file}")) }
    }

    /// What the page is made without: that may change verdicts.
    fn incomplete(&self) -> Option<String> {
        let (problems, runs) = (&self.store.problems, self.store.runs.len());
        let first = problems.first().filter(|_| runs > 0)?;
        let records = counted(problems.len(), "record");
        Some(format!("{records} cannot be read, and this page is made without: {}: {}", first.file, first.what))
    }

    /// Experiments, gaps and every run.
    fn runs(&self) -> askama::Result<String> {
        let experiment = |(file, record): (&String, &ExperimentRecord)| ExperimentHtml {
            document: self.document(&format!("{EXPERIMENTS}/{}", encode(file)), &record.name),
            about: record.about.clone(),
            scale: record.scale.clone(),
            changed: record.overrides_in_words(),
            planned: record.planned,
            finished: self.store.runs(record).len() - record.incomplete_runs(self.store),
            failed: record.failed.len(),
            missing: record.missing.iter().map(|task| task_name(task)).collect::<Vec<_>>().join(", "),
        };
        let mut experiments_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for record in self.store.experiments() {
            for id in &record.runs {
                let of = experiments_of.entry(id).or_default();
                if !of.contains(&record.name.as_str()) {
                    of.push(&record.name);
                }
            }
        }
        let shown = self.store.runs.iter().take(RUNS);
        let of = |id: &str| experiments_of.get(id).map(|names| names.join(", ")).unwrap_or_default();
        let html = RunsHtml {
            experiments: self.ordered().into_iter().map(experiment).collect(),
            gaps: self.gaps(),
            runs: shown.map(|(id, run)| self.run(id, run, of(id))).collect(),
            of: self.store.runs.len(),
            data: run_data(self.store),
        };
        html.render()
    }

    fn run(&self, id: &str, run: &Run, experiments: String) -> RunHtml {
        let score = |score: Option<f64>| score.map_or("—".to_owned(), |score| format!("{:.1}", 100.0 * score));
        let ablated = self.store.ablations.contains_key(id);
        let (task, summary) = (task_title(&run.task), run.summary());
        RunHtml {
            words: format!("{id} {experiments} {} {task} {summary}", run.task).to_lowercase(),
            record: self.document(&format!("{}/{RECORD}", encode(id)), id),
            ablation: ablated.then(|| self.document(&format!("{}/{ABLATION}", encode(id)), "ablation")),
            experiments,
            task: task_name(&run.task),
            summary,
            diverged: run.is_diverged(),
            seed: run.seed,
            trained: run.trained(),
            trained_said: count(run.trained() as f64),
            validation: score(run.validation()),
            test: score(run.test()),
            seconds: format!("{:.0}", run.measured.training_seconds),
            id: id.to_owned(),
        }
    }

    /// What is not there, and why.
    fn gaps(&self) -> Vec<(String, String)> {
        let mut gaps: Vec<(String, String)> = Vec::new();
        for experiment in self.store.experiments() {
            for failed in &experiment.failed {
                gaps.push(("failed".to_owned(), format!(" in {}: {}: {}", experiment.name, failed.run, failed.error)));
            }
            let known = experiment.runs.iter().filter(|id| !self.store.runs.contains_key(*id)).count();
            if known > 0 {
                let what = format!(" of {} that {} names as finished", counted(known, "run"), experiment.name);
                gaps.push(("no record".to_owned(), what));
            }
            let lacking = experiment.incomplete_runs(self.store);
            if lacking > 0 {
                let (what, runs) =
                    (if experiment.kind == "ablate" { "ablation" } else { "stream" }, counted(lacking, "run"));
                gaps.push((format!("no {what}"), format!(" of {runs} that {} names as finished", experiment.name)));
            }
        }
        let problems = self.store.problems.iter();
        gaps.extend(problems.map(|problem| (problem.file.clone(), format!(": {}", problem.what))));
        if !self.store.unfinished.is_empty() {
            let (runs, names) = (counted(self.store.unfinished.len(), "run"), self.store.unfinished.join(", "));
            gaps.push(("unfinished".to_owned(), format!(", the same command continues them: {runs} ({names})")));
        }
        gaps
    }
}

/// Every threshold with its reason.
fn thresholds_table() -> askama::Result<String> {
    let head = ["what", "threshold", "unit", "why"].map(str::to_owned).to_vec();
    let row = |threshold: &Threshold| {
        let Threshold { name, limit, unit, reason, .. } = threshold;
        let asked = format!("{} {limit}", threshold.side.in_words());
        [name.to_string(), asked, unit.to_string(), reason.to_string()].map(Cell::Text).to_vec()
    };
    let rows = thresholds().iter().map(row).collect();
    Table { title: "Thresholds, fixed before the runs".to_owned(), head, rows, notes: Vec::new() }.html()
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// A folder as a link from another one. Both must be absolute.
pub fn link(from: &Path, to: &Path) -> String {
    let (from, to): (Vec<_>, Vec<_>) = (from.components().collect(), to.components().collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..".to_owned(), from.len() - shared);
    let down = to[shared..].iter().filter(|part| matches!(part, Component::Normal(_) | Component::Prefix(_)));
    let parts: Vec<String> = up.chain(down.map(|part| encode(&part.as_os_str().to_string_lossy()))).collect();
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}

/// A name as a part of a link.
fn encode(name: &str) -> String {
    let mut encoded = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(char::from(byte)),
            other => encoded += &format!("%{other:02X}"),
        }
    }
    encoded
}

/// Runs that a page lists at most: more than these nobody reads, and a browser has to.
const RUNS: usize = 2000;

/// What the page's script shows of runs: their settings and their learning curves.
fn run_data(store: &Store) -> String {
    let records = store.records(store.runs.keys().take(RUNS).map(String::as_str)).unwrap_or_default();
    let of = |(id, record): (&str, RunRecord)| {
        let run = store.runs.get(id);
        let metric = run.and_then(Run::metric).unwrap_or("score").to_owned();
        let score = |evaluation: &Evaluation| Some((evaluation.steps, *evaluation.validation.get(&metric)?));
        let scores: Vec<(usize, f64)> = record.evaluations.iter().filter_map(score).collect();
        let RunRecord { mut config, loss_curve, .. } = record;
        // With what the record leaves out.
        config.extend(run.iter().flat_map(|run| run.config.iter()).map(|(key, value)| (key.clone(), value.clone())));
        (id.to_owned(), json!({ "config": config, "loss": loss_curve, "metric": metric, "scores": scores }))
    };
    let all: BTreeMap<String, Value> = records.into_iter().map(of).collect();
    // Nothing inside may end the element that holds it.
    serde_json::to_string(&all).unwrap_or_default().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/a/out", "/a/out/runs", "runs")]
    #[case("/a/out", "/a/runs", "../runs")]
    #[case("/a/out", "/a/out", ".")]
    #[case("/a/b", "/c d/#", "../../c%20d/%23")]
    fn links_lead_from_the_page_to_the_runs(#[case] from: &str, #[case] to: &str, #[case] expected: &str) {
        assert_eq!(link(Path::new(from), Path::new(to)), expected);
    }
}
