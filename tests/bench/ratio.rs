//! Medians and ranges over rounds. A ratio is made within a round: what disturbed the machine then disturbed both.

use std::fmt;

use crate::contest::Row;

/// A middle and the extremes around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one; of an even number the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of some numbers; `None` of none.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
        Some(Self { median, min, max })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.max >= 100.0 { 0 } else { 2 };
        write!(f, "{:.digits$} ({:.digits$}–{:.digits$})", self.median, self.min, self.max)
    }
}

/// One measure of a run.
pub type Measure = fn(&Row) -> f64;

/// CPU seconds per million records.
pub const CPU: Measure = |row| row.cpu_s_per_million;
/// Records per second.
pub const RATE: Measure = |row| row.records_per_s;
/// Peak resident set, MB.
pub const RSS: Measure = |row| row.rss_mb;

/// Returns a measure of one contestant over the rounds that are not void.
pub fn spread(rows: &[Row], workload: &str, peer: &str, measure: Measure) -> Option<Spread> {
    Spread::of(valid(rows, workload, peer).map(measure))
}

/// Returns numerator / denominator over the rounds in which neither is void.
pub fn ratio(rows: &[Row], numerator: (&str, &str), denominator: (&str, &str), measure: Measure) -> Option<Spread> {
    Spread::of(valid(rows, numerator.0, numerator.1).filter_map(|above| {
        let below = valid(rows, denominator.0, denominator.1).find(|below| below.round == above.round)?;
        Some(measure(above) / measure(below))
    }))
}

fn valid<'r>(rows: &'r [Row], workload: &'r str, peer: &'r str) -> impl Iterator<Item = &'r Row> {
    rows.iter().filter(move |row| row.exact && row.workload == workload && row.peer == peer)
}

/// Prints a line on whether a figure keeps its limit.
pub fn print_figure(what: &str, figure: Option<f64>, range: &str, limit: Limit) {
    let (word, kept) = match (figure, limit) {
        (None, _) => ("not available", false),
        (Some(figure), Limit::AtMost(limit)) => (if figure <= limit { "kept" } else { "MISSED" }, true),
        (Some(figure), Limit::AtLeast(limit)) => (if figure >= limit { "kept" } else { "MISSED" }, true),
    };
    let range = if kept { range } else { "" };
    println!("{what:<66} {range:<22} {limit:<9} {word}");
}

/// What a figure is held to.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// Smaller is better.
    AtMost(f64),
    /// Larger is better.
    AtLeast(f64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::AtMost(limit) => format!("≤ {limit}"),
            Self::AtLeast(limit) => format!("≥ {limit}"),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_median_is_the_middle_one_and_the_mean_of_two() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).map(|spread| spread.median), Some(2.5));
        assert_eq!(Spread::of([]), None);
    }
}
