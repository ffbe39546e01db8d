//! Every dataset from a small file in its original format, written here with its quirks.

use std::{fs, io::Write, path::Path};

use rstest::rstest;
use tasks::{Dataset, Example, FileTask, Target, TaskData, TaskKind, Tasks, majority_accuracy};
use tempfile::TempDir;

fn write(root: &Path, file: &str, contents: impl AsRef<[u8]>) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, contents).unwrap();
}

fn load(root: &TempDir, task: &str) -> Dataset {
    match Tasks::paper().find(task).unwrap().load(root.path()).unwrap() {
        TaskData::Texts(dataset) => dataset,
        TaskData::Questions(_) => panic!("{task} has texts"),
    }
}

fn error(root: &TempDir, task: &str) -> String {
    Tasks::paper().find(task).unwrap().load(root.path()).unwrap_err().to_string()
}

fn example(id: &str, text: &str, pair: Option<&str>, target: Option<Target>) -> Example {
    Example { id: id.to_owned(), text: text.to_owned(), pair: pair.map(str::to_owned), target }
}

#[test]
fn cola_has_no_header_but_in_its_test_file() {
    let root = tempfile::tempdir().unwrap();
    // A stray quote, a carriage return, no newline at the end.
    write(root.path(), "glue_data/CoLA/train.tsv", "gj04\t1\t\tThe \"cat sat.\r\ngj04\t0\t*\tCat the sat.");
    write(root.path(), "glue_data/CoLA/dev.tsv", "bc01\t1\t\tIt is so.\n");
    write(root.path(), "glue_data/CoLA/test.tsv", "index\tsentence\n0\tHe left.\n7\tLeft he.\n");
    let dataset = load(&root, "cola");
    assert_eq!(dataset.train[0], example("1", "The \"cat sat.", None, Some(Target::Class(1))));
    assert_eq!(dataset.train[1], example("2", "Cat the sat.", None, Some(Target::Class(0))));
    assert_eq!(dataset.validation.len(), 1);
    assert_eq!(dataset.test[1], example("7", "Left he.", None, None));
    assert_eq!(dataset.notes, [""; 0]);
}

const MNLI: &str = "index\tpromptID\tpairID\tgenre\ts1b\ts2b\ts1p\ts2p\tsentence1\tsentence2";
const STS: &str = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2";

/// A GLUE task's training file and test file (each a header and a row), and the example the first makes.
#[rstest]
#[case("sst-2", "SST-2/", ["sentence\tlabel", "a fine film \t1", "index\tsentence", "3\tso so"], ("a fine film ", None, Target::Class(1)))]
#[case("mrpc", "MRPC/", ["\u{feff}Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "0\t12\t13\tHe said \" no .\tShe \" did", "index\t#1 ID\t#2 ID\t#1 String\t#2 String", "3\t1\t2\ta\tb"], ("He said \" no .", Some("She \" did"), Target::Class(0)))]
#[case("sts-b", "STS-B/", [&format!("{STS}\tscore"), "0\tg\tf\t2012\t1\tnone\tnone\tA man.\tA person.\t3.800", STS, "3\tg\tf\ty\to\ts\ts\ta\tb"], ("A man.", Some("A person."), Target::Score(3.8)))]
#[case("qqp", "QQP/", ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "1\t2\t3\tWhy?\tHow?\t0", "id\tquestion1\tquestion2", "3\ta\tb"], ("Why?", Some("How?"), Target::Class(0)))]
#[case("mnli", "MNLI/_matched", [&format!("{MNLI}\tlabel1\tgold_label"), "0\t0\t0\tunknown\t\t\t\t\tOne.\tTwo.\tneutral\tneutral", MNLI, "3\t0\t0\tg\t\t\t\t\ta\tb"], ("One.", Some("Two."), Target::Class(2)))]
#[case("mnli-mm", "MNLI/_mismatched", [&format!("{MNLI}\tlabel1\tgold_label"), "0\t0\t0\tunknown\t\t\t\t\tOne.\tTwo.\tneutral\tentailment", MNLI, "3\t0\t0\tg\t\t\t\t\ta\tb"], ("One.", Some("Two."), Target::Class(1)))]
#[case("qnli", "QNLI/", ["index\tquestion\tsentence\tlabel", "0\tWho?\tHe.\tnot_entailment", "index\tquestion\tsentence", "3\ta\tb"], ("Who?", Some("He."), Target::Class(1)))]
#[case("rte", "RTE/", ["index\tsentence1\tsentence2\tlabel", "0\tIt is.\tIs it.\tentailment", "index\tsentence1\tsentence2", "3\ta\tb"], ("It is.", Some("Is it."), Target::Class(0)))]
#[case("wnli", "WNLI/", ["index\tsentence1\tsentence2\tlabel", "0\tIt fits.\tIt is big.\t1", "index\tsentence1\tsentence2", "3\ta\tb"], ("It fits.", Some("It is big."), Target::Class(1)))]
fn glue_tasks_read_their_own_columns(
    #[case] task: &str,
    #[case] place: &str,
    #[case] lines: [&str; 4],
    #[case] expected: (&str, Option<&str>, Target),
) {
    let ([header, row, test_header, test_row], (text, pair, target)) = (lines, expected);
    let root = tempfile::tempdir().unwrap();
    let (folder, suffix) = place.split_once('/').unwrap();
    let labelled = format!("{header}\n{row}");
    write(root.path(), &format!("glue_data/{folder}/train.tsv"), &labelled);
    write(root.path(), &format!("glue_data/{folder}/dev{suffix}.tsv"), &labelled);
    write(root.path(), &format!("glue_data/{folder}/test{suffix}.tsv"), format!("{test_header}\n{test_row}\n"));
    let dataset = load(&root, task);
    assert_eq!(dataset.train, [example("2", text, pair, Some(target))]);
    assert_eq!(dataset.validation, dataset.train);
    assert_eq!((dataset.test[0].id.as_str(), &dataset.test[0].target), ("3", &None));
}

