//! A data fingerprint is that of the values: each counts, and nothing else does.

use rstest::rstest;
use tasks::{Answer, Dataset, Example, Question, Questions, SquadVersion, Target, TaskData};

fn dataset() -> Dataset {
    let train = [
        Example::pair("a cat", "a dog", Target::Class(1)),
        Example::new("ünï", Target::Class(0)),
        Example::new("it sat", Target::Class(0)),
    ];
    let validation = [Example::new("the mat", Target::Class(1)), Example::new("a mat", Target::Score(0.5))];
    let test = [Example::new("who", None), Example::new("is it", Target::Labels(vec![0, 1]))];
    Dataset::classification("pets", ["no", "yes"], train, validation).with_test(test)
}

fn questions() -> Questions {
    let question = |id: &str, text: &str| Question {
        id: id.to_owned(),
        question: "who sat?".to_owned(),
        context: "the cat sat on the mat".into(),
        answers: vec![Answer { start: 4, text: text.to_owned() }, Answer { start: 0, text: "the".to_owned() }],
    };
    let train = vec![question("1", "cat"), question("2", "c")];
    Questions { version: SquadVersion::V1, train, validation: vec![question("3", "cat sat")] }
}

fn of_texts(dataset: Dataset) -> String {
    TaskData::Texts(dataset).fingerprint()
}

fn of_questions(questions: Questions) -> String {
    TaskData::Questions(questions).fingerprint()
}

/// Pinned: where this fails, every stored run counts as one on other data.
#[test]
fn the_fingerprint_is_the_same_in_every_version_of_the_program() {
    assert_eq!(of_texts(dataset()), "62ba21fc9b9d270314e6f56ba1150f973ebf2c029227f0bf996ac14da7059f5a");
    assert_eq!(of_questions(questions()), "c0e7377187d6772e0ad97cd50814c250ef349b7431aec2da13b0ff3cf820f94a");
}

#[test]
fn what_is_no_value_of_the_data_does_not_count() {
    let renamed = Dataset { task: "animals".to_owned(), notes: vec!["a note".to_owned()], ..dataset() };
    assert_eq!(of_texts(renamed), of_texts(dataset()));
}

#[rstest]
#[case::label(|d: &mut Dataset| d.labels[0].push('!'))]
#[case::label_order(|d: &mut Dataset| d.labels.swap(0, 1))]
#[case::label_border(|d: &mut Dataset| d.labels = vec!["n".to_owned(), "oyes".to_owned()])]
#[case::one_label_less(|d: &mut Dataset| { d.labels.pop(); })]
#[case::id(|d: &mut Dataset| d.train[1].id.push('!'))]
#[case::id_moved_to_text(|d: &mut Dataset| { d.train[1].text.insert(0, '1'); d.train[1].id.clear(); })]
#[case::text(|d: &mut Dataset| d.train[1].text.push('!'))]
#[case::text_moved_to_pair(|d: &mut Dataset| {
    d.train[0].text = "a ca".to_owned();
    d.train[0].pair = Some("ta dog".to_owned());
})]
#[case::texts_exchanged(|d: &mut Dataset| {
    d.train[0].text = "a dog".to_owned();
    d.train[0].pair = Some("a cat".to_owned());
})]
#[case::pair(|d: &mut Dataset| d.train[0].pair = Some("a frog".to_owned()))]
#[case::no_pair(|d: &mut Dataset| d.train[0].pair = None)]
#[case::empty_pair(|d: &mut Dataset| d.train[1].pair = Some(String::new()))]
#[case::class(|d: &mut Dataset| d.train[0].target = Some(Target::Class(0)))]
#[case::kind_of_target(|d: &mut Dataset| d.train[0].target = Some(Target::Labels(vec![1])))]
#[case::class_as_score(|d: &mut Dataset| d.train[1].target = Some(Target::Score(0.0)))]
#[case::no_target(|d: &mut Dataset| d.train[1].target = None)]
#[case::score(|d: &mut Dataset| d.validation[1].target = Some(Target::Score(0.5000001)))]
#[case::labels(|d: &mut Dataset| d.test[1].target = Some(Target::Labels(vec![0])))]
#[case::order_of_labels(|d: &mut Dataset| d.test[1].target = Some(Target::Labels(vec![1, 0])))]
#[case::order_of_examples(|d: &mut Dataset| d.train.swap(1, 2))]
#[case::validation_text(|d: &mut Dataset| d.validation[0].text.push('!'))]
#[case::test_text(|d: &mut Dataset| d.test[0].text.push('!'))]
#[case::moved_to_validation(|d: &mut Dataset| { let last = d.train.pop().unwrap(); d.validation.insert(0, last); })]
#[case::moved_to_test(|d: &mut Dataset| { let last = d.validation.pop().unwrap(); d.test.insert(0, last); })]
#[case::one_example_less(|d: &mut Dataset| { d.test.pop(); })]
fn every_value_of_texts_counts(#[case] change: fn(&mut Dataset)) {
    let mut changed = dataset();
    change(&mut changed);
    assert_ne!(changed, dataset());
    assert_eq!(of_texts(changed.clone()), of_texts(changed.clone()));
    assert_ne!(of_texts(changed), of_texts(dataset()));
}

#[rstest]
#[case::version(|q: &mut Questions| q.version = SquadVersion::V2)]
#[case::id(|q: &mut Questions| q.train[0].id.push('!'))]
#[case::question(|q: &mut Questions| q.train[0].question.push('!'))]
#[case::context(|q: &mut Questions| q.train[0].context = "the cat sat on a mat".into())]
#[case::answer(|q: &mut Questions| q.train[0].answers[0].text.push('!'))]
#[case::start(|q: &mut Questions| q.train[0].answers[0].start = 5)]
#[case::order_of_answers(|q: &mut Questions| q.train[0].answers.swap(0, 1))]
#[case::one_answer_less(|q: &mut Questions| { q.train[1].answers.pop(); })]
#[case::validation(|q: &mut Questions| q.validation[0].question.push('!'))]
#[case::moved_to_validation(|q: &mut Questions| { let last = q.train.pop().unwrap(); q.validation.insert(0, last); })]
fn every_value_of_questions_counts(#[case] change: fn(&mut Questions)) {
    let mut changed = questions();
    change(&mut changed);
    assert_ne!(of_questions(changed), of_questions(questions()));
}

#[test]
fn texts_and_questions_differ_even_if_there_are_none() {
    let none: [&str; 0] = [];
    let questions = Questions { version: SquadVersion::V1, train: vec![], validation: vec![] };
    assert_ne!(of_texts(Dataset::classification("", none, [], [])), of_questions(questions));
}
