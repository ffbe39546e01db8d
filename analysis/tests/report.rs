//! A report from folders of every kind, whole or damaged.

mod generated;

use std::{fs, path::PathBuf, time::Instant};

use analysis::{Kept, Report, SCHEMA, Store, StoreError, Verdict, paper_exhibits, thresholds, write_report};
use generated::{Folder, Spec, everything};
use rstest::rstest;
use serde_json::json;

const FIGURES: [&str; 7] = ["fig1", "fig3", "fig4", "fig5", "fig6-spans", "fig6-init", "fig7"];
const TABLES: [&str; 8] = ["table1", "table2", "table5", "table6", "table7", "sizes", "variants", "stream"];

/// The report of a folder and where it is.
fn report(folder: &Folder) -> (Report, PathBuf) {
    let out = folder.path.join("../out");
    (write_report(&folder.path, &out, &paper_exhibits(), &analysis::Made::default()).unwrap(), out)
}

/// The page, its apostrophes as they are read.
fn page(folder: &Folder) -> String {
    fs::read_to_string(report(folder).0.page).unwrap().replace("&#39;", "'")
}

/// Every file of what is no gap is there and of its kind, and none of a gap; returns the page.
fn check_files((report, out): &(Report, PathBuf)) -> String {
    let is_gap = |name: &str| report.gaps.iter().any(|gap| gap == name);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    for name in FIGURES.into_iter().chain(TABLES) {
        let (folder, kinds) =
            if FIGURES.contains(&name) { ("figures", ["svg", "png", "pdf"]) } else { ("tables", ["md", "csv", "tex"]) };
        for kind in kinds {
            let file = out.join(format!("{folder}/{name}.{kind}"));
            assert_eq!(file.exists(), !is_gap(name), "{}", file.display());
        }
        assert_eq!(page.contains(&format!("<section id=\"{name}\">")), !is_gap(name), "{name}");
        assert_eq!(page.contains(&format!("href=\"#{name}\"")), !is_gap(name), "{name}");
    }
    for name in FIGURES.into_iter().filter(|name| !is_gap(name)) {
        let read = |kind| fs::read(out.join(format!("figures/{name}.{kind}"))).unwrap();
        let svg = String::from_utf8(read("svg")).unwrap();
        let document = resvg::usvg::roxmltree::Document::parse(&svg).unwrap();
        assert_eq!(document.root_element().tag_name().name(), "svg");
        let png = read("png");
        assert!(png.starts_with(b"\x89PNG"));
        let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        assert!(side(16) > 500 && side(20) > 400, "{name}: {} × {}", side(16), side(20));
        assert!(read("pdf").starts_with(b"%PDF-"));
    }
    assert_eq!(page.contains("id=\"not-run\""), !report.gaps.is_empty());
    let leftovers = fs::read_dir(out.join("figures"))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp"));
    assert_eq!(leftovers.count(), 0);
    page
}

#[test]
fn every_figure_and_table_is_there_and_the_page_needs_no_network() {
    let mut folder = Folder::new();
    everything(&mut folder, &["mnli", "cola"], 12, 3);
    let written = report(&folder);
    let page = check_files(&written);
    let (report, out) = written;
    assert!(report.gaps.is_empty() && report.problems.is_empty(), "{:?} {:?}", report.gaps, report.problems);
    assert!(report.findings.iter().all(|finding| !finding.effects.is_empty()), "{:?}", report.findings);
    assert!(!page.contains("http://") && !page.contains("https://"));
    assert!(page.contains("✓ agrees") && !page.contains("Nothing to draw"));
    let read = page.replace("&#39;", "'");
    assert!(read.contains("95 % interval") && thresholds().iter().all(|threshold| read.contains(threshold.reason)));
    let link = page.split("href=\"").find(|part| part.contains("/record.json\"")).unwrap().split('"').next().unwrap();
    assert!(out.join(link).exists(), "{link}");
}