#[test]
fn broken_rows_of_qqp_are_left_out_and_counted() {
    let root = tempfile::tempdir().unwrap();
    let header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n";
    write(root.path(), "glue_data/QQP/train.tsv", format!("{header}1\t1\t2\ta\tb\t1\nbroken\trow\n2\t3\t4\tc\td\t0\n"));
    write(root.path(), "glue_data/QQP/dev.tsv", format!("{header}1\t1\t2\ta\tb\t1\n"));
    let dataset = load(&root, "qqp");
    assert_eq!(dataset.train.len(), 2);
    assert!(dataset.notes[0].contains("1 row with missing cells left out"), "{:?}", dataset.notes);
    assert!(dataset.notes[1].contains("no test.tsv"), "{:?}", dataset.notes);
}

#[test]
fn majority_accuracy_is_the_share_of_the_most_frequent_class() {
    let class = |class| example("", "", None, Some(Target::Class(class)));
    assert_eq!(majority_accuracy(&[class(0), class(1), class(1), class(2)]), 0.5);
    assert_eq!(majority_accuracy(&[]), 0.0);
}

/// A file in the original format with enough rows to be divided, the number of usable rows, the classes, and one of the examples.
#[rstest]
#[case("airline", "crowdflower_airline/Airline-Sentiment-2-w-AA.csv", csv("id,airline_sentiment,airline_sentiment:confidence,text", &["1,neutral,1,\"a, b\"", "2,negative,0.5,\"two\nlines\"", "3,positive,1,c"]), 30, &["negative", "neutral", "positive"], ("a, b", None, "neutral"))]
#[case("corporate-messaging", "crowdflower_corporate_messaging/Corporate-messaging-DFE.csv", csv("\u{feff}id,category,text", &["1,Action,a", "2,Dialogue,b"]), 20, &["Action", "Dialogue"], ("a", None, "Action"))]
#[case("disasters", "crowdflower_disasters/socialmedia-disaster-tweets-DFE.csv", latin1(csv("id,choose_one,text", &["1,Relevant,\u{e9}a", "2,Not Relevant,b", "3,Can't Decide,c"])), 20, &["Not Relevant", "Relevant"], ("\u{e9}a", None, "Relevant"))]
#[case("economic-news", "crowdflower_economic_news/Full-Economic-News-DFE-839861.csv", latin1(csv("id,relevance,headline,text", &["1,yes,h\u{e9},a", "2,no,h,b", "3,not sure,h,c"])), 20, &["no", "yes"], ("h\u{e9}", Some("a"), "yes"))]
#[case("emotion", "crowdflower_emotion/text_emotion.csv", csv("tweet_id,sentiment,author,content", &["1,empty,x,a", "2,worry,y,\"b \"\"c\"\"\""]), 20, &["empty", "worry"], ("b \"c\"", None, "worry"))]
#[case("global-warming", "crowdflower_global_warming/1377884570_tweet_global_warming.csv", csv("tweet,existence", &["a,Yes", "b,Y", "c,No", "d,N", "e,N/A", "f,"]), 40, &["no", "yes"], ("c", None, "no"))]
#[case("political-audience", "crowdflower_political/political_media_full.csv", latin1(csv("audience,bias,message,text", &["national,partisan,policy,\u{e9}", "constituency,neutral,attack,b"])), 20, &["constituency", "national"], ("\u{e9}", None, "national"))]
#[case("political-bias", "crowdflower_political/political_media_full.csv", latin1(csv("audience,bias,message,text", &["national,partisan,policy,\u{e9}", "constituency,neutral,attack,b"])), 20, &["neutral", "partisan"], ("\u{e9}", None, "partisan"))]
#[case("political-message", "crowdflower_political/political_media_full.csv", latin1(csv("audience,bias,message,text", &["national,partisan,policy,\u{e9}", "constituency,neutral,attack,b"])), 20, &["attack", "policy"], ("\u{e9}", None, "policy"))]
#[case("primary-emotions", "crowdflower_primary_emotions/primary-plutchik-wheel-DFE.csv", csv("id,emotion,sentence", &["1,Joy,a", "2,Fear,b"]), 20, &["Fear", "Joy"], ("a", None, "Joy"))]
#[case("progressive-opinion", "crowdflower_progressive/progressive-tweet-sentiment.csv", csv("orig_q2_x,q1_stance,q1_stance:confidence,q2_opinion,q2_opinion:confidence,q2_opinion_gold,target,tweet", &["o,for,1,explicit,1,g,HC,a", "o,against,1,implicit,1,g,HC,b"]), 20, &["explicit", "implicit"], ("a", Some("HC"), "explicit"))]
#[case("progressive-stance", "crowdflower_progressive/progressive-tweet-sentiment.csv", csv("orig_q2_x,q1_stance,q1_stance:confidence,q2_opinion,q2_opinion:confidence,q2_opinion_gold,target,tweet", &["o,for,1,explicit,1,g,HC,a", "o,against,1,implicit,1,g,HC,b"]), 20, &["against", "for"], ("a", Some("HC"), "for"))]
#[case("us-economic-performance", "crowdflower_us_economic_performance/us-economic-newspaper.csv", latin1(csv("id,relevance,text", &["1,no,\u{e9}", "2,yes,b", "3,not sure,c"])), 20, &["no", "yes"], ("\u{e9}", None, "no"))]
#[case("customer-complaints", "customer_complaints/consumer_complaints.csv", csv("Issue,Consumer complaint narrative", &["Loan,I paid", "Debt,They called", "Loan,"]), 20, &["Debt", "Loan"], ("I paid", None, "Loan"))]
#[case("sms-spam", "sms_spam/SMSSpamCollection", "ham\tHi \"you\nspam\tWIN £100\n".repeat(10).into_bytes(), 20, &["ham", "spam"], ("Hi \"you", None, "ham"))]
#[case("news-aggregator", "news_aggregator/newsCorpora.csv", "1\tFed \"may act\tu\tp\tb\ts\th\t1\n2\tFilm out\tu\tp\te\ts\th\t1\n".repeat(10).into_bytes(), 20, &["b", "e"], ("Fed \"may act", None, "b"))]
#[case("20-newsgroups", "20newsgroups/20news-bydate.tar.gz", newsgroups(None), 12, &["alt.atheism", "sci.space"], ("From: x\n\ncaf\u{e9}", None, "sci.space"))]
fn additional_tasks_read_their_original_files(
    #[case] task: &str,
    #[case] file: &str,
    #[case] contents: Vec<u8>,
    #[case] rows: usize,
    #[case] labels: &[&str],
    #[case] expected: (&str, Option<&str>, &str),
) {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), &format!("additional/{file}"), contents);
    let dataset = load(&root, task);
    let parts = [&dataset.train, &dataset.validation, &dataset.test];
    assert_eq!(parts.map(Vec::len), [rows * 8 / 10, (rows - rows * 8 / 10) / 2, (rows - rows * 8 / 10).div_ceil(2)]);
    assert_eq!(dataset.labels, labels);
    assert!(parts.iter().flat_map(|part| part.iter()).all(|example| matches!(example.target, Some(Target::Class(_)))));
    let class = labels.iter().position(|label| *label == expected.2).map(Target::Class);
    let is_expected = |e: &Example| e.text == expected.0 && e.pair.as_deref() == expected.1 && e.target == class;
    assert!(parts.iter().flat_map(|part| part.iter()).any(is_expected), "{:?}", dataset.train);
    let said = |what: &str| dataset.notes.iter().any(|note| note.contains(what));
    assert!(said("the paper's"), "a difference from the paper is said: {:?}", dataset.notes);
    let drops = ["disasters", "economic-news", "global-warming", "us-economic-performance", "customer-complaints"];
    assert_eq!(said("without a usable label or text"), drops.contains(&task), "{:?}", dataset.notes);
    assert_eq!(load(&root, task), dataset, "the division is fixed");
}

