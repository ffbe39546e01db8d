//! Every verdict follows the data: agreement, disagreement, and nothing to say. One number moves across its threshold.

mod generated;

use std::fs;

use analysis::{Finding, IntervalMethod, Made, Store, Verdict, findings, paper_exhibits, thresholds, write_report};
use generated::{BACKBONE, Folder, Spec};
use rstest::rstest;
use serde_json::json;

use Verdict::{Agrees, CannotSay, Disagrees};

fn finding(folder: &Folder, name: &str) -> Finding {
    let all = findings(&Store::read(&folder.path).unwrap());
    all.into_iter().find(|finding| finding.name.contains(name)).unwrap()
}

/// Asserts the verdict, and says what it rests on if it is another.
fn check(folder: &Folder, name: &str, expected: Verdict) {
    let found = finding(folder, name);
    assert_eq!(found.verdict, expected, "{}", found.shows);
}

/// Three seeds of each, without spread.
fn seeded(specs: impl IntoIterator<Item = Spec>) -> Vec<Spec> {
    specs.into_iter().flat_map(|spec| spec.seeds(0.0)).collect()
}

/// Full fine-tuning has 80; adapters lose some points, with a spread over their seeds.
fn close(loss: f64, spread: f64) -> Vec<Spec> {
    let of = |task| {
        let full = Spec::tuned(task, "full", 0.8).seeds(0.0);
        full.into_iter().chain(Spec::adapters(task, 8, 0.8 - loss / 100.0).seeds(spread / 100.0))
    };
    ["a", "b"].into_iter().flat_map(of).collect()
}

#[rstest]
#[case(1.7, 0.0, Agrees)]
#[case(1.9, 0.0, Disagrees)]
#[case(1.7, 0.5, CannotSay)]
#[case(1.9, 0.5, CannotSay)]
#[case(0.2, 0.5, Agrees)]
fn adapters_are_close_if_the_whole_interval_is(#[case] loss: f64, #[case] spread: f64, #[case] expected: Verdict) {
    check(&Folder::with("table1", close(loss, spread)), "close to full", expected);
}

/// The verdicts are a file too.
#[test]
fn verdicts_are_a_table_of_every_report() {
    let folder = Folder::with("table1", close(0.2, 0.5));
    let out = folder.path.join("../out");
    write_report(&folder.path, &out, &paper_exhibits(), &Made::default()).unwrap();
    let table = fs::read_to_string(out.join("tables/findings.md")).unwrap();
    let row = "| Adapters come close to full fine-tuning | agrees | table1 | Loss against full fine-tuning: +0.2 points \\[−0.4, \
               +0.8\\] (t over 3 seeds of 2 tasks), threshold: at most 1.8 |  |";
    assert!(table.contains(row), "{table}");
    assert_eq!(table.matches("| cannot say |").count(), findings(&Store::read(&folder.path).unwrap()).len() - 1);
}

#[test]
fn an_effect_has_its_interval_and_its_threshold_in_the_text() {
    let found = finding(&Folder::with("table1", close(0.2, 0.5)), "close to full");
    let [effect] = &found.effects[..] else { panic!("{:?}", found.effects) };
    assert!((effect.value - 0.2).abs() < 1e-9 && effect.interval.method == IntervalMethod::T, "{effect:?}");
    assert_eq!((effect.tasks, effect.seeds, effect.threshold), (2, 3, 1.8));
    for part in
        ["+0.2 points", "95 % interval −0.4 to +0.8", "t over 3 seeds of 2 tasks", "at most 1.8", "79.8", "100 %"]
    {
        assert!(found.shows.contains(part), "{part}: {}", found.shows);
    }
}

#[test]
fn many_tasks_are_judged_by_how_they_differ_and_weigh_alike_in_shares() {
    let specs = ["a", "b", "c", "d", "e", "f"].into_iter().enumerate().flat_map(|(number, task)| {
        // Half of what there is to gain is lost, whether that is much or little.
        let (full, trivial) = (0.8, 0.2 + 0.08 * number as f64);
        [Spec::tuned(task, "full", full), Spec::adapters(task, 8, (full + trivial) / 2.0)]
            .map(|spec| spec.trivial(trivial))
    });
    let found = finding(&Folder::with("table1", seeded(specs)), "close to full");
    assert_eq!(found.effects[0].interval.method, IntervalMethod::Tasks);
    assert!(
        found.shows.contains("t over 6 tasks of 3 seeds") && found.shows.contains("50 % of what it gains"),
        "{}",
        found.shows
    );
    assert_eq!(found.verdict, Disagrees, "{}", found.shows);
}

#[rstest]
#[case(0.09, Agrees)]
#[case(0.11, CannotSay)]
fn sizes_that_train_much_do_not_count(#[case] share: f64, #[case] expected: Verdict) {
    let trained = (share * BACKBONE as f64) as usize;
    let specs = [
        Spec::tuned("a", "full", 0.8),
        Spec::adapters("a", 8, 0.79).trained(trained),
        Spec::adapters("a", 256, 0.9).trained(BACKBONE / 2),
    ];
    let found = finding(&Folder::with("table1", seeded(specs)), "close to full");
    assert_eq!(found.verdict, expected, "{}", found.shows);
    assert!(expected == CannotSay || found.shows.contains("79.0"), "{}", found.shows);
}

