//! Keeps what is between `{{` and `}}` but is no expression, such as `{{your name here}}`.
//!
//! Goose does the same: people write such things into instructions, for the model or for themselves.

use std::borrow::Cow;

use minijinja::machinery;

use super::{
    syntax,
    tags::{self, Refused},
};
use crate::bounds;

/// The text in which such places are marked to be kept.
pub(super) fn keep(text: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    let mut copied = 0;
    let mut at = 0;
    // From here to there is no `}}`: a search for it is not repeated for each `{{` of a line.
    let mut unclosed = 0;
    let mut places = 0;
    // With more of them the text is not taken anyway.
    while places <= bounds::TAGS
        && let Some(found) = text[at..].find('{')
    {
        let begin = at + found;
        let rest = &text[begin..];
        at = if rest.starts_with("{#") {
            end_of(text, begin, "#}")
        } else if rest.starts_with("{%") {
            if is_tag(rest, "raw") { end_of_raw(text, begin + 2) } else { begin + 2 }
        } else if rest.starts_with("{{") && begin >= unclosed {
            // As in Goose, such a place is on one line.
            let line = rest.find('\n').map_or(text.len(), |length| begin + length);
            match text[begin + 2..line].find("}}") {
                Some(length) => {
                    places += 1;
                    let end = begin + 2 + length + 2;
                    if !is_expression(&text[begin..end]) {
                        kept.push_str(&text[copied..begin]);
                        kept.push_str("{% raw %}");
                        kept.push_str(&text[begin..end]);
                        kept.push_str("{% endraw %}");
                        copied = end;
                    }
                    end
                }
                None => {
                    unclosed = line;
                    begin + 2
                }
            }
        } else {
            begin + 1
        };
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    kept.push_str(&text[copied..]);
    Cow::Owned(kept)
}

fn end_of(text: &str, begin: usize, end: &str) -> usize {
    text[begin..].find(end).map_or(text.len(), |length| begin + length + end.len())
}

/// Where the raw text ends that begins before here.
fn end_of_raw(text: &str, mut at: usize) -> usize {
    while let Some(found) = text[at..].find("{%") {
        at += found;
        if is_tag(&text[at..], "endraw") {
            return at;
        }
        at += 2;
    }
    text.len()
}

/// Whether the text begins with the tag of this name.
fn is_tag(text: &str, name: &str) -> bool {
    let Some(tag) = text.strip_prefix("{%") else { return false };
    let tag = tag.strip_prefix(['-', '+']).unwrap_or(tag).trim_start();
    let Some(tag) = tag.strip_prefix(name) else { return false };
    let tag = tag.trim_start();
    tag.strip_prefix(['-', '+']).unwrap_or(tag).starts_with("%}")
}

/// Whether the place, with its braces, is something that the engine understands, or too much of it to look at here.
fn is_expression(place: &str) -> bool {
    let inner = place[2..place.len() - 2].trim();
    if inner.starts_with(['\'', '"']) {
        // It may go on after these braces: `{{ '{{kept}}' }}`.
        return true;
    }
    if place.len() > LONGEST {
        return true;
    }
    match tags::check(place) {
        Ok(()) => machinery::parse(place, "", syntax()).is_ok(),
        Err(Refused::Wrong(_)) => false,
        Err(Refused::TooMuch(_)) => true,
    }
}

/// Longest place that is looked into, in bytes: long enough for what people leave to be filled in.
const LONGEST: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(keep(text).replace("{% raw %}", "<").replace("{% endraw %}", ">"), expected);
    }

    #[test]
    fn what_is_no_expression_is_kept() {
        check("{{ key }} {{key}} {{- key -}}", "{{ key }} {{key}} {{- key -}}");
        check("{{your name}} and {{ key }}", "<{{your name}}> and {{ key }}");
        check("{{a b}_{c d}}!", "<{{a b}_{c d}}>!");
        check("{{}} {{ }} {{ a | }}", "<{{}}> <{{ }}> <{{ a | }}>");
        check("{{ '{{key}}' }} {{\"{{a b}}\"}}", "{{ '{{key}}' }} {{\"{{a b}}\"}}");
        check("{{ a b\n}} {{ c\n}} { { x }}", "{{ a b\n}} {{ c\n}} { { x }}");
        check("{{ ${PATH} }} {{é è}}", "<{{ ${PATH} }}> <{{é è}}>");
    }

    #[test]
    fn what_is_kept_already_is_left_alone() {
        for text in ["{# {{a b}} #}", "{%- raw -%} {{a b}} {%+ endraw %}", "{% raw %}{% x %}{{a b}}"] {
            assert_eq!(keep(text), text);
        }
        assert_eq!(keep("{% raw %}{{a b}}{% endraw %}{{a b}}").matches("{% raw %}").count(), 2);
        assert_eq!(keep("{% if raw %}{{a b}}{% endif %}").matches("{% raw %}").count(), 1);
    }

    #[test]
    fn long_lines_are_read_in_one_pass() {
        for filling in ["{{", "{%", "{#", "{{a b", "{% raw %}", "{{a b}}", "{", "{{\n"] {
            let text = filling.repeat((1 << 20) / filling.len());
            assert!(keep(&text).len() >= text.len());
        }
    }
}
