//! What tasks are called: a record has a task's identifier, people read its name.

/// Identifiers and names.
const NAMES: [(&str, &str); 29] = [
    ("cola", "CoLA"),
    ("sst-2", "SST-2"),
    ("mrpc", "MRPC"),
    ("sts-b", "STS-B"),
    ("qqp", "QQP"),
    ("mnli", "MNLI-m"),
    ("mnli-mm", "MNLI-mm"),
    ("qnli", "QNLI"),
    ("rte", "RTE"),
    ("wnli", "WNLI"),
    ("squad", "SQuAD"),
    ("squad-v2", "SQuAD v2"),
    ("20-newsgroups", "20 newsgroups"),
    ("airline", "Airline"),
    ("corporate-messaging", "Corporate messaging"),
    ("disasters", "Disasters"),
    ("economic-news", "Economic news"),
    ("emotion", "Emotion"),
    ("global-warming", "Global warming"),
    ("political-audience", "Political audience"),
    ("political-bias", "Political bias"),
    ("political-message", "Political message"),
    ("primary-emotions", "Primary emotions"),
    ("progressive-opinion", "Progressive opinion"),
    ("progressive-stance", "Progressive stance"),
    ("us-economic-performance", "US economic performance"),
    ("customer-complaints", "Customer complaints"),
    ("news-aggregator", "News aggregator"),
    ("sms-spam", "SMS spam"),
];

/// Tasks over the built-in language: their identifiers, their names and the tasks whose places they take.
const BUILT_IN: [(&str, &str, &str); 16] = [
    ("syn-acceptability", "Acceptability", "cola"),
    ("syn-sentiment", "Sentiment", "sst-2"),
    ("syn-paraphrase", "Paraphrase", "mrpc"),
    ("syn-similarity", "Similarity", "sts-b"),
    ("syn-duplicates", "Duplicates", "qqp"),
    ("syn-inference", "Inference", "mnli"),
    ("syn-answerable", "Answerable", "qnli"),
    ("syn-entailment", "Entailment", "rte"),
    ("syn-topic", "Topic", "20-newsgroups"),
    ("syn-spam", "Spam", "sms-spam"),
    ("syn-emotion", "Feelings", "emotion"),
    ("syn-complaint", "Complaint", "customer-complaints"),
    ("syn-stance", "Stance", "progressive-stance"),
    ("syn-mood", "Mood", "primary-emotions"),
    ("syn-report", "Report", "economic-news"),
    ("syn-questions", "Questions", "squad"),
];

/// What a task is called; one that nobody named by its identifier.
pub fn task_name(task: &str) -> String {
    let of = |task: &str| {
        let known = NAMES.iter().find(|(id, _)| *id == task).map(|(_, name)| *name);
        known.or_else(|| BUILT_IN.iter().find(|(id, ..)| *id == task).map(|(_, name, _)| *name))
    };
    match (of(task), task.strip_suffix("-tuning").and_then(of)) {
        (Some(name), _) => name.to_owned(),
        (None, Some(name)) => format!("{name}, tuning examples"),
        (None, None) => task.to_owned(),
    }
}

/// What a task is called, and whose place it takes.
pub fn task_title(task: &str) -> String {
    let place = BUILT_IN.iter().find(|(id, ..)| *id == task).map(|(_, _, of)| task_name(of));
    let of = |name: String| if name.ends_with('s') { format!("{name}’") } else { format!("{name}’s") };
    place.map_or_else(|| task_name(task), |other| format!("{} ({} place)", task_name(task), of(other)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("cola", "CoLA", "CoLA")]
    #[case("syn-acceptability", "Acceptability", "Acceptability (CoLA’s place)")]
    #[case("syn-topic", "Topic", "Topic (20 newsgroups’ place)")]
    #[case("syn-acceptability-tuning", "Acceptability, tuning examples", "Acceptability, tuning examples")]
    #[case("file:mine.csv", "file:mine.csv", "file:mine.csv")]
    fn tasks_have_names_for_people(#[case] task: &str, #[case] name: &str, #[case] title: &str) {
        assert_eq!((task_name(task).as_str(), task_title(task).as_str()), (name, title));
    }
}
