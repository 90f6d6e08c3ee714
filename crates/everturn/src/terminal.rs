//! Text from outside on a terminal. Control characters in it could move the cursor, rewrite lines, set the clipboard or turn the
//! direction of writing, so they are shown and not sent.

use std::fmt::Write as _;

/// What becomes of line breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// They stay: the text may have several lines.
    Kept,
    /// They are shown, too: the text stands within a line.
    Shown,
}

/// The text with its control characters replaced by visible ones.
pub(crate) fn visible(text: &str, lines: Lines) -> String {
    let text = if lines == Lines::Kept { text.replace("\r\n", "\n") } else { text.to_owned() };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => shown.push(c),
            '\n' if lines == Lines::Kept => shown.push(c),
            // Unicode has a picture for each of these.
            '\0'..='\x1f' => shown.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('␀')),
            '\x7f' => shown.push('␡'),
            c if is_hidden(c) => {
                let _ = write!(shown, "<U+{:04X}>", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    shown
}

/// JSON with all control characters escaped. Those of ASCII but the last are so in all JSON.
pub(crate) fn visible_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// DEL, the control characters beyond ASCII, and the ones that change the direction of writing.
fn is_hidden(c: char) -> bool {
    matches!(c, '\x7f'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown() {
        let shown = visible("a\x1b[2J\x07\0\x7f\u{9b}31m\u{202e}txt\u{2066}é☕\t|\r\nb\rc\nd", Lines::Kept);
        assert_eq!(shown, "a␛[2J␇␀␡<U+009B>31m<U+202E>txt<U+2066>é☕\t|\nb␍c\nd");
        assert_eq!(visible("a\r\nb", Lines::Shown), "a␍␊b");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({ "a\u{9b}": "\x1b\x7f\u{85}\u{202e}é\n" });
        let shown = visible_json(&value.to_string());
        assert_eq!(shown, r#"{"a\u009b":"\u001b\u007f\u0085\u202eé\n"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
