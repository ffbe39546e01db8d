//! The page: everything that the runs show, in one file that needs no network.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path},
};

use crate::{
    ExperimentRecord, Store, axis::count, chart::Figure, findings::Finding, setup::Run, svg::escape, table::Table,
};

/// Figures and tables in the paper's order, and what they are called in short.
const ORDER: [(&str, &str); 12] = [
    ("fig1", "Fig. 1"),
    ("table1", "Table 1"),
    ("table2", "Table 2"),
    ("fig3", "Fig. 3"),
    ("fig4", "Fig. 4"),
    ("fig5", "Fig. 5"),
    ("fig6-spans", "Fig. 6, spans"),
    ("fig6-init", "Fig. 6, σ"),
    ("fig7", "Fig. 7"),
    ("sizes", "Sizes"),
    ("variants", "Variants"),
    ("stream", "Stream"),
];

/// What the figures and tables are made of.
const EXPERIMENTS: [&str; 11] =
    ["table1", "table2", "fig3", "fig4", "fig5", "fig6-spans", "fig6-init", "fig7", "sizes", "variants", "stream"];

/// What a page shows.
pub struct Page<'a> {
    /// The runs.
    pub store: &'a Store,
    /// Where they are, seen from the page.
    pub link: String,
    /// All figures.
    pub figures: &'a [Figure],
    /// All tables.
    pub tables: &'a [Table],
    /// All verdicts.
    pub findings: &'a [Finding],
}

