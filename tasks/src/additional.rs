//! The 17 additional classification tasks of §3.3, from their original files.

use std::{
    collections::BTreeSet,
    io::Read,
    path::{Path, PathBuf},
};

use bert_backbone::{Source, WebFile};

use crate::{
    Dataset, Example, Home, Target, TaskData, TaskKind, TaskSource,
    shuffle::split,
    source::{DataError, Encoding, Format, Ragged, Table, content_error, counted, decode, read_bytes, read_text},
};

/// The seed of every division into train, validation and test: fixed, so that all runs see the same.
const SPLIT_SEED: u64 = 0;

/// A task and what the paper says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Additional {
    pub folder: &'static str,
    pub file: &'static str,
    source: Origin,
    /// The paper's train, validation and test sizes.
    pub sizes: [usize; 3],
    pub classes: usize,
    /// The paper's epochs of fine-tuning and of adapters.
    pub epochs: [usize; 2],
}

#[derive(Clone, Copy, Debug)]
enum Origin {
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

const fn table(text: &'static str, label: Label) -> Origin {
    Origin::Table { encoding: Encoding::Utf8, text, pair: None, label }
}

const fn latin1(text: &'static str, label: Label) -> Origin {
    Origin::Table { encoding: Encoding::Latin1, text, pair: None, label }
}

const fn task(
    folder: &'static str,
    file: &'static str,
    source: Origin,
    sizes: [usize; 3],
    classes: usize,
    epochs: [usize; 2],
) -> Additional {
    Additional { folder, file, source, sizes, classes, epochs }
}

/// Where scikit-learn takes it from, and its hash there.
const NEWSGROUPS: &str = "https://ndownloader.figshare.com/files/5975967";
const NEWSGROUPS_SHA256: &str = "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610";
const SMS: &str = "https://archive.ics.uci.edu/static/public/228/sms+spam+collection.zip";
const NEWS: &str = "https://archive.ics.uci.edu/static/public/359/news+aggregator.zip";

const COMPLAINTS: &str = "customer_complaints";
const PROGRESSIVE: &str = "progressive-tweet-sentiment.csv";
const POLITICAL: &str = "political_media_full.csv";

const fn progressive(question: &'static str) -> Origin {
    let label = Label::Question(question);
    Origin::Table { encoding: Encoding::Utf8, text: "tweet", pair: Some("target"), label }
}

/// Every task with its name, in the order of the paper's table.
#[rustfmt::skip]
pub(crate) const TASKS: [(&str, Additional); 17] = [
    ("20-newsgroups", task("20newsgroups", "20news-bydate.tar.gz", Origin::Newsgroups, [15076, 1885, 1885], 20, [50, 50])),
    ("airline", task("crowdflower_airline", "Airline-Sentiment-2-w-AA.csv",
        table("text", Label::Column("airline_sentiment")), [11712, 1464, 1464], 3, [50, 20])),
    ("corporate-messaging", task("crowdflower_corporate_messaging", "Corporate-messaging-DFE.csv",
        table("text", Label::Column("category")), [2494, 312, 312], 4, [100, 50])),
    ("disasters", task("crowdflower_disasters", "socialmedia-disaster-tweets-DFE.csv",
        latin1("text", Label::ColumnWithout("choose_one", "Can't Decide")), [8688, 1086, 1086], 2, [50, 50])),
    ("economic-news", task("crowdflower_economic_news", "Full-Economic-News-DFE-839861.csv",
        Origin::Table { encoding: Encoding::Latin1, text: "headline", pair: Some("text"),
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
    ("customer-complaints", task(COMPLAINTS, "consumer_complaints.csv",
        table("Consumer complaint narrative", Label::Column("Issue")), [146667, 18333, 18334], 157, [20, 20])),
    ("news-aggregator", task("news_aggregator", "newsCorpora.csv", Origin::News, [338349, 42294, 42294], 4, [20, 20])),
    ("sms-spam", task("sms_spam", "SMSSpamCollection", Origin::Sms, [4459, 557, 558], 2, [50, 20])),
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

    fn home(&self) -> Option<Home> {
        let web = |url: &str, sha256: Option<&str>, inside: Option<&str>, limit| {
            let file = WebFile {
                url: url.to_owned(),
                sha256: sha256.map(str::to_owned),
                name: self.file.to_owned(),
                inside: inside.map(str::to_owned),
                limit,
            };
            Home::new(Path::new("additional").join(self.folder), Source::Web(file))
        };
        Some(match self.source {
            Origin::Newsgroups => web(NEWSGROUPS, Some(NEWSGROUPS_SHA256), None, 64 << 20),
            Origin::Sms => web(SMS, None, Some(self.file), 16 << 20),
            Origin::News => web(NEWS, None, Some(self.file), 512 << 20),
            Origin::Table { .. } if self.folder == COMPLAINTS => Home::by_hand(
                "the Consumer Complaint Database of consumerfinance.gov (the paper has an older state of it)",
            ),
            Origin::Table { .. } => Home::by_hand("CrowdFlower's Data for Everyone (data.world/crowdflower)"),
        })
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
            dataset.notes.push(format!("{} without a usable label or text left out", counted(dropped, "row")));
        }
        let sizes = [&dataset.train, &dataset.validation, &dataset.test].map(Vec::len);
        if sizes != self.sizes {
            dataset.notes.push(format!("train/validation/test sizes are {sizes:?}, the paper's {:?}", self.sizes));
        }
        if dataset.labels.len() != self.classes {
            dataset.notes.push(format!("{}, the paper has {}", counted(dataset.labels.len(), "class"), self.classes));
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
        let divided = matches!(self.source, Origin::News) && !self.path(data).is_file();
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
            Origin::Table { encoding, text, pair, label } => {
                let contents = read_text(path, encoding)?;
                let table = Table::parse(path, &contents, Format::Csv, None, Ragged::Refuse)?;
                labelled(&table, text, pair, label)
            }
            Origin::Sms => tab_separated(&["label", "text"], "text", "label"),
            Origin::News => {
                let columns = ["id", "title", "url", "publisher", "category", "story", "hostname", "timestamp"];
                tab_separated(&columns, "title", "category")
            }
            Origin::Newsgroups => Ok((read_newsgroups(path)?, 0)),
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

/// Bytes of the longest post that is taken for one, and of all together.
const LONGEST_POST: u64 = 16 << 20;
const ALL_POSTS: u64 = 1 << 30;

fn read_newsgroups(path: &Path) -> Result<Vec<Labelled>, DataError> {
    let damaged = |error: std::io::Error| content_error(path, None, format!("damaged archive: {error}"));
    let bytes = read_bytes(path)?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
    let (mut posts, mut all) = (Vec::new(), 0);
    for entry in archive.entries().map_err(damaged)? {
        let entry = entry.map_err(damaged)?;
        let inside = entry.path().map_err(damaged)?.to_string_lossy().into_owned();
        let steps: Vec<&str> = inside.split('/').collect();
        let [.., part, group, post] = steps[..] else { continue };
        // Folders end with a slash; other files (`.DS_Store`) do not lie in a group's folder.
        if post.is_empty() || !part.starts_with("20news-bydate") {
            continue;
        }
        let mut contents = Vec::new();
        entry.take(LONGEST_POST + 1).read_to_end(&mut contents).map_err(damaged)?;
        // A few bytes of an archive can stand for any number of them.
        all += contents.len() as u64;
        if contents.len() as u64 > LONGEST_POST || all > ALL_POSTS {
            return Err(content_error(path, None, format!("{inside} is too long for a post: damaged archive")));
        }
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
