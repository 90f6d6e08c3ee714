//! Finds a time to wait in a sentence.

use everturn_core::Json;
use serde::Serialize;

/// The longest wait that the tool takes: a year.
const MAX_SECONDS: f64 = 31_536_000.0;

#[derive(Serialize)]
struct Input {
    seconds: serde_json::Number,
}

/// The wait where the message names no time.
const USUAL_SECONDS: f64 = 5.0;

/// The input of `wait` for a message such as "wait 10 seconds".
pub(super) fn input(message: &str) -> Option<Json> {
    let seconds = find(message).unwrap_or(USUAL_SECONDS).min(MAX_SECONDS);
    let seconds = if seconds.fract() == 0.0 {
        serde_json::Number::from(seconds as u64)
    } else {
        serde_json::Number::from_f64(seconds)?
    };
    Json::of(&Input { seconds }).ok()
}

/// The first time in `text`, in seconds: a number and a unit, together or apart.
pub(super) fn find(text: &str) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let words: Vec<&str> = lower.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '!' | '?')).collect();
    words.iter().enumerate().find_map(|(at, word)| {
        let digits = word.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(word.len());
        let (number, rest) = word.split_at(digits);
        let count = match (number, *word) {
            ("", "a" | "an" | "one") => 1.0,
            (number, _) => number.parse::<f64>().ok()?,
        };
        let name = if number.is_empty() || rest.is_empty() { words.get(at + 1)? } else { rest };
        Some(count * unit(name.trim_end_matches('.'))?).filter(|seconds| *seconds > 0.0)
    })
}

/// A unit of time, in seconds.
fn unit(name: &str) -> Option<f64> {
    match name {
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1.0),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60.0),
        "h" | "hour" | "hours" => Some(3600.0),
        "day" | "days" => Some(86_400.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_in_sentences() {
        for (sentence, expected) in [
            ("wait 10 seconds", Some(10.0)),
            ("Please wait for 2 Minutes, then go on", Some(120.0)),
            ("wait 0.5 s.", Some(0.5)),
            ("wait 3s!", Some(3.0)),
            ("wait a minute", Some(60.0)),
            ("wait an hour and 5 minutes", Some(3600.0)),
            ("room 12, wait 1 second", Some(1.0)),
            ("wait 0 seconds", None),
            ("wait 1.2.3 seconds", None),
            ("wait 10", None),
            ("wait a lot", None),
            ("wait", None),
        ] {
            assert_eq!(find(sentence), expected, "{sentence}");
        }
    }

    #[test]
    fn inputs_are_ones_that_the_tool_takes() {
        for (message, expected) in [
            ("wait 10 seconds", r#"{"seconds":10}"#),
            ("wait 0.5 s", r#"{"seconds":0.5}"#),
            ("wait 900 days", r#"{"seconds":31536000}"#),
            ("wait", r#"{"seconds":5}"#),
        ] {
            assert_eq!(input(message).unwrap().as_str(), expected, "{message}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "([0-9]{1,400}|seconds|[ .a-zé]){0,20}") {
            input(&text);
        }
    }
}