fn csv(header: &str, rows: &[&str]) -> Vec<u8> {
    let rows = format!("{}\n", rows.join("\n")).repeat(10);
    format!("{header}\n{rows}").into_bytes()
}

fn latin1(utf8: Vec<u8>) -> Vec<u8> {
    String::from_utf8(utf8).unwrap().chars().map(|c| u8::try_from(c).unwrap()).collect()
}

/// An archive as distributed: a `data/` prefix, a stray file, posts in Latin-1.
fn newsgroups(longest: Option<&[u8]>) -> Vec<u8> {
    let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let mut add = |path: String, contents: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(contents.len() as u64);
        header.set_cksum();
        archive.append_data(&mut header, path, contents).unwrap();
    };
    add("data/20news-bydate-test/.DS_Store".to_owned(), b"junk");
    longest.into_iter().for_each(|post| add("data/20news-bydate-train/sci.space/0".to_owned(), post));
    for part in ["train", "test"] {
        for group in ["alt.atheism", "sci.space"] {
            for post in 1..4 {
                add(format!("data/20news-bydate-{part}/{group}/{post}"), b"From: x\n\ncaf\xe9");
            }
        }
    }
    let mut gzip = archive.into_inner().unwrap();
    gzip.flush().unwrap();
    gzip.finish().unwrap()
}