#[test]
fn an_empty_folder_gives_a_page_that_says_what_to_do() {
    let folder = Folder::new();
    let written = report(&folder);
    let page = check_files(&written);
    assert_eq!((written.0.runs, written.0.gaps.len()), (0, 17));
    assert!(written.0.findings.iter().all(|finding| finding.verdict == Verdict::CannotSay));
    assert!(page.contains("no finished runs") && page.contains("<code>adapter-lab run fig4</code>"));
    let line = "Not run: fig1 (of fig3), fig2 (of fig6-spans), table1, table2, fig3, fig3-tasks (of fig3), fig4, fig5, fig6-spans, fig6-init, fig7, table5 (of baseline), table6 (of baseline), table7 (of baseline), sizes, variants, \
                stream — <code>adapter-lab run NAME</code> fills it.";
    assert!(page.contains(line), "everything that was not run takes one line");
}

#[test]
fn what_has_runs_but_not_enough_is_said_apart() {
    let folder = Folder::with("fig6-spans", [Spec::adapters("a", 64, 0.8)]);
    assert!(check_files(&report(&folder)).contains(". Nothing to draw: fig6-spans — "));
}

#[test]
fn a_folder_that_is_not_there_is_a_clear_error() {
    let folder = Folder::new();
    let missing = folder.path.join("nothing");
    assert!(matches!(Store::read(&missing), Err(StoreError::Missing(_))));
    let error = write_report(&missing, &folder.path.join("../out"), &paper_exhibits(), &analysis::Made::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("nothing") && error.contains("--runs"), "{error}");
    assert!(!folder.path.join("../out").exists());
}

#[test]
fn one_run_of_no_experiment_is_listed() {
    let mut folder = Folder::new();
    folder.run(&Spec::adapters("cola", 64, 0.8123));
    let written = report(&folder);
    assert_eq!((written.0.runs, written.0.gaps.len()), (1, 17));
    let page = check_files(&written);
    assert!(page.contains("Every run (1)") && page.contains("81.2"));
}

#[rstest]
#[case("table1")]
#[case("table2")]
#[case("fig3")]
#[case("fig4")]
#[case("fig5")]
#[case("fig6-spans")]
#[case("fig6-init")]
#[case("fig7")]
#[case("sizes")]
#[case("variants")]
#[case("stream")]
fn one_run_of_any_experiment_gives_a_whole_report(#[case] experiment: &str) {
    let folder = Folder::with(experiment, [Spec::adapters("cola", 64, 0.8)]);
    check_files(&report(&folder));
}

#[test]
fn failed_unfinished_and_unknown_runs_are_named() {
    let mut folder = Folder::with("fig4", [Spec::adapters("cola", 64, 0.8)]);
    folder.fail("fig4", "cola full lr 1", "the loss is not a number");
    folder.experiment("fig4").missing.push("mnli".to_owned());
    folder.experiment("fig4").runs.push("0000".to_owned());
    folder.add("fig4", []);
    folder.write("feed/steps.jsonl", &1);
    folder.write("notes/readme.json", &1);
    folder.add("mine", [Spec::adapters("file:reviews.csv", 8, 0.7)]);
    let page = page(&folder);
    for part in [
        "the loss is not a number",
        "MNLI-m",
        "1 run (feed)",
        "no record</b> of 1 run that fig4 names as finished",
        "what mine shows",
        "file:reviews.csv",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("notes"));
}

/// A table or figure of a part of its runs is not taken for the whole one.
#[rstest]
#[case("fig4", "figures/fig4.svg")]
#[case("table1", "tables/table1.md")]
fn what_is_drawn_of_an_unfinished_experiment_says_so(#[case] experiment: &str, #[case] file: &str) {
    let mut folder = Folder::with(experiment, [Spec::adapters("cola", 64, 0.8), Spec::tuned("cola", "full", 0.8)]);
    let said = |folder: &Folder| {
        let text = fs::read_to_string(report(folder).1.join(file)).unwrap();
        text.contains("unfinished: 1 of 3 runs still to do")
    };
    assert!(!said(&folder));
    folder.fail(experiment, "cola full lr 1", "no space left");
    assert!(said(&folder));
}

/// Nor is one of a run whose record is gone.
#[rstest]
#[case("fig4", "figures/fig4.svg")]
#[case("table1", "tables/table1.md")]
fn what_is_drawn_without_a_lost_record_says_so(#[case] experiment: &str, #[case] file: &str) {
    let mut folder = Folder::new();
    let tuned = ["full", "head"].map(|tuning| Spec::tuned("cola", tuning, 0.8));
    let ids = folder.add(experiment, [Spec::adapters("cola", 64, 0.8)].into_iter().chain(tuned));
    fs::remove_file(folder.path.join(&ids[2]).join("record.json")).unwrap();
    let text = fs::read_to_string(report(&folder).1.join(file)).unwrap();
    assert!(text.contains("unfinished: 1 of 3 runs still to do"), "{text}");
}

