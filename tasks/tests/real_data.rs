//! The real files, where they are: sizes, classes and label counts.
//!
//! `ADAPTER_LAB_DATA=/path/to/data cargo test -p tasks --release --test real_data -- --ignored --nocapture`, with
//! `glue_data/`, `additional/` and `squad/` in that folder, and after `adapter-lab fetch minilm-l6` for its tokenizer.
//! A task whose files are not there is passed over and named.

#[cfg(feature = "parquet")]
#[path = "../../bert-backbone/tests/support/hub.rs"]
mod hub;

use std::{collections::BTreeMap, env, path::PathBuf, time::Instant};

use bert_backbone::{Fetcher, Tokenizer};
use rstest::rstest;
use tasks::{
    Dataset, Question, Scores, SquadVersion, TaskData, Tasks, TokenCache, WindowConfig, Windows, evaluate_answers,
    majority_accuracy, read_squad, score_answer,
};

fn data() -> PathBuf {
    PathBuf::from(env::var_os("ADAPTER_LAB_DATA").expect("ADAPTER_LAB_DATA names the data folder"))
}

fn tokenizer() -> Tokenizer {
    let cache = env::var_os("ADAPTER_LAB_CACHE").map_or_else(Fetcher::default_cache, PathBuf::from);
    Tokenizer::load(&Fetcher::new(cache).find("minilm-l6").unwrap()).unwrap()
}

fn texts(task: &str) -> Dataset {
    match Tasks::paper().find(task).unwrap().load(&data()).unwrap() {
        TaskData::Texts(dataset) => dataset,
        TaskData::Questions(_) => panic!("{task} has texts"),
    }
}

#[rstest]
#[case("cola", 8551, 1043, Some(1063))]
#[case("sst-2", 67349, 872, Some(1821))]
#[case("mrpc", 3668, 408, Some(1725))]
#[case("sts-b", 5749, 1500, Some(1379))]
#[case("rte", 2490, 277, Some(3000))]
#[case("wnli", 635, 71, Some(146))]
#[case("qnli", 8999, 5463, Some(5463))]
#[case("mnli", 28546, 9815, None)]
#[case("qqp", 8999, 1000, None)]
#[ignore = "needs the real files: ADAPTER_LAB_DATA"]
fn glue_has_its_rows(#[case] task: &str, #[case] train: usize, #[case] validation: usize, #[case] test: Option<usize>) {
    let dataset = texts(task);
    assert_eq!((dataset.train.len(), dataset.validation.len()), (train, validation));
    assert_eq!(dataset.test.len(), test.unwrap_or(0));
    assert!(dataset.train.iter().chain(&dataset.validation).all(|example| example.target.is_some()));
    assert!(dataset.test.iter().all(|example| example.target.is_none()));
    println!("{task}: {:?} {:?}", dataset.label_counts(&dataset.train), dataset.notes);
}

#[rstest]
#[case("airline", &[("negative", 9178), ("neutral", 3099), ("positive", 2363)])]
#[case("disasters", &[("Not Relevant", 6187), ("Relevant", 4673)])]
#[case("global-warming", &[("no", 1114), ("yes", 3111)])]
#[case("political-audience", &[("constituency", 1029), ("national", 3971)])]
#[case("political-bias", &[("neutral", 3689), ("partisan", 1311)])]
#[case("sms-spam", &[("ham", 4827), ("spam", 747)])]
#[ignore = "needs the real files: ADAPTER_LAB_DATA"]
fn additional_tasks_have_their_label_counts(#[case] task: &str, #[case] expected: &[(&str, usize)]) {
    let dataset = texts(task);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for part in [&dataset.train, &dataset.validation, &dataset.test] {
        for (label, count) in dataset.label_counts(part) {
            *counts.entry(label.to_owned()).or_default() += count;
        }
    }
    assert_eq!(counts, expected.iter().map(|&(label, count)| (label.to_owned(), count)).collect());
}

/// The paper's sizes and classes, for every additional task that is complete here.
#[test]
#[ignore = "needs the real files: ADAPTER_LAB_DATA"]
fn additional_tasks_have_the_papers_sizes() {
    let mut read = 0;
    for task in Tasks::paper().suite("additional") {
        if !task.is_present(&data()) {
            println!("{}: not here", task.name);
            continue;
        }
        let dataset = texts(&task.name);
        read += 1;
        println!("{}: {:?}", task.name, dataset.notes);
        let differs = dataset.notes.iter().any(|note| note.contains("the paper"));
        // A sample of the news stands in for the whole.
        assert_eq!(differs, task.name == "news-aggregator", "{}", task.name);
        if differs {
            let sizes = [&dataset.train, &dataset.validation, &dataset.test].map(Vec::len);
            assert_eq!(sizes, [10369, 1296, 1297]);
        }
        assert_eq!(Some(dataset.labels.len()), task.classes, "{}", task.name);
    }
    assert_eq!(read, 12);
}

/// The floors of the paper's ablation: what removing all adapters falls to.
#[rstest]
#[case("cola", 0.691)]
#[case("mnli", 0.354)]
#[ignore = "needs the real files: ADAPTER_LAB_DATA"]
fn majority_classes_are_the_papers_floors(#[case] task: &str, #[case] expected: f64) {
    let accuracy = majority_accuracy(&texts(task).validation);
    assert!((accuracy - expected).abs() < 0.0005, "{accuracy}");
}