/// Some kilobytes of an archive that stand for more than any post.
#[test]
fn an_archive_that_grows_without_end_is_damaged() {
    let root = tempfile::tempdir().unwrap();
    let archive = newsgroups(Some(&vec![b'a'; 17 << 20]));
    assert!(archive.len() < 1 << 20);
    write(root.path(), "additional/20newsgroups/20news-bydate.tar.gz", archive);
    let error = error(&root, "20-newsgroups");
    assert!(error.contains("sci.space/0 is too long for a post"), "{error}");
}

#[test]
fn text_is_decoded_as_its_file_is_encoded() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "additional/20newsgroups/20news-bydate.tar.gz", newsgroups(None));
    assert!(load(&root, "20-newsgroups").train[0].text.ends_with("café"));
}

#[test]
fn news_that_is_already_divided_is_taken_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    for (file, rows) in [("train", 3), ("valid", 2), ("test", 1)] {
        let contents = format!("TITLE\tCATEGORY\n{}", "Stocks \"fall\tb\n".repeat(rows));
        write(root.path(), &format!("additional/news_aggregator/{file}.txt"), contents);
    }
    let dataset = load(&root, "news-aggregator");
    assert_eq!([dataset.train.len(), dataset.validation.len(), dataset.test.len()], [3, 2, 1]);
    assert!(dataset.notes.iter().any(|note| note.contains("1 class, the paper has 4")), "{:?}", dataset.notes);
}

#[test]
fn a_task_without_its_files_names_the_one_that_is_missing() {
    let root = tempfile::tempdir().unwrap();
    for task in Tasks::paper().iter().filter(|task| task.needs_data()) {
        assert!(!task.is_present(root.path()));
        let error = error(&root, &task.name);
        assert!(error.contains(&task.name) && error.contains("--data-dir"), "{error}");
    }
}

