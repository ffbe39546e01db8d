//! Experiments that nobody drew a figure for: what they sweep decides what is drawn.

mod generated;

use std::{collections::BTreeSet, fs, sync::Arc};

use analysis::{
    AxisSpec, Cell, Dot, Exhibit, Figure, Key, Look, Panel, Plot, Report, Series, Store, Table, paper_exhibits, tasks,
    write_report,
};
use generated::{Folder, Spec, rounded};
use resvg::{
    tiny_skia::Rect,
    usvg::{Node, Options, Tree, fontdb::Database, roxmltree::Document},
};
use rstest::rstest;
use serde_json::{Value, json};

fn folder(name: &str, specs: impl IntoIterator<Item = Spec>) -> Folder {
    let mut folder = Folder::kept(name);
    folder.add("mine", specs);
    folder
}

fn report(folder: &Folder) -> Report {
    write_report(&folder.path, &folder.path.join("../out"), &paper_exhibits(), &analysis::Made::default()).unwrap()
}

/// What a drawing says: on its marks, and in its texts.
struct Drawing {
    marks: Vec<String>,
    texts: Vec<String>,
    polylines: usize,
}

impl Drawing {
    fn says(&self, text: &str) -> bool {
        self.texts.iter().any(|own| own == text)
    }

    fn marks(&self, text: &str) -> bool {
        self.marks.iter().any(|own| own == text)
    }
}

/// The figure of the experiment; no text of it may touch another or leave the picture.
fn drawn(folder: &Folder, name: &str) -> Drawing {
    report(folder);
    let svg = fs::read_to_string(folder.path.join(format!("../out/figures/{name}.svg"))).unwrap();
    check_texts(&svg);
    let page = fs::read_to_string(folder.path.join("../out/report.html")).unwrap();
    let body = page.split("<script").next().unwrap();
    for inline in body.split("<svg").skip(1).filter_map(|rest| rest.split("</svg>").next()) {
        check_texts(&format!("<svg xmlns=\"http://www.w3.org/2000/svg\"{inline}</svg>"));
    }
    let document = Document::parse(&svg).unwrap();
    let of = |tag: &'static str| document.descendants().filter(move |node| node.has_tag_name(tag));
    let text = |node: resvg::usvg::roxmltree::Node<'_, '_>| node.text().unwrap_or_default().to_owned();
    Drawing {
        marks: of("title").filter(|node| node.parent().is_some_and(|p| p.has_tag_name("g"))).map(text).collect(),
        texts: of("text").map(text).filter(|text| !text.is_empty()).collect(),
        polylines: of("polyline").count(),
    }
}