#[rstest]
// Full fine-tuning is no better than the most frequent class: nothing is compared.
#[case(0.69, 0.69, CannotSay, "does not clearly beat the trivial answer")]
#[case(0.69, 0.40, CannotSay, "does not clearly beat the trivial answer")]
#[case(1.0, 0.99, CannotSay, "at the ceiling")]
#[case(0.75, 0.74, Agrees, "")]
fn tasks_at_floor_or_ceiling_are_left_out_and_named(
    #[case] full: f64,
    #[case] adapters: f64,
    #[case] expected: Verdict,
    #[case] said: &str,
) {
    let specs = [Spec::tuned("odd", "full", full), Spec::adapters("odd", 8, adapters)].map(|spec| spec.trivial(0.69));
    let mut folder = Folder::with("table1", seeded(specs));
    let found = finding(&folder, "close to full");
    assert_eq!(found.verdict, expected, "{}", found.shows);
    assert!(found.shows.contains(said), "{}", found.shows);
    // Beside another task it is left out, and the other decides.
    folder.add("table1", close(1.0, 0.0));
    let found = finding(&folder, "close to full");
    assert_eq!(found.verdict, Agrees, "{}", found.shows);
    assert_eq!(found.shows.contains("Left out: odd"), expected == CannotSay, "{}", found.shows);
}

#[test]
fn full_fine_tuning_beats_the_trivial_answer_only_with_its_whole_interval() {
    let specs = |spread: f64| {
        let full = Spec::tuned("a", "full", 0.72).trivial(0.69).seeds(spread);
        full.into_iter().chain(Spec::adapters("a", 8, 0.72).trivial(0.69).seeds(spread)).collect::<Vec<_>>()
    };
    check(&Folder::with("table1", specs(0.005)), "close to full", Agrees);
    check(&Folder::with("table1", specs(0.02)), "close to full", CannotSay);
}

/// The table of verdicts says why, as the page does.
#[test]
fn what_is_left_out_is_named_in_short_too() {
    let specs = [Spec::tuned("squad", "full", 0.45), Spec::adapters("squad", 64, 0.44)];
    let specs = seeded(specs.map(|spec| spec.metric("answer_f1").trivial(0.0)));
    let brief = finding(&Folder::with("fig5", specs), "question answering").brief();
    assert!(
        brief.starts_with("Nothing is left to compare: SQuAD (") && brief.ends_with("not clearly above 50)"),
        "{brief}"
    );
    let hard = seeded([Spec::tuned("hard", "full", 0.5), Spec::adapters("hard", 8, 0.5)].map(|spec| spec.trivial(0.5)));
    let folder = Folder::with("table1", [close(0.2, 0.5), hard].concat());
    let out = folder.path.join("../out");
    write_report(&folder.path, &out, &paper_exhibits(), &Made::default()).unwrap();
    let table = fs::read_to_string(out.join("tables/findings.md")).unwrap();
    let row = table.lines().find(|line| line.contains("come close to full")).unwrap();
    assert!(row.contains("points") && row.contains("| hard (full fine-tuning with 50.0"), "{row}");
}

#[test]
fn two_seeds_are_too_few() {
    let specs = close(0.0, 0.0).into_iter().filter(|spec| spec.seed < 2);
    let found = finding(&Folder::with("table1", specs), "close to full");
    assert_eq!(found.verdict, CannotSay);
    assert!(found.shows.contains("fewer than three seeds"), "{}", found.shows);
}

#[test]
fn a_configuration_is_chosen_by_its_mean_and_not_for_each_seed() {
    let full = Spec::tuned("a", "full", 0.8).seeds(0.0);
    // Each rate has its lucky seed: the best of each would reach 80.
    let mut specs: Vec<Spec> = full.to_vec();
    for (rate, lucky) in [(1e-4, 0), (2e-4, 1), (3e-4, 2)] {
        specs.extend((0..3).map(|seed| {
            let score = if seed == lucky { 0.80 } else { 0.70 };
            Spec::adapters("a", 8, score).seed(seed).rate(rate)
        }));
    }
    let found = finding(&Folder::with("table1", specs), "close to full");
    assert!(found.shows.contains("adapters average 73.3"), "{}", found.shows);
    assert_ne!(found.verdict, Agrees, "{}", found.shows);
}

#[test]
fn a_run_that_diverged_counts_as_the_trivial_answer() {
    let mut specs = close(0.0, 0.0);
    check(&Folder::with("table1", specs.clone()), "close to full", Agrees);
    for spec in specs.iter_mut().filter(|spec| spec.method.name == "adapters" && spec.seed == 0) {
        spec.diverged = true;
    }
    let found = finding(&Folder::with("table1", specs), "close to full");
    // (80 + 80 + 2) / 3.
    assert!(found.shows.contains("adapters average 54.0"), "{}", found.shows);
    assert_ne!(found.verdict, Agrees);
}