fn squad(file: &str) -> Vec<Question> {
    read_squad(&data().join("squad").join(file)).unwrap()
}

#[test]
#[ignore = "needs the real files: ADAPTER_LAB_DATA"]
fn gold_answers_score_full_marks() {
    let questions = squad("dev-v1.1.json");
    assert_eq!(questions.len(), 10_570);
    let gold: Vec<String> = questions.iter().map(|question| question.answers[0].text.clone()).collect();
    let scores = evaluate_answers(&gold, &questions);
    assert_eq!(scores, Scores::from([("exact_match".to_owned(), 1.0), ("answer_f1".to_owned(), 1.0)]));
    let others: Vec<String> = gold.iter().rev().cloned().collect();
    assert!(evaluate_answers(&others, &questions)["exact_match"] < 0.05, "other questions' answers do not");
}

#[test]
#[ignore = "needs the real files: ADAPTER_LAB_DATA, and adapter-lab fetch minilm-l6"]
fn training_answers_are_found_again_from_their_tokens() {
    let questions = squad("train-v1.1.json");
    assert_eq!(questions.len(), 87_599);
    let windows = TokenCache::none().windows(&questions, &tokenizer(), WindowConfig::default()).unwrap();
    let mut best = vec![None::<(bool, bool)>; questions.len()];
    for i in 0..windows.len() {
        if windows.target(i) != (0, 0) {
            let question = &questions[windows.question(i)];
            let found = windows.text(i, windows.target(i), &question.context);
            let answer = &question.answers[0].text;
            let matches = score_answer(found, &[answer]).0 == 1.0;
            best[windows.question(i)] = Some((found == answer, matches));
        }
    }
    let count = |f: fn(&Option<(bool, bool)>) -> bool| best.iter().filter(|found| f(found)).count();
    let (in_no_window, not_exact, not_matching) = (
        count(|found| found.is_none()),
        count(|found| matches!(found, Some((false, _)))),
        count(|found| matches!(found, Some((_, false)))),
    );
    let lost = (in_no_window + not_matching) as f64 / questions.len() as f64;
    println!("{} questions, {} windows", questions.len(), windows.len());
    println!(
        "answers in no window: {in_no_window}; not to the letter: {not_exact}; not after normalisation: {not_matching}"
    );
    println!("not found again: {:.3} %", 100.0 * lost);
    assert!(lost < 0.005);
}

/// Prints how long reading and tokenising take, from nothing and from the cache; a measurement, not a test of speed.
#[test]
#[ignore = "needs the real files: ADAPTER_LAB_DATA, and adapter-lab fetch minilm-l6"]
fn reading_and_tokenising_is_timed() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, tokenizer) = (TokenCache::new(folder.path()), tokenizer());
    let mut sst = Vec::new();
    for pass in ["made", "from the cache"] {
        let start = Instant::now();
        let dataset = texts("sst-2");
        sst.push(cache.texts(&dataset.train, &tokenizer, 128).unwrap());
        println!("SST-2, read and {pass}: {:.2} s", start.elapsed().as_secs_f64());
    }
    assert_eq!(sst[0], sst[1]);
    let mut squad: Vec<Windows> = Vec::new();
    for pass in ["made", "from the cache"] {
        let start = Instant::now();
        let questions = read_squad(&SquadVersion::V1.files(&data())[0]).unwrap();
        squad.push(cache.windows(&questions, &tokenizer, WindowConfig::default()).unwrap());
        println!("SQuAD train, read and {pass}: {:.2} s", start.elapsed().as_secs_f64());
    }
    assert_eq!(squad[0], squad[1]);
}

/// The official files, turned into the hub's form by `golden/hub/convert.py DATA HUB`, are the same data to the bit.
#[cfg(feature = "parquet")]
#[test]
#[ignore = "needs the real files, and ADAPTER_LAB_HUB with what golden/hub/convert.py makes of them (pyarrow)"]
fn the_hubs_form_of_the_real_files_is_the_same_data() {
    let hub = PathBuf::from(env::var_os("ADAPTER_LAB_HUB").expect("ADAPTER_LAB_HUB names the converted files"));
    let hub = hub::Hub::serve_repositories(&hub, hub::Fault::None);
    let fetched = tempfile::tempdir().unwrap();
    let tasks = Tasks::paper();
    let mut compared = 0;
    for task in tasks.suite("glue").into_iter().chain(tasks.find("squad")) {
        if !task.is_present(&data()) {
            println!("{}: not there", task.name);
            continue;
        }
        match tasks.fetch(&task.fetch_name(), fetched.path(), &hub.fetcher(fetched.path())) {
            Err(error) if error.to_string().contains("the repository has no") => {
                println!("{}: {error}", task.name);
                continue;
            }
            result => drop(result.unwrap()),
        }
        let started = Instant::now();
        let both = [task.load(fetched.path()).unwrap(), task.load(&data()).unwrap()];
        assert_eq!(both[0].fingerprint(), both[1].fingerprint(), "{}", task.name);
        println!("{}: the same, {:.1} s", task.name, started.elapsed().as_secs_f64());
        compared += 1;
    }
    assert!(compared > 0);
}
