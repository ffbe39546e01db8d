//! Tables of runs whose numbers are known.

mod generated;

use std::{collections::BTreeMap, fs};

use analysis::{Store, findings, paper_exhibits, write_report};
use generated::{BACKBONE, Folder, Spec, rounded};
use serde_json::json;

fn csv(folder: &Folder, name: &str) -> Vec<Vec<String>> {
    let out = folder.path.join("../out");
    write_report(&folder.path, &out, &paper_exhibits(), &analysis::Made::default()).unwrap();
    let text = fs::read_to_string(out.join(format!("tables/{name}.csv"))).unwrap();
    text.lines().map(|line| fields(line).iter().map(|field| rounded(field)).collect()).collect()
}

/// The fields of a line, their quotes taken off.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => fields.last_mut().unwrap().push(other),
        }
    }
    fields
}

#[test]
fn table1_has_means_over_seeds_of_the_best_size_of_each_task_and_the_best_runs() {
    let small = |task, score| Spec::adapters(task, 8, score).trained(BACKBONE / 100);
    let large = |task, score| Spec::adapters(task, 64, score).trained(BACKBONE / 50);
    let folder = Folder::with(
        "table1",
        [
            Spec::tuned("a", "full", 0.90),
            Spec::tuned("a", "full", 0.80).seed(1),
            Spec::tuned("a", "full", 0.70).rate(1e-5),
            Spec::tuned("b", "full", 0.60),
            small("a", 0.89),
            small("a", 0.50).rate(1e-5),
            large("a", 0.85),
            small("b", 0.40),
            large("b", 0.55),
            large("b", 0.45).seed(1),
        ],
    );
    let rows = csv(&folder, "table1");
    assert_eq!(rows[0].join(","), "method,total ×,trained %,mean,share %,a,a s.e.m.,b,b s.e.m.");
    assert_eq!(rows[1].join(","), "full fine-tuning,2,100,72.5,100,85,5,60,");
    // 87 of 83 and 48 of 58 points above the trivial answer's 2.
    assert_eq!(rows[2].join(","), "adapters, best of sizes 8 to 64,1.03,1.5,69.5,93.7889,89,,50,5");
    assert_eq!(rows[3].join(","), "adapters, size 64,1.04,2,67.5,91.3793,85,,50,5");
    // The paper's way.
    assert_eq!(rows[4].join(","), "best run: full fine-tuning,2,100,75,,90,,60,");
    assert_eq!(rows[5].join(","), "best run: adapters,1.03,1.5,72,,89,,55,");
    assert_eq!(rows.len(), 6, "the paper's numbers stand beside the paper's tasks only");
}

#[test]
fn table1_has_the_papers_numbers_beside_the_papers_tasks() {
    let folder = Folder::with("table1", [Spec::tuned("rte", "full", 0.7), Spec::tuned("mine", "full", 0.7)]);
    let rows = csv(&folder, "table1");
    let theirs = |row: usize| rows[row][1..].join(",");
    assert_eq!((theirs(5), theirs(7)), ("9,100,,,70.1,".to_owned(), "1.2,2.1,,,68.8,".to_owned()));
}

#[test]
fn table1_without_size_64_takes_the_largest_that_all_tasks_have() {
    let sizes = [("a", 4), ("a", 16), ("a", 32), ("b", 4), ("b", 16)];
    let rows = csv(&Folder::with("table1", sizes.map(|(task, size)| Spec::adapters(task, size, 0.5))), "table1");
    assert_eq!(rows[3][0], "adapters, size 16");
}