#[rstest]
#[case(0.69, 0.0, Agrees)]
#[case(0.69, 0.02, CannotSay)]
#[case(0.67, 0.0, Disagrees)]
fn the_additional_tasks_are_judged_by_test_scores(#[case] test: f64, #[case] spread: f64, #[case] expected: Verdict) {
    let full = Spec::tuned("a", "full", 0.8).test(0.7).seeds(0.0);
    let adapters = Spec::adapters("a", 8, 0.1).test(test).seeds(spread);
    check(&Folder::with("table2", full.into_iter().chain(adapters)), "additional tasks", expected);
}

#[rstest]
#[case(0.71, 0.0, 64, Agrees)]
#[case(0.71, 0.03, 64, CannotSay)]
#[case(0.70, 0.0, 64, Disagrees)]
#[case(0.65, 0.0, 64, Disagrees)]
// Adapters that train more than the top layer say nothing of few parameters.
#[case(0.75, 0.0, 4096, CannotSay)]
fn one_size_is_held_against_the_smallest_k(
    #[case] score: f64,
    #[case] spread: f64,
    #[case] size: usize,
    #[case] expected: Verdict,
) {
    let specs = ["a", "b"].into_iter().flat_map(|task| {
        let others =
            [Spec::tuned(task, "full", 0.8), Spec::tuned(task, "top-1", 0.7), Spec::tuned(task, "top-6", 0.79)];
        seeded(others).into_iter().chain(Spec::adapters(task, size, score).seeds(spread))
    });
    check(&Folder::with("fig3", specs), "few parameters", expected);
}

#[rstest]
#[case(0.03, 0.0, Agrees)]
#[case(0.004, 0.0, Disagrees)]
#[case(0.006, 0.02, CannotSay)]
fn transfer_beats_the_search_with_its_whole_interval(
    #[case] gain: f64,
    #[case] spread: f64,
    #[case] expected: Verdict,
) {
    let name = "Transfer from BERT beats the search without BERT";
    let mut folder = Folder::new();
    for task in ["a", "b"] {
        folder.add("table2", Spec::tuned(task, "full", 0.8).test(0.7 + gain).seeds(spread));
        folder.search(Spec::trial(task, 1, 0.75).test(0.7).seeds(0.0));
    }
    check(&folder, name, expected);
    // A search that is not over may still find something better.
    folder.fail("baseline", "c without BERT", "no space left");
    check(&folder, name, CannotSay);
    // A trial with one seed is no winner of a search.
    let mut folder = Folder::with("table2", Spec::tuned("a", "full", 0.8).test(0.9).seeds(0.0));
    folder.search([Spec::trial("a", 1, 0.75).test(0.7)]);
    check(&folder, name, CannotSay);
}

#[test]
fn the_size_is_the_same_on_every_task() {
    // Each of two sizes is good on one task: none of them is good on both.
    let specs = [("a", 0.75, 0.60), ("b", 0.60, 0.74)].into_iter().flat_map(|(task, small, large)| {
        [
            Spec::tuned(task, "full", 0.8),
            Spec::tuned(task, "top-1", 0.7),
            Spec::adapters(task, 8, small),
            Spec::adapters(task, 64, large),
        ]
    });
    let found = finding(&Folder::with("fig3", seeded(specs)), "few parameters");
    let said = "Adapters of size 8 with 354k trained parameters and the top layer with 7.1M average 67.5 and 70.0 on validation \
                (2 tasks).";
    assert!(found.shows.starts_with(said), "{}", found.shows);
    assert_eq!(found.verdict, Disagrees);
}

#[rstest]
#[case("layer-norm", "LayerNorm alone", 0.78, 0.0, Agrees)]
#[case("layer-norm", "LayerNorm alone", 0.78, 0.01, CannotSay)]
// Below adapters, but by less than half of the paper's gap.
#[case("layer-norm", "LayerNorm alone", 0.785, 0.0, Disagrees)]
#[case("head", "head alone", 0.77, 0.0, Agrees)]
#[case("head", "head alone", 0.77, 0.01, CannotSay)]
#[case("head", "head alone", 0.775, 0.0, Disagrees)]
#[case("top-1", "only the top layer", 0.77, 0.0, Agrees)]
#[case("top-1", "only the top layer", 0.77, 0.01, CannotSay)]
#[case("top-1", "only the top layer", 0.775, 0.0, Disagrees)]
fn not_enough_is_half_of_the_papers_gap_below_adapters_of_size_64(
    #[case] tuning: &str,
    #[case] name: &str,
    #[case] score: f64,
    #[case] spread: f64,
    #[case] expected: Verdict,
) {
    let others = [
        Spec::tuned("a", "full", 0.81),
        Spec::adapters("a", 64, 0.8),
        Spec::adapters("a", 8, 0.1),
        Spec::adapters("a", 512, 0.99),
    ];
    let own = Spec::tuned("a", tuning, score).seeds(spread);
    let found = finding(&Folder::with("fig4", seeded(others).into_iter().chain(own.clone())), name);
    assert_eq!(found.verdict, expected, "{}", found.shows);
    assert!(found.shows.contains(&format!("{:.1}", 100.0 * score)), "{}", found.shows);
    check(&Folder::with("fig4", own), name, CannotSay);
    check(&Folder::with("fig4", Spec::adapters("a", 64, 0.8).seeds(0.0)), name, CannotSay);
}

