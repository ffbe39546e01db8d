//! Axes: from values to places, and where the marks are.

use crate::{setup::ANSWER_F1, svg::text_width};

/// How an axis' values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Scores: as many decimals as the marks need. The axis spans two points at least.
    Plain,
    /// Values of a configuration, in full: 64, 0.1, 3e-4.
    Exact,
    /// Counts: 2k, 30k, 1M.
    Count,
    /// Powers of ten: 1e-4.
    Power,
}

/// What an axis shows.
#[derive(Clone, Debug)]
pub struct AxisSpec {
    /// Its label.
    pub label: String,
    /// Whether it is logarithmic.
    pub log: bool,
    /// How its values are written.
    pub format: Format,
    /// Values to mark; where empty, round ones.
    pub ticks: Vec<f64>,
}

impl AxisSpec {
    /// Validation scores × 100 in a metric.
    pub fn score(metric: &str) -> Self {
        let label = format!("validation {} × 100", metric_name(metric));
        Self { label, log: false, format: Format::Plain, ticks: Vec::new() }
    }

    /// The same on test.
    pub(crate) fn test_score(metric: &str) -> Self {
        Self { label: format!("test {} × 100", metric_name(metric)), ..Self::score(metric) }
    }

    /// Trained parameters, logarithmic.
    pub fn parameters() -> Self {
        let label = "trained parameters per task".to_owned();
        Self { label, log: true, format: Format::Count, ticks: Vec::new() }
    }

    /// Powers of ten, logarithmic, with marks at its own values.
    pub fn powers(label: &str, values: Vec<f64>) -> Self {
        Self { label: label.to_owned(), log: true, format: Format::Power, ticks: values }
    }

    /// Values of a key: logarithmic if all are positive and they span a decade or more; with marks at its own values if
    /// these are few.
    pub fn values(label: &str, values: &[f64]) -> Self {
        const MOST: usize = 12;
        let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(low, high), &v| (low.min(v), high.max(v)));
        // 0.1 is a tenth of 1 only to the last bit.
        let log = low > 0.0 && high / low >= 9.999;
        let ticks = if values.len() > MOST { Vec::new() } else { values.to_vec() };
        Self { label: label.to_owned(), log, format: Format::Exact, ticks }
    }
}

/// A metric as it is said.
pub fn metric_name(metric: &str) -> String {
    if metric == ANSWER_F1 {
        return "F1".to_owned();
    }
    let said = metric.split('_').map(|word| match word {
        "f1" => "F1",
        "matthews" => "Matthews",
        "pearson" => "Pearson",
        "spearman" => "Spearman",
        other => other,
    });
    said.collect::<Vec<_>>().join(" ")
}

/// An axis over known values.
pub struct Axis {
    low: f64,
    high: f64,
    log: bool,
    format: Format,
    ticks: Vec<f64>,
    step: f64,
}

