//! The report of a folder of runs: `cargo run -p analysis --example report -- RUNS OUT`.

use std::{env, error::Error, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [runs, out] = &arguments[..] else { return Err("two folders are needed: RUNS OUT".into()) };
    let report = analysis::write_report(
        Path::new(runs),
        Path::new(out),
        &analysis::paper_exhibits(),
        &analysis::Made::default(),
    )?;
    for finding in &report.findings {
        println!("{}: {}: {}", finding.verdict.in_words(), finding.name, finding.shows);
    }
    println!("{} runs, {} gaps: {}", report.runs, report.gaps.len(), report.page.display());
    Ok(())
}