/// The title says how many, the list of gaps why.
#[test]
fn a_run_without_its_ablation_is_said_in_the_figure_and_among_the_gaps() {
    let mut folder = Folder::new();
    let ids: Vec<String> = (0..3).map(|seed| folder.ablation("cola", seed, 2, 0.8, |_, _| -0.1)).collect();
    let is_unfinished = |folder: &Folder| page(folder).contains("unfinished: 1 of 3 runs still to do");
    assert!(!is_unfinished(&folder) && !page(&folder).contains("no ablation"));
    fs::remove_file(folder.path.join(&ids[0]).join("ablation.json")).unwrap();
    assert!(is_unfinished(&folder));
    assert!(page(&folder).contains("<b>no ablation</b> of 1 run that fig6-spans names as finished"));
}

#[test]
fn a_run_that_diverged_has_no_part_in_what_is_removed() {
    let mut folder = Folder::new();
    folder.ablation("cola", 0, 2, 0.8, |_, _| -0.1);
    folder.add("fig6-spans", [Spec::adapters("cola", 64, 0.8).seed(1).diverged()]);
    let page = page(&folder);
    assert!(page.contains("1 of 2 runs diverged: not in this figure") && !page.contains("unfinished: "));
    assert!(page.contains("0 runs failed, 1 diverged and counts as the trivial answer"));
}

/// A sentence at the top of the page, and numbers that agree with their verbs.
#[test]
fn the_page_counts_its_verdicts_and_has_no_headline_of_a_part_of_the_runs() {
    let specs = [Spec::tuned("cola", "full", 0.8), Spec::adapters("cola", 8, 0.8)];
    let mut folder = Folder::new();
    let ids = folder.add("table1", specs.into_iter().flat_map(|spec| spec.seeds(0.0)));
    let whole = page(&folder);
    let verdicts = "Of 16 findings of the paper, 1 agrees with these runs and 0 disagree; 15 cannot be judged.";
    assert!(whole.contains(verdicts) && whole.contains("full fine-tuning scores 80.0."));
    fs::remove_file(folder.path.join(&ids[0]).join("record.json")).unwrap();
    let rest = page(&folder);
    assert!(rest.contains("1 of 6 runs still to do") && !rest.contains("full fine-tuning scores 80.0."));
}

#[test]
fn damaged_newer_and_older_records_are_gaps_and_the_rest_is_shown() {
    let mut folder = Folder::with("fig4", [Spec::adapters("cola", 64, 0.8), Spec::adapters("cola", 8, 0.7)]);
    let mut newer = serde_json::to_value(Spec::tuned("cola", "full", 0.8).record("aa")).unwrap();
    newer["schema"] = json!(99);
    newer["params"] = json!("of another form");
    folder.write("aa/record.json", &newer);
    folder.write("bb/record.json", &json!({"schema": SCHEMA, "id": "bb"}));
    fs::write(folder.path.join("bb/ablation.json"), b"{").unwrap();
    let mut odd = Spec::tuned("cola", "full", 0.8).record("cc");
    odd.config.remove("task");
    folder.write("cc/record.json", &odd);
    folder.write("dd/record.json", &json!({"schema": 1, "config": {"adapter": {"size": 64}}}));
    folder.write("experiments/fig5.json", &json!({"schema": SCHEMA}));
    fs::write(folder.path.join("experiments/fig7.json"), [0xff, 0x00]).unwrap();
    folder.experiment("fig4").runs.push("aa".to_owned());
    folder.add("fig4", []);
    let written = report(&folder);
    let (page, report) = (check_files(&written), written.0);
    assert_eq!(report.runs, 2);
    let files: Vec<&str> = report.problems.iter().map(|problem| problem.file.as_str()).collect();
    assert_eq!(
        files,
        [
            "aa/record.json",
            "bb/record.json",
            "cc/record.json",
            "dd/record.json",
            "experiments/fig5.json",
            "experiments/fig7.json"
        ]
    );
    assert!(report.problems[0].what.contains("newer adapter-lab (form 99"));
    assert!(report.problems[2].what.contains("`task`"));
    assert!(report.problems[3].what.contains("older adapter-lab (form 1; this one reads 2)"));
    assert!(page.contains("aa/record.json") && page.contains("newer adapter-lab"));
}

