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

/// The value that was probably meant, where one of another type was written. Only numbers and words that cannot be secrets are repeated.
pub(super) fn value(key: &str, written: &str, mismatch: &str) -> Option<String> {
    /// Settings of days.
    const DAYS: [&str; 4] = ["deltas", "logs", "artifacts", "sessions"];
    /// Ends of the names of other durations.
    const TIMES: [&str; 7] = ["timeout", "expiry", "grace", "heartbeat", "_max", "ping", "snapshot"];
    let name = key.rsplit('.').next().unwrap_or(key);
    let is_whole = written.len() <= 9 && written.parse::<u64>().is_ok();
    if mismatch.starts_with("expected a string, found an integer") {
        let unit = if DAYS.contains(&name) { "d" } else { "s" };
        let is_time = unit == "d" || TIMES.iter().any(|end| name.ends_with(end));
        return Some(match is_time && is_whole {
            true => format!("write a number and a unit: `{name} = \"{written}{unit}\"`"),
            false => "put it in quotes".to_owned(),
        });
    }
    let bare = written.trim_matches(['"', '\'']);
    let is_bare =
        mismatch.starts_with("expected an integer, found a string") && bare.len() <= 9 && bare.parse::<i64>().is_ok()
            || mismatch.starts_with("expected a boolean, found a string") && matches!(bare, "true" | "false");
    is_bare.then(|| format!("leave the quotes out: `{name} = {bare}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_another_type_are_suggested() {
        let string = "expected a string, found an integer";
        assert_eq!(value("deltas", "30", string).unwrap(), "write a number and a unit: `deltas = \"30d\"`");
        assert_eq!(
            value("limits.queue_timeout", "5", string).unwrap(),
            "write a number and a unit: `queue_timeout = \"5s\"`"
        );
        assert_eq!(value("api_key", "123456789", string).unwrap(), "put it in quotes");
        let integer = "expected an integer, found a string";
        assert_eq!(value("retries", "\"3\"", integer).unwrap(), "leave the quotes out: `retries = 3`");
        assert_eq!(value("retries", "'many'", integer), None);
        assert_eq!(
            value("titles", "'true'", "expected a boolean, found a string").unwrap(),
            "leave the quotes out: `titles = true`"
        );
    }

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