impl Page<'_> {
    /// The whole document.
    pub fn html(&self) -> String {
        let (css, script) = (include_str!("page.css"), include_str!("page.js"));
        let body =
            [self.facts(), self.verdicts(), self.results(), self.experiments(), self.gaps(), self.runs()].concat();
        let links: String =
            ORDER.iter().map(|(name, short)| format!("<a href=\"#{name}\">{}</a>\n", escape(short))).collect();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>Adapter Lab: report</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n{css}</style>\n</head>\n<body>\n\
             <header><h1>Adapter Lab: report</h1>\n\
             <p class=\"lead\">What the runs show of <cite>Parameter-Efficient Transfer Learning for NLP</cite> (Houlsby et al., \
             2019): its figures and tables, and for each of its findings whether these runs agree. Every number here is computed \
             from the records of the runs, but for those that are named as the paper's.</p>\n\
             <nav aria-label=\"Contents\"><a href=\"#findings\">Findings</a>\n{links}<a href=\"#runs\">Runs</a></nav></header>\n\
             <main>\n{body}</main>\n\
             <footer>Written by <code>adapter-lab report</code>. Point at, or touch, a mark of a figure for its value.</footer>\n\
             <script>\n{script}</script>\n</body>\n</html>\n"
        )
    }

    /// What was run, on what, and how long.
    fn facts(&self) -> String {
        let runs: Vec<&Run> = self.store.runs.values().collect();
        if runs.is_empty() {
            let what = match self.store.problems.is_empty() {
                true => "There are no finished runs in this folder yet",
                false => "None of the records in this folder can be read; see below why",
            };
            return format!(
                "<p class=\"gap\">{what}. Begin with <code>adapter-lab reproduce</code>, or with one experiment: \
                 <code>adapter-lab run fig4</code>.</p>\n"
            );
        }
        let distinct = |values: &mut dyn Iterator<Item = String>| {
            let all: BTreeSet<String> = values.collect();
            all.into_iter().collect::<Vec<_>>().join(", ")
        };
        let experiments = || self.store.experiments.values();
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
        let memory = runs.iter().filter_map(|run| run.record.measured.peak_memory_bytes).max();
        let tasks: BTreeSet<&str> = runs.iter().map(|run| run.task.as_str()).collect();
        let mut facts = vec![
            ("Runs finished", runs.len().to_string()),
            ("Runs planned (shared ones count each time)", planned.to_string()),
            ("Runs failed", failed.to_string()),
            ("Tasks", tasks.len().to_string()),
            ("Backbone", backbones.join(", ")),
            ("Device", distinct(&mut devices.into_iter())),
            ("Scale", distinct(&mut experiments().map(|experiment| experiment.scale.clone()))),
            ("Computing time of all runs", duration(seconds.sum())),
            ("Software", distinct(&mut software.into_iter())),
        ];
        if let Some(bytes) = memory {
            facts.push(("Largest memory of a process", format!("{:.1} GB", bytes as f64 / 1e9)));
        }
        let facts = facts.iter().map(|(name, value)| {
            let value = if value.is_empty() { "not recorded".to_owned() } else { escape(value) };
            format!("<div><dt>{name}</dt><dd>{value}</dd></div>\n")
        });
        format!("<dl class=\"facts\">\n{}</dl>\n", facts.collect::<String>())
    }

    fn verdicts(&self) -> String {
        let number = |wanted| self.findings.iter().filter(|finding| finding.agrees == wanted).count();
        let list: String = self.findings.iter().map(|finding| item(finding, true)).collect();
        format!(
            "<h2 id=\"findings\">Findings</h2>\n<p>{} agree with the paper, {} do not, {} cannot be judged from these runs.</p>\n\
             <ul class=\"findings\">\n{list}</ul>\n",
            number(Some(true)),
            number(Some(false)),
            number(None)
        )
    }

    fn results(&self) -> String {
        let mut text = "<h2>Figures and tables</h2>\n".to_owned();
        for (name, _) in ORDER {
            let verdicts: String = self
                .findings
                .iter()
                .filter(|finding| finding.shown_in.contains(&name))
                .map(|finding| item(finding, false))
                .collect();
            if let Some(figure) = self.figures.iter().find(|figure| figure.name == name) {
                let (wide, narrow) = (figure.wide(), figure.narrow());
                let (class, narrow) = match wide == narrow {
                    true => ("", String::new()),
                    false => (" class=\"has-narrow\"", format!("<div class=\"narrow\">{narrow}</div>")),
                };
                text += &format!(
                    "<section id=\"{name}\"><h3>{}</h3>\n<figure{class}><div class=\"wide\">{wide}</div>{narrow}\n\
                     <figcaption class=\"note\">{}. <span class=\"files\">{}</span></figcaption></figure>\n{verdicts}</section>\n",
                    escape(&figure.title),
                    escape(&figure.about),
                    files("figures", name, &["svg", "png", "pdf"])
                );
            }
            if let Some(table) = self.tables.iter().find(|table| table.name == name) {
                text += &format!(
                    "<section id=\"{name}\"><h3>{}</h3>\n{}<p class=\"files\">{}</p>\n{verdicts}</section>\n",
                    escape(&table.title),
                    table.html(),
                    files("tables", name, &["md", "csv", "tex"])
                );
            }
        }
        text
    }

    fn experiments(&self) -> String {
        let mut rows = String::new();
        for ExperimentRecord { name, about, scale, planned, failed, missing, .. } in self.store.experiments.values() {
            let link = format!("{}/experiments/{}.json", self.link, encode(name));
            let (finished, missing) = (self.store.runs_of(name).len(), missing.join(", "));
            rows += &format!(
                "<tr><td><a href=\"{}\">{}</a></td><td class=\"w\">{}</td><td>{}</td><td class=\"n\">{planned}</td><td class=\"n\">{finished}</td>\
                 <td class=\"n\">{}</td><td>{}</td></tr>\n",
                escape(&link),
                escape(name),
                escape(about),
                escape(scale),
                failed.len(),
                escape(&missing)
            );
        }
        for name in EXPERIMENTS.iter().filter(|name| !self.store.experiments.contains_key(**name)) {
            rows += &format!(
                "<tr><td>{name}</td><td colspan=\"6\" class=\"paper\">not run: <code>adapter-lab run {name}</code></td></tr>\n"
            );
        }
        format!(
            "<h2 id=\"runs\">Runs</h2>\n<div class=\"scroll\"><table><thead><tr><th>experiment</th><th>what</th><th>scale</th>\
             <th class=\"n\">planned</th><th class=\"n\">finished</th><th class=\"n\">failed</th><th>tasks without data</th></tr></thead>\
             <tbody>\n{rows}</tbody></table></div>\n"
        )
    }

    /// What is not there, and why.
    fn gaps(&self) -> String {
        let mut items: Vec<String> = Vec::new();
        for experiment in self.store.experiments.values() {
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
            items.push(format!("<b>unfinished</b>, the same command goes on with them: {number} runs ({names})"));
        }
        if items.is_empty() {
            return String::new();
        }
        let list: String = items.iter().map(|item| format!("<li>{item}</li>\n")).collect();
        format!("<div class=\"gap\"><strong>Gaps</strong>\n<ul>\n{list}</ul></div>\n")
    }

    /// Every run with a link to its record: by experiment, and those that belong to none of the paper's.
    fn runs(&self) -> String {
        let mut text = String::new();
        let mut listed: BTreeSet<&str> = BTreeSet::new();
        for name in EXPERIMENTS {
            let Some(experiment) = self.store.experiments.get(name) else { continue };
            let ids: BTreeSet<&str> = experiment.runs.iter().map(String::as_str).collect();
            let runs: Vec<(&str, &Run)> = experiment
                .runs
                .iter()
                .filter_map(|id| self.store.runs.get_key_value(id))
                .map(|(id, run)| (id.as_str(), run))
                .collect();
            text += &self.list(&format!("{name}: {} runs", ids.len()), &runs);
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
            let folder = format!("{}/{}", self.link, encode(id));
            let ablation = match self.store.ablations.contains_key(*id) {
                true => format!(" <a href=\"{}/ablation.json\">ablation</a>", escape(&folder)),
                false => String::new(),
            };
            let score = |score: Option<f64>| score.map_or("—".to_owned(), |score| format!("{:.1}", 100.0 * score));
            rows += &format!(
                "<tr><td><a href=\"{}/record.json\">{}</a>{ablation}</td><td>{}</td><td class=\"w\">{}</td><td class=\"n\">{}</td>\
                 <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.0} s</td></tr>\n",
                escape(&folder),
                escape(id),
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

/// A verdict: in the list of all in short, with links to where it is shown; there with what the paper found.
fn item(finding: &Finding, listed: bool) -> String {
    let (class, mark) = match finding.agrees {
        Some(true) => ("yes", "✓ agrees"),
        Some(false) => ("no", "✗ does not agree"),
        None => ("open", "○ not enough runs"),
    };
    let (name, paper, shows) = (escape(finding.name), escape(finding.paper), escape(&finding.shows));
    let head = format!("class=\"finding {class}\"><span class=\"mark\">{mark}</span><strong>{name}</strong>");
    match listed {
        true => {
            let links = finding.shown_in.iter().map(|place| {
                let short = ORDER.iter().find(|(name, _)| name == place).map_or(*place, |(_, short)| short);
                format!(" <a href=\"#{place}\">{short}</a>")
            });
            format!("<li {head}<p>{shows}{}</p></li>\n", links.collect::<String>())
        }
        false => format!(
            "<div {head}<p class=\"paper\"><b>The paper:</b> {paper}</p><p><b>These runs:</b> {shows}</p></div>\n"
        ),
    }
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