#[test]
fn a_folder_of_newer_records_alone_says_so() {
    let folder = Folder::new();
    folder.write("aa/record.json", &json!({"schema": SCHEMA + 1}));
    let page = page(&folder);
    assert!(page.contains("None of the records") && page.contains("newer adapter-lab"));
}

#[test]
fn a_run_without_scores_leaves_a_gap() {
    let mut folder = Folder::with("fig4", [Spec::adapters("cola", 64, 0.8)]);
    let mut record = Spec::tuned("cola", "full", 0.5).record("dd");
    (record.best, record.last) = (None, None);
    folder.write("dd/record.json", &record);
    folder.experiment("fig4").runs.push("dd".to_owned());
    folder.add("fig4", []);
    check_files(&report(&folder));
}

#[test]
fn what_was_changed_on_a_preset_stands_beside_it_and_in_its_title() {
    let mut folder = Folder::with("fig4", [Spec::adapters("cola", 64, 0.8)]);
    folder.add("table1", [Spec::adapters("cola", 64, 0.8)]);
    assert!(!page(&folder).contains("not the paper's settings"));
    for preset in ["fig4", "table1"] {
        folder
            .experiment(preset)
            .overrides
            .extend([("lr".to_owned(), json!(0.01)), ("seed".to_owned(), json!([0, 1]))]);
        folder.add(preset, []);
    }
    let (page, out) = (page(&folder), folder.path.join("../out"));
    let how = "with lr = 0.01, seed = 0 1: not the paper's settings";
    assert!(page.contains("<td>lr = 0.01, seed = 0 1</td>"));
    assert!(page.contains(&format!("against trained parameters ({how})</h3>")), "the title of the figure");
    assert!(page.contains(&format!("adapters ({how})</h3>")), "the title of the table");
    assert_eq!(page.matches(&format!("Run {how}.")).count(), 2, "both captions");
    for file in ["figures/fig4.svg", "tables/table1.md", "tables/table1.tex"] {
        let text = fs::read_to_string(out.join(file)).unwrap().replace("&#39;", "'");
        assert!(text.contains("not the paper's settings"), "{file}");
    }
}

#[test]
fn captions_say_how_many_examples_were_used() {
    let used = |spec: Spec, train: usize, validation: usize, test: usize| spec.examples([train, validation, test]);
    let mut folder = Folder::with(
        "fig4",
        [
            used(Spec::adapters("cola", 64, 0.8), 8551, 1043, 0),
            used(Spec::adapters("mnli", 64, 0.8), 2500, 2000, 0),
            used(Spec::adapters("rte", 64, 0.8), 2500, 2000, 0),
        ],
    );
    folder.add("mine", [used(Spec::adapters("sms-spam", 64, 0.8), 1000, 557, 558)]);
    folder.add("fig7", [Spec::adapters("cola", 64, 0.8)]);
    let page = page(&folder);
    assert!(
        page.contains("Examples used (training / validation): CoLA 8,551 / 1,043; MNLI-m, RTE 2,500 / 2,000."),
        "Fig. 4"
    );
    assert!(
        page.contains("Examples used (training / validation / test): SMS spam 1,000 / 557 / 558."),
        "the own experiment"
    );
    assert!(!page.contains("CoLA 0"), "runs that do not say are passed over");
}

#[test]
fn the_papers_own_numbers_stand_beside_runs_of_its_tasks() {
    let theirs = "The paper, BERT-Base on all data: MNLI-m 84.4";
    assert!(page(&Folder::with("fig4", [Spec::adapters("cola", 64, 0.8)])).contains(theirs));
    assert!(!page(&Folder::with("fig4", [Spec::adapters("syn-acceptability", 64, 0.8)])).contains(theirs));
    assert!(!page(&Folder::with("mine", [Spec::adapters("cola", 64, 0.8)])).contains(theirs));
}