/// The column "from" and the page's link lead to the runs that were judged.
#[test]
fn the_top_layer_may_be_judged_by_figure_3_and_the_head_may_not() {
    let specs = [
        Spec::tuned("a", "full", 0.81),
        Spec::adapters("a", 64, 0.8),
        Spec::tuned("a", "top-1", 0.77),
        Spec::tuned("a", "head", 0.5),
    ];
    let mut folder = Folder::with("fig3", seeded(specs.clone()));
    let (top, head) = (finding(&folder, "only the top layer"), finding(&folder, "head alone"));
    assert_eq!((top.verdict, top.shown_in), (Agrees, &["fig3"][..]), "{}", top.shows);
    assert_eq!((head.verdict, head.shown_in), (CannotSay, &["fig4"][..]), "{}", head.shows);
    folder.add("fig4", seeded(specs));
    for name in ["only the top layer", "head alone"] {
        let found = finding(&folder, name);
        assert_eq!((found.verdict, found.shown_in), (Agrees, &["fig4"][..]), "{}", found.shows);
    }
}

#[test]
fn figure_4_is_judged_by_accuracy() {
    // Accuracy is 0.9 of these and a tenth: the gap of 2 points is one of 1.8.
    let specs =
        [Spec::tuned("cola", "full", 0.5), Spec::adapters("cola", 64, 0.5), Spec::tuned("cola", "layer-norm", 0.48)];
    let found = finding(&Folder::with("fig4", seeded(specs.map(|spec| spec.metric("matthews")))), "LayerNorm alone");
    assert!((found.effects[0].value - 1.8).abs() < 1e-9, "{}", found.shows);
    assert!(found.shows.contains("53.2") && found.shows.contains("55.0"), "{}", found.shows);
}

/// CoLA where every method answers with the most frequent class: a score of 0 by Matthews, and as many right as that class has.
#[rstest]
#[case("fig4", "LayerNorm alone")]
#[case("fig4", "head alone")]
#[case("fig4", "only the top layer")]
#[case("fig3", "few parameters")]
#[case("table1", "close to full")]
#[case("table2", "additional tasks")]
#[case("fig7", "learning rate")]
#[case("fig6-init", "initial σ")]
#[case("sizes", "size matters")]
#[case("variants", "Variants")]
fn cola_at_the_majority_class_says_nothing(#[case] experiment: &str, #[case] name: &str) {
    let mut specs = vec![
        Spec::tuned("cola", "full", 0.0),
        Spec::tuned("cola", "layer-norm", 0.0),
        Spec::tuned("cola", "head", 0.0),
        Spec::tuned("cola", "top-1", 0.0),
        Spec::adapters("cola", 64, 0.0),
        Spec::adapters("cola", 8, 0.0),
    ];
    match experiment {
        "fig7" => {
            let with = |rate: f64| {
                [Spec::tuned("cola", "full", 0.0), Spec::adapters("cola", 64, 0.0)].map(|spec| spec.rate(rate))
            };
            specs = [1e-5, 1e-4, 1e-3].into_iter().flat_map(with).collect();
        }
        "fig6-init" => {
            let with = |sigma: f64| Spec::adapters("cola", 64, 0.0).with("init_std", json!(sigma));
            specs = [1e-7, 1e-2, 1.0].map(with).to_vec();
        }
        "variants" => specs.push(Spec::adapters("cola", 64, 0.0).with("activation", json!("tanh"))),
        _ => {}
    }
    let specs = specs.into_iter().map(|spec| spec.metric("matthews").trivial(0.0));
    let found = finding(&Folder::with(experiment, seeded(specs)), name);
    assert_eq!(found.verdict, CannotSay, "{}", found.shows);
    assert!(found.shows.contains("CoLA ("), "{}", found.shows);
}

#[rstest]
#[case(0.885, 0.0, Agrees)]
#[case(0.885, 0.02, CannotSay)]
#[case(0.880, 0.0, Disagrees)]
fn question_answering_is_judged_by_the_best_size(#[case] score: f64, #[case] spread: f64, #[case] expected: Verdict) {
    let others = seeded([Spec::tuned("squad", "full", 0.9), Spec::adapters("squad", 2, 0.5)]);
    let specs = others.into_iter().chain(Spec::adapters("squad", 64, score).seeds(spread));
    check(&Folder::with("fig5", specs.map(|spec| spec.metric("answer_f1"))), "question answering", expected);
}

/// 30.9 against 28.3 looks like agreement, but neither answers most questions.
#[rstest]
#[case(0.283, CannotSay)]
#[case(0.49, CannotSay)]
#[case(0.51, Agrees)]
fn question_answering_where_both_methods_fail_says_nothing(#[case] full: f64, #[case] expected: Verdict) {
    let specs = [Spec::tuned("squad", "full", full), Spec::adapters("squad", 64, full + 0.026)];
    let found = finding(
        &Folder::with("fig5", seeded(specs.map(|spec| spec.metric("answer_f1").trivial(0.0)))),
        "question answering",
    );
    assert_eq!(found.verdict, expected, "{}", found.shows);
    assert_eq!(found.shows.contains("not clearly above 50"), expected == CannotSay, "{}", found.shows);
}

