//! How a report came about.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How a report came about; its foot says so. What is empty is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// When.
    pub at: Option<SystemTime>,
    /// By which command.
    pub command: String,
    /// By which program: its version and commit.
    pub program: String,
    /// On which machine.
    pub machine: String,
}

impl Made {
    /// What the foot says.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Self { at, command, program, machine } = self;
        let at = at.map(|at| format!("Written on {}", date(at.duration_since(UNIX_EPOCH).unwrap_or_default())));
        let command = (!command.is_empty()).then(|| format!("by {command}"));
        let others = [program, machine].map(|text| Some(text.clone()).filter(|text| !text.is_empty()));
        [at, command].into_iter().chain(others).flatten().collect()
    }
}

/// The day and the time, in the calendar of most people and Greenwich's time.
fn date(since: Duration) -> String {
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut left) = (1970, days);
    while left >= if leap(year) { 366 } else { 365 } {
        left -= if leap(year) { 366 } else { 365 };
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    let (hour, minute) = (seconds / 3600, seconds / 60 % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02} UTC", left + 1)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "1970-01-01 00:00 UTC")]
    #[case(951_782_400, "2000-02-29 00:00 UTC")]
    #[case(1_735_689_599, "2024-12-31 23:59 UTC")]
    #[case(1_794_934_800, "2026-11-17 17:00 UTC")]
    fn days_are_those_of_the_calendar(#[case] seconds: u64, #[case] expected: &str) {
        assert_eq!(date(Duration::from_secs(seconds)), expected);
    }
}
