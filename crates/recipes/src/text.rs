//! Pieces of outside text in messages.

use std::fmt;

/// Shows a text in quotes, and not more than its beginning.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

const SHOWN: usize = 100;

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.floor_char_boundary(SHOWN);
        write!(f, "{:?}", &self.0[..end])?;
        if end < self.0.len() { write!(f, " and {} bytes more", self.0.len() - end) } else { Ok(()) }
    }
}

const LISTED: usize = 20;

/// Names one after the other, and not more than the first of them.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let mut list = names.by_ref().take(LISTED).collect::<Vec<_>>().join(", ");
    match names.count() {
        0 => {}
        more => list.push_str(&format!(" and {more} more")),
    }
    list
}

/// A message of a library on one line, and not more than its beginning.
pub(crate) fn one_line(message: &str) -> String {
    let mut line = String::new();
    for word in message.split_whitespace() {
        if line.len() + word.len() > 500 {
            line.push_str(" …");
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_shown_in_part() {
        assert_eq!(Shown("a\n\"b").to_string(), r#""a\n\"b""#);
        assert_eq!(Shown(&"é".repeat(51)).to_string(), format!("\"{}\" and 2 bytes more", "é".repeat(50)));
        let names = (0..23).map(|number| number.to_string()).collect::<Vec<_>>();
        assert!(list(names.iter().map(String::as_str)).ends_with("18, 19 and 3 more"));
        assert_eq!(list(["a", "b"]), "a, b");
        assert_eq!(one_line("a\n  b"), "a b");
        assert_eq!(one_line(&"x ".repeat(1000)).chars().last(), Some('…'));
    }
}