/// Four layers of a model with an accuracy of 0.8; the majority class has 0.37. Seeds are off by `spread`.
fn ablated(single: f64, lower: f64, upper: f64, all: f64, spread: f64) -> Folder {
    let mut folder = Folder::new();
    for seed in 0..3 {
        let off = spread * (seed as f64 - 1.0);
        folder.ablation("a", seed, 4, 0.8, |first, last| match (first, last) {
            (0, 3) => all + off,
            (0, 1) => lower,
            (2, 3) => upper + off,
            (0, 0) => single + off,
            (first, last) if first == last => 0.0,
            _ => -0.1,
        });
    }
    folder
}

#[rstest]
// Without adapters 0.8 × 0.52 = 41.6 of 100 are left: 4.6 above the most frequent class.
#[case("Without all adapters", ablated(0.0, 0.0, 0.0, -0.48, 0.0), Agrees)]
#[case("Without all adapters", ablated(0.0, 0.0, 0.0, -0.48, 0.05), CannotSay)]
#[case("Without all adapters", ablated(0.0, 0.0, 0.0, -0.47, 0.0), Disagrees)]
#[case("single layer", ablated(-0.039, 0.0, 0.0, 0.0, 0.0), Agrees)]
#[case("single layer", ablated(-0.039, 0.0, 0.0, 0.0, 0.02), CannotSay)]
#[case("single layer", ablated(-0.041, 0.0, 0.0, 0.0, 0.0), Disagrees)]
#[case("Higher layers", ablated(0.0, -0.05, -0.06, 0.0, 0.0), Agrees)]
#[case("Higher layers", ablated(0.0, -0.05, -0.06, 0.0, 0.02), CannotSay)]
#[case("Higher layers", ablated(0.0, -0.06, -0.05, 0.0, 0.0), Disagrees)]
fn removed_adapters_are_judged(#[case] name: &str, #[case] folder: Folder, #[case] expected: Verdict) {
    check(&folder, name, expected);
}

/// A task where the upper half matters more does not make up for one where the lower does.
#[test]
fn higher_layers_must_matter_more_on_every_task() {
    let mut folder = Folder::new();
    for seed in 0..3 {
        folder.ablation("a", seed, 2, 0.8, |first, last| if (first, last) == (1, 1) { -0.5 } else { 0.0 });
        folder.ablation("b", seed, 2, 0.8, |first, last| if (first, last) == (0, 0) { -0.1 } else { 0.0 });
    }
    check(&folder, "Higher layers", Disagrees);
}

/// What the first tasks say of an experiment, the last may take back.
#[test]
fn an_experiment_with_runs_to_do_says_nothing_yet() {
    let mut folder = Folder::new();
    for seed in 0..3 {
        folder.ablation("a", seed, 2, 0.8, |first, last| if (first, last) == (1, 1) { -0.5 } else { 0.0 });
    }
    check(&folder, "Higher layers", Agrees);
    folder.fail("fig6-spans", "b adapters 64 seed 2", "no space left");
    let found = finding(&folder, "Higher layers");
    assert_eq!(found.verdict, CannotSay);
    assert!(found.shows.ends_with("fig6-spans has 1 of 4 runs still to do."), "{}", found.shows);
    assert!(found.brief().ends_with(" · fig6-spans has 1 of 4 runs still to do"), "{}", found.brief());
}

/// A file of a store that is gone, or that cannot be read.
#[derive(Clone, Copy)]
enum Lost {
    Deleted,
    Damaged,
}

fn lose(folder: &Folder, file: &str, how: Lost) {
    let path = folder.path.join(file);
    match how {
        Lost::Deleted => fs::remove_file(path).unwrap(),
        Lost::Damaged => fs::write(path, "{").unwrap(),
    }
}

/// Without it another configuration may win, or the interval be another.
#[rstest]
fn a_run_whose_record_is_lost_is_one_to_do(#[values(Lost::Deleted, Lost::Damaged)] how: Lost) {
    let mut folder = Folder::new();
    let ids = folder.add("table1", close(1.0, 0.0));
    check(&folder, "close to full", Agrees);
    lose(&folder, &format!("{}/record.json", ids[0]), how);
    let found = finding(&folder, "close to full");
    assert_eq!(found.verdict, CannotSay, "{}", found.shows);
    assert_eq!(found.unfinished.as_deref(), Some("table1 has 1 of 12 runs still to do"));
}

/// The fourth seed changes nothing: what is missing decides, not how many are left.
#[rstest]
fn a_run_whose_ablation_is_lost_is_one_to_do(#[values(Lost::Deleted, Lost::Damaged)] how: Lost) {
    let mut folder = Folder::new();
    let upper = |first: usize, last: usize| if (first, last) == (1, 1) { -0.5 } else { 0.0 };
    let ids: Vec<String> = (0..4).map(|seed| folder.ablation("a", seed, 2, 0.8, upper)).collect();
    check(&folder, "Higher layers", Agrees);
    lose(&folder, &format!("{}/ablation.json", ids[3]), how);
    for name in ["Without all adapters", "single layer", "Higher layers"] {
        let found = finding(&folder, name);
        assert_eq!(found.verdict, CannotSay, "{}", found.shows);
        assert_eq!(found.unfinished.as_deref(), Some("fig6-spans has 1 of 4 runs still to do"));
    }
}

