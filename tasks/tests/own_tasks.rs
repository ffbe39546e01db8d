//! Tasks of a program's own, beside the paper's.

use std::{fs, path::Path};

use bert_backbone::{RandomCheckpoint, Tokenizer};
use burn::tensor::Device;
use rstest::rstest;
use tasks::{
    DataError, Dataset, EvaluationSet, Example, Metric, Metrics, Questions, SquadVersion, Target, Task, TaskData,
    TaskKind, TaskSource, Tasks, TokenCache, TrainingSet,
};

fn texts(data: TaskData) -> Dataset {
    match data {
        TaskData::Texts(dataset) => dataset,
        TaskData::Questions(_) => panic!("texts"),
    }
}

fn dogs() -> Dataset {
    let example = |i: usize| Example::new(["the cat", "the dog"][i % 2], Target::Class(i % 2));
    Dataset::classification("any name", ["no", "yes"], (0..6).map(example), (0..2).map(example))
}

fn dog_task(name: &str) -> Task {
    Task::new(name, TaskKind::Classification, |_: &Path| -> Result<Dataset, DataError> { Ok(dogs()) })
}

#[test]
fn a_task_of_ones_own_is_found_listed_and_loaded_under_its_name() {
    let mut tasks = Tasks::paper();
    let paper = tasks.iter().count();
    tasks.add(dog_task("Dogs").suite("animals").metric("matthews").classes(2)).unwrap();
    tasks.add(dog_task("puppies")).unwrap();
    let task = tasks.find("dogs").unwrap();
    assert_eq!((task.suite.as_str(), task.metric.as_str(), task.classes), ("animals", "matthews", Some(2)));
    assert_eq!(tasks.find("puppies").unwrap().metric, "accuracy", "that of its kind");
    assert_eq!(tasks.suites()[5..], ["animals", Task::OWN_SUITE]);
    assert_eq!(tasks.suite("animals").len(), 1);
    assert_eq!(tasks.iter().count(), paper + 2);
    let loaded = texts(task.load(Path::new("nowhere")).unwrap());
    assert_eq!(loaded, Dataset { task: "Dogs".to_owned(), ..dogs() });
}

#[rstest]
#[case::unnamed("", "it needs a name")]
#[case::file("file:reviews.csv", "the path of a file")]
#[case::files("File:reviews.csv", "the path of a file")]
#[case::paper("CoLA", "another task has that name")]
#[case::own("dogs", "another task has that name")]
fn a_name_that_cannot_be_added_is_explained(#[case] name: &str, #[case] message: &str) {
    let mut tasks = Tasks::paper();
    tasks.add(dog_task("Dogs")).unwrap();
    let error = tasks.add(dog_task(name)).unwrap_err().to_string();
    assert!(error.contains(message) && error.contains(&format!("`{name}`")), "{error}");
}

#[test]
fn an_own_task_needs_a_data_folder_only_for_the_files_it_names() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!dog_task("dogs").needs_data() && dog_task("dogs").is_present(folder.path()));
    let task = dog_task("dogs").file("animals/dogs.tsv");
    assert!(task.needs_data() && !task.is_present(folder.path()));
    let error = task.load(folder.path()).unwrap_err();
    assert!(
        matches!(&error, DataError::Missing { task, path, .. } if task == "dogs" && path.ends_with("animals/dogs.tsv"))
    );
    fs::create_dir(folder.path().join("animals")).unwrap();
    fs::write(folder.path().join("animals/dogs.tsv"), "").unwrap();
    assert!(task.is_present(folder.path()) && task.load(folder.path()).is_ok());
}

#[test]
fn what_a_reader_says_is_kept() {
    let said = |task: Task| task.load(Path::new("")).unwrap_err();
    let texts = TaskKind::Classification;
    let error = said(Task::new("a", texts, |_: &Path| -> Result<Dataset, String> { Err("row 3 is odd".to_owned()) }));
    assert_eq!(error.to_string(), "row 3 is odd");
    let error = said(Task::new("a", texts, |_: &Path| -> Result<Dataset, std::io::Error> {
        fs::read("/nowhere/at/all").map(|_| dogs())
    }));
    assert!(matches!(&error, DataError::Reader(error) if error.is::<std::io::Error>()), "{error}");
    let request = || DataError::Request("give a path".to_owned());
    let error = said(Task::new("a", texts, move |_: &Path| -> Result<Dataset, DataError> { Err(request()) }));
    assert!(matches!(error, DataError::Request(_)), "an error of this crate stays what it is");
}