/// No text touches another, and none leaves the picture.
fn check_texts(svg: &str) {
    let mut fonts = Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let options = Options { fontdb: Arc::new(fonts), font_family: "DejaVu Sans".to_owned(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).unwrap();
    let mut boxes: Vec<(String, Rect)> = Vec::new();
    let mut groups = vec![tree.root()];
    while let Some(group) = groups.pop() {
        for node in group.children() {
            match node {
                Node::Group(group) => groups.push(group),
                Node::Text(text) => {
                    let said = text.chunks().iter().map(|chunk| chunk.text()).collect();
                    boxes.push((said, text.abs_bounding_box()));
                }
                _ => {}
            }
        }
    }
    for (number, (text, a)) in boxes.iter().enumerate() {
        let inside =
            a.left() >= 0.0 && a.top() >= 0.0 && a.right() <= tree.size().width() && a.bottom() <= tree.size().height();
        assert!(inside, "{text:?} leaves the picture: {a:?}");
        for (other, b) in &boxes[number + 1..] {
            let apart = a.right() <= b.left() + 1.0
                || b.right() <= a.left() + 1.0
                || a.bottom() <= b.top() + 2.0
                || b.bottom() <= a.top() + 2.0;
            assert!(apart, "{text:?} touches {other:?}");
        }
    }
}

fn csv(folder: &Folder, name: &str) -> Vec<String> {
    report(folder);
    let text = fs::read_to_string(folder.path.join(format!("../out/tables/{name}.csv"))).unwrap();
    text.lines().map(|line| line.split(',').map(rounded).collect::<Vec<_>>().join(",")).collect()
}

/// Adapters of several sizes on two tasks, two seeds each.
fn sizes(sizes: &[usize]) -> Vec<Spec> {
    let of = |&size: &usize| {
        let of = move |task, base: f64| {
            [0, 1].map(|seed| Spec::adapters(task, size, base + 0.001 * size as f64 + 0.02 * seed as f64).seed(seed))
        };
        of("reviews", 0.6).into_iter().chain(of("news", 0.5))
    };
    sizes.iter().flat_map(of).collect()
}

#[test]
fn one_number_is_an_axis_and_each_task_a_panel() {
    let folder = folder("one-number", sizes(&[8, 64, 256]));
    let drawing = drawn(&folder, "mine");
    assert!(drawing.marks("adapters 64: 67.4 ± 1.0, 2 seeds"), "{:?}", drawing.marks);
    for text in ["reviews", "news", "adapter size", "8", "64", "256", "validation accuracy × 100"] {
        assert!(drawing.says(text), "{text}: {:?}", drawing.texts);
    }
    assert_eq!((drawing.marks.len(), drawing.polylines), (6, 2));
    let table = csv(&folder, "mine-table");
    assert_eq!(table[0], "adapter_size,trained,reviews,reviews s.e.m.,news,news s.e.m.,seeds");
    assert_eq!(table[2], "64,2419264,67.4,1,57.4,1,2");
    assert_eq!(table.len(), 4);
}

#[test]
fn methods_are_lines_over_a_number_that_all_have() {
    let mut specs = Vec::new();
    for lr in [1e-5, 1e-4, 1e-3] {
        specs.push(Spec::adapters("a", 64, 0.8).rate(lr));
        specs.push(Spec::tuned("a", "full", 0.9 - 100.0 * lr).rate(lr));
        specs.push(Spec::tuned("a", "prompt", 0.7).rate(lr));
    }
    let drawing = drawn(&folder("rates", specs), "mine");
    for text in ["adapters 64", "full fine-tuning", "prompt", "lr", "1e-5", "1e-3"] {
        assert!(drawing.says(text), "{text}: {:?}", drawing.texts);
    }
    assert!(drawing.marks("full fine-tuning, lr 1e-5: 89.9, 1 seed"), "{:?}", drawing.marks);
    assert_eq!((drawing.marks.len(), drawing.polylines), (9, 3));
}

#[test]
fn methods_with_sizes_of_their_own_are_compared_by_what_they_train() {
    let mut specs = Vec::new();
    for seed in 0..3 {
        let noise = 0.004 * seed as f64;
        specs.extend([8, 64, 256].map(|size| Spec::adapters("a", size, 0.8 + noise).seed(seed)));
        specs.extend([4, 16].map(|rank| Spec::lora("a", rank, 0.7 + 0.002 * rank as f64 + noise).seed(seed)));
        // A learning rate of its own is no sweep.
        specs.push(Spec::tuned("a", "full", 0.82 + noise).seed(seed).rate(1e-4));
    }
    let folder = folder("trained", specs);
    let drawing = drawn(&folder, "mine");
    for text in ["adapters (by size)", "LoRA (by rank)", "full fine-tuning", "trained parameters per task", "1M"] {
        assert!(drawing.says(text), "{text}: {:?}", drawing.texts);
    }
    assert!(drawing.marks("LoRA 16, 642k trained: 73.6 ± 0.2, 3 seeds"), "{:?}", drawing.marks);
    let table = csv(&folder, "mine-table");
    assert_eq!(table[0], "tuning,adapter_size,rank,trained,a,a s.e.m.,seeds");
    assert_eq!(table[4], "lora,,4,161500,71.2,0.2309,3");
    assert_eq!(table[6], "full,,,110000000,82.4,0.2309,3");
    let page = fs::read_to_string(report(&folder).page).unwrap();
    assert!(page.contains("Different only from method to method or from task to task: lr."));
}

#[test]
fn a_method_without_the_swept_key_is_a_line_across() {
    let mut specs: Vec<Spec> = [0.0, 0.1, 0.3]
        .into_iter()
        .map(|dropout| Spec::adapters("a", 64, 0.8 - dropout / 10.0).with("dropout", json!(dropout)))
        .collect();
    specs.push(Spec::tuned("a", "full", 0.81));
    let drawing = drawn(&folder("across", specs), "mine");
    assert_eq!(drawing.marks.iter().filter(|mark| *mark == "full fine-tuning: 81.0, 1 seed").count(), 2);
    for text in ["dropout", "0", "0.1", "0.3", "adapters 64", "full fine-tuning"] {
        assert!(drawing.says(text), "{text}: {:?}", drawing.texts);
    }
}

#[test]
fn two_numbers_are_a_heat_map() {
    let mut specs = Vec::new();
    for task in ["reviews", "news"] {
        for lr in [3e-5, 1e-4, 3e-4, 1e-3] {
            for size in [8, 64, 256] {
                let score = 0.7 + 0.03 * (lr / 3e-5_f64).log10() + 0.0002 * size as f64;
                specs.extend([0, 1].map(|seed| {
                    Spec::adapters(task, size, score + 0.01 * f64::from(seed)).rate(lr).seed(seed.try_into().unwrap())
                }));
            }
        }
    }
    // A point that is missing stays empty.
    specs.pop();
    specs.pop();
    let drawing = drawn(&folder("heat", specs), "mine");
    assert_eq!(drawing.marks.len(), 23);
    assert!(drawing.marks("lr 3e-5, adapter size 8: 70.7 ± 0.5, 2 seeds"), "{:?}", drawing.marks);
    for text in ["lr", "adapter size", "3e-5", "1e-3", "256", "70.7", "validation score × 100", "reviews", "news"] {
        assert!(drawing.says(text), "{text}: {:?}", drawing.texts);
    }
}

#[test]
fn more_than_two_numbers_are_lines_over_the_one_with_most_values() {
    let mut specs = Vec::new();
    for lr in [1e-4, 1e-3] {
        for epochs in [1, 2, 5, 10] {
            for batch in [16, 32] {
                let score = 0.6 + 0.01 * epochs as f64 + 20.0 * lr;
                let mut spec = Spec::adapters("a", 64, score).rate(lr).key("batch_size", json!(batch));
                spec.epochs = epochs;
                specs.push(spec);
            }
        }
    }
    let drawing = drawn(&folder("three", specs), "mine");
    for text in ["epochs", "batch size 16, lr 1e-4", "batch size 32, lr 1e-3"] {
        assert!(drawing.says(text), "{text}: {:?}", drawing.texts);
    }
    assert_eq!((drawing.marks.len(), drawing.polylines), (16, 4));
}

#[test]
fn names_alone_are_rows() {
    let mut specs = Vec::new();
    for (number, activation) in
        ["gelu", "relu", "a name that is much longer than the others, and longer"].into_iter().enumerate()
    {
        for seed in 0..3 {
            let score = 0.8 - 0.02 * number as f64 + 0.003 * seed as f64;
            specs.push(Spec::adapters("a", 64, score).seed(seed).with("activation", json!(activation)));
            specs.push(
                Spec::adapters("b", 64, score).seed(seed).with("activation", json!(activation)).metric("matthews"),
            );
        }
    }
    let drawing = drawn(&folder("names", specs), "mine");
    assert!(drawing.marks("activation gelu: 80.3 ± 0.2, 3 seeds"), "{:?}", drawing.marks);
    assert!(drawing.says("activation relu") && drawing.says("validation Matthews × 100"), "{:?}", drawing.texts);
    assert_eq!((drawing.marks.len(), drawing.polylines), (6, 0));
}

#[rstest]
#[case(&["reviews"], 1)]
#[case(&["reviews"], 3)]
#[case(&["reviews", "news", "a task with a rather long name: news in brief"], 3)]
fn seeds_alone_are_a_row_for_each_task(#[case] all: &[&str], #[case] seeds: u64) {
    let specs = all.iter().enumerate().flat_map(|(number, task)| {
        (0..seeds).map(move |seed| Spec::adapters(task, 64, 0.7 + 0.05 * number as f64 + 0.01 * seed as f64).seed(seed))
    });
    let folder = folder(&format!("seeds-{}-{seeds}", all.len()), specs);
    let drawing = drawn(&folder, "mine");
    assert_eq!(drawing.marks.len(), all.len());
    assert!(drawing.says("reviews") && drawing.says("adapters 64"), "{:?}", drawing.texts);
    let table = csv(&folder, "mine-table");
    assert!(table[0].starts_with("tuning,trained,reviews") && table[0].ends_with(",seeds"), "{}", table[0]);
    assert!(table[1].starts_with("adapters,2419264,7"), "{}", table[1]);
}

#[test]
fn seeds_that_differ_stand_beside_each_score() {
    let specs = [
        Spec::adapters("a", 8, 0.5),
        Spec::adapters("a", 8, 0.7).seed(1),
        Spec::adapters("b", 8, 0.5),
        Spec::adapters("a", 64, 0.8),
    ];
    let table = csv(&folder("differing-seeds", specs), "mine-table");
    assert_eq!(table[0], "adapter_size,trained,a,a s.e.m.,a seeds,b,b seeds");
    assert_eq!(table[1..], ["8,353536,60,10,2,50,1", "64,2419264,80,,1,,"]);
}

/// Values of every kind that a configuration may have.
#[rstest]
#[case::null_and_number(&[json!(null), json!(100), json!(1000)])]
#[case::mixed(&[json!(null), json!(1), json!("one"), json!([1, "two"]), json!({"a": 1}), json!(true)])]
#[case::bool(&[json!(true), json!(false)])]
#[case::zero_and_negative(&[json!(-1.0), json!(0), json!(1e9)])]
#[case::huge(&[json!(f64::MAX), json!(f64::MIN), json!(u64::MAX)])]
#[case::tiny(&[json!(1e-320), json!(2e-320)])]
#[case::tiny_to_huge(&[json!(1e-320), json!(1e308)])]
#[case::texts(&[json!(""), json!("<b>&\"'"), json!("\u{1b}\u{0}\n")])]
#[case::many(&(0..60).map(|n| json!(n)).collect::<Vec<Value>>())]
fn any_values_are_drawn(#[case] values: &[Value]) {
    for tasks in [&["a"][..], &["a", "b"]] {
        let of = |value: &Value| {
            tasks.iter().map(|task| Spec::adapters(task, 64, 0.8).key("odd", value.clone())).collect::<Vec<_>>()
        };
        let specs: Vec<Spec> = values.iter().flat_map(of).collect();
        let mut folder = Folder::with("mine", specs.clone());
        let marks = drawn(&folder, "mine").marks.len();
        assert!(marks >= values.len() * tasks.len(), "{marks}");
        // The same beside another number, another name and another method.
        folder.add("two", specs.clone());
        folder.add("two", specs.iter().map(|spec| spec.clone().rate(0.5)));
        folder.add("three", specs.iter().map(|spec| spec.clone().with("norm", json!("layer"))));
        folder.add("three", specs.iter().map(|spec| spec.clone().key("even", json!(2)).rate(0.5)));
        folder.add("methods", specs);
        folder.add("methods", [Spec::tuned("a", "full", 0.9), Spec::lora("a", 4, 0.8)]);
        for name in ["two", "three", "methods"] {
            assert!(!drawn(&folder, name).marks.is_empty());
        }
    }
}

#[test]
fn a_number_is_the_same_however_it_is_written() {
    let specs = [json!(1), json!(1.0)].into_iter().zip([0, 1]);
    let specs = specs.map(|(value, seed)| Spec::adapters("a", 64, 0.8).key("odd", value).seed(seed));
    assert!(drawn(&folder("equal", specs), "mine").marks("a: 80.0 ± 0.0, 2 seeds"));
}

#[test]
fn a_large_grid_with_long_names_is_readable() {
    let mut specs = Vec::new();
    for warmup in [0.0, 0.02, 0.05, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.333_333, 0.4, 0.5] {
        for limit in [100, 1000, 10_000, 100_000, 392_702] {
            let score = 0.5 + 0.03 * f64::from(limit).ln() - 0.1 * warmup;
            let spec = Spec::adapters("a task with a rather long name: news in brief", 64, score);
            specs.push(spec.key("share_of_the_steps_that_warm_up", json!(warmup)).key("limit", json!(limit)));
        }
    }
    let drawing = drawn(&folder("large", specs), "mine");
    assert!(drawing.marks.len() == 60 && drawing.says("0.333333") && drawing.says("392702"), "{:?}", drawing.texts);
}

#[test]
fn many_tasks_and_methods_fill_many_panels() {
    let mut specs = Vec::new();
    for task in 0..9 {
        for (number, name) in
            ["one", "two", "three", "four", "five", "six", "seven", "a rather long name of a method"].iter().enumerate()
        {
            for lr in [1e-5, 1e-4, 2e-4] {
                let score = 0.5 + 0.02 * number as f64 + 0.01 * f64::from(task) - lr;
                specs.push(Spec::tuned(&format!("task {task}"), name, score).rate(lr));
            }
        }
    }
    assert_eq!(drawn(&folder("many", specs), "mine").marks.len(), 9 * 8 * 3);
}

#[test]
fn scores_of_every_kind_are_drawn() {
    let mut without = Spec::adapters("a", 64, 0.5).record("none");
    (without.best, without.last) = (None, None);
    let specs = [1e4, -1.0, 0.0].map(|score| Spec::adapters("a", 8, score).rate(score.abs().min(1.0) + 0.1));
    let mut folder = Folder::with("mine", specs);
    folder.write("none/record.json", &without);
    folder.experiment("mine").runs.push("none".to_owned());
    folder.experiment("empty").runs.push("none".to_owned());
    folder.add("mine", []);
    folder.add("empty", []);
    assert!(!drawn(&folder, "mine").marks.is_empty());
    let gaps = report(&folder).gaps;
    assert!(gaps.contains(&"empty".to_owned()) && gaps.contains(&"empty-table".to_owned()), "{gaps:?}");
}

#[test]
fn own_experiments_come_first_and_their_runs_under_their_names() {
    let mut folder = Folder::with("mine", sizes(&[8, 64]));
    folder.add("fig4", [Spec::adapters("a", 64, 0.8)]);
    let report = report(&folder);
    let page = fs::read_to_string(&report.page).unwrap();
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    let order = ["id=\"own-experiments\"", "id=\"mine\"", "id=\"mine-table\"", "id=\"fig4\"", "id=\"findings\""];
    assert!(order.is_sorted_by_key(|text| place(text)));
    assert_eq!(page.matches("<td>mine</td>").count(), 8, "runs say which experiment they belong to");
    assert!(page.contains("experiments/mine.json") && place("href=\"#mine\"") < place("href=\"#fig4\""));
    let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
}

#[test]
fn no_name_of_an_experiment_takes_a_place_of_the_page() {
    let mut folder = Folder::new();
    for name in ["run", "own-experiments", "figures", "results", "findings", "runs"] {
        folder.add(name, [Spec::adapters("a", 64, 0.8)]);
    }
    let page = fs::read_to_string(report(&folder).page).unwrap();
    let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
}

#[test]
fn an_own_experiment_never_takes_the_place_of_a_preset() {
    let mut folder = Folder::with("fig4", [Spec::adapters("a", 64, 0.8)]);
    // The same name, from a file of the user's.
    let id = folder.run(&Spec::adapters("my-task", 8, 0.5));
    let mut own = folder.experiment("fig4").clone();
    own.preset = false;
    own.runs = vec![id];
    folder.write("experiments/own.fig4.json", &own);
    report(&folder);
    let read = |name: &str| fs::read_to_string(folder.path.join(format!("../out/figures/{name}.svg"))).unwrap();
    assert!(read("fig4").contains("Fig. 4") && !read("fig4").contains("my-task"));
    assert!(read("fig4-2").contains("my-task"));

    // Alone it leaves Fig. 4 a gap.
    fs::remove_file(folder.path.join("experiments/fig4.json")).unwrap();
    let gaps = report(&folder).gaps;
    assert!(gaps.contains(&"fig4".to_owned()) && !gaps.contains(&"fig4-2".to_owned()), "{gaps:?}");
}

#[test]
fn names_of_experiments_become_names_of_files() {
    let mut folder = Folder::new();
    for (number, name) in ["../up/my run", "..", "Runs", "runs", "ψ", "a/b", "a b"].into_iter().enumerate() {
        let id = folder.run(&Spec::adapters("a", 64, 0.8));
        let mut record = folder.experiment("mine").clone();
        record.name = name.to_owned();
        record.runs = vec![id];
        folder.write(&format!("experiments/{number}.json"), &record);
    }
    assert_eq!(report(&folder).gaps.len(), 17);
    let files = fs::read_dir(folder.path.join("../out/figures")).unwrap().map(|file| file.unwrap().file_name());
    let names: BTreeSet<String> = files.map(|name| name.to_string_lossy().into_owned()).collect();
    let svgs: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".svg")).collect();
    assert_eq!(svgs, ["Runs-2", "a-b-2", "a-b", "experiment-2", "experiment", "runs-3", "up-my-run"]);
}