impl Axis {
    /// An axis that shows all `values`, with some room at both ends.
    pub fn new(spec: &AxisSpec, values: impl IntoIterator<Item = f64>) -> Self {
        let usable = values.into_iter().filter(|value| value.is_finite() && (!spec.log || *value > 0.0));
        let values: Vec<f64> = usable.map(|value| if spec.log { value.log10() } else { value }).collect();
        let (mut low, mut high) = values.iter().fold((f64::MAX, f64::MIN), |(l, h), &v| (l.min(v), h.max(v)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let least = match (spec.log, spec.format) {
            (true, _) => 0.6,
            // One value alone has room around it.
            (false, Format::Exact) if low == high => low.abs().max(1e-9),
            (false, Format::Exact) => 0.0,
            (false, _) => 2.0,
        };
        if high - low < least {
            let middle = (low + high) / 2.0;
            (low, high) = (middle - least / 2.0, middle + least / 2.0);
        }
        let room = 0.06 * (high - low);
        let mut axis = Self {
            low: low - room,
            high: high + room,
            log: spec.log,
            format: spec.format,
            ticks: Vec::new(),
            step: 1.0,
        };
        axis.ticks = match (spec.ticks.is_empty(), spec.log) {
            (false, _) => {
                let mut ticks = spec.ticks.clone();
                ticks.sort_by(f64::total_cmp);
                ticks.dedup();
                ticks
            }
            (true, true) => axis.log_ticks(),
            (true, false) => axis.linear_ticks(),
        };
        axis
    }

    fn linear_ticks(&mut self) -> Vec<f64> {
        let rough = (self.high - self.low) / 8.0;
        let power = 10f64.powf(rough.log10().floor());
        self.step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= rough).unwrap_or(rough);
        // Values that hardly differ leave no step between them.
        if !self.step.is_normal() {
            return Vec::new();
        }
        let (first, last) = ((self.low / self.step).ceil() as i64, (self.high / self.step).floor() as i64);
        (first..=last).map(|n| n as f64 * self.step).collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let inside = |multiples: &[f64]| {
            let mut ticks = Vec::new();
            for power in self.low.floor() as i32..=self.high.ceil() as i32 {
                ticks.extend(multiples.iter().map(|m| m * 10f64.powi(power)));
            }
            ticks.retain(|tick| (self.low..=self.high).contains(&tick.log10()));
            ticks
        };
        let decades = inside(&[1.0]);
        if decades.len() >= 3 { decades } else { inside(&[1.0, 2.0, 5.0]) }
    }

    /// Where a value stands, from 0 to 1.
    pub fn place(&self, value: f64) -> f64 {
        let value = if self.log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// The marks with their labels: place from 0 to 1 and text. A label that would touch the one before is left empty.
    pub fn labels(&self, length: f64, size: f64) -> Vec<(f64, String)> {
        let mut end = f64::MIN;
        let mut labels = Vec::new();
        for &tick in &self.ticks {
            let (place, text) = (self.place(tick), self.write(tick));
            let half = text_width(&text, size, false) / 2.0;
            let free = place * length - half > end + 0.5 * size;
            if free {
                end = place * length + half;
            }
            labels.push((place, if free { text } else { String::new() }));
        }
        labels
    }

    /// The marks with all their labels, for an axis that runs upwards.
    pub fn upward_labels(&self) -> Vec<(f64, String)> {
        self.ticks.iter().map(|&tick| (self.place(tick), self.write(tick))).collect()
    }

    fn write(&self, value: f64) -> String {
        match self.format {
            Format::Count => count(value),
            Format::Power if value == 1.0 => "1".to_owned(),
            Format::Power => format!("{value:e}"),
            Format::Exact => exact(value),
            Format::Plain if value.abs() >= 1e4 => minus(&format!("{:e}", rounded(value))),
            Format::Plain => {
                let decimals = (-self.step.log10().floor()).max(0.0) as usize;
                minus(&format!("{value:.decimals$}"))
            }
        }
    }
}

/// A count in short.
pub fn count(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let text = if value >= 100.0 || value.fract().abs() < 0.05 { format!("{value:.0}") } else { format!("{value:.1}") };
    format!("{text}{unit}")
}

/// A number of things in words: "1 task", "3 tasks".
pub fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// A value of a configuration in full, to six digits.
pub fn exact(value: f64) -> String {
    let value = rounded(value);
    let usual = value == 0.0 || (1e-2..1e6).contains(&value.abs());
    minus(&if usual { value.to_string() } else { format!("{value:e}") })
}

/// A number to six digits: sums of steps end in 0.30000000000000004.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// A number with a real minus sign, and no minus in front of zero.
pub fn minus(number: &str) -> String {
    match number.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_owned(),
        Some(rest) => format!("−{rest}"),
        None => number.to_owned(),
    }
}

/// A change with its sign and one decimal.
pub fn signed(change: f64) -> String {
    minus(&format!("{change:+.1}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(999.0, "999")]
    #[case(1000.0, "1k")]
    #[case(2_400_000.0, "2.4M")]
    #[case(110e6, "110M")]
    fn counts_are_short(#[case] value: f64, #[case] text: &str) {
        assert_eq!(count(value), text);
    }

    #[rstest]
    #[case(&[70.0, 90.0], false, "70 75 80 85 90")]
    #[case(&[84.2, 84.3], false, "83.5 84.0 84.5 85.0")]
    #[case(&[-0.4, 0.3], false, "−1.0 −0.5 0.0 0.5 1.0")]
    #[case(&[1e3, 1e6], true, "1k 10k 100k 1M")]
    #[case(&[2e3, 8e3], true, "2k 5k")]
    #[case(&[5e3], true, "5k 10k")]
    #[case(&[], false, "−0.5 0.0 0.5 1.0 1.5")]
    fn marks_are_round(#[case] values: &[f64], #[case] log: bool, #[case] marks: &str) {
        let format = if log { Format::Count } else { Format::Plain };
        let spec = AxisSpec { label: String::new(), log, format, ticks: Vec::new() };
        let axis = Axis::new(&spec, values.iter().copied());
        let labels: Vec<String> = axis.labels(1000.0, 10.0).into_iter().map(|(_, text)| text).collect();
        assert_eq!(labels.join(" "), marks);
    }

    #[rstest]
    #[case(0.0, "0")]
    #[case(64.0, "64")]
    #[case(0.1 + 0.2, "0.3")]
    #[case(-0.5, "−0.5")]
    #[case(3e-4, "3e-4")]
    #[case(110e6, "1.1e8")]
    #[case(f64::MAX, "1.79769e308")]
    fn values_of_a_configuration_are_in_full(#[case] value: f64, #[case] text: &str) {
        assert_eq!(exact(value), text);
    }

    #[rstest]
    #[case(&[0.0, 0.1, 0.3], false, "0 0.1 0.3")]
    #[case(&[1e-4, 1e-3], true, "1e-4 1e-3")]
    #[case(&[0.1, 1.0], true, "0.1 1")]
    #[case(&[8.0, 64.0], false, "8 64")]
    #[case(&[8.0, 64.0, 256.0], true, "8 64 256")]
    #[case(&[0.0, 10.0, 100.0], false, "0 10 100")]
    #[case(&[-5.0, 50.0], false, "−5 50")]
    #[case(&[7.0], false, "7")]
    #[case(&[0.0], false, "0")]
    #[case(&[1e-320, 2e-320], false, "1e-320 2e-320")]
    fn an_axis_of_values_is_logarithmic_from_a_decade_on(
        #[case] values: &[f64],
        #[case] log: bool,
        #[case] marks: &str,
    ) {
        let spec = AxisSpec::values("x", values);
        let labels = Axis::new(&spec, values.iter().copied()).labels(1000.0, 10.0);
        let labels: Vec<String> = labels.into_iter().map(|(_, text)| text).collect();
        assert_eq!((spec.log, labels.join(" ").trim_end()), (log, marks));
    }

    #[rstest]
    #[case(&[0.0, 0.05, 0.5], false)]
    #[case(&[1e-320, 2e-320], false)]
    #[case(&[f64::MIN, f64::MAX], false)]
    #[case(&[1e300, 1e301], true)]
    fn an_axis_without_marks_of_its_own_has_few_round_ones(#[case] values: &[f64], #[case] log: bool) {
        let spec = AxisSpec { label: String::new(), log, format: Format::Exact, ticks: Vec::new() };
        assert!(Axis::new(&spec, values.iter().copied()).upward_labels().len() < 12);
    }

    #[test]
    fn labels_that_would_touch_are_left_out() {
        let spec = AxisSpec { label: String::new(), log: true, format: Format::Power, ticks: vec![1e-5, 1.1e-5, 1e-1] };
        let labels = Axis::new(&spec, [1e-5, 1e-1]).labels(300.0, 12.0);
        assert_eq!(labels.into_iter().map(|(_, text)| text).collect::<Vec<_>>(), ["1e-5", "", "1e-1"]);
    }
}