/// What can be wrong with a file, and what is said: file, line, and what was expected.
#[rstest]
#[case::column("sentence\tlable\nfine\t1\n", "dev.tsv:1: no column `label`; there are: sentence, lable")]
#[case::label("sentence\tlabel\nfine\t1\nbad\t2\n", "dev.tsv:3: label `2`, expected one of 0, 1")]
#[case::ragged("sentence\tlabel\nfine\t1\nalone\n", "dev.tsv:3: 1 cell, expected 2 (sentence, label)")]
#[case::utf8(
    "sentence\tlabel\nfine\t1\nb\u{0}d\t0\n",
    "dev.tsv:3: invalid UTF-8; convert it to UTF-8 (iconv -f latin1 -t utf8)"
)]
#[case::empty("", "dev.tsv: the file is empty")]
#[case::rows("sentence\tlabel\n", "dev.tsv: the file has no rows")]
fn a_wrong_glue_file_is_explained(#[case] contents: &str, #[case] message: &str) {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "glue_data/SST-2/train.tsv", "sentence\tlabel\nfine\t1\n");
    let bytes: Vec<u8> = contents.bytes().map(|byte| if byte == 0 { 0xff } else { byte }).collect();
    write(root.path(), "glue_data/SST-2/dev.tsv", bytes);
    assert!(error(&root, "sst-2").contains(message), "{}", error(&root, "sst-2"));
}

#[test]
fn a_score_that_is_none_is_explained() {
    let root = tempfile::tempdir().unwrap();
    let file = "sentence1\tsentence2\tscore\na\tb\tgood\n";
    write(root.path(), "glue_data/STS-B/train.tsv", file);
    write(root.path(), "glue_data/STS-B/dev.tsv", file);
    assert!(error(&root, "sts-b").contains("train.tsv:2: `good` is no score"));
}

#[test]
fn a_damaged_archive_is_explained() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "additional/20newsgroups/20news-bydate.tar.gz", &newsgroups(None)[..100]);
    assert!(error(&root, "20-newsgroups").contains("damaged archive"), "{}", error(&root, "20-newsgroups"));
}

#[rstest]
#[case("my.csv", "text,label\n\"a, b\",yes\nc,no\n", "text,label\nd,yes\n")]
#[case("my.tsv", "text\tlabel\na, b\tyes\nc\tno\n", "text\tlabel\nd\tyes\n")]
#[case(
    "my.jsonl",
    "{\"text\": \"a, b\", \"label\": \"yes\"}\n{\"label\": \"no\", \"text\": \"c\"}\n",
    "{\"text\": \"d\", \"label\": \"yes\"}\n"
)]
fn a_file_of_ones_own_is_read_in_every_format(#[case] name: &str, #[case] train: &str, #[case] validation: &str) {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), name, train);
    write(root.path(), &format!("held-{name}"), validation);
    let held = Some(root.path().join(format!("held-{name}")));
    let task = FileTask { validation_file: held.clone(), test_file: held, ..FileTask::new(root.path().join(name)) };
    let dataset = task.load().unwrap();
    assert_eq!(dataset.labels, ["yes", "no"], "in the order of the file");
    assert_eq!(dataset.train.iter().map(|e| e.text.as_str()).collect::<Vec<_>>(), ["a, b", "c"]);
    assert_eq!(dataset.validation[0].target, Some(Target::Class(0)));
    assert_eq!(dataset.task, "file:my");
}

#[test]
fn what_has_no_file_is_held_back_by_the_seed() {
    let root = tempfile::tempdir().unwrap();
    let rows: String = (0..100).map(|i| format!("text {i},{}\n", i % 3)).collect();
    write(root.path(), "all.csv", format!("text,label\n{rows}"));
    write(root.path(), "test.csv", "text,label\nx,1\n");
    let task = FileTask::new(root.path().join("all.csv"));
    let sizes = |d: &Dataset| [d.train.len(), d.validation.len(), d.test.len()];
    let all = task.load().unwrap();
    assert_eq!(sizes(&all), [80, 10, 10]);
    assert_eq!(all, task.load().unwrap());
    assert_ne!(all, FileTask { split_seed: 1, ..task.clone() }.load().unwrap());
    let with_test = FileTask { test_file: Some(root.path().join("test.csv")), ..task };
    assert_eq!(sizes(&with_test.load().unwrap()), [90, 10, 1]);
}

