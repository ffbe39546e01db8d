//! Every verdict follows the data: agreement, disagreement, and nothing to say.

mod generated;

use analysis::{Finding, Store, findings};
use generated::{BACKBONE, Folder, Spec};
use rstest::rstest;
use serde_json::json;

fn finding(folder: &Folder, name: &str) -> Finding {
    let all = findings(&Store::read(&folder.path).unwrap());
    all.into_iter().find(|finding| finding.name.contains(name)).unwrap()
}

fn verdict(folder: &Folder, name: &str) -> Option<bool> {
    finding(folder, name).agrees
}

/// Adapters on two tasks, one of them with the best size too large to count.
#[rstest]
#[case(0.79, 0.02, Some(true))]
#[case(0.77, 0.02, Some(false))]
#[case(0.79, 0.11, Some(false))]
fn adapters_are_close_within_two_points_and_a_tenth(
    #[case] score: f64,
    #[case] share: f64,
    #[case] expected: Option<bool>,
) {
    let trained = (share * BACKBONE as f64) as usize;
    let mut specs = Vec::new();
    for task in ["a", "b"] {
        specs.push(Spec::tuned(task, "full", 0.8));
        specs.push(Spec::adapters(task, 8, score).trained(trained));
        // Better, but with half of the parameters: it does not count.
        specs.push(Spec::adapters(task, 256, 0.9).trained(BACKBONE / 2));
    }
    let found = finding(&Folder::with("table1", specs), "close to full");
    assert_eq!(found.agrees, expected, "{}", found.shows);
    if share < 0.1 {
        assert!(
            found.shows.contains(&format!("{:.1}", 100.0 * score)) && found.shows.contains("2.0 %"),
            "{}",
            found.shows
        );
    }
}

#[test]
fn closeness_is_judged_on_average_over_the_tasks() {
    let specs = |b: f64| {
        [("a", 0.83), ("b", b)]
            .into_iter()
            .flat_map(|(task, score)| [Spec::tuned(task, "full", 0.8), Spec::adapters(task, 8, score)])
    };
    assert_eq!(verdict(&Folder::with("table1", specs(0.74)), "close to full"), Some(true));
    assert_eq!(verdict(&Folder::with("table1", specs(0.72)), "close to full"), Some(false));
}

#[rstest]
#[case(0.69, Some(true))]
#[case(0.67, Some(false))]
fn the_additional_tasks_are_judged_by_test_scores(#[case] test: f64, #[case] expected: Option<bool>) {
    let specs = [Spec::tuned("a", "full", 0.8).test(0.7), Spec::adapters("a", 8, 0.1).test(test)];
    assert_eq!(verdict(&Folder::with("table2", specs), "additional tasks"), expected);
}

#[rstest]
#[case(0.75, 64, Some(true))]
#[case(0.65, 64, Some(false))]
// Adapters that train more than the top layer say nothing of few parameters.
#[case(0.75, 4096, None)]
fn adapters_are_held_against_the_smallest_top_k(
    #[case] score: f64,
    #[case] size: usize,
    #[case] expected: Option<bool>,
) {
    let specs = ["a", "b"].into_iter().flat_map(|task| {
        [
            Spec::tuned(task, "full", 0.8),
            Spec::tuned(task, "top-1", 0.7),
            Spec::tuned(task, "top-6", 0.79),
            Spec::adapters(task, size, score),
        ]
    });
    assert_eq!(verdict(&Folder::with("fig3", specs), "few parameters"), expected);
}