#[test]
fn a_run_that_diverged_is_marked_wherever_it_is_shown() {
    let specs = Spec::adapters("cola", 64, 0.8).trivial(0.5).seeds(0.0);
    let specs = specs.map(|spec| if spec.seed == 1 { spec.diverged() } else { spec });
    let mut folder = Folder::with("fig4", specs);
    // One that diverged before its first evaluation is scored by the metric of the others.
    let mut record = Spec::adapters("cola", 8, 0.8).trivial(0.5).diverged().record("early");
    (record.best, record.last) = (None, None);
    folder.write("early/record.json", &record);
    folder.experiment("fig4").runs.push("early".to_owned());
    folder.add("fig4", []);
    let page = page(&folder);
    assert!(page.contains("adapters 64, 2.4M trained: 70.0 ± 10.0 (1 of 3 seeds diverged), 3 seeds"));
    assert!(page.contains("adapters 8, 354k trained: 50.0 (1 of 1 seed diverged), 1 seed"));
    assert!(page.contains("2 of 4 runs diverged: each counts as the trivial answer"));
    assert_eq!(page.matches(", diverged</td>").count(), 2, "the table of runs");
    assert!(page.contains("2 diverged and count as the trivial answer"));
}

#[rstest]
#[case(Kept::Last, 60.0)]
#[case(Kept::Best, 80.0)]
fn a_run_reports_the_evaluation_that_it_kept(#[case] kept: Kept, #[case] expected: f64) {
    let mut folder = Folder::new();
    let mut record = Spec::adapters("a", 64, 0.8).record("x");
    record.kept = kept;
    record.last.as_mut().unwrap().validation.insert("accuracy".to_owned(), 0.6);
    folder.write("x/record.json", &record);
    folder.experiment("fig4").runs.push("x".to_owned());
    folder.add("fig4", []);
    assert!(page(&folder).contains(&format!("adapters 64, 2.4M trained: {expected:.1}, 1 seed")));
}

#[test]
fn hostile_names_stay_text_everywhere() {
    let hostile =
        "<script>alert(1)</script> & \"$\\x_{}%|\u{1b}\u{0}\n— a name that is far too long for any panel of any figure";
    let mut folder = Folder::new();
    everything(&mut folder, &[hostile, "cola"], 3, 1);
    folder.fail("fig4", hostile, hostile);
    folder.add("table1", [Spec::tuned(hostile, "full", 0.5), Spec::adapters(hostile, 64, 0.5)]);
    let written = report(&folder);
    let (page, out) = (check_files(&written), written.1);
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"));
    let latex = fs::read_to_string(out.join("tables/table1.tex")).unwrap();
    assert!(
        latex.contains("\\textless{}script\\textgreater{}alert(1)")
            && latex.contains("\\$\\textbackslash{}x\\_\\{\\}\\%")
    );
}

#[test]
fn a_report_is_the_same_every_time() {
    let mut folder = Folder::new();
    everything(&mut folder, &["mnli"], 6, 2);
    let read = |out: &std::path::Path| {
        ["report.html", "figures/fig4.svg", "figures/fig4.png", "tables/table2.csv"]
            .map(|f| fs::read(out.join(f)).unwrap())
    };
    let first = read(&report(&folder).1);
    assert!(first == read(&report(&folder).1));
}

#[test]
fn eight_tasks_and_six_layers_have_a_panel_each() {
    let tasks = [
        "acceptability",
        "sentiment",
        "paraphrase",
        "similarity",
        "inference",
        "topic-2",
        "topic-16",
        "a task with a rather long name: news in brief",
    ];
    let mut folder = Folder::kept("eight");
    everything(&mut folder, &tasks, 6, 2);
    let written = report(&folder);
    check_files(&written);
    let out = written.1;
    let svg = fs::read_to_string(out.join("figures/fig4.svg")).unwrap();
    assert!(tasks[..7].iter().all(|task| svg.contains(&format!(">{task}</text>"))));
}

/// `REPORT_OUT=DIR cargo test --release -p analysis --test report -- --include-ignored` keeps runs and reports in DIR.
#[test]
#[ignore = "takes a second in a release build, more in others"]
fn a_thousand_records_take_less_than_three_seconds() {
    let mut folder = Folder::kept("paper");
    everything(&mut folder, &["mnli", "cola"], 12, 3);
    let start = Instant::now();
    let (report, out) = report(&folder);
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("{} records: {seconds:.2} s, {}", report.runs, out.display());
    assert!(report.runs >= 1000 && seconds < 3.0, "{} records: {seconds:.2} s", report.runs);
}
