//! The 17 additional classification tasks of §3.3, from their original files.

use std::{
    collections::BTreeSet,
    io::Read,
    path::{Path, PathBuf},
};

use crate::{
    Dataset, Example, Target, TaskData, TaskKind, TaskSource,
    shuffle::split,
    source::{DataError, Encoding, Format, Ragged, Table, content_error, decode, read_bytes, read_text},
};

/// The seed of every division into train, validation and test: fixed, so that all runs see the same.
const SPLIT_SEED: u64 = 0;

/// A task and what the paper says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Additional {
    pub folder: &'static str,
    pub file: &'static str,
    source: Source,
    /// The paper's train, validation and test sizes.
    pub sizes: [usize; 3],
    pub classes: usize,
    /// The paper's epochs of fine-tuning and of adapters.
    pub epochs: [usize; 2],
}

#[derive(Clone, Copy, Debug)]
enum Source {
    /// A table with a label and one or two texts.
    Table { encoding: Encoding, text: &'static str, pair: Option<&'static str>, label: Label },
    /// `label<TAB>text`, no header.
    Sms,
    /// The UCI file, or a folder that is already divided.
    News,
    /// An archive with a file for each post, in a folder for each class.
    Newsgroups,
}

/// Which column tells the class, and what its values mean.
#[derive(Clone, Copy, Debug)]
enum Label {
    /// The column's value.
    Column(&'static str),
    /// The column's value, but rows with this one are dropped.
    ColumnWithout(&'static str, &'static str),
    /// The answer to a question, whose column starts so; not its confidence, gold or original.
    Question(&'static str),
    /// `Y` or `Yes`, `N` or `No`; other rows are dropped.
    YesOrNo(&'static str),
}

const fn table(text: &'static str, label: Label) -> Source {
    Source::Table { encoding: Encoding::Utf8, text, pair: None, label }
}

const fn latin1(text: &'static str, label: Label) -> Source {
    Source::Table { encoding: Encoding::Latin1, text, pair: None, label }
}

const fn task(
    folder: &'static str,
    file: &'static str,
    source: Source,
    sizes: [usize; 3],
    classes: usize,
    epochs: [usize; 2],
) -> Additional {
    Additional { folder, file, source, sizes, classes, epochs }
}

const PROGRESSIVE: &str = "progressive-tweet-sentiment.csv";
const POLITICAL: &str = "political_media_full.csv";

const fn progressive(question: &'static str) -> Source {
    let label = Label::Question(question);
    Source::Table { encoding: Encoding::Utf8, text: "tweet", pair: Some("target"), label }
}

/// Every task with its name, in the order of the paper's table.
#[rustfmt::skip]
pub(crate) const TASKS: [(&str, Additional); 17] = [
    ("20-newsgroups", task("20newsgroups", "20news-bydate.tar.gz", Source::Newsgroups, [15076, 1885, 1885], 20, [50, 50])),
    ("airline", task("crowdflower_airline", "Airline-Sentiment-2-w-AA.csv",
        table("text", Label::Column("airline_sentiment")), [11712, 1464, 1464], 3, [50, 20])),
    ("corporate-messaging", task("crowdflower_corporate_messaging", "Corporate-messaging-DFE.csv",
        table("text", Label::Column("category")), [2494, 312, 312], 4, [100, 50])),
    ("disasters", task("crowdflower_disasters", "socialmedia-disaster-tweets-DFE.csv",
        latin1("text", Label::ColumnWithout("choose_one", "Can't Decide")), [8688, 1086, 1086], 2, [50, 50])),
    ("economic-news", task("crowdflower_economic_news", "Full-Economic-News-DFE-839861.csv",
        Source::Table { encoding: Encoding::Latin1, text: "headline", pair: Some("text"),
            label: Label::ColumnWithout("relevance", "not sure") }, [6392, 799, 800], 2, [20, 20])),
    ("emotion", task("crowdflower_emotion", "text_emotion.csv",
        table("content", Label::Column("sentiment")), [32000, 4000, 4000], 13, [20, 20])),
    ("global-warming", task("crowdflower_global_warming", "1377884570_tweet_global_warming.csv",
        table("tweet", Label::YesOrNo("existence")), [3380, 422, 423], 2, [100, 50])),
    ("political-audience", task("crowdflower_political", POLITICAL,
        latin1("text", Label::Column("audience")), [4000, 500, 500], 2, [50, 20])),
    ("political-bias", task("crowdflower_political", POLITICAL,
        latin1("text", Label::Column("bias")), [4000, 500, 500], 2, [50, 50])),
    ("political-message", task("crowdflower_political", POLITICAL,
        latin1("text", Label::Column("message")), [4000, 500, 500], 9, [50, 50])),
    ("primary-emotions", task("crowdflower_primary_emotions", "primary-plutchik-wheel-DFE.csv",
        table("sentence", Label::Column("emotion")), [2019, 252, 253], 18, [100, 100])),
    ("progressive-opinion", task("crowdflower_progressive", PROGRESSIVE, progressive("q2"), [927, 116, 116], 3, [100, 100])),
    ("progressive-stance", task("crowdflower_progressive", PROGRESSIVE, progressive("q1"), [927, 116, 116], 4, [100, 100])),
    ("us-economic-performance", task("crowdflower_us_economic_performance", "us-economic-newspaper.csv",
        latin1("text", Label::ColumnWithout("relevance", "not sure")), [3961, 495, 496], 2, [100, 20])),
    ("customer-complaints", task("customer_complaints", "consumer_complaints.csv",
        table("Consumer complaint narrative", Label::Column("Issue")), [146667, 18333, 18334], 157, [20, 20])),
    ("news-aggregator", task("news_aggregator", "newsCorpora.csv", Source::News, [338349, 42294, 42294], 4, [20, 20])),
    ("sms-spam", task("sms_spam", "SMSSpamCollection", Source::Sms, [4459, 557, 558], 2, [50, 20])),
];

/// A text with its class by name, before classes are numbered.
struct Labelled {
    id: String,
    text: String,
    pair: Option<String>,
    label: String,
}

impl TaskSource for Additional {
    fn files(&self, data: &Path) -> Vec<PathBuf> {
        match self.divided_news(data) {
            Some(files) => files.into(),
            None => vec![self.path(data)],
        }
    }

    fn load(&self, name: &str, data: &Path) -> Result<TaskData, DataError> {
        let path = self.path(data);
        let (parts, dropped) = match self.divided_news(data) {
            Some(files) => {
                let mut dropped = 0;
                let [train, validation, test] = files.map(|file| {
                    let text = read_text(&file, Encoding::Utf8)?;
                    let table = Table::parse(&file, &text, Format::Tsv, None, Ragged::Refuse)?;
                    let (rows, others) = labelled(&table, "TITLE", None, Label::Column("CATEGORY"))?;
                    dropped += others;
                    Ok::<_, DataError>(rows)
                });
                ([train?, validation?, test?], dropped)
            }
            None => {
                let (rows, dropped) = self.read(&path)?;
                (split(rows, SPLIT_SEED), dropped)
            }
        };
        let mut dataset = number_classes(name, parts);
        if dropped > 0 {
            dataset.notes.push(format!("{dropped} rows without a usable label or text left out"));
        }
        let sizes = [&dataset.train, &dataset.validation, &dataset.test].map(Vec::len);
        if sizes != self.sizes {
            dataset.notes.push(format!("train/validation/test sizes are {sizes:?}, the paper's {:?}", self.sizes));
        }
        if dataset.labels.len() != self.classes {
            dataset.notes.push(format!("{} classes, the paper has {}", dataset.labels.len(), self.classes));
        }
        Ok(TaskData::Texts(dataset))
    }
}

impl Additional {
    fn path(&self, data: &Path) -> PathBuf {
        data.join("additional").join(self.folder).join(self.file)
    }

    /// The news aggregator's files where they are already divided, unless the original is there.
    fn divided_news(&self, data: &Path) -> Option<[PathBuf; 3]> {
        let files = ["train.txt", "valid.txt", "test.txt"].map(|file| self.path(data).with_file_name(file));
        let divided = matches!(self.source, Source::News) && !self.path(data).is_file();
        (divided && files.iter().all(|file| file.is_file())).then_some(files)
    }

    /// The usable rows, and the number of others.
    fn read(&self, path: &Path) -> Result<(Vec<Labelled>, usize), DataError> {
        let tab_separated = |columns: &[&str], text, label| {
            let contents = read_text(path, Encoding::Utf8)?;
            let table = Table::parse(path, &contents, Format::Tsv, Some(columns), Ragged::Refuse)?;
            labelled(&table, text, None, Label::Column(label))
        };
        match self.source {
            Source::Table { encoding, text, pair, label } => {
                let contents = read_text(path, encoding)?;
                let table = Table::parse(path, &contents, Format::Csv, None, Ragged::Refuse)?;
                labelled(&table, text, pair, label)
            }
            Source::Sms => tab_separated(&["label", "text"], "text", "label"),
            Source::News => {
                let columns = ["id", "title", "url", "publisher", "category", "story", "hostname", "timestamp"];
                tab_separated(&columns, "title", "category")
            }
            Source::Newsgroups => Ok((read_newsgroups(path)?, 0)),
        }
    }
}

fn labelled(table: &Table, text: &str, pair: Option<&str>, label: Label) -> Result<(Vec<Labelled>, usize), DataError> {
    let text = table.column(text)?;
    let pair = pair.map(|pair| table.column(pair)).transpose()?;
    let label_column = match label {
        Label::Column(name) | Label::ColumnWithout(name, _) | Label::YesOrNo(name) => table.column(name)?,
        Label::Question(start) => table.column_where(&format!("that starts with `{start}_`"), |column| {
            let other = column.contains(":confidence") || column.ends_with("_gold") || column.starts_with("orig_");
            column.starts_with(&format!("{start}_")) && !other
        })?,
    };
    let class = |value: &str| match label {
        Label::Column(_) | Label::Question(_) => Some(value.to_owned()),
        Label::ColumnWithout(_, dropped) => (value != dropped).then(|| value.to_owned()),
        Label::YesOrNo(_) => match value {
            "Y" | "Yes" => Some("yes".to_owned()),
            "N" | "No" => Some("no".to_owned()),
            _ => None,
        },
    };
    let rows = table.rows.iter().filter_map(|row| {
        let label = class(row.cell(label_column))?;
        // A complaint without a narrative, a row without a label: nothing to learn from.
        if label.is_empty() || row.cell(text).trim().is_empty() && pair.is_none() {
            return None;
        }
        Some(Labelled {
            id: row.line.to_string(),
            text: row.cell(text).to_owned(),
            pair: pair.map(|pair| row.cell(pair).to_owned()),
            label,
        })
    });
    let rows: Vec<Labelled> = rows.collect();
    let dropped = table.rows.len() - rows.len();
    Ok((rows, dropped))
}

fn read_newsgroups(path: &Path) -> Result<Vec<Labelled>, DataError> {
    let damaged = |error: std::io::Error| content_error(path, None, format!("damaged archive: {error}"));
    let bytes = read_bytes(path)?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
    let mut posts = Vec::new();
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let inside = entry.path().map_err(damaged)?.to_string_lossy().into_owned();
        let steps: Vec<&str> = inside.split('/').collect();
        let [.., part, group, post] = steps[..] else { continue };
        // Folders end with a slash; other files (`.DS_Store`) do not lie in a group's folder.
        if post.is_empty() || !part.starts_with("20news-bydate") {
            continue;
        }
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents).map_err(damaged)?;
        let text = decode(path, contents, Encoding::Latin1)?;
        posts.push(Labelled { id: format!("{group}/{post}"), text, pair: None, label: group.to_owned() });
    }
    if posts.is_empty() {
        return Err(content_error(path, None, "no posts in folders 20news-bydate-*/GROUP/"));
    }
    Ok(posts)
}

/// Numbers the classes in alphabetical order.
fn number_classes(task: &str, parts: [Vec<Labelled>; 3]) -> Dataset {
    let labels: BTreeSet<String> = parts.iter().flatten().map(|row| row.label.clone()).collect();
    let labels: Vec<String> = labels.into_iter().collect();
    let [train, validation, test] = parts.map(|rows| {
        let examples = rows.into_iter().map(|row| Example {
            target: labels.binary_search(&row.label).ok().map(Target::Class),
            id: row.id,
            text: row.text,
            pair: row.pair,
        });
        examples.collect::<Vec<_>>()
    });
    let kind = TaskKind::Classification;
    Dataset { task: task.to_owned(), kind, labels, train, validation, test, extra: Vec::new(), notes: Vec::new() }
}
