//! What a model is told of a conversation that it is to summarise, in one request or in several.

use std::fmt::Write as _;

use everturn_core::{Content, Message, compaction::shorten_text, context};

/// The most bytes of one tool result in a transcript. The whole is in the log.
const MOST_OF_RESULT: usize = 4096;
/// The most bytes of the input of one tool call.
const MOST_OF_INPUT: usize = 2048;
/// Below so many bytes nothing is left of a message that is worth its line.
const SHORTEST_PART: usize = 64;

/// The transcript of the first of these messages, as many as there is room for, and how many those are. `requests` is how many
/// more requests may be made: messages are shortened only where all of them do not fit into so many.
pub(crate) fn first_part(messages: &[&Message], room: u64, requests: usize) -> (String, usize) {
    // No message takes more than half of a request.
    let half = usize::try_from(room.saturating_mul(2)).unwrap_or(usize::MAX);
    let caps = std::iter::successors(Some(half), |most| Some(most / 2)).take_while(|most| *most > SHORTEST_PART);
    let mut tightest = half.min(SHORTEST_PART);
    for most in caps {
        tightest = most;
        if let Some(part) = fitting_part(messages, room, requests, most) {
            return part;
        }
    }
    if requests > 1 {
        return part(messages, room, tightest);
    }
    let mut transcript = String::new();
    messages.iter().for_each(|message| transcribe(&mut transcript, message, tightest));
    (shorten_beginning(transcript, room), messages.len())
}

/// The first part, if so many parts are enough with at most so many bytes of each message.
fn fitting_part(messages: &[&Message], room: u64, requests: usize, most: usize) -> Option<(String, usize)> {
    let first = part(messages, room, most);
    let mut done = first.1;
    for _ in 1..requests {
        if done == messages.len() {
            break;
        }
        done += part(&messages[done..], room, most).1;
    }
    (done == messages.len()).then_some(first)
}

/// As many messages as there is room for, but one at least, and how many those are.
fn part(messages: &[&Message], room: u64, most: usize) -> (String, usize) {
    let (mut transcript, mut tokens) = (String::new(), 0);
    for (count, message) in messages.iter().enumerate() {
        let before = transcript.len();
        transcribe(&mut transcript, message, most);
        tokens += context::estimate_text(&transcript[before..]);
        if tokens > room && count > 0 {
            transcript.truncate(before);
            return (shorten_beginning(transcript, room), count);
        }
    }
    (shorten_beginning(transcript, room), messages.len())
}

/// The end of a transcript, in about so many tokens at most.
fn shorten_beginning(mut transcript: String, most: u64) -> String {
    let all = context::estimate_text(&transcript);
    if all > most {
        let kept = transcript.len() as u128 * u128::from(most) / u128::from(all);
        let kept = usize::try_from(kept).unwrap_or(usize::MAX).min(transcript.len());
        let from = transcript.ceil_char_boundary(transcript.len() - kept);
        transcript.replace_range(..from, "[the beginning is left out]\n");
    }
    transcript
}

/// Writes a message with at most so many bytes of each of its parts.
fn transcribe(out: &mut String, message: &Message, most: usize) {
    let (who, content, cap): (&str, &Content, usize) = match message {
        // System messages outlive compaction.
        Message::System { .. } => return,
        Message::User { content } => ("User", content, most),
        Message::Assistant { content } => ("Assistant", content, most),
        Message::Tool { content, .. } => ("Tool result", content, MOST_OF_RESULT.min(most)),
    };
    // Writing to a string does not fail.
    let _ = writeln!(out, "{who}: {}", shorten_text(&content.text_and_media(), cap));
    for call in message.tool_uses() {
        let input = shorten_text(call.input.as_str(), MOST_OF_INPUT.min(most));
        let _ = writeln!(out, "Assistant calls {} with {input}", call.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(number: usize, length: usize) -> Message {
        Message::user(format!("fact {number} {}", "a".repeat(length)))
    }

    /// All parts, as the requests would have them.
    fn parts(messages: &[Message], room: u64, requests: usize) -> Vec<String> {
        let messages: Vec<_> = messages.iter().collect();
        let (mut parts, mut done) = (Vec::new(), 0);
        while done < messages.len() {
            let (part, count) = first_part(&messages[done..], room, requests - parts.len());
            assert!(count > 0 && context::estimate_text(&part) <= room + 16, "{part}");
            done += count;
            parts.push(part);
        }
        parts
    }

    #[test]
    fn nothing_is_shortened_that_fits_into_the_requests_that_may_be_made() {
        let messages: Vec<_> = (0..30).map(|number| said(number, 1000)).collect();
        assert_eq!(parts(&messages, 100_000, 8).len(), 1);
        let told = parts(&messages, 1000, 16);
        assert!((8..=12).contains(&told.len()), "{}", told.len());
        let told = told.concat();
        for number in 0..30 {
            assert!(told.contains(&format!("fact {number} {}\n", "a".repeat(1000))), "{number}");
        }
    }

    #[test]
    fn something_of_every_message_is_told_while_there_is_room_for_it() {
        let messages: Vec<_> = (0..30).map(|number| said(number, 10_000)).collect();
        let told = parts(&messages, 1000, 3);
        assert_eq!(told.len(), 3);
        let told = told.concat();
        for number in 0..30 {
            assert!(told.contains(&format!("fact {number} a")), "{number}");
        }
    }

    #[test]
    fn what_there_is_no_room_for_at_all_is_named() {
        let messages: Vec<_> = (0..3000).map(|number| said(number, 100)).collect();
        let told = parts(&messages, 1000, 2);
        assert_eq!(told.len(), 2);
        assert!(told[0].starts_with("User: fact 0 "), "{}", told[0]);
        assert!(told[1].starts_with("[the beginning is left out]\n"), "{}", told[1]);
        assert!(told[1].contains("fact 2999 "));
    }
}