#[rstest]
#[case("layer-norm", "LayerNorm alone", 0.79, true)]
#[case("layer-norm", "LayerNorm alone", 0.81, false)]
#[case("layer-norm", "LayerNorm alone", 0.80, false)]
#[case("head", "head alone", 0.74, true)]
#[case("head", "head alone", 0.76, false)]
#[case("top-1", "only the top layer", 0.79, true)]
#[case("top-1", "only the top layer", 0.85, false)]
fn methods_are_held_against_adapters_of_size_64(
    #[case] tuning: &str,
    #[case] name: &str,
    #[case] score: f64,
    #[case] agrees: bool,
) {
    let specs = [
        Spec::tuned("a", tuning, score),
        Spec::adapters("a", 64, 0.8),
        Spec::adapters("a", 8, 0.1),
        Spec::adapters("a", 512, 0.99),
    ];
    let found = finding(&Folder::with("fig4", specs), name);
    assert_eq!(found.agrees, Some(agrees), "{}", found.shows);
    assert!(found.shows.contains(&format!("{:.1}", 100.0 * score)), "{}", found.shows);
    assert_eq!(verdict(&Folder::with("fig4", [Spec::tuned("a", tuning, score)]), name), None);
    assert_eq!(verdict(&Folder::with("fig4", [Spec::adapters("a", 64, 0.8)]), name), None);
}

#[rstest]
#[case(0.885, Some(true))]
#[case(0.875, Some(false))]
fn question_answering_is_judged_by_the_best_size(#[case] score: f64, #[case] expected: Option<bool>) {
    let specs = [
        Spec::tuned("squad", "full", 0.9).metric("answer_f1"),
        Spec::adapters("squad", 2, 0.5).metric("answer_f1"),
        Spec::adapters("squad", 64, score).metric("answer_f1"),
    ];
    assert_eq!(verdict(&Folder::with("fig5", specs), "question answering"), expected);
}

/// Four layers of a model with an accuracy of 0.8; the majority class has 0.37.
fn ablated(single: f64, lower: f64, upper: f64, all: f64) -> Folder {
    let mut folder = Folder::new();
    folder.ablation("a", 0, 4, 0.8, |first, last| match (first, last) {
        (0, 3) => all,
        (0, 1) => lower,
        (2, 3) => upper,
        (first, last) if first == last => single,
        _ => -0.1,
    });
    folder
}

#[rstest]
#[case(ablated(-0.04, -0.05, -0.3, -0.5), [true, true, true])]
#[case(ablated(-0.06, -0.3, -0.05, -0.4), [false, false, false])]
fn removed_adapters_are_judged(#[case] folder: Folder, #[case] expected: [bool; 3]) {
    let verdicts = ["Without all adapters", "single layer", "Higher layers"].map(|name| verdict(&folder, name));
    assert_eq!(verdicts, expected.map(Some));
}

#[test]
fn removed_adapters_are_averaged_over_seeds() {
    let mut folder = Folder::new();
    for (seed, change) in [(0, -0.08), (1, 0.0)] {
        folder.ablation("a", seed, 2, 0.8, |_, _| change);
    }
    let found = finding(&folder, "single layer");
    assert_eq!(found.agrees, Some(true), "{}", found.shows);
    assert!(found.shows.contains("−4.0 %"), "{}", found.shows);
}

#[rstest]
#[case(&[(1e-7, 0.80), (1e-2, 0.82), (1.0, 0.60)], Some(true))]
#[case(&[(1e-7, 0.70), (1e-2, 0.82), (1.0, 0.60)], Some(false))]
#[case(&[(1e-7, 0.80), (1e-2, 0.82), (1.0, 0.82)], Some(false))]
#[case(&[(1e-2, 0.82), (1.0, 0.60)], None)]
#[case(&[(1e-7, 0.80), (1e-2, 0.82)], None)]
fn the_initial_scale_is_judged_by_flatness_and_fall(#[case] scores: &[(f64, f64)], #[case] expected: Option<bool>) {
    let specs = scores.iter().map(|(sigma, score)| Spec::adapters("a", 64, *score).with("init_std", json!(sigma)));
    assert_eq!(verdict(&Folder::with("fig6-init", specs), "initial σ"), expected);
}