#[test]
fn a_run_that_diverged_needs_no_ablation_and_is_named() {
    let mut folder = Folder::new();
    for seed in 0..3 {
        folder.ablation("a", seed, 2, 0.8, |first, last| if (first, last) == (1, 1) { -0.5 } else { 0.0 });
    }
    folder.add("fig6-spans", [Spec::adapters("a", 64, 0.8).seed(3).diverged()]);
    let found = finding(&folder, "Higher layers");
    assert_eq!((found.verdict, found.unfinished), (Agrees, None));
    assert_eq!(found.left_out, ["a (seed 3 diverged: there is nothing to remove)"]);
}

#[rstest]
fn a_run_whose_stream_is_lost_is_one_to_do(#[values(Lost::Deleted, Lost::Damaged)] how: Lost) {
    let mut folder = Folder::new();
    for tuning in ["adapters", "full"] {
        folder.stream(tuning, &["a", "b"], true);
        let ids = [0, 1].map(|stage| format!("{tuning}{stage}"));
        ids.iter().for_each(|id| folder.write(&format!("{id}/record.json"), &Spec::tuned("a", tuning, 0.8).record(id)));
        let record = folder.experiment("stream");
        record.planned += 2;
        record.runs.extend(ids);
    }
    folder.add("stream", []);
    check(&folder, "not forgotten", Agrees);
    lose(&folder, "streams/stream-full.json", how);
    let found = finding(&folder, "not forgotten");
    assert_eq!(found.verdict, CannotSay, "{}", found.shows);
    assert_eq!(found.unfinished.as_deref(), Some("stream has 2 of 4 runs still to do"));
}

/// The figure shows each of two sizes, and so does the verdict.
#[rstest]
#[case(-0.5, Agrees)]
#[case(0.0, Disagrees)]
fn removed_adapters_of_every_size_are_judged(#[case] upper: f64, #[case] expected: Verdict) {
    let mut folder = Folder::new();
    for seed in 0..3 {
        for (size, upper) in [(8, -0.5), (64, upper)] {
            let spec = Spec::adapters("a", size, 0.8).seed(seed);
            folder.ablated(spec, 2, |first, last| match (first, last) {
                (0, 0) => -0.1,
                (1, 1) => upper,
                _ => 0.0,
            });
        }
    }
    let found = finding(&folder, "Higher layers");
    assert_eq!(found.verdict, expected, "{}", found.shows);
    let judged: Vec<&str> = found.effects.iter().map(|effect| effect.what.as_str()).collect();
    let of = |size: usize| format!("a, adapter size {size}, loss of the upper half minus the lower");
    assert_eq!(judged, [of(8), of(64)]);
}

#[test]
fn removed_adapters_of_two_sizes_are_not_mixed_into_seeds_of_one() {
    let mut folder = Folder::new();
    for (size, seed) in [(8, 0), (8, 1), (64, 2)] {
        folder.ablated(Spec::adapters("a", size, 0.8).seed(seed), 2, |_, _| 0.0);
    }
    let found = finding(&folder, "Higher layers");
    assert_eq!((found.verdict, found.effects.len()), (CannotSay, 0), "{}", found.shows);
    assert_eq!(found.left_out, [8, 64].map(|size| format!("a, adapter size {size} (fewer than three seeds)")));
}

#[rstest]
#[case(0.8, 2, "fewer than three seeds")]
#[case(0.37, 3, "does not clearly beat")]
fn removed_adapters_of_few_seeds_or_of_nothing_learnt_say_nothing(
    #[case] whole: f64,
    #[case] seeds: u64,
    #[case] said: &str,
) {
    let mut folder = Folder::new();
    for seed in 0..seeds {
        folder.ablation("a", seed, 2, whole, |_, _| 0.0);
    }
    for name in ["Without all adapters", "single layer", "Higher layers"] {
        let found = finding(&folder, name);
        assert_eq!(found.verdict, CannotSay, "{}", found.shows);
        assert!(found.shows.contains(said), "{}", found.shows);
    }
}

#[rstest]
#[case(&[(1e-7, 0.81), (1e-2, 0.82), (1.0, 0.60)], 0.0, Agrees)]
#[case(&[(1e-7, 0.81), (1e-2, 0.82), (1.0, 0.60)], 0.02, CannotSay)]
#[case(&[(1e-7, 0.80), (1e-2, 0.82), (1.0, 0.60)], 0.0, Disagrees)]
// It must fall, and by more than what counts as flat.
#[case(&[(1e-7, 0.81), (1e-2, 0.82), (1.0, 0.805)], 0.0, Disagrees)]
#[case(&[(1e-7, 0.81), (1e-2, 0.82), (1.0, 0.80)], 0.0, Agrees)]
#[case(&[(1e-2, 0.82), (1.0, 0.60)], 0.0, CannotSay)]
#[case(&[(1e-7, 0.80), (1e-2, 0.82)], 0.0, CannotSay)]
fn the_initial_scale_is_judged_by_flatness_and_fall(
    #[case] scores: &[(f64, f64)],
    #[case] spread: f64,
    #[case] expected: Verdict,
) {
    let specs = scores.iter().flat_map(|&(sigma, score)| {
        let spread = if sigma < 1e-3 { spread } else { 0.0 };
        Spec::adapters("a", 64, score).with("init_std", json!(sigma)).seeds(spread)
    });
    check(&Folder::with("fig6-init", specs), "initial σ", expected);
}

