//! Finds an arithmetic expression in a sentence. It does not compute: that is the calculator's part.

/// The first expression in `text`, such as `12*7` in "what is 12*7?". A date such as 2026-01-31 is none.
pub(super) fn find(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit() || c == '(') {
        let run = &rest[start..];
        let end = run.find(|c| !is_expression(c)).unwrap_or(run.len());
        let candidate = trim(&run[..end]);
        if is_arithmetic(candidate) {
            return Some(candidate);
        }
        rest = &run[end.max(1)..];
    }
    None
}

fn is_expression(c: char) -> bool {
    c.is_ascii_digit() || is_operator(c) || matches!(c, '.' | '(' | ')' | ' ')
}

fn is_operator(c: char) -> bool {
    matches!(c, '+' | '-' | '*' | '/' | '^' | '%')
}

/// Without what belongs to the sentence: trailing full stops, spaces and operators, and an unmatched parenthesis.
fn trim(candidate: &str) -> &str {
    let mut text = candidate.trim_end_matches(|c: char| c == '.' || c == ' ' || is_operator(c));
    while text.ends_with(')') && text.matches(')').count() > text.matches('(').count() {
        text = text[..text.len() - 1].trim_end();
    }
    text
}

/// Whether an operator stands between two numbers, and it is not a date or a telephone number.
fn is_arithmetic(text: &str) -> bool {
    let inner = text.trim_matches(|c: char| !c.is_ascii_digit());
    let hyphens_only = inner.chars().filter(|c| is_operator(*c)).all(|c| c == '-');
    let between = |(at, c): (usize, char)| {
        is_operator(c)
            && inner[..at].trim_end().ends_with(|c: char| c.is_ascii_digit() || c == ')')
            && inner[at + 1..].trim_start().starts_with(|c: char| c.is_ascii_digit() || matches!(c, '(' | '-' | '.'))
    };
    inner.char_indices().any(between) && !(hyphens_only && inner.matches('-').count() > 1 && !inner.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn expressions_are_found_in_sentences() {
        for (sentence, expected) in [
            ("what is 12*7?", Some("12*7")),
            ("What is (3 + 4) / 2, please", Some("(3 + 4) / 2")),
            ("2^10.", Some("2^10")),
            ("compute 10 % 3 and stop", Some("10 % 3")),
            ("I have 3 cats. 2 + 2 is easy", Some("2 + 2")),
            ("8-3", Some("8-3")),
            ("6 * -2", Some("6 * -2")),
            ("(see 1+1)", Some("1+1")),
            ("on 2026-01-31 we met", None),
            ("room 12", None),
            ("a/b", None),
            ("(((", None),
            ("5 -", None),
            ("", None),
        ] {
            assert_eq!(find(sentence), expected, "{sentence}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in ".{0,80}") {
            find(&text);
        }
    }
}
