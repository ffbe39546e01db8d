//! The page: everything that the runs show, in one file that needs no network.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path},
};

use crate::{
    ExperimentRecord, Store,
    axis::count,
    evidence::Verdict,
    exhibit::{Exhibit, Shown},
    findings::Finding,
    folder::{ABLATION, EXPERIMENTS, RECORD},
    setup::Run,
    svg::escape,
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
}

impl Page<'_> {
    /// The whole document.
    pub fn html(&self) -> String {
        let (css, script) = (include_str!("page.css"), include_str!("page.js"));
        let results = [
            self.facts(),
            self.results("Own experiments", &self.own),
            self.verdicts(),
            self.results("Figures and tables", &self.exhibits),
            self.not_run(),
        ];
        let body = [results.concat(), self.experiments(), self.gaps(), self.runs()].concat();
        let links = |parts: &[Part<'_>]| {
            let shown = parts.iter().filter(|(_, shown)| shown.is_some());
            shown.map(|(of, _)| format!("<a href=\"#{}\">{}</a>\n", of.name(), escape(of.short()))).collect::<String>()
        };
        let (own, links) = (links(&self.own), links(&self.exhibits));
        let findings = if self.findings.is_empty() { "" } else { "<a href=\"#findings\">Findings</a>\n" };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>Adapter Lab: report</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n{css}</style>\n</head>\n<body>\n\
             <header><h1>Adapter Lab: report</h1>\n\
             <p class=\"lead\">What the runs show of <cite>Parameter-Efficient Transfer Learning for NLP</cite> (Houlsby et al., \
             2019): its figures and tables, and for each of its findings whether these runs agree, disagree or cannot say. Every number here is computed \
             from the records of the runs, but for those that are named as the paper's.</p>\n\
             <nav aria-label=\"Contents\">{own}{findings}{links}<a href=\"#runs\">Runs</a></nav></header>\n\
             <main>\n{body}</main>\n\
             <footer>Written by <code>report</code>. Point at, or touch, a mark of a figure for its value.</footer>\n\
             <script>\n{script}</script>\n</body>\n</html>\n"
        )
    }

    /// What was run, on what, and how long.
    fn facts(&self) -> String {
        let runs: Vec<&Run> = self.store.runs.values().collect();
        if runs.is_empty() {
            let what = if self.store.problems.is_empty() {
                "There are no finished runs in this folder yet"
            } else {
                "None of the records in this folder can be read; see below why"
            };
            return format!(
                "<p class=\"gap\">{what}. Begin with <code>reproduce</code>, or with one experiment: <code>run fig4</code>.</p>\n"
            );
        }
        let distinct = |values: &mut dyn Iterator<Item = String>| {
            let all: BTreeSet<String> = values.collect();
            all.into_iter().collect::<Vec<_>>().join(", ")
        };
        let experiments = || self.store.experiments();
        let seconds =
            runs.iter().map(|run| run.record.measured.training_seconds + run.record.measured.evaluation_seconds);
        let backbones: BTreeMap<&str, usize> =
            runs.iter().map(|run| (run.backbone.as_str(), run.record.params.backbone)).collect();
        // A stream makes a backbone of its own of every task, called `name+task`: one name stands for all of them.
        let streamed = |name: &str| name.rmatch_indices('+').any(|(place, _)| backbones.contains_key(&name[..place]));
        let backbones: Vec<String> = backbones
            .iter()
            .filter(|(name, _)| !streamed(name))
            .map(|(name, parameters)| format!("{name} ({} parameters)", count(*parameters as f64)))
            .collect();
        let software =
            runs.iter().flat_map(|run| &run.record.software).map(|(name, version)| format!("{name} {version}"));
        let devices = runs.iter().filter_map(|run| {
            let fingerprints = &run.record.fingerprints;
            let device = fingerprints.get("device")?;
            Some(fingerprints.get("dtype").map_or(device.clone(), |dtype| format!("{device} ({dtype})")))
        });
        let planned: usize = experiments().map(|experiment| experiment.planned).sum();
        let failed: usize = experiments().map(|experiment| experiment.failed.len()).sum();
        let diverged = runs.iter().filter(|run| run.is_diverged()).count();
        let memory = runs.iter().filter_map(|run| run.record.measured.peak_memory_bytes).max();
        let tasks: BTreeSet<&str> = runs.iter().map(|run| run.task.as_str()).collect();
        let mut facts = vec![
            ("Runs finished", runs.len().to_string()),
            ("Runs planned (shared ones count each time)", planned.to_string()),
            ("Runs failed", failed.to_string()),
            ("Runs diverged (they count as the trivial answer)", diverged.to_string()),
            ("Tasks", tasks.len().to_string()),
            ("Backbone", backbones.join(", ")),
            ("Device", distinct(&mut devices.into_iter())),
            ("Scale", distinct(&mut experiments().map(|experiment| experiment.scale.clone()))),
            ("Computing time of all runs", duration(seconds.sum())),
            ("Software", distinct(&mut software.into_iter())),
        ];
        if let Some(bytes) = memory {
            facts.push((
                "Largest memory of a process",
                if bytes >= 1_000_000_000 {
                    format!("{:.1} GB", bytes as f64 / 1e9)
                } else {
                    format!("{:.0} MB", bytes as f64 / 1e6)
                },
            ));
        }
        let facts = facts.iter().map(|(name, value)| {
            let value = if value.is_empty() { "not recorded".to_owned() } else { escape(value) };
            format!("<div><dt>{name}</dt><dd>{value}</dd></div>\n")
        });
        format!("<dl class=\"facts\">\n{}</dl>\n", facts.collect::<String>())
    }

    fn verdicts(&self) -> String {
        if self.findings.is_empty() {
            return String::new();
        }
        let number = |wanted| self.findings.iter().filter(|finding| finding.verdict == wanted).count();
        let list = |open: bool| {
            let own = self.findings.iter().filter(|finding| (finding.verdict == Verdict::CannotSay) == open);
            let items: String = own.map(|finding| self.listed(finding)).collect();
            if items.is_empty() { items } else { format!("<ul class=\"findings\">\n{items}</ul>\n") }
        };
        let unsaid = number(Verdict::CannotSay);
        let open = list(true);
        let open = if open.is_empty() {
            open
        } else {
            format!("<details><summary>Why these runs cannot judge {unsaid}</summary>\n{open}</details>\n")
        };
        format!(
            "<h2 id=\"findings\">Findings</h2>\n<p>{} agree with the paper, {} disagree, of {unsaid} these runs cannot say.</p>\n\
             <p class=\"note\">{}</p>\n{}{open}{}",
            number(Verdict::Agrees),
            number(Verdict::Disagrees),
            escape(&rule()),
            list(false),
            thresholds_table()
        )
    }

    /// What exhibits show, one section for each that has anything to show.
    fn results(&self, heading: &str, parts: &[Part<'_>]) -> String {
        let mut text = String::new();
        for (exhibit, shown) in parts {
            let Some(shown) = shown else { continue };
            let name = exhibit.name();
            let own = self.findings.iter().filter(|finding| finding.shown_in.contains(&name));
            let verdicts: String = own.map(in_full).collect();
            match shown {
                Shown::Figure(figure) => {
                    let (wide, narrow) = (figure.wide(), figure.narrow());
                    let (class, narrow) = if wide == narrow {
                        ("", String::new())
                    } else {
                        (" class=\"has-narrow\"", format!("<div class=\"narrow\">{narrow}</div>"))
                    };
                    text += &format!(
                        "<section id=\"{name}\"><h3>{}</h3>\n<figure{class}><div class=\"wide\">{wide}</div>{narrow}\n\
                         <figcaption class=\"note\">{}. <span class=\"files\">{}</span></figcaption></figure>\n{verdicts}</section>\n",
                        escape(&figure.title),
                        escape(&figure.about),
                        files("figures", name, &["svg", "png", "pdf"])
                    );
                }
                Shown::Table(table) => {
                    text += &format!(
                        "<section id=\"{name}\"><h3>{}</h3>\n{}<p class=\"files\">{}</p>\n{verdicts}</section>\n",
                        escape(&table.title),
                        table.html(),
                        files("tables", name, &["md", "csv", "tex"])
                    );
                }
            }
        }
        if text.is_empty() { text } else { format!("<h2>{heading}</h2>\n{text}") }
    }

    /// What has nothing to show, in one line.
    fn not_run(&self) -> String {
        let gaps = || self.own.iter().chain(&self.exhibits).filter(|(_, shown)| shown.is_none()).map(|(of, _)| *of);
        let has_runs = |exhibit: &&Exhibit| {
            let mut own = self.store.experiments().filter(|record| exhibit.claims(record));
            own.any(|record| !self.store.runs(record).is_empty())
        };
        let (begun, missing): (Vec<&Exhibit>, Vec<&Exhibit>) = gaps().partition(has_runs);
        let name = |exhibit: &&Exhibit| {
            let (name, experiment) = (escape(exhibit.name()), escape(exhibit.experiment()));
            if name == experiment { name } else { format!("{name} (of {experiment})") }
        };
        let said = [("Not run", missing), ("Not enough runs", begun)].into_iter().filter(|(_, of)| !of.is_empty());
        let said = said.map(|(what, of)| format!("{what}: {}", of.iter().map(name).collect::<Vec<_>>().join(", ")));
        let said: Vec<String> = said.collect();
        if said.is_empty() {
            return String::new();
        }
        format!("<p class=\"note\" id=\"not-run\">{} — <code>run NAME</code> fills it.</p>\n", said.join(". "))
    }

    /// A verdict in short, with links to where it is shown.
    fn listed(&self, finding: &Finding) -> String {
        let shown = |place: &&str| {
            let (exhibit, _) = self.exhibits.iter().find(|(of, shown)| of.name() == *place && shown.is_some())?;
            Some(format!(" <a href=\"#{place}\">{}</a>", escape(exhibit.short())))
        };
        let links: String = finding.shown_in.iter().filter_map(shown).collect();
        format!("<li {}<p>{}{links}</p></li>\n", heading(finding), escape(&finding.shows))
    }

    /// Experiments with the names of their files: first those that drew themselves, then in the order of the exhibits.
    fn ordered(&self) -> Vec<(&String, &ExperimentRecord)> {
        let place = |record: &ExperimentRecord| self.exhibits.iter().position(|(exhibit, _)| exhibit.claims(record));
        let mut all: Vec<_> = self.store.experiments.iter().collect();
        all.sort_by_key(|(_, record)| place(record));
        all
    }

    /// The name of a document, with a link to its file where there is one.
    fn document(&self, file: &str, name: &str) -> String {
        match &self.link {
            Some(folder) => format!("<a href=\"{}\">{}</a>", escape(&format!("{folder}/{file}")), escape(name)),
            None => escape(name),
        }
    }

    fn experiments(&self) -> String {
        let mut rows = String::new();
        for (file, record) in self.ordered() {
            let ExperimentRecord { name, about, scale, planned, failed, missing, .. } = record;
            let (finished, missing) = (self.store.runs(record).len(), missing.join(", "));
            rows += &format!(
                "<tr><td>{}</td><td class=\"w\">{}</td><td>{}</td><td>{}</td><td class=\"n\">{planned}</td>\
                 <td class=\"n\">{finished}</td><td class=\"n\">{}</td><td>{}</td></tr>\n",
                self.document(&format!("{EXPERIMENTS}/{}", encode(file)), name),
                escape(about),
                escape(scale),
                escape(&record.overrides_in_words()),
                failed.len(),
                escape(&missing)
            );
        }
        if rows.is_empty() {
            return "<h2 id=\"runs\">Runs</h2>\n".to_owned();
        }
        format!(
            "<h2 id=\"runs\">Runs</h2>\n<div class=\"scroll\"><table><thead><tr><th>experiment</th><th>what</th><th>scale</th>\
             <th>changed</th><th class=\"n\">planned</th><th class=\"n\">finished</th><th class=\"n\">failed</th><th>tasks without data</th></tr></thead>\
             <tbody>\n{rows}</tbody></table></div>\n"
        )
    }

    /// What is not there, and why.
    fn gaps(&self) -> String {
        let mut items: Vec<String> = Vec::new();
        for experiment in self.store.experiments() {
            for failed in &experiment.failed {
                let (name, run, error) = (escape(&experiment.name), escape(&failed.run), escape(&failed.error));
                items.push(format!("<b>failed</b> in {name}: {run}: {error}"));
            }
            let known = experiment.runs.iter().filter(|id| !self.store.runs.contains_key(*id)).count();
            if known > 0 {
                items.push(format!(
                    "<b>no record</b> of {known} runs that {} names as finished",
                    escape(&experiment.name)
                ));
            }
        }
        let problems = self.store.problems.iter();
        items.extend(problems.map(|problem| format!("<b>{}</b>: {}", escape(&problem.file), escape(&problem.what))));
        if !self.store.unfinished.is_empty() {
            let (number, names) = (self.store.unfinished.len(), escape(&self.store.unfinished.join(", ")));
            items.push(format!("<b>unfinished</b>, the same command continues them: {number} runs ({names})"));
        }
        if items.is_empty() {
            return String::new();
        }
        let list: String = items.iter().map(|item| format!("<li>{item}</li>\n")).collect();
        format!("<div class=\"gap\"><strong>Gaps</strong>\n<ul>\n{list}</ul></div>\n")
    }

    /// Every run with a link to its record: by experiment, and those that belong to none.
    fn runs(&self) -> String {
        let mut text = String::new();
        let mut listed: BTreeSet<&str> = BTreeSet::new();
        for (_, experiment) in self.ordered() {
            let ids: BTreeSet<&str> = experiment.runs.iter().map(String::as_str).collect();
            let runs: Vec<(&str, &Run)> = experiment
                .runs
                .iter()
                .filter_map(|id| self.store.runs.get_key_value(id))
                .map(|(id, run)| (id.as_str(), run))
                .collect();
            text += &self.list(&format!("{}: {} runs", experiment.name, ids.len()), &runs);
            listed.extend(ids);
        }
        let others: Vec<(&str, &Run)> = self
            .store
            .runs
            .iter()
            .filter(|(id, _)| !listed.contains(id.as_str()))
            .map(|(id, run)| (id.as_str(), run))
            .collect();
        if !others.is_empty() {
            text += &self.list(&format!("Other runs, of none of these experiments: {}", others.len()), &others);
        }
        text
    }

    fn list(&self, title: &str, runs: &[(&str, &Run)]) -> String {
        if runs.is_empty() {
            return String::new();
        }
        let mut seen = BTreeSet::new();
        let mut rows = String::new();
        for (id, run) in runs.iter().filter(|(id, _)| seen.insert(*id)) {
            let ablated = self.store.ablations.contains_key(*id);
            let ablation = ablated.then(|| self.document(&format!("{}/{ABLATION}", encode(id)), "ablation"));
            let score = |score: Option<f64>| score.map_or("—".to_owned(), |score| format!("{:.1}", 100.0 * score));
            rows += &format!(
                "<tr><td>{} {}</td><td>{}</td><td class=\"w\">{}</td><td class=\"n\">{}</td>\
                 <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.0} s</td></tr>\n",
                self.document(&format!("{}/{RECORD}", encode(id)), id),
                ablation.unwrap_or_default(),
                escape(&run.task),
                escape(&run.summary()),
                count(run.record.params.trained as f64),
                score(run.validation()),
                score(run.test()),
                run.record.measured.training_seconds
            );
        }
        format!(
            "<details><summary>{}</summary><div class=\"scroll\"><table><thead><tr><th>record</th><th>task</th><th>run</th>\
             <th class=\"n\">trained</th><th class=\"n\">validation</th><th class=\"n\">test</th><th class=\"n\">time</th></tr></thead>\
             <tbody>\n{rows}</tbody></table></div></details>\n",
            escape(title)
        )
    }
}