#[test]
fn scores_and_several_labels_are_read_too() {
    let root = tempfile::tempdir().unwrap();
    let rows: String = (0..20).map(|i| format!("a {i}\tb\t{}.5\tred|{}\n", i % 5, ["green", "blue"][i % 2])).collect();
    write(root.path(), "my.tsv", format!("one\ttwo\tscore\tcolours\n{rows}"));
    let task = FileTask {
        text_column: "one".to_owned(),
        pair_column: Some("two".to_owned()),
        label_column: "score".to_owned(),
        kind: TaskKind::Regression,
        ..FileTask::new(root.path().join("my.tsv"))
    };
    let scores = task.load().unwrap();
    assert_eq!((scores.outputs(), scores.train[0].pair.as_deref()), (1, Some("b")));
    assert!(matches!(scores.train[0].target, Some(Target::Score(score)) if score.fract() == 0.5));
    let labels = FileTask { label_column: "colours".to_owned(), kind: TaskKind::MultiLabel, ..task }.load().unwrap();
    assert_eq!(labels.labels, ["red", "green", "blue"]);
    assert!(matches!(&labels.train[0].target, Some(Target::Labels(found)) if found.len() == 2 && found[0] == 0));
}

#[rstest]
#[case::column(
    "my.csv",
    "words,label\na,x\n",
    "my.csv:1: no column `text`; there are: words, label; give --text-column"
)]
#[case::columns(
    "my.csv",
    "id,review,stars\n1,a,x\n",
    "my.csv:1: no columns `text` and `label`; there are: id, review, stars; give --text-column and --label-column"
)]
#[case::near("my.tsv", "text\tlables\na\tx\n", "there are: text, lables; did you mean --label-column lables?")]
#[case::one_of_two_is_near("my.csv", "review,lables\na,x\n", "; give --text-column and --label-column lables")]
#[case::terminal("my.csv", "te\u{1b}[2Jxt,label\na,x\n", "there are: te\\u{1b}[2Jxt, label")]
#[case::semicolons(
    "my.csv",
    "\"text\";\"label\"\n\"a, b\";x\n",
    "my.csv:1: the columns seem to be separated by semicolons: write commas"
)]
#[case::tabs("my.csv", "text\tlabel\na, b\tx\n", "separated by tabs: name the file .tsv, or write commas")]
#[case::commas("my.tsv", "text,label\na,x\n", "separated by commas: name the file .csv, or write tabs")]
#[case::latin(
    "my.csv",
    "text,label\na,x\nb\0d,y\n",
    "my.csv:3: invalid UTF-8; convert it to UTF-8 (iconv -f latin1 -t utf8)"
)]
#[case::no_labels("my.csv", "text,label\na,\nb,  \n", "my.csv: no row has a label in column `label`")]
#[case::extension("my.txt", "text,label\na,x\n", "must end in .csv, .tsv, .jsonl, .json or .parquet")]
#[case::ragged("my.csv", "text,label\na,x\nb\n", "my.csv:3: 1 cell, expected 2")]
#[case::json("my.jsonl", "{\"text\": \"a\", \"label\": \"x\"}\n{oops\n", "my.jsonl:2: not a JSON object")]
#[case::value(
    "my.jsonl",
    "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\"}\n",
    "my.jsonl:2: no value for `label`"
)]
#[case::few("my.csv", "text,label\na,x\n", "too few rows")]
#[case::carriage_returns("my.csv", "text,label\r\n\"a\r\nb\",x\r\n\r\nc\r\n", "my.csv:5: 1 cell, expected 2")]
#[case::two_marks("my.csv", "\u{feff}\u{feff}", "the file is empty")]
#[case::json_column(
    "my.jsonl",
    "{\"words\": \"a\", \"label\": \"x\"}\n",
    "my.jsonl:1: no column `text`; there are: label, words; give --text-column"
)]
#[case::empty("my.csv", "", "the file is empty")]
#[case::absent("other.csv", "", "No such file")]
fn a_wrong_file_of_ones_own_is_explained(#[case] name: &str, #[case] contents: &str, #[case] message: &str) {
    let root = tempfile::tempdir().unwrap();
    if name != "other.csv" {
        let bytes: Vec<u8> = contents.bytes().map(|byte| if byte == 0 { 0xff } else { byte }).collect();
        write(root.path(), name, bytes);
    }
    let error = FileTask::new(root.path().join(name)).load().unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

/// Other programs write a missing value as an empty cell.
#[rstest]
#[case::class(TaskKind::Classification, "a,x\nb,\nc,y\nd,  \n", &[Some(Target::Class(0)), Some(Target::Class(1))])]
#[case::score(TaskKind::Regression, "a,1\nb,\nc,0.5\nd, \n", &[Some(Target::Score(1.0)), Some(Target::Score(0.5))])]
fn a_row_with_an_empty_label_is_left_out_and_counted(
    #[case] kind: TaskKind,
    #[case] rows: &str,
    #[case] targets: &[Option<Target>],
) {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "own.csv", format!("text,label\n{rows}"));
    let path = root.path().join("own.csv");
    let held = Some(path.clone());
    let dataset =
        FileTask { kind, validation_file: held.clone(), test_file: held, ..FileTask::new(path) }.load().unwrap();
    let found = |part: &[Example]| part.iter().map(|example| example.target.clone()).collect::<Vec<_>>();
    assert_eq!((found(&dataset.train), found(&dataset.validation)), (targets.to_vec(), targets.to_vec()));
    assert!(dataset.labels.iter().all(|label| !label.trim().is_empty()), "{:?}", dataset.labels);
    // A test set may be one to predict.
    assert_eq!((dataset.test.len(), dataset.test[1].target.is_none()), (4, true));
    let expected = ["4 rows without a label left out", "2 rows without a label in the test set: no score counts them"];
    assert_eq!(dataset.notes, expected);
}