#[test]
fn table2_reports_test_scores_of_what_validation_chose() {
    let mut specs = Vec::new();
    for (seed, test) in [(0, 0.70), (1, 0.74)] {
        specs.push(Spec::tuned("a", "full", 0.8).seed(seed).test(test));
        // The better validation score counts, though its test score is worse.
        specs.push(Spec::tuned("a", "top-1", 0.80).seed(seed).test(0.60));
        specs.push(Spec::tuned("a", "top-2", 0.70).seed(seed).test(0.90));
        specs.push(Spec::adapters("a", 8, 0.7).seed(seed).test(0.65).trained(BACKBONE / 100));
    }
    let rows = csv(&Folder::with("table2", specs), "table2");
    assert_eq!(
        rows[0].join(","),
        "task,no BERT,full fine-tuning,full fine-tuning s.e.m.,variable fine-tuning,variable fine-tuning s.e.m.,adapters,adapters s.e.m."
    );
    assert_eq!(rows[1], ["a", "", "72", "2", "60", "0", "65", "0"]);
    assert_eq!(rows[2], ["average of one task", "", "72", "", "60", "", "65", ""]);
    // Of validation scores, above the trivial answer's 2.
    assert_eq!(rows[3].join(","), "\"share %, validation\",,100,,100,,87.1795,".replace('"', ""));
    assert_eq!(rows[4][2..].join(","), "1,,1.0645,,1.01,");
    assert_eq!(rows[6], ["paper: average of 17 tasks", "72.7", "73.7", "", "74", "", "73.3", ""]);
}

/// Table 2 of one task, and a search whose second choice won and was then trained with three seeds.
fn searched() -> Folder {
    let mut folder = Folder::with("table2", Spec::tuned("a", "full", 0.8).test(0.75).seeds(0.0));
    folder.add("table2", Spec::adapters("a", 8, 0.7).test(0.65).seeds(0.0));
    // One seed of another choice looks better than the winner's mean: it was not the winner.
    folder.search([Spec::trial("a", 0, 0.69).test(0.9)]);
    folder.search(Spec::trial("a", 2, 0.68).test(0.60).seeds(0.02));
    folder
}

#[test]
fn table2_has_the_searchs_winner_with_its_seeds() {
    let rows = csv(&searched(), "table2");
    assert_eq!(rows[1][..3].join(","), "a,60,1.1547", "{rows:?}");
    assert_eq!(rows[2][..2].join(","), "average of one task,60");
    let gap = markdown(&Folder::with("table2", [Spec::tuned("a", "full", 0.8)]), "table2");
    assert!(gap.contains("No BERT: a gap;") && gap.contains("run baseline"), "{gap}");
}

#[test]
fn the_search_has_three_tables_of_its_own() {
    let folder = searched();
    let text = markdown(&folder, "table5");
    assert!(text.contains("| hidden\\_layers | hidden layers | 0, 1, 2 | towers = deep |"), "{text}");
    let found = csv(&folder, "table6");
    assert_eq!(found[1][..2].join(","), "hidden_layers,2", "{found:?}");
    let went = csv(&folder, "table7");
    assert_eq!(
        went[0].join(","),
        "task,drawn,trials,diverged,seconds a trial,trivial,median trial,best trial,best trial s.e.m."
    );
    assert_eq!(went[1][..4].join(","), "a,2,4,0");
}

fn markdown(folder: &Folder, name: &str) -> String {
    csv(folder, name);
    fs::read_to_string(folder.path.join(format!("../out/tables/{name}.md"))).unwrap()
}

#[test]
fn mnli_is_scored_on_the_mismatched_set_too() {
    let mut folder = Folder::new();
    for (number, (spec, mismatched)) in
        [(Spec::tuned("mnli", "full", 0.84), 0.85), (Spec::adapters("mnli", 64, 0.83), 0.81)].into_iter().enumerate()
    {
        let (id, mut record) = (format!("run{number}"), spec.record("x"));
        record.extra = BTreeMap::from([("mnli-mm".to_owned(), BTreeMap::from([("accuracy".to_owned(), mismatched)]))]);
        folder.write(&format!("{id}/record.json"), &record);
        folder.experiment("table1").runs.push(id);
    }
    folder.add("table1", [Spec::tuned("rte", "full", 0.7), Spec::adapters("rte", 64, 0.7)]);
    let rows = csv(&folder, "table1");
    assert_eq!(rows[0][3..], ["mean", "share %", "MNLI-m", "MNLI-mm", "RTE"]);
    // One run, two columns: the network counts once.
    assert_eq!(rows[1][1..].join(","), "2,100,79.6667,100,84,85,70");
    assert_eq!((rows[2][3].as_str(), rows[2][5..].join(",")), ("78", "83,81,70".to_owned()));
    assert_eq!(rows[6][5..], ["86.7", "85.9", "70.1"], "the paper's");
}

