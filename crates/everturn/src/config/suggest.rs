//! Guesses what somebody meant to write.

/// The candidate that is nearest to what was written, if it is near at all.
pub(super) fn nearest<'c>(written: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let written = written.to_lowercase();
    // One slip in three characters, but at least one: more is another word.
    let reach = (written.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&written, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// "did you mean `x`?", or else all there is.
pub(super) fn did_you_mean<'c>(
    written: &str,
    what: &str,
    candidates: impl IntoIterator<Item = &'c str> + Clone,
) -> String {
    match nearest(written, candidates.clone()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => {
            let all: Vec<_> = candidates.into_iter().map(|candidate| format!("`{candidate}`")).collect();
            if all.is_empty() { format!("there are no {what}") } else { format!("the {what} are {}", all.join(", ")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["tools", "trusted", "title", "model"];
        assert_eq!(nearest("tols", known), Some("tools"));
        assert_eq!(nearest("Tools", known), Some("tools"));
        assert_eq!(nearest("modle", known), Some("model"));
        assert_eq!(nearest("temperature", known), None);
        assert_eq!(nearest("x", known), None);
    }
}
