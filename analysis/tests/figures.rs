//! Figures of runs whose numbers are known, read back from their marks.

mod generated;

use std::fs;

use analysis::{Shown, Store, paper_exhibits, write_report};
use generated::{Folder, Spec};
use rstest::rstest;
use serde_json::json;

/// The texts of a figure: what marks say when pointed at, and everything that is written.
fn read(folder: &Folder, name: &str) -> (Vec<String>, Vec<String>) {
    let out = folder.path.join("../out");
    write_report(&folder.path, &out, &paper_exhibits(), &analysis::Made::default()).unwrap();
    let svg = fs::read_to_string(out.join(format!("figures/{name}.svg"))).unwrap();
    let document = resvg::usvg::roxmltree::Document::parse(&svg).unwrap();
    let texts = |tag: &str, within: &str| {
        let nodes = document.descendants().filter(|node| node.has_tag_name(tag));
        let nodes = nodes.filter(|node| within.is_empty() || node.parent().is_some_and(|p| p.has_tag_name(within)));
        nodes.filter_map(|node| node.text()).map(str::to_owned).collect::<Vec<String>>()
    };
    let on_marks = texts("title", "g");
    (on_marks, texts("text", ""))
}

/// Five tasks: full fine-tuning has 80 on average, adapters 1 to 5 less, the top layer 10 to 50 less.
fn five_tasks() -> Vec<Spec> {
    let mut specs = Vec::new();
    for (number, task) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        let step = (number + 1) as f64;
        specs.push(Spec::tuned(task, "full", 0.9));
        specs.push(Spec::tuned(task, "full", 0.7).seed(1));
        specs.push(Spec::adapters(task, 8, 0.8 - 0.01 * step));
        specs.push(Spec::adapters(task, 8, 0.1).rate(1e-6));
        specs.push(Spec::tuned(task, "top-1", 0.8 - 0.1 * step));
    }
    specs
}

#[test]
fn figs_1_and_3_show_percentiles_across_tasks_relative_to_full_fine_tuning() {
    let mut folder = Folder::with("fig3", five_tasks());
    let (marks, texts) = read(&folder, "fig1");
    let expected = "adapters 8: median −3.0, 20th to 80th percentile −4.2 to −1.8, 354k trained, 5 tasks";
    assert!(marks.iter().any(|mark| mark == expected), "{marks:?}");
    assert!(
        marks.iter().any(|mark| mark.starts_with("top 1: median −30.0, 20th to 80th percentile −42.0 to −18.0")),
        "{marks:?}"
    );
    assert!(texts.contains(&"Validation scores, 5 tasks".to_owned()));

    // Tasks with test scores have a panel of their own, judged by the test score of what validation chose.
    let tested = [
        Spec::tuned("t", "full", 0.8).test(0.6),
        Spec::adapters("t", 8, 0.7).test(0.55),
        Spec::adapters("t", 8, 0.6).rate(1e-5).test(0.9),
    ];
    folder.add("fig3", tested);
    let (marks, texts) = read(&folder, "fig3");
    assert!(
        texts.contains(&"Validation scores, 5 tasks".to_owned()) && texts.contains(&"Test scores, t".to_owned()),
        "{texts:?}"
    );
    assert!(
        marks.iter().any(|mark| mark.starts_with("adapters 8: median −5.0, 20th to 80th percentile −5.0")),
        "{marks:?}"
    );
    assert!(!read(&folder, "fig1").1.contains(&"Test scores, t".to_owned()));
}

/// A figure's caption.
fn caption(folder: &Folder, name: &str) -> String {
    let exhibits = paper_exhibits();
    let exhibit = exhibits.iter().find(|exhibit| exhibit.name() == name).unwrap();
    match exhibit.show(&Store::read(&folder.path).unwrap()) {
        Some(Shown::Figure(figure)) => figure.about,
        other => panic!("{other:?}"),
    }
}

#[test]
fn figs_1_and_3_leave_out_tasks_on_which_methods_cannot_differ_and_name_them() {
    let of = |task, full| {
        [Spec::tuned(task, "full", full), Spec::adapters(task, 8, 0.8)].map(|spec| spec.trivial(0.6).seeds(0.001))
    };
    let folder = Folder::with("fig3", [of("fair", 0.9), of("hard", 0.6), of("easy", 1.0)].concat().concat());
    for name in ["fig1", "fig3"] {
        let (marks, texts) = read(&folder, name);
        assert!(marks.iter().any(|mark| mark.contains("median −10.0") && mark.ends_with("1 task")), "{marks:?}");
        assert!(texts.contains(&"Validation scores, fair".to_owned()), "{texts:?}");
        let said = caption(&folder, name);
        assert!(
            said.contains("Left out of the percentiles") && said.contains("hard (") && said.contains("easy ("),
            "{said}"
        );
    }
    let nothing = Folder::with("fig3", of("hard", 0.6).concat());
    let out = nothing.path.join("../out");
    let report = write_report(&nothing.path, &out, &paper_exhibits(), &analysis::Made::default()).unwrap();
    assert!(report.gaps.contains(&"fig1".to_owned()), "{:?}", report.gaps);
}