/// A verdict's element, begun: its mark and its name.
fn heading(finding: &Finding) -> String {
    let (class, mark) = match finding.verdict {
        Verdict::Agrees => ("yes", "✓"),
        Verdict::Disagrees => ("no", "✗"),
        Verdict::CannotSay => ("open", "○"),
    };
    let (name, said) = (escape(finding.name), finding.verdict.in_words());
    format!("class=\"finding {class}\"><span class=\"mark\">{mark} {said}</span><strong>{name}</strong>")
}

/// Every threshold with its reason.
fn thresholds_table() -> String {
    let head = ["what", "asked for", "unit", "why"].map(str::to_owned).to_vec();
    let row = |threshold: &Threshold| {
        let Threshold { name, limit, unit, reason, .. } = threshold;
        let asked = format!("{} {limit}", threshold.side.in_words());
        [name.to_string(), asked, unit.to_string(), reason.to_string()].map(Cell::Text).to_vec()
    };
    let rows = thresholds().iter().map(row).collect();
    let table = Table { title: "Thresholds".to_owned(), head, rows, notes: Vec::new() }.html();
    format!(
        "<details id=\"thresholds\"><summary>Thresholds, fixed before the runs, and their reasons</summary>\n{table}</details>\n"
    )
}

/// A verdict with what the paper found.
fn in_full(finding: &Finding) -> String {
    let (head, paper, shows) = (heading(finding), escape(finding.paper), escape(&finding.shows));
    format!("<div {head}<p class=\"paper\"><b>The paper:</b> {paper}</p><p><b>These runs:</b> {shows}</p></div>\n")
}

fn files(folder: &str, name: &str, kinds: &[&str]) -> String {
    kinds.iter().map(|kind| format!("<a href=\"{folder}/{name}.{kind}\">{kind}</a>")).collect()
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