#[test]
fn a_mean_says_how_many_columns_it_is_over() {
    let with_mismatched = |mismatched: bool| {
        let mut folder = Folder::with("table1", [Spec::tuned("rte", "full", 0.7), Spec::adapters("rte", 64, 0.7)]);
        for (number, spec) in [Spec::tuned("mnli", "full", 0.84), Spec::adapters("mnli", 64, 0.83)].iter().enumerate() {
            let (id, mut record) = (format!("run{number}"), spec.record("x"));
            let scores = BTreeMap::from([("accuracy".to_owned(), 0.8)]);
            record.extra.extend(mismatched.then(|| ("mnli-mm".to_owned(), scores)));
            folder.write(&format!("{id}/record.json"), &record);
            folder.experiment("table1").runs.push(id);
        }
        folder.add("table1", []);
        markdown(&folder, "table1")
    };
    assert!(with_mismatched(true).contains("Totals are over 2 tasks, the mean is over their 3 columns."));
    assert!(with_mismatched(false).contains("Totals are over 2 tasks, the mean is over the same."));
}

#[test]
fn a_run_that_diverged_has_a_score_in_every_column() {
    let mut folder = Folder::new();
    let full = Spec::tuned("mnli", "full", 0.84).seed(1).trivial(0.3).diverged();
    for (number, spec) in [Spec::tuned("mnli", "full", 0.84), full].iter().enumerate() {
        let (id, mut record) = (format!("run{number}"), spec.record("x"));
        if !spec.diverged {
            record.extra = BTreeMap::from([("mnli-mm".to_owned(), BTreeMap::from([("accuracy".to_owned(), 0.8)]))]);
        }
        folder.write(&format!("{id}/record.json"), &record);
        folder.experiment("table1").runs.push(id);
    }
    folder.add("table1", []);
    let rows = csv(&folder, "table1");
    assert_eq!(rows[0][5..], ["MNLI-m", "MNLI-m s.e.m.", "MNLI-mm", "MNLI-mm s.e.m."]);
    assert_eq!((rows[1][3].as_str(), rows[1][5..].join(",")), ("56", "57,27,55,25".to_owned()));
}

/// "No" for every pair has an F1 of 0, "yes" for every pair has 2p / (1 + p) with a share p of "yes".
#[test]
fn the_trivial_answer_in_f1_is_the_better_constant_answer() {
    let of = |tuning: &str, score| Spec::tuned("qqp", tuning, score).metric("f1").trivial(0.0);
    let mut folder = Folder::new();
    for (number, spec) in [of("full", 0.8), of("full", 0.8).seed(1).diverged()].iter().enumerate() {
        let (id, mut record) = (format!("run{number}"), spec.record("x"));
        record.majority = BTreeMap::from([("f1".to_owned(), 0.0), ("accuracy".to_owned(), 0.75)]);
        folder.write(&format!("{id}/record.json"), &record);
        folder.experiment("table1").runs.push(id);
    }
    folder.add("table1", []);
    // A quarter is "yes": F1 is 0.5 / 1.25.
    assert_eq!(csv(&folder, "table1")[1][5..7].join(","), "60,20");
}

#[test]
fn tables_say_how_many_seeds_and_runs_and_whether_anything_was_chosen() {
    let of = |spec: Spec| spec.seeds(0.01);
    let one = [of(Spec::tuned("a", "full", 0.8)), of(Spec::adapters("a", 8, 0.7)), of(Spec::adapters("a", 64, 0.7))];
    let mut folder = Folder::with("table1", one.concat());
    let text = markdown(&folder, "table1");
    for part in [
        "Every score is of one configuration, whose runs differ only in the seed",
        "the best of 3 runs of full fine-tuning and of 6 runs of adapters",
        "3 seeds of each configuration.",
    ] {
        assert!(text.contains(part), "{text}");
    }
    folder.add("table1", of(Spec::tuned("a", "full", 0.6).rate(1e-5)));
    let text = markdown(&folder, "table1");
    assert!(text.contains("One configuration") && text.contains("the best of 6 runs of full"), "{text}");
    // Each row has its own tasks.
    let apart = Folder::with("table1", [Spec::tuned("a", "full", 0.8), Spec::adapters("b", 8, 0.7)]);
    assert!(markdown(&apart, "table1").contains("the best of 1 run of full fine-tuning and of 1 run of adapters"));
}