#[test]
fn own_ablations_and_own_streams_are_shown_too() {
    let mut folder = Folder::new();
    folder.ablation("a", 0, 3, 0.8, |_, _| -0.1);
    folder.stream("adapters", &["a", "b"], true);
    for (preset, own) in [("fig6-spans", "my-spans"), ("stream", "my-stream")] {
        let mut record = folder.experiment(preset).clone();
        (record.preset, record.name) = (false, own.to_owned());
        record.kind = if preset == "stream" { "stream" } else { "ablate" }.to_owned();
        folder.write(&format!("experiments/{own}.json"), &record);
        fs::remove_file(folder.path.join(format!("experiments/{preset}.json"))).unwrap();
    }
    assert_eq!(report(&folder).gaps.len(), 17);
    assert_eq!(drawn(&folder, "my-spans-spans").marks.len(), 6);
    assert_eq!(csv(&folder, "my-stream-table")[0], "tuning,seed,after,trained,total,a,b,identical");
}

#[test]
fn ablations_of_different_methods_are_never_averaged() {
    let mut folder = Folder::new();
    folder.ablation("a", 0, 3, 0.8, |_, _| -0.1);
    folder.ablation("a", 1, 3, 0.8, |_, _| -0.1);
    let mut record = folder.experiment("fig6-spans").clone();
    (record.preset, record.name, record.kind) = (false, "mine".to_owned(), "ablate".to_owned());
    // One of the runs has another size.
    let path = folder.path.join(&record.runs[1]).join("record.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut run: Value = serde_json::from_str(&text).unwrap();
    run["config"]["adapter_size"] = 7.into();
    run["method"]["label"] = "adapters 7".into();
    run["method"]["size"] = 7.0.into();
    fs::write(&path, run.to_string()).unwrap();
    folder.write("experiments/mine.json", &record);
    report(&folder);
    assert_eq!(drawn(&folder, "mine-spans").marks.len(), 2 * 6, "a panel for each");
}

/// A figure that is no part of this crate: the best score of each task against its number of runs.
fn effort(store: &Store) -> Option<Figure> {
    let runs = store.runs_of("mine");
    let look = Look { joined: false, ..Look::nth(1) };
    let dots = tasks(&runs).into_iter().filter_map(|task| {
        let own: Vec<_> = runs.iter().filter(|run| run.task == task).collect();
        let best = own.iter().filter_map(|run| run.validation()).reduce(f64::max)?;
        Some(Dot::new(own.len() as f64, 100.0 * best, format!("{task}: {} runs", own.len())))
    });
    let series = vec![Series::new("runs", look.clone(), dots.collect())];
    let (x, y) = (AxisSpec::values("runs", &[]), AxisSpec::score("score"));
    let panel = Panel::Plot(Plot { title: "all tasks".to_owned(), x, y, level: None, series });
    let keys = vec![Key::Series("tasks".to_owned(), look)];
    (!runs.is_empty()).then(|| Figure {
        title: "Effort".to_owned(),
        about: "Effort".to_owned(),
        keys,
        panels: vec![panel],
    })
}

/// A table that is no part of this crate.
fn methods(store: &Store) -> Option<Table> {
    let runs = store.runs_of("mine");
    let row = |run: &&analysis::Run| {
        vec![Cell::text(&run.method().label), Cell::number(run.number("lr"), 4), Cell::number(run.validation(), 2)]
    };
    let head = ["method", "lr", "score"].map(str::to_owned).to_vec();
    (!runs.is_empty()).then(|| Table {
        title: "Methods".to_owned(),
        head,
        rows: runs.iter().map(row).collect(),
        notes: Vec::new(),
    })
}

#[test]
fn a_figure_and_a_table_from_outside_stand_beside_the_papers() {
    let mut exhibits = paper_exhibits();
    exhibits.push(Exhibit::figure("effort", "Effort", "mine", effort));
    exhibits.push(Exhibit::table("methods", "Methods", "mine", methods));
    let folder = Folder::with("mine", sizes(&[8, 64]));
    let out = folder.path.join("../out");
    let report = write_report(&folder.path, &out, &exhibits, &analysis::Made::default()).unwrap();
    assert_eq!(report.gaps.len(), 17);
    let page = fs::read_to_string(report.page).unwrap();
    assert!(page.contains("<section id=\"effort\">") && page.contains("href=\"#methods\">Methods</a>"));
    // What they are made of needs no figure of its own.
    assert!(!page.contains("Own experiments") && !out.join("figures/mine.svg").exists());
    assert!(out.join("figures/effort.png").exists() && out.join("tables/methods.csv").exists());

    let report = write_report(&Folder::new().path, &out, &exhibits, &analysis::Made::default()).unwrap();
    assert_eq!(report.gaps.len(), 19);
    let report = write_report(&folder.path, &out, &[], &analysis::Made::default()).unwrap();
    assert!(report.gaps.is_empty() && report.findings.is_empty());
    assert!(out.join("figures/mine.svg").exists());
}
