//! The word that was probably meant.

/// Returns the candidate nearest to `word`, if it is near enough to be a slip of the pen.
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance_max = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns how many single characters must be inserted, removed, replaced or swapped with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().flat_map(char::to_lowercase).collect();
    let right: Vec<char> = right.chars().flat_map(char::to_lowercase).collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let replaced = last[j] + usize::from(a != b);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn a_swap_of_neighbours_is_one_step() {
        let cases = [("", "", 0), ("abc", "abc", 0), ("Abc", "abc", 0), ("abc", "acb", 1), ("abc", "", 3), ("a", "xyz", 3)];
        for (left, right, expected) in cases {
            assert_eq!(distance(left, right), expected, "{left} {right}");
        }
    }

    #[test]
    fn only_a_near_word_is_suggested() {
        let known = ["clean_orders", "count_words"];
        assert_eq!(nearest("clean_ordrs", known), Some("clean_orders"));
        assert_eq!(nearest("cleanorders", known), Some("clean_orders"));
        assert_eq!(nearest("enrich", known), None);
        assert_eq!(nearest("x", []), None);
    }
}