#[test]
fn captions_say_how_each_method_was_trained() {
    let mut folder = Folder::with("table1", [Spec::tuned("a", "full", 0.8).rate(1e-4), Spec::adapters("a", 8, 0.7)]);
    let said = |folder: &Folder| {
        let text = markdown(folder, "table1");
        text.lines().find(|line| line.starts_with("Learning rate and epochs")).unwrap().to_owned()
    };
    assert_eq!(said(&folder), "Learning rate and epochs: full fine-tuning 1e-4, 3 epochs; adapters 1e-3, 3 epochs.");
    folder.add("table1", [Spec::adapters("a", 8, 0.6).rate(3e-3).key("epochs", json!(20))]);
    let both = "Learning rate and epochs: full fine-tuning 1e-4, 3 epochs; adapters 1e-3 to 3e-3, 3 to 20 epochs.";
    assert_eq!(said(&folder), both);
}

/// The mean of a table and that of its verdict differ where a task has two columns.
#[test]
fn the_mean_that_the_verdict_compares_counts_mnli_once() {
    let mut folder = Folder::new();
    let specs = [Spec::tuned("mnli", "full", 0.84), Spec::adapters("mnli", 64, 0.82)];
    for (number, spec) in specs.into_iter().flat_map(|spec| spec.seeds(0.01)).enumerate() {
        let (id, mut record) = (format!("run{number}"), spec.record("x"));
        record.extra = BTreeMap::from([("mnli-mm".to_owned(), BTreeMap::from([("accuracy".to_owned(), 0.6)]))]);
        folder.write(&format!("{id}/record.json"), &record);
        folder.experiment("table1").runs.push(id);
    }
    let rte = [Spec::tuned("rte", "full", 0.7), Spec::adapters("rte", 64, 0.7)];
    folder.add("table1", rte.into_iter().flat_map(|spec| spec.seeds(0.01)));
    let rows = csv(&folder, "table1");
    assert_eq!(rows[0][3..5], ["mean", "mean of the 2 compared"]);
    assert_eq!(rows[1][3..5], ["71.3333", "77"]);
}

