//! Prints some examples of every task over the built-in language, and some of its unlabelled text.
//!
//! `cargo run -p tasks --example synthetic`

use tasks::{Target, TaskData, synthetic};

fn main() {
    println!("text without labels");
    for number in 0..16 {
        let synthetic::Passage { first, second, belongs } = synthetic::corpus(number);
        println!("    {first} | {second} ({})", if belongs { "goes on" } else { "does not go on" });
    }
    for (name, task) in synthetic::TASKS {
        println!("\n{name} (in place of {})", task.stands_for);
        match task.load(name) {
            TaskData::Texts(dataset) => {
                for example in dataset.train.iter().take(6) {
                    let label = match &example.target {
                        Some(Target::Class(class)) => dataset.labels[*class].clone(),
                        Some(Target::Score(score)) => score.to_string(),
                        Some(Target::Labels(_)) | None => String::new(),
                    };
                    let pair = example.pair.as_ref().map(|pair| format!(" | {pair}")).unwrap_or_default();
                    println!("    {label}: {}{pair}", example.text);
                }
            }
            TaskData::Questions(questions) => {
                for question in questions.train.iter().take(4) {
                    println!("    {} | {} -> {}", question.question, question.context, question.answers[0].text);
                }
            }
        }
    }
}