#[rstest]
#[case(&[0.80, 0.81, 0.79], &[0.82, 0.80, 0.50], Some(true))]
#[case(&[0.50, 0.81, 0.79], &[0.82, 0.80, 0.75], Some(false))]
#[case(&[0.80, 0.81], &[0.82, 0.50], None)]
fn learning_rates_are_judged_by_the_spread(
    #[case] adapters: &[f64],
    #[case] full: &[f64],
    #[case] expected: Option<bool>,
) {
    let rates = [1e-5, 1e-4, 1e-3];
    let small = adapters.iter().zip(rates).map(|(score, rate)| Spec::adapters("a", 64, *score).rate(rate));
    let whole = full.iter().zip(rates).map(|(score, rate)| Spec::tuned("a", "full", *score).rate(rate));
    assert_eq!(verdict(&Folder::with("fig7", small.chain(whole)), "learning rate"), expected);
}

#[rstest]
#[case(&[(8, 0.800), (64, 0.805), (256, 0.795)], Some(true))]
#[case(&[(8, 0.80), (64, 0.82)], Some(false))]
#[case(&[(64, 0.82)], None)]
fn sizes_are_judged_by_the_spread_of_their_means(#[case] scores: &[(usize, f64)], #[case] expected: Option<bool>) {
    let specs = scores.iter().map(|(size, score)| Spec::adapters("a", *size, *score));
    assert_eq!(verdict(&Folder::with("sizes", specs), "size matters"), expected);
}

#[rstest]
#[case(Some(0.80), 0.805, Some(true))]
#[case(Some(0.80), 0.82, Some(false))]
#[case(None, 0.82, None)]
fn variants_are_judged_by_the_best_of_them(
    #[case] paper: Option<f64>,
    #[case] best: f64,
    #[case] expected: Option<bool>,
) {
    let others = [best, 0.5].into_iter().zip(["tanh", "relu"]);
    let others = others.map(|(score, activation)| Spec::adapters("a", 64, score).with("activation", json!(activation)));
    let specs = paper.map(|score| Spec::adapters("a", 64, score)).into_iter().chain(others);
    let found = finding(&Folder::with("variants", specs), "Variants");
    assert_eq!(found.agrees, expected, "{}", found.shows);
}

#[rstest]
#[case("adapters", &["a", "b"], true, Some(true))]
#[case("adapters", &["a", "b"], false, Some(false))]
#[case("adapters", &["a"], true, None)]
#[case("full", &["a", "b"], false, None)]
fn memory_is_judged_by_every_output(
    #[case] tuning: &str,
    #[case] tasks: &[&str],
    #[case] same: bool,
    #[case] expected: Option<bool>,
) {
    let mut folder = Folder::new();
    folder.stream(tuning, tasks, same);
    assert_eq!(verdict(&folder, "stays as it was"), expected);
}

#[test]
fn memory_is_of_tasks_that_were_learnt_before() {
    let mut folder = Folder::new();
    folder.stream("adapters", &["a", "b", "c", "d", "e"], true);
    folder.stream("full", &["a", "b", "c", "d", "e"], false);
    let shows = finding(&folder, "stays as it was").shows;
    assert!(shows.contains("adapters: 10 of 10 evaluations") && shows.contains("full: 0 of 10 evaluations"), "{shows}");
}

#[test]
fn an_own_experiment_that_is_called_like_a_preset_is_no_evidence() {
    let mut folder = Folder::with("sizes", [Spec::adapters("a", 8, 0.8), Spec::adapters("a", 64, 0.8)]);
    assert_eq!(verdict(&folder, "size matters"), Some(true));
    folder.experiment("sizes").preset = false;
    folder.add("sizes", []);
    assert_eq!(verdict(&folder, "size matters"), None);
}

#[test]
fn without_runs_nothing_is_said() {
    let all = findings(&Store::read(&Folder::new().path).unwrap());
    assert!(all.len() >= 12 && all.iter().all(|finding| finding.agrees.is_none()));
    assert!(all.iter().all(|finding| finding.shows.starts_with("Not enough runs")));
}