#[test]
fn tasks_at_floor_or_ceiling_are_marked_and_left_out_of_shares() {
    let of = |task, full, adapters| {
        let specs = [Spec::tuned(task, "full", full), Spec::adapters(task, 64, adapters)];
        specs.into_iter().flat_map(|spec| spec.trivial(0.6).seeds(0.0))
    };
    let specs: Vec<Spec> = of("fair", 0.8, 0.7).chain(of("easy", 1.0, 1.0)).chain(of("hard", 0.6, 0.6)).collect();
    let mut folder = Folder::with("table1", specs.clone());
    folder.add("table2", specs);
    let rows = csv(&folder, "table1");
    assert_eq!(rows[0][3..6], ["mean", "mean of the 1 compared", "share %"]);
    assert_eq!(rows[2][3..6], ["76.6667", "70", "50"]);
    let rows = csv(&folder, "table2");
    let adapters = rows[0].iter().position(|head| head == "adapters").unwrap();
    let summary: Vec<(&str, &str)> = rows[4..7].iter().map(|row| (row[0].as_str(), row[adapters].as_str())).collect();
    let averages = [("average of 3 tasks", "76.6667"), ("average of the 1 compared", "70")];
    assert_eq!(summary, [averages[0], averages[1], ("share %, validation", "50")]);
    for name in ["table1", "table2"] {
        let text = markdown(&folder, name);
        let floor = "hard (full fine-tuning is not clearly better than the trivial answer)";
        for part in ["Left out of the share: ", "easy (full fine-tuning is at the ceiling)", floor] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn a_task_without_full_fine_tuning_is_named_among_those_left_out() {
    let specs = [Spec::tuned("a", "full", 0.8), Spec::adapters("a", 64, 0.7), Spec::adapters("b", 64, 0.7)];
    let text = markdown(&Folder::with("table1", specs), "table1");
    assert!(text.contains("Left out of the share: b (no full fine-tuning)."), "{text}");
}

/// The headline, the verdict and the row that it judges say the same numbers, also where a task is left out.
#[test]
fn the_row_that_a_verdict_judges_is_the_row_that_is_shown() {
    let of = |task, full, adapters, share: usize| {
        let specs =
            [Spec::tuned(task, "full", full), Spec::adapters(task, 16, adapters).trained(BACKBONE / 1000 * share)];
        specs.into_iter().flat_map(|spec| spec.trivial(0.5).seeds(0.01))
    };
    let all = of("a", 0.8, 0.78, 20).chain(of("b", 0.9, 0.85, 40)).chain(of("hard", 0.5, 0.5, 90));
    let folder = Folder::with("table1", all);
    let rows = csv(&folder, "table1");
    assert_eq!(rows[0][2..5], ["trained %", "mean", "mean of the 2 compared"]);
    let number = |row: usize, column: usize| format!("{:.1}", rows[row][column].parse::<f64>().unwrap());
    let (full, adapters, trained) = (number(1, 4), number(2, 4), number(2, 2));
    let found = findings(&Store::read(&folder.path).unwrap());
    let close = found.iter().find(|finding| finding.name == "Adapters come close to full fine-tuning").unwrap();
    let said = format!("adapters average {adapters}, full fine-tuning {full}");
    assert!(close.shows.contains(&said) && close.shows.contains(&format!("train {trained} %")), "{}", close.shows);
    let page = fs::read_to_string(folder.path.join("../out/report.html")).unwrap();
    let headline =
        format!("Adapters that train {trained} % of the parameters for each task score {adapters} over 2 tasks");
    assert!(page.contains(&headline) && page.contains(&format!("full fine-tuning scores {full}.")), "{headline}");
}

#[test]
fn a_search_that_is_not_over_fills_no_cell() {
    let mut folder = Folder::with("table2", [Spec::tuned("a", "full", 0.8), Spec::adapters("a", 8, 0.8)]);
    folder.search(Spec::trial("a", 1, 0.75).test(0.7).seeds(0.0));
    assert_eq!(csv(&folder, "table2")[1][..2], ["a", "70"]);
    folder.fail("baseline", "b without BERT", "no space left");
    assert_eq!(csv(&folder, "table2")[1][..2], ["a", ""]);
    assert!(markdown(&folder, "table2").contains("a gap until the search is over (1 of 4 runs still to do)"));
}

/// The best of those runs that were done first is no result.
#[test]
fn an_unfinished_experiment_makes_no_headline() {
    let mut folder = Folder::with(
        "table1",
        [Spec::tuned("a", "full", 0.8), Spec::adapters("a", 8, 0.8)].map(|spec| spec.seeds(0.01)).concat(),
    );
    let page = |folder: &Folder| {
        csv(folder, "table1");
        fs::read_to_string(folder.path.join("../out/report.html")).unwrap()
    };
    assert!(page(&folder).contains("full fine-tuning scores 80.0."));
    folder.fail("table1", "b full lr 1", "no space left");
    assert!(!page(&folder).contains("full fine-tuning scores"));
}

#[test]
fn full_fine_tuning_says_what_it_leaves_out() {
    let trained = |trained| [Spec::tuned("a", "full", 0.8).trained(trained), Spec::adapters("a", 64, 0.8)];
    let text = markdown(&Folder::with("table1", trained(BACKBONE - 590_000)), "table1");
    assert!(text.contains("Left out: 590k parameters that nothing reads"), "{text}");
    assert!(text.contains("99.46") && text.contains("Best run: the best of all"), "{text}");
    assert!(!markdown(&Folder::with("table1", trained(BACKBONE)), "table1").contains("nothing reads"));
}

#[test]
fn sizes_average_accuracy_over_the_tasks_that_have_all_sizes() {
    let mut specs = vec![Spec::adapters("half", 8, 0.1), Spec::adapters("spans", 8, 0.1).metric("answer_f1")];
    for (size, a, b) in [(8, 0.8, 0.6), (64, 0.9, 0.6)] {
        specs.push(Spec::adapters("a", size, a));
        specs.push(Spec::adapters("b", size, b));
    }
    let rows = csv(&Folder::with("sizes", specs), "sizes");
    assert_eq!(rows[0], ["adapter size", "trained %", "mean accuracy", "the paper's"]);
    assert_eq!((rows[1][0].as_str(), rows[1][2].as_str(), rows[1][3].as_str()), ("8", "70", "86.2"));
    assert_eq!((rows[2][0].as_str(), rows[2][2].as_str(), rows[2][3].as_str()), ("64", "75", "85.8"));
}

#[test]
fn sizes_are_averaged_over_the_tasks_that_the_verdict_compares() {
    let of = |task, small, large| {
        [(8, small), (64, large)]
            .into_iter()
            .flat_map(move |(size, score)| Spec::adapters(task, size, score).trivial(0.5).seeds(0.001))
    };
    let folder = Folder::with("sizes", of("a", 0.8, 0.7).chain(of("hard", 0.5, 0.5)).chain(of("half", 0.8, 0.5)));
    let (rows, text) = (csv(&folder, "sizes"), markdown(&folder, "sizes"));
    assert_eq!((rows[1][2].as_str(), rows[2][2].as_str()), ("80", "60"));
    for part in [
        "2 classification tasks: a, half.",
        "Left out: hard (no size clearly beats the most frequent class).",
        "Not clearly better than the trivial answer: adapters 64 (half).",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let found = findings(&Store::read(&folder.path).unwrap());
    let verdict = found.iter().find(|finding| finding.name == "The adapters' size matters little").unwrap();
    assert!(verdict.shows.contains("Over 2 tasks: size 8 80.0, size 64 60.0"), "{}", verdict.shows);
    let nothing = Folder::with("sizes", of("hard", 0.5, 0.5));
    assert!(markdown(&nothing, "sizes").contains("hard (no size clearly beats the most frequent class)."));
}

#[test]
fn a_variant_that_learnt_nothing_is_named() {
    let paper = Spec::adapters("a", 64, 0.8).trivial(0.5);
    let collapsed = Spec { score: 0.5, ..paper.clone().with("norm", json!("batch")) };
    let folder = Folder::with("variants", [paper.seeds(0.01), collapsed.seeds(0.0)].concat());
    let (rows, text) = (csv(&folder, "variants"), markdown(&folder, "variants"));
    assert!(text.contains("Not clearly better than the trivial answer: norm batch (a)."), "{text}");
    assert_eq!(rows[0][4..], ["difference", "difference s.e.m."]);
    assert_eq!(rows[2][4], "-30");
}

/// Where the paper's adapter learnt nothing, variants cannot differ: table and verdict leave the task out.
#[test]
fn variants_are_compared_where_the_papers_adapter_learnt_something() {
    let of = |task, paper, deep| {
        let deep = Spec::adapters(task, 64, deep).with("depth", json!(2));
        [Spec::adapters(task, 64, paper), deep].map(|spec| spec.trivial(0.5).seeds(0.01)).concat()
    };
    let folder = Folder::with("variants", [of("a", 0.8, 0.7), of("hard", 0.5, 0.9)].concat());
    let (rows, text) = (csv(&folder, "variants"), markdown(&folder, "variants"));
    assert_eq!((rows[0][6].as_str(), rows[2][6].parse::<f64>().unwrap().round()), ("difference", -10.0));
    let left_out =
        "Left out of the difference: hard (the paper's adapter is not clearly better than the trivial answer).";
    assert!(text.contains(left_out), "{text}");
    let found = findings(&Store::read(&folder.path).unwrap());
    let verdict = found.iter().find(|finding| finding.name == "Variants of the adapter do not help").unwrap();
    assert!(verdict.shows.contains("−10.0 points"), "{}", verdict.shows);
}

#[test]
fn variants_stand_beside_the_papers_adapter() {
    let base = |score, seed| Spec::adapters("a", 64, score).seed(seed);
    let specs = [
        base(0.79, 0).with("norm", json!("batch")),
        base(0.80, 0),
        base(0.82, 1),
        base(0.84, 0).with("depth", json!(2)).with("activation", json!("tanh")),
    ];
    let folder = Folder::with("variants", specs);
    let rows = csv(&folder, "variants");
    assert_eq!(rows[0], ["variant", "trained", "a", "a s.e.m.", "difference"]);
    assert_eq!(rows[1], ["the paper's adapter", "2.4M", "81", "1", ""]);
    // To the paper's adapter with the same seed.
    assert_eq!(rows[2], ["norm batch", "2.4M", "79", "", "-1"]);
    assert_eq!(rows[3], ["activation tanh, depth 2", "2.4M", "84", "", "4"]);
}

#[test]
fn a_stream_has_a_row_for_each_stage() {
    let mut folder = Folder::new();
    folder.stream("full", &["a", "b"], false);
    let rows = csv(&folder, "stream");
    assert_eq!(rows[0], ["tuning", "seed", "after", "trained", "total", "a", "b", "identical"]);
    assert_eq!(rows[1], ["full fine-tuning, one network", "0", "a", "1000", "110001000", "80", "", ""]);
    assert_eq!(rows[2], ["full fine-tuning, one network", "0", "b", "1000", "110002000", "70", "80", "0 of 1"]);
    let text = markdown(&folder, "stream");
    assert!(!text.contains("Accuracy × 100, but"), "{text}");
    assert!(
        text.contains("With a network for each task it would forget nothing either, and need 2 backbones"),
        "{text}"
    );
    let mut adapters = Folder::new();
    adapters.stream("adapters", &["a", "b"], true);
    assert!(!markdown(&adapters, "stream").contains("one network"), "nobody trains a network on");
}

#[test]
fn a_stream_names_its_metrics() {
    let mut folder = Folder::new();
    folder.stream("full", &["cola", "mrpc"], false);
    let path = folder.path.join("streams/stream-full.json");
    let text = fs::read_to_string(&path).unwrap().replace("\"accuracy\"", "\"matthews\"");
    fs::write(path, text).unwrap();
    let text = markdown(&folder, "stream");
    assert!(text.contains("Accuracy × 100, but: CoLA Matthews, MRPC Matthews."), "{text}");
}

#[test]
fn a_table_uses_the_runs_of_its_own_experiment_alone() {
    let mut folder = Folder::with("fig4", [Spec::tuned("a", "full", 0.9)]);
    folder.add("table1", [Spec::tuned("b", "full", 0.6)]);
    assert_eq!(csv(&folder, "table1")[0], ["method", "total ×", "trained %", "mean", "share %", "b"]);
}

#[test]
fn a_method_that_nobody_heard_of_has_a_row_and_a_column() {
    let specs = [
        Spec::tuned("a", "full", 0.8),
        Spec::tuned("b", "full", 0.6),
        Spec::adapters("a", 8, 0.7),
        Spec::adapters("b", 8, 0.5),
        Spec::lora("a", 4, 0.75),
        Spec::lora("a", 8, 0.65),
        Spec::tuned("b", "prompt", 0.4),
    ];
    let mut folder = Folder::with("table1", specs.clone());
    folder.add("table2", specs);
    let rows = csv(&folder, "table1");
    assert_eq!(rows[1], ["full fine-tuning", "2", "100", "70", "100", "80", "60"]);
    // Means are over the tasks that the paper's methods have: one that lacks any of them has none.
    assert_eq!(rows[4], ["LoRA (by rank)", "", "", "", "", "75", ""]);
    assert_eq!(rows[5], ["prompt", "", "", "", "", "", "40"]);
    let rows = csv(&folder, "table2");
    let head = "task,no BERT,full fine-tuning,variable fine-tuning,adapters,LoRA (by rank),prompt";
    assert_eq!(rows[0].join(","), head);
    assert_eq!(rows[1], ["a", "", "80", "", "70", "75", ""]);
    assert_eq!(rows[3], ["average of 2 tasks", "", "70", "", "60", "", ""]);
    assert!(rows.iter().all(|row| row.len() == 7));
}

#[test]
fn methods_that_share_no_backbone_cost_one_for_each_task() {
    let mut folder = Folder::new();
    for (number, task) in ["a", "b"].into_iter().enumerate() {
        let mut record = Spec::tuned(task, "own-full", 0.8).trained(BACKBONE).record("x");
        record.params.shared_backbone = false;
        record.params.total = BACKBONE;
        let id = format!("run{number}");
        folder.write(&format!("{id}/record.json"), &record);
        folder.experiment("table1").runs.push(id);
    }
    folder.add("table1", []);
    assert_eq!(csv(&folder, "table1")[4], ["own-full", "2", "100", "80", "", "80", "80"]);
}

#[test]
fn a_variant_with_a_key_that_nobody_heard_of_is_another_variant() {
    let specs = [Spec::adapters("a", 64, 0.8), Spec::adapters("a", 64, 0.9).with("never_heard_of", json!(true))];
    let rows = csv(&Folder::with("variants", specs), "variants");
    assert_eq!(rows[1][..3], ["the paper's adapter", "2.4M", "80"]);
    assert_eq!(rows[2][..3], ["never heard of yes", "2.4M", "90"]);
}