/// Size 8, which comes first, falls apart at a small σ; size 64, as in the paper, does not.
#[test]
fn the_initial_scale_is_judged_at_the_papers_size_and_the_others_are_named() {
    let specs = [(8, 0.3), (64, 0.81), (256, 0.3)].into_iter().flat_map(|(size, small)| {
        let with = |(sigma, score)| Spec::adapters("a", size, score).with("init_std", json!(sigma));
        [(1e-7, small), (1e-2, 0.82), (1.0, 0.6)].map(with)
    });
    let found = finding(&Folder::with("fig6-init", seeded(specs)), "initial σ");
    assert_eq!(found.verdict, Agrees, "{}", found.shows);
    assert_eq!(found.left_out, ["a (shown beside adapters 64, but not judged: adapters 8, adapters 256)"]);
}

#[test]
fn learning_rates_are_judged_at_the_papers_size_and_the_others_are_named() {
    let mut folder = rates(&[0.80, 0.81, 0.79], &[0.82, 0.80, 0.50], 0.0);
    folder.add("fig7", seeded([1e-5, 1e-4, 1e-3].map(|rate| Spec::adapters("a", 8, 800.0 * rate).rate(rate))));
    let found = finding(&folder, "learning rate");
    assert_eq!(found.verdict, Agrees, "{}", found.shows);
    assert_eq!(found.left_out, ["a (shown beside adapters 64, but not judged: adapters 8)"]);
}

/// Adapters and full fine-tuning at some rates.
fn rates(adapters: &[f64], full: &[f64], spread: f64) -> Folder {
    let rates = [1e-5, 1e-4, 1e-3, 1e-2];
    let small =
        adapters.iter().zip(rates).flat_map(|(score, rate)| Spec::adapters("a", 64, *score).rate(rate).seeds(spread));
    let whole = full.iter().zip(rates).flat_map(|(score, rate)| Spec::tuned("a", "full", *score).rate(rate).seeds(0.0));
    Folder::with("fig7", small.chain(whole))
}

#[rstest]
#[case(rates(&[0.80, 0.81, 0.79], &[0.82, 0.80, 0.50], 0.0), Agrees)]
#[case(rates(&[0.77, 0.80, 0.80], &[0.82, 0.80, 0.50], 0.0), Agrees)]
#[case(rates(&[0.76, 0.80, 0.80], &[0.82, 0.80, 0.50], 0.0), Disagrees)]
// Full fine-tuning loses less than the adapters.
#[case(rates(&[0.80, 0.81, 0.79], &[0.80, 0.80, 0.79], 0.0), Disagrees)]
#[case(rates(&[0.80, 0.81], &[0.82, 0.50], 0.0), CannotSay)]
// Nothing learnt at any rate is no robustness.
#[case(rates(&[0.02, 0.02, 0.02], &[0.82, 0.80, 0.50], 0.0), CannotSay)]
fn learning_rates_are_judged_by_what_is_lost(#[case] folder: Folder, #[case] expected: Verdict) {
    check(&folder, "learning rate", expected);
}

/// The adapters collapse at one end of the rates or at both: they are not robust, even if full fine-tuning is no better.
#[rstest]
#[case(&[0.40, 0.80, 0.80, 0.30], &[0.80, 0.81, 0.50, 0.20])]
#[case(&[0.80, 0.80, 0.80, 0.60], &[0.80, 0.81, 0.50, 0.20])]
#[case(&[0.60, 0.80, 0.80, 0.80], &[0.82, 0.81, 0.80, 0.20])]
fn rates_that_end_where_adapters_collapse_disagree(#[case] adapters: &[f64], #[case] full: &[f64]) {
    check(&rates(adapters, full, 0.01), "learning rate", Disagrees);
}

#[test]
fn a_collapse_of_one_seed_cannot_agree() {
    let mut specs: Vec<Spec> = Vec::new();
    for rate in [1e-5, 1e-4, 1e-3] {
        specs.extend(Spec::adapters("a", 64, 0.8).rate(rate).seeds(0.0));
        specs.extend(Spec::tuned("a", "full", 0.8 - 300.0 * rate).rate(rate).seeds(0.0));
    }
    check(&Folder::with("fig7", specs.clone()), "learning rate", Agrees);
    let last = specs.iter_mut().rfind(|spec| spec.method.name == "adapters").unwrap();
    *last = last.clone().diverged();
    let found = finding(&Folder::with("fig7", specs), "learning rate");
    assert_eq!(found.verdict, CannotSay, "{}", found.shows);
    assert!(found.shows.contains("1 of 3 seeds diverged"), "{}", found.shows);
}