#[test]
fn no_label_at_all_is_an_answer_where_there_may_be_several() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "own.csv", "text,label\na,x|y\nb,\n");
    let path = root.path().join("own.csv");
    let held = Some(path.clone());
    let kind = TaskKind::MultiLabel;
    let dataset =
        FileTask { kind, validation_file: held.clone(), test_file: held, ..FileTask::new(path) }.load().unwrap();
    assert_eq!((dataset.train.len(), &dataset.train[1].target), (2, &Some(Target::Labels(vec![]))));
    assert_eq!(dataset.notes, [""; 0]);
}

#[test]
fn texts_are_read_without_labels() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "own.CSV", "review,reply\n\"a, b\",c\nd,e\n");
    let path = root.path().join("own.CSV");
    assert!(FileTask::is_table(&path) && FileTask::is_table(root.path()) && !FileTask::is_table("own.txt".as_ref()));
    let pair_column = Some("reply".to_owned());
    let task = FileTask { text_column: "review".to_owned(), pair_column, ..FileTask::new(path) };
    let expected = [example("2", "a, b", Some("c"), None), example("3", "d", Some("e"), None)];
    assert_eq!(task.texts().unwrap(), expected);
}

#[test]
fn a_label_that_training_never_saw_is_refused_with_its_line() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "train.csv", "text,label\na,x\nb,y\n");
    write(root.path(), "held.csv", "text,label\nc,x\nd,z\n");
    let held = Some(root.path().join("held.csv"));
    let task =
        FileTask { validation_file: held.clone(), test_file: held, ..FileTask::new(root.path().join("train.csv")) };
    let error = task.load().unwrap_err().to_string();
    assert!(error.contains("held.csv:3: label `z` is not one of x, y"), "{error}");
}

#[test]
fn values_that_nobody_asks_for_may_be_missing_and_labels_may_be_numbers() {
    let root = tempfile::tempdir().unwrap();
    let rows = "{\"text\": \"a\", \"label\": [1, 2, 2], \"note\": null}\n{\"label\": [\"2\"], \"text\": \"b\"}\n";
    write(root.path(), "my.jsonl", rows);
    let path = root.path().join("my.jsonl");
    let held = Some(path.clone());
    let kind = TaskKind::MultiLabel;
    let task = FileTask { kind, validation_file: held.clone(), test_file: held, ..FileTask::new(path) };
    let dataset = task.load().unwrap();
    assert_eq!(dataset.labels, ["1", "2"]);
    assert_eq!(dataset.train[0].target, Some(Target::Labels(vec![0, 1])));
    assert_eq!(dataset.train[1].target, Some(Target::Labels(vec![1])));
    let reversed = FileTask { known_labels: Some(vec!["2".to_owned(), "1".to_owned()]), ..task }.load().unwrap();
    assert_eq!(reversed.train[1].target, Some(Target::Labels(vec![0])), "known labels keep their order");
}

