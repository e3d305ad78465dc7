//! From single measures to the table.

use std::fmt::Write as _;

use serde::Serialize;

/// One kill.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    pub combination: &'static str,
    pub point: &'static str,
    /// How many partitions the victim had.
    pub partitions: usize,
    /// From the restart, or from getting the partition: until the first of them gives something new.
    pub first_s: f64,
    /// The same until all of them do.
    pub all_s: f64,
    /// From the kill until the first of them gives something new.
    pub from_kill_s: f64,
}

/// All kills of one combination at one point.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub combination: &'static str,
    pub point: &'static str,
    pub trials: usize,
    pub first_s: Spread,
    pub all_s: Spread,
    pub from_kill_s: Spread,
    /// What `first_s.max` may be.
    pub limit_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub max: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let (Some(low), Some(high)) = (sorted.get(sorted.len().saturating_sub(1) / 2), sorted.get(sorted.len() / 2)) else {
            return Self::default();
        };
        Self { median: f64::midpoint(*low, *high), max: sorted.last().copied().unwrap_or_default() }
    }
}

impl Row {
    /// Sums up trials of one combination and point.
    pub fn of(trials: &[&Trial], limit_s: Option<f64>) -> Option<Self> {
        let first = trials.first()?;
        let spread = |measure: fn(&Trial) -> f64| Spread::of(trials.iter().map(|trial| measure(trial)));
        Some(Self {
            combination: first.combination,
            point: first.point,
            trials: trials.len(),
            first_s: spread(|trial| trial.first_s),
            all_s: spread(|trial| trial.all_s),
            from_kill_s: spread(|trial| trial.from_kill_s),
            limit_s,
        })
    }

    /// Returns what is wrong with it: it took longer than promised.
    pub fn miss(&self) -> Option<String> {
        let (limit, max) = (self.limit_s?, self.first_s.max);
        (max > limit).then(|| format!("{}, {}: {max:.2} s, the limit is {limit:.0} s", self.combination, self.point))
    }
}

/// Returns the table in Markdown: medians, and maxima behind them.
pub fn markdown(rows: &[Row]) -> String {
    let mut text =
        "| set-up | killed | kills | first new output, s | all partitions, s | first, from the kill, s |\n| --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    let mut last = "";
    for row in rows {
        let title = if row.combination == last { "" } else { row.combination };
        last = row.combination;
        let show = |spread: Spread| format!("{:.2} ({:.2})", spread.median, spread.max);
        let (first, all, from_kill) = (show(row.first_s), show(row.all_s), show(row.from_kill_s));
        let _ = writeln!(text, "| {title} | {} | {} | {first} | {all} | {from_kill} |", row.point, row.trials);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(first_s: f64) -> Trial {
        Trial { combination: "c", point: "p", partitions: 2, first_s, all_s: first_s + 1.0, from_kill_s: first_s + 2.0 }
    }

    #[test]
    fn a_row_holds_medians_and_maxima() {
        let (a, b, c, d) = (trial(0.5), trial(4.0), trial(1.0), trial(2.0));
        let row = Row::of(&[&a, &b, &c], Some(3.0)).unwrap();
        assert_eq!(row.first_s, Spread { median: 1.0, max: 4.0 });
        assert_eq!(row.all_s, Spread { median: 2.0, max: 5.0 });
        let row = Row::of(&[&a, &b, &c, &d], None).unwrap();
        assert_eq!(row.first_s, Spread { median: 1.5, max: 4.0 });
        assert!(Row::of(&[], None).is_none());
    }

    #[test]
    fn one_slow_trial_is_a_miss_where_there_is_a_limit() {
        let (fast, slow) = (trial(0.5), trial(3.5));
        assert!(Row::of(&[&fast, &slow], Some(3.0)).unwrap().miss().is_some());
        assert_eq!(Row::of(&[&fast, &slow], None).unwrap().miss(), None);
        assert_eq!(Row::of(&[&fast], Some(3.0)).unwrap().miss(), None);
    }
}