#[test]
fn a_rate_with_too_few_seeds_is_not_passed_over() {
    let folder = rates(&[0.80, 0.81, 0.79], &[0.82, 0.80, 0.50], 0.0);
    check(&folder, "learning rate", Agrees);
    let mut folder = folder;
    folder.add("fig7", [Spec::adapters("a", 64, 0.1).rate(1e-2), Spec::tuned("a", "full", 0.1).rate(1e-2)]);
    check(&folder, "learning rate", CannotSay);
}

#[rstest]
#[case(&[(8, 0.800), (64, 0.805), (256, 0.796)], 0.0, Agrees)]
#[case(&[(8, 0.800), (64, 0.805), (256, 0.796)], 0.01, CannotSay)]
#[case(&[(8, 0.80), (64, 0.811)], 0.0, Disagrees)]
#[case(&[(64, 0.82)], 0.0, CannotSay)]
fn sizes_are_judged_by_the_spread_of_their_means(
    #[case] scores: &[(usize, f64)],
    #[case] spread: f64,
    #[case] expected: Verdict,
) {
    let specs = scores
        .iter()
        .flat_map(|&(size, score)| Spec::adapters("a", size, score).seeds(if size == 64 { spread } else { 0.0 }));
    check(&Folder::with("sizes", specs), "size matters", expected);
}

#[rstest]
#[case("accuracy", Some(0.80), 0.809, 0.0, Agrees)]
#[case("accuracy", Some(0.80), 0.809, 0.01, CannotSay)]
#[case("accuracy", Some(0.80), 0.811, 0.0, Disagrees)]
#[case("accuracy", None, 0.82, 0.0, CannotSay)]
// 1.1 points of Matthews are 0.99 of accuracy in these records.
#[case("matthews", Some(0.80), 0.811, 0.0, Agrees)]
fn variants_are_judged_by_the_accuracy_of_each(
    #[case] metric: &'static str,
    #[case] paper: Option<f64>,
    #[case] best: f64,
    #[case] spread: f64,
    #[case] expected: Verdict,
) {
    let adapters = |score| Spec::adapters("a", 64, score).metric(metric);
    let others = [(best, "tanh", spread), (0.5, "relu", 0.0)]
        .into_iter()
        .flat_map(|(score, activation, spread)| adapters(score).with("activation", json!(activation)).seeds(spread));
    let specs = paper.into_iter().flat_map(|score| adapters(score).seeds(0.0)).chain(others);
    check(&Folder::with("variants", specs), "Variants", expected);
}

#[rstest]
#[case("adapters", &["a", "b"], true, Agrees)]
#[case("adapters", &["a", "b"], false, Disagrees)]
#[case("adapters", &["a"], true, CannotSay)]
#[case("full", &["a", "b"], false, CannotSay)]
fn memory_is_judged_by_every_output(
    #[case] tuning: &str,
    #[case] tasks: &[&str],
    #[case] same: bool,
    #[case] expected: Verdict,
) {
    let mut folder = Folder::new();
    folder.stream(tuning, tasks, same);
    check(&folder, "not forgotten", expected);
}

#[test]
fn memory_is_of_tasks_that_were_learnt_before() {
    let mut folder = Folder::new();
    folder.stream("adapters", &["a", "b", "c", "d", "e"], true);
    folder.stream("full", &["a", "b", "c", "d", "e"], false);
    let shows = finding(&folder, "not forgotten").shows;
    assert!(
        shows.contains("adapters: 10 of 10 evaluations") && shows.contains("one network: 0 of 10 evaluations"),
        "{shows}"
    );
}

#[test]
fn an_own_experiment_that_is_called_like_a_preset_is_no_evidence() {
    let specs = [Spec::adapters("a", 8, 0.8), Spec::adapters("a", 64, 0.8)];
    let mut folder = Folder::with("sizes", seeded(specs));
    check(&folder, "size matters", Agrees);
    folder.experiment("sizes").preset = false;
    folder.add("sizes", []);
    check(&folder, "size matters", CannotSay);
}

#[test]
fn a_verdict_of_an_overridden_preset_says_so() {
    let mut folder = Folder::with("table1", close(1.0, 0.0));
    assert!(!finding(&folder, "close to full").shows.contains("not the paper's"));
    folder.experiment("table1").overrides.insert("lr".to_owned(), json!(0.01));
    folder.add("table1", []);
    let shows = finding(&folder, "close to full").shows;
    assert!(shows.contains("table1 with lr = 0.01: not the paper's settings"), "{shows}");
}

#[test]
fn without_runs_nothing_is_said() {
    let all = findings(&Store::read(&Folder::new().path).unwrap());
    assert!(all.len() == 16 && all.iter().all(|finding| finding.verdict == CannotSay && finding.effects.is_empty()));
    assert!(all.iter().all(|finding| finding.shows.starts_with("Not enough runs")));
}

#[test]
fn every_threshold_has_a_name_of_its_own_and_a_reason() {
    let names: std::collections::BTreeSet<&str> = thresholds().iter().map(|threshold| threshold.name).collect();
    assert_eq!(names.len(), thresholds().len());
    assert!(thresholds().iter().all(|threshold| threshold.reason.len() > 20 && threshold.limit.is_finite()));
}