#[test]
fn fig_1_speaks_of_its_own_tasks_and_fig_3_shows_each_task_by_the_score_that_it_compares() {
    let of = |task, examples| {
        [Spec::tuned(task, "full", 0.8), Spec::adapters(task, 8, 0.7)].map(|spec| spec.examples(examples))
    };
    let mut folder = Folder::with("fig3", of("rte", [2490, 277, 0]));
    folder.add("fig3", of("emotion", [1000, 1000, 4000]).map(|spec| spec.test(0.5)));
    let both = caption(&folder, "fig3");
    assert!(both.contains("RTE 2,490 / 277") && both.contains("Emotion 1,000"), "{both}");
    let first = caption(&folder, "fig1");
    assert!(first.contains("RTE 2,490 / 277") && !first.contains("Emotion"), "{first}");
    let (marks, texts) = read(&folder, "fig3-tasks");
    for text in ["validation accuracy × 100", "test accuracy × 100"] {
        assert!(texts.contains(&text.to_owned()), "{texts:?}");
    }
    let of_method = |score: &str| marks.iter().filter(|mark| mark.contains(score)).count();
    assert_eq!((of_method(": 50.0"), of_method(": 80.0")), (2, 1), "{marks:?}");
}

#[test]
fn fig_1_takes_the_tasks_with_test_scores_where_validation_says_nothing() {
    let of = |task, full: f64| {
        [Spec::tuned(task, "full", full), Spec::adapters(task, 8, 0.8)].map(|spec| spec.trivial(0.6).seeds(0.001))
    };
    let mut folder = Folder::with("fig3", of("hard", 0.6).concat());
    folder.add("fig3", of("tested", 0.9).concat().into_iter().map(|spec| spec.test(0.5)));
    assert!(read(&folder, "fig1").1.contains(&"Test scores, tested".to_owned()));
}

#[test]
fn a_panel_with_full_fine_tuning_alone_says_so() {
    let mut folder = Folder::with("fig3", [Spec::tuned("a", "full", 0.8), Spec::adapters("a", 8, 0.7)]);
    folder.add("fig3", [Spec::tuned("t", "full", 0.8).test(0.6)]);
    let (_, texts) = read(&folder, "fig3");
    assert!(texts.contains(&"No test scores but full fine-tuning's so far".to_owned()), "{texts:?}");
}

/// A panel is about one set: a task that lacks a test score is on validation as a whole.
#[test]
fn no_panel_mixes_test_scores_with_validation_scores() {
    let specs = [Spec::tuned("a", "full", 0.8).test(0.5), Spec::adapters("a", 8, 0.7)];
    let (marks, texts) = read(&Folder::with("fig3", specs), "fig3-tasks");
    assert!(texts.contains(&"validation accuracy × 100".to_owned()), "{texts:?}");
    assert!(marks.iter().any(|mark| mark.contains(": 80.0")), "{marks:?}");
}

/// A percentile across tasks hides a method that failed on one of them.
#[test]
fn figs_1_and_3_name_what_learnt_nothing_and_the_metrics() {
    let full = |task| Spec::tuned(task, "full", 0.8).trivial(0.3).seeds(0.01);
    let adapters = |task, score| Spec::adapters(task, 256, score).trivial(0.3).seeds(0.0);
    let all = [full("a"), full("cola"), adapters("a", 0.8), adapters("cola", 0.3)].concat();
    let metric = |spec: Spec| if spec.task == "cola" { spec.metric("matthews") } else { spec };
    let folder = Folder::with("fig3", all.into_iter().map(metric));
    for name in ["fig1", "fig3"] {
        let said = caption(&folder, name);
        for part in
            ["Not clearly better than the trivial answer: adapters 256 (CoLA)", "Accuracy × 100, but: CoLA Matthews"]
        {
            assert!(said.contains(part), "{said}");
        }
        assert!(!said.contains("±") && !said.contains(".."), "{said}");
    }
}

#[test]
fn questions_are_scored_by_f1_and_trained_on_windows() {
    let spec = Spec::tuned("squad", "full", 0.8).metric("answer_f1").examples([5043, 1000, 0]);
    let said = caption(&Folder::with("fig5", [spec]), "fig5");
    assert!(
        said.starts_with("Validation F1 against trained parameters") && said.contains("SQuAD 5,043 windows / 1,000")
    );
}