#[test]
fn data_of_another_kind_than_the_task_is_refused() {
    let task = Task::new("dogs", TaskKind::Regression, |_: &Path| -> Result<Dataset, DataError> { Ok(dogs()) });
    let error = task.load(Path::new("")).unwrap_err().to_string();
    assert_eq!(error, "task `dogs` is a regression task, but its reader gives a classification one");
}

#[test]
fn a_source_of_ones_own_may_give_questions() {
    struct Nothing;
    impl TaskSource for Nothing {
        fn load(&self, _name: &str, _data: &Path) -> Result<TaskData, DataError> {
            Ok(TaskData::Questions(Questions { version: SquadVersion::V2, train: vec![], validation: vec![] }))
        }
    }
    let task = Task::from_source("nothing", TaskKind::Span, Nothing);
    assert_eq!((task.metric.as_str(), task.needs_data()), ("answer_f1", false));
    assert!(matches!(task.load(Path::new("")).unwrap(), TaskData::Questions(_)));
}

#[test]
fn a_datasets_constructors_number_what_has_no_id() {
    let named = Example { id: "mine".to_owned(), ..Example::pair("a", "b", Target::Labels(vec![1])) };
    let other = || Example::new("c", Target::Labels(vec![]));
    let dataset = Dataset::multi_label("x", ["p", "q"], [other(), named, other()], [other()]).with_test([other()]);
    let ids = |part: &[Example]| part.iter().map(|example| example.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&dataset.train), ["0", "mine", "2"]);
    assert_eq!((ids(&dataset.validation), ids(&dataset.test)), (vec!["0".to_owned()], vec!["0".to_owned()]));
    assert_eq!((dataset.kind, dataset.outputs()), (TaskKind::MultiLabel, 2));
    let numbers = Dataset::regression("y", [Example::new("a", Target::Score(1.5))], [Example::new("b", None)]);
    assert_eq!((numbers.kind, numbers.outputs(), numbers.labels.len()), (TaskKind::Regression, 1, 0));
}

fn tokenizer() -> Tokenizer {
    let folder = tempfile::tempdir().unwrap();
    RandomCheckpoint::tiny().write(folder.path(), &Device::flex()).unwrap();
    Tokenizer::load(folder.path()).unwrap()
}

/// What can be wrong with an example's target, and what is said of it.
#[rstest]
#[case::absent(None, "example 4 of `dogs` has no label to train on")]
#[case::kind(
    Some(Target::Score(0.5)),
    "example 4 of `dogs` has score 0.5, which does not fit a classification task with 2 labels"
)]
#[case::labels(
    Some(Target::Labels(vec![0, 1])),
    "example 4 of `dogs` has labels [0, 1], which does not fit a classification task with 2 labels"
)]
#[case::beyond(
    Some(Target::Class(2)),
    "example 4 of `dogs` has class 2, which does not fit a classification task with 2 labels"
)]
fn an_example_that_cannot_be_trained_on_is_named(#[case] target: Option<Target>, #[case] message: &str) {
    let (mut dataset, tokenizer, cache) = (dogs(), tokenizer(), TokenCache::none());
    dataset.task = "dogs".to_owned();
    assert_eq!(TrainingSet::texts(&dataset, &dataset.train, &tokenizer, 16, &cache).unwrap().len(), 6);
    let only_missing = target.is_none();
    dataset.train[4].target = target;
    let error = TrainingSet::texts(&dataset, &dataset.train, &tokenizer, 16, &cache).unwrap_err();
    assert_eq!(error.to_string(), message);
    let evaluation = EvaluationSet::texts(&dataset, &dataset.train, &tokenizer, 16, &cache);
    assert_eq!(evaluation.is_ok(), only_missing, "only a missing label is no error there");
}

#[test]
fn an_evaluation_set_scores_by_the_metrics_it_is_given() {
    let (dataset, tokenizer, cache) = (dogs(), tokenizer(), TokenCache::none());
    let set = EvaluationSet::texts(&dataset, &dataset.validation, &tokenizer, 16, &cache).unwrap();
    let rows = [vec![1.0, 0.0], vec![1.0, 0.0]];
    let built_in = set.score(&rows);
    assert_eq!(built_in.keys().collect::<Vec<_>>(), ["accuracy", "f1", "macro_f1", "matthews"]);
    let mut metrics = Metrics::default();
    metrics
        .add(Metric::new("errors", TaskKind::Classification, |judged| {
            judged.label_sets().filter(|(predicted, gold)| predicted != gold).count() as f64
        }))
        .unwrap();
    let scores = set.with_metrics(&metrics).score(&rows);
    assert_eq!((scores["accuracy"], scores["errors"]), (0.5, 1.0));
    assert!(built_in.iter().all(|(name, score)| scores[name] == *score));
}
