//! Makes an input of others: changes bytes, and changes JSON where there is some.

use serde_json::{Map, Value, json};

use crate::random::Random;

/// The longest input that is made, in bytes. What is longer takes time and shows little.
const MAX_INPUT: usize = 64 * 1024;
/// Most changes that are made at once.
const MAX_CHANGES: usize = 6;

/// Bytes that mean something in one of the formats.
const WORDS: [&[u8]; 48] = [
    b"\0",
    b"\n",
    b"\r\n",
    b"\n\n",
    b"\n%%\n",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xf0\x9f\x98\x80",
    b"\xed\xa0\x80",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e308",
    b"-0.0",
    b"9223372036854775808",
    b"18446744073709551616",
    b"99999999999999999999999",
    b"data: ",
    b"event: ",
    b"id: ",
    b"[DONE]",
    b"<<",
    b">>",
    b"obj",
    b"endobj",
    b"stream\n",
    b"endstream",
    b"R",
    b"/",
    b"<",
    b"</",
    b"<!--",
    b"{{",
    b"{%",
    b"&",
    b"%00",
    b"../",
];

/// An input made of one of the corpus.
pub fn mutate(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = random.pick(corpus).cloned().unwrap_or_default();
    for _ in 0..=random.below(MAX_CHANGES) {
        if !(random.one_in(2) && change_json(random, &mut input)) {
            change_bytes(random, &mut input, corpus);
        }
        // Each change may multiply what the one before has made.
        input.truncate(MAX_INPUT);
    }
    input
}

/// A part of the input: where it begins and ends.
fn range(random: &mut Random, length: usize) -> std::ops::Range<usize> {
    let start = random.below(length + 1);
    // Most are short.
    let longest = if random.one_in(4) { length } else { 16 };
    let end = (start + random.below(longest + 1)).min(length);
    start..end
}

fn change_bytes(random: &mut Random, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let at = random.below(input.len() + 1);
    match random.below(9) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.number().to_le_bytes()[0];
            }
        }
        2 => drop(input.drain(range(random, input.len()))),
        3 => {
            let part = input[range(random, input.len())].to_vec();
            input.splice(at..at, part);
        }
        4 => input.truncate(at),
        5 => {
            let word = random.pick(&WORDS).copied().unwrap_or_default();
            input.splice(at..at, word.iter().copied());
        }
        6 => {
            let word = random.pick(&WORDS).copied().unwrap_or_default();
            let replaced = range(random, input.len());
            input.splice(replaced, word.iter().copied());
        }
        7 => {
            // Many of something: depth, length, or a number of lines.
            let part = input[range(random, input.len())].to_vec();
            let times = 1 << random.below(11);
            let room = MAX_INPUT.saturating_sub(input.len()) / part.len().max(1);
            input.splice(at..at, part.repeat(times.min(room)));
        }
        _ => {
            // The beginning of this one, the end of another one.
            let other = random.pick(corpus).map(Vec::as_slice).unwrap_or_default();
            let from = random.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
    }
}

/// Changes a value within some JSON of the input. Says whether there is any.
fn change_json(random: &mut Random, input: &mut Vec<u8>) -> bool {
    let starts: Vec<usize> = (0..input.len()).filter(|at| matches!(input[*at], b'{' | b'[')).collect();
    let Some(start) = random.pick(&starts).copied() else { return false };
    let mut values = serde_json::Deserializer::from_slice(&input[start..]).into_iter::<Value>();
    let Some(Ok(mut value)) = values.next() else { return false };
    let end = start + values.byte_offset();
    let mut steps = 1 + random.below(6);
    change_value(random, &mut value, &mut steps);
    input.splice(start..end, value.to_string().into_bytes());
    true
}

/// Goes down to some value and changes it.
fn change_value(random: &mut Random, value: &mut Value, steps: &mut usize) {
    *steps = steps.saturating_sub(1);
    if *steps > 0 {
        match value {
            Value::Array(items) if !items.is_empty() => {
                let at = random.below(items.len());
                return change_value(random, &mut items[at], steps);
            }
            Value::Object(members) if !members.is_empty() => {
                let at = random.below(members.len());
                if let Some(member) = members.values_mut().nth(at) {
                    return change_value(random, member, steps);
                }
            }
            _ => {}
        }
    }
    match (random.below(4), &mut *value) {
        (0, Value::Object(members)) => {
            let at = random.below(members.len());
            if let Some(name) = members.keys().nth(at).cloned() {
                members.remove(&name);
            }
        }
        (1, Value::Object(members)) => {
            let at = random.below(members.len());
            let name = members.keys().nth(at).cloned().unwrap_or_default();
            let moved = members.remove(&name).unwrap_or_default();
            members.insert(format!("{name}_"), moved);
        }
        (0, Value::Array(items)) => drop(items.pop()),
        (1, Value::Array(items)) => {
            let one = items.first().cloned().unwrap_or_default();
            let room = MAX_INPUT / one.to_string().len();
            items.extend(std::iter::repeat_n(one, random.below(200).min(room)));
        }
        (0, Value::String(text)) => *text = text.repeat((1 + random.below(100)).min(MAX_INPUT / text.len().max(1))),
        (1, Value::String(text)) => text.push_str(["\0", "\u{202e}", "\n\n", "%00", "{{x}}"][random.below(5)]),
        _ => *value = interesting(random),
    }
}

/// A value that is often forgotten.
fn interesting(random: &mut Random) -> Value {
    match random.below(16) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(0),
        3 => json!(-1),
        4 => json!(u64::MAX),
        5 => json!(i64::MIN),
        6 => json!(1e308),
        7 => json!(0.1),
        8 => json!(""),
        9 => json!("x".repeat(random.below(5000))),
        10 => json!("\u{0}"),
        11 => json!([]),
        12 => json!({}),
        13 => (0..random.below(200)).fold(Value::Null, |inner, _| json!([inner])),
        14 => (0..random.below(200)).fold(Value::Null, |inner, _| json!({ "a": inner })),
        _ => Value::Object((0..random.below(300)).map(|number| (number.to_string(), json!(1))).collect::<Map<_, _>>()),
    }
}