#[test]
fn captions_speak_of_a_choice_only_where_there_was_one() {
    let mut folder = Folder::with("fig7", [2e-5, 1e-3].map(|rate| Spec::tuned("a", "full", 0.8).rate(rate)));
    assert!(caption(&folder, "fig7").contains("Every score is of one configuration, whose runs"));
    folder.add("fig7", [Spec::tuned("a", "full", 0.8).rate(1e-3).key("epochs", json!(20))]);
    assert!(caption(&folder, "fig7").contains("One configuration (learning rate"));
}

#[test]
fn fig4_shows_mean_and_error_of_the_configuration_with_the_best_mean() {
    let specs = [
        Spec::adapters("a", 8, 0.80),
        Spec::adapters("a", 8, 0.84).seed(1),
        // The best run of all belongs to a configuration that is worse on average.
        Spec::adapters("a", 8, 0.30).rate(1e-5),
        Spec::adapters("a", 8, 0.90).seed(1).rate(1e-5),
        // One that has not all seeds is not chosen.
        Spec::adapters("a", 8, 0.95).rate(1e-2),
        Spec::tuned("a", "layer-norm", 0.7),
        Spec::tuned("b", "full", 0.9).metric("matthews"),
        Spec::tuned("c", "full", 0.9).metric("answer_f1"),
    ];
    let (marks, texts) = read(&Folder::with("fig4", specs), "fig4");
    assert!(
        marks.iter().any(|mark| mark.starts_with("adapters 8, ") && mark.ends_with(": 82.0 ± 2.0, 2 seeds")),
        "{marks:?}"
    );
    assert!(marks.contains(&"LayerNorm only, 40k trained: 70.0, 1 seed".to_owned()), "{marks:?}");
    // Accuracy, though the metric of the task is Matthews.
    assert!(marks.contains(&"full fine-tuning, 110M trained: 91.0, 1 seed".to_owned()), "{marks:?}");
    for text in ["a", "b", "validation accuracy × 100", "validation F1 × 100", "LayerNorm only"] {
        assert!(texts.contains(&text.to_owned()), "{text}: {texts:?}");
    }
    assert!(!texts.contains(&"validation Matthews × 100".to_owned()));
}

#[test]
fn the_papers_own_points_stand_beside_runs_of_its_network() {
    let on = |backbone: &str| {
        let spec = Spec::adapters("mnli", 64, 0.8).with("backbone", json!(backbone));
        read(&Folder::with("fig4", [spec]), "fig4").0
    };
    assert!(on("bert-base-uncased").contains(&"the paper, adapters 64: 83.7".to_owned()));
    assert_eq!(on("nano").len(), 1);
}

#[test]
fn figs_6_and_7_show_accuracy_whatever_the_metric() {
    let cola = |score| Spec::adapters("cola", 64, score).metric("matthews");
    let mut folder = Folder::with("fig6-init", [cola(0.5).with("init_std", json!(1e-4))]);
    folder.add("fig7", [cola(0.5)]);
    for (name, mark) in [("fig6-init", "CoLA, σ 1e-4: 55.0, 1 seed"), ("fig7", "adapters, lr 1e-3: 55.0, 1 seed")] {
        let (marks, texts) = read(&folder, name);
        assert_eq!(marks, [mark]);
        assert!(texts.contains(&"validation accuracy × 100".to_owned()), "{texts:?}");
    }
}

#[test]
fn fig6_shows_the_mean_change_of_every_span_and_nothing_below_the_diagonal() {
    let mut folder = Folder::new();
    for (seed, change) in [(0, -0.10), (1, -0.30)] {
        folder.ablation("a", seed, 3, 0.8, |first, last| if first == last { -0.01 } else { change });
    }
    let (marks, texts) = read(&folder, "fig6-spans");
    assert_eq!(marks.len(), 6);
    assert!(marks.contains(&"layers 0 to 2 removed: accuracy −20.0 % (relative), 2 seeds".to_owned()), "{marks:?}");
    assert_eq!(texts.iter().filter(|text| *text == "−20").count(), 3);
    assert_eq!(texts.iter().filter(|text| *text == "−1.0").count(), 3);
}