#[test]
fn a_broken_row_of_qqps_test_file_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let labelled = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t1\t2\ta\tb\t1\n";
    write(root.path(), "glue_data/QQP/train.tsv", labelled);
    write(root.path(), "glue_data/QQP/dev.tsv", labelled);
    write(root.path(), "glue_data/QQP/test.tsv", "id\tquestion1\tquestion2\n0\ta\tb\n1\tbroken\n");
    assert!(error(&root, "qqp").contains("test.tsv:3: 2 cells, expected 3"), "{}", error(&root, "qqp"));
}

/// One model, two scores: MNLI brings its mismatched set along, and is read without it too.
#[test]
fn mnli_brings_its_mismatched_validation_set_along() {
    let root = tempfile::tempdir().unwrap();
    let header = format!("{MNLI}\tlabel1\tgold_label");
    let row = |text: &str, label: &str| format!("{header}\n0\t0\t0\tg\t\t\t\t\t{text}\tTwo.\tneutral\t{label}\n");
    write(root.path(), "glue_data/MNLI/train.tsv", row("One.", "neutral"));
    write(root.path(), "glue_data/MNLI/dev_matched.tsv", row("Matched.", "entailment"));
    let alone = load(&root, "mnli");
    assert!(alone.extra.is_empty());
    write(root.path(), "glue_data/MNLI/dev_mismatched.tsv", row("Mismatched.", "contradiction"));
    let both = load(&root, "mnli");
    let [(name, examples)] = &both.extra[..] else { panic!("one further set") };
    assert_eq!((name.as_str(), examples[0].text.as_str()), ("mnli-mm", "Mismatched."));
    assert_eq!(examples[0].target, Some(Target::Class(0)));
    let [without, with] = [alone, both].map(|dataset| TaskData::Texts(dataset).fingerprint());
    assert_ne!(without, with, "what is scored is part of the data");
}

/// A quote that is not closed where it should be would swallow the rows that follow.
#[rstest]
#[case::never("text,label\na,x\n\"b,y\nc,x\nd,y\n", "own.csv:3: the quote that begins here is never closed")]
#[case::further_down(
    "text,label\na,x\n\"b,y\nc,x\n\"d\",y\n",
    "own.csv:3: the quote that begins here ends in the middle of a cell"
)]
#[case::in_a_later_cell("text,label\na,\"x\nb,y\n", "own.csv:2: the quote that begins here is never closed")]
fn a_quote_that_swallows_rows_is_refused_where_it_begins(#[case] text: &str, #[case] message: &str) {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "own.csv", text);
    let error = FileTask::new(root.path().join("own.csv")).load().unwrap_err().to_string();
    assert!(error.ends_with(message), "{error}");
}

#[rstest]
#[case::quoted("text,label\n\"a, \"\"b\"\"\nc\",x\n", "a, \"b\"\nc")]
#[case::inside("text,label\nhe said \"so\" twice,x\n", "he said \"so\" twice")]
#[case::empty("text,label\n\"\",x\n", "")]
#[case::carriage_returns("text,label\r\"a\",x\r", "a")]
fn other_quotes_are_read_as_they_are_meant(#[case] text: &str, #[case] expected: &str) {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "own.csv", text);
    write(root.path(), "other.csv", "text,label\nb,x\n");
    let other = Some(root.path().join("other.csv"));
    let task =
        FileTask { validation_file: other.clone(), test_file: other, ..FileTask::new(root.path().join("own.csv")) };
    assert_eq!(task.load().unwrap().train[0].text, expected);
}

#[test]
fn a_column_of_ids_is_no_column_of_labels() {
    let root = tempfile::tempdir().unwrap();
    let rows = |of: &dyn Fn(usize) -> usize| (0..2000).map(|i| format!("text {i},{}\n", of(i))).collect::<String>();
    write(root.path(), "ids.csv", format!("text,label\n{}", rows(&|i| i)));
    let error = FileTask::new(root.path().join("ids.csv")).load().unwrap_err().to_string();
    assert!(error.contains("has 2000 different labels in 2000 rows: is it the right column?"), "{error}");
    // Many classes are fine where they are classes.
    write(root.path(), "many.csv", format!("text,label\n{}", rows(&|i| i % 500)));
    assert_eq!(FileTask::new(root.path().join("many.csv")).load().unwrap().labels.len(), 500);
    write(root.path(), "one.csv", format!("text,label\n{}", rows(&|_| 7)));
    let notes = FileTask::new(root.path().join("one.csv")).load().unwrap().notes;
    assert_eq!(notes, ["every row has the label `7`: there is nothing to learn"]);
}