#[test]
fn fig6_and_fig7_have_a_point_for_each_scale_and_each_rate() {
    let mut folder =
        Folder::with("fig6-init", [1e-4, 1.0].map(|s| Spec::adapters("a", 64, 0.8).with("init_std", json!(s))));
    folder.add("fig7", [2e-5, 1e-3].map(|rate| Spec::tuned("a", "full", 0.8).rate(rate)));
    folder.add("fig7", [Spec::adapters("a", 64, 0.7).rate(1e-3)]);
    let (marks, texts) = read(&folder, "fig6-init");
    assert_eq!(marks, ["a, σ 1e-4: 80.0, 1 seed", "a, σ 1e0: 80.0, 1 seed"]);
    assert!(texts.contains(&"1e-4".to_owned()) && texts.contains(&"1".to_owned()));
    let (marks, _) = read(&folder, "fig7");
    let expected = [
        "adapters, lr 1e-3: 70.0, 1 seed",
        "full fine-tuning, lr 2e-5: 80.0, 1 seed",
        "full fine-tuning, lr 1e-3: 80.0, 1 seed",
    ];
    assert_eq!(marks, expected);
}

/// A sorted copy.
fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

#[test]
fn methods_that_differ_in_any_key_are_different_points() {
    let specs = [
        Spec::adapters("a", 64, 0.80),
        Spec::adapters("a", 64, 0.60).with("never_heard_of", json!(2)),
        Spec::adapters("a", 8, 0.70).with("never_heard_of", json!(2)),
    ];
    let mut folder = Folder::with("fig4", specs.clone());
    folder.add("fig7", specs);
    let (marks, texts) = read(&folder, "fig4");
    let expected = [
        "adapters 64, 2.4M trained: 80.0, 1 seed",
        "adapters 64, never heard of 2, 2.4M trained: 60.0, 1 seed",
        "adapters 8, never heard of 2, 354k trained: 70.0, 1 seed",
    ];
    assert_eq!(sorted(marks), expected);
    for text in ["adapters (by size)", "adapters (by size), never heard of 2"] {
        assert!(texts.contains(&text.to_owned()), "{texts:?}");
    }
    assert_eq!(read(&folder, "fig7").0.len(), 3);
}

#[test]
fn what_all_runs_of_a_method_share_is_not_said() {
    let specs = [8, 64].map(|size| Spec::adapters("a", size, 0.8).with("norm", json!("layer")));
    let (marks, texts) = read(&Folder::with("fig4", specs), "fig4");
    assert_eq!(sorted(marks)[0], "adapters 64, 2.4M trained: 80.0, 1 seed");
    assert!(texts.contains(&"adapters (by size)".to_owned()), "{texts:?}");
}

#[test]
fn the_initial_scale_is_swept_apart_for_methods_that_differ_otherwise() {
    let spec = |sigma: f64| Spec::adapters("a", 64, 0.8).with("init_std", json!(sigma));
    let specs = [spec(1e-4), spec(1.0), spec(1e-4).with("norm", json!("layer"))];
    let (marks, texts) = read(&Folder::with("fig6-init", specs), "fig6-init");
    assert_eq!(marks.len(), 3, "{marks:?}");
    assert!(texts.contains(&"a, adapters 64, norm layer".to_owned()), "{texts:?}");
}

/// An unknown method beside full fine-tuning and adapters on two tasks.
fn with_unknown() -> Vec<Spec> {
    let of = |task| {
        [
            Spec::tuned(task, "full", 0.8),
            Spec::adapters(task, 64, 0.79),
            Spec::lora(task, 4, 0.76),
            Spec::lora(task, 16, 0.78),
            Spec::tuned(task, "prompt", 0.7),
        ]
    };
    ["a", "b"].into_iter().flat_map(of).collect()
}

#[rstest]
#[case("fig3", "fig1", 2, "LoRA (by rank)")]
#[case("fig3", "fig3", 2, "LoRA (by rank)")]
#[case("fig4", "fig4", 4, "LoRA (by rank)")]
#[case("fig5", "fig5", 4, "LoRA (by rank)")]
#[case("fig7", "fig7", 4, "LoRA 4")]
fn a_method_that_nobody_heard_of_stands_beside_the_papers(
    #[case] experiment: &str,
    #[case] figure: &str,
    #[case] marks: usize,
    #[case] called: &str,
) {
    let mut folder = Folder::kept(&format!("unknown-{figure}"));
    folder.add(experiment, with_unknown());
    let (all, texts) = read(&folder, figure);
    assert_eq!(all.iter().filter(|mark| mark.starts_with("LoRA")).count(), marks, "{all:?}");
    for text in [called, "prompt"] {
        assert!(texts.contains(&text.to_owned()), "{texts:?}");
    }
    let svg = fs::read_to_string(folder.path.join(format!("../out/figures/{figure}.svg"))).unwrap();
    // Sizes are joined, and the colour is none of the others'.
    assert!(svg.contains("<polyline") && svg.contains("stroke=\"#56B4E9\""));
}
