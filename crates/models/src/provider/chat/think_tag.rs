//! Reasoning that a server leaves in the text: open models begin with `<think>`, and servers without a parser for it pass it
//! on.
//!
//! Only an answer that begins with the tag is read so; anywhere else it is text that talks about tags.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Thinking(String),
}

/// Parts the reasoning of one answer from its text.
#[derive(Debug, Default)]
pub(super) struct ThinkTag {
    state: State,
    /// What may be the beginning of a tag.
    held: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing but white space and the beginning of the tag came.
    #[default]
    Start,
    Thinking,
    /// Just after the tag, where servers leave empty lines.
    Gap,
    Text,
}

impl ThinkTag {
    /// Whether all that follows is text.
    pub(super) fn is_past(&self) -> bool {
        self.state == State::Text
    }

    /// Takes the next piece of text; gives what is certain.
    pub(super) fn push(&mut self, text: &str) -> Vec<Piece> {
        self.held.push_str(text);
        let mut pieces = Vec::new();
        while self.advance(&mut pieces) {}
        pieces
    }

    /// The answer has ended, or goes on with something else: what was held is certain now.
    pub(super) fn finish(&mut self) -> Option<Piece> {
        let held = std::mem::take(&mut self.held);
        let state = std::mem::replace(&mut self.state, State::Text);
        match state {
            State::Thinking => Some(Piece::Thinking(held)),
            State::Start => Some(Piece::Text(held)),
            State::Gap | State::Text => None,
        }
    }

    /// One step; `false` if more text is needed for the next.
    fn advance(&mut self, pieces: &mut Vec<Piece>) -> bool {
        match self.state {
            State::Start => {
                let begun = self.held.trim_start();
                if let Some(rest) = begun.strip_prefix(OPEN) {
                    self.held = rest.to_owned();
                    self.state = State::Thinking;
                    return true;
                }
                let is_open = OPEN.starts_with(begun);
                if !is_open {
                    self.state = State::Text;
                    pieces.push(Piece::Text(std::mem::take(&mut self.held)));
                }
                false
            }
            State::Thinking => {
                if let Some(at) = self.held.find(CLOSE) {
                    let rest = self.held.split_off(at + CLOSE.len());
                    self.held.truncate(at);
                    pieces.push(Piece::Thinking(std::mem::replace(&mut self.held, rest)));
                    self.state = State::Gap;
                    return true;
                }
                // The end may be the beginning of the tag.
                let kept = (1..CLOSE.len()).rev().find(|n| self.held.ends_with(&CLOSE[..*n])).unwrap_or(0);
                let rest = self.held.split_off(self.held.len() - kept);
                pieces.push(Piece::Thinking(std::mem::replace(&mut self.held, rest)));
                false
            }
            State::Gap => {
                let text = self.held.trim_start();
                if !text.is_empty() {
                    pieces.push(Piece::Text(text.to_owned()));
                    self.held.clear();
                    self.state = State::Text;
                }
                false
            }
            State::Text => {
                pieces.push(Piece::Text(std::mem::take(&mut self.held)));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reasoning and the text of an answer that comes in these pieces.
    fn read(pieces: &[&str]) -> (String, String) {
        let mut tag = ThinkTag::default();
        let mut read: Vec<Piece> = pieces.iter().flat_map(|piece| tag.push(piece)).collect();
        read.extend(tag.finish());
        let (mut thinking, mut text) = (String::new(), String::new());
        for piece in read {
            match piece {
                Piece::Thinking(piece) => thinking.push_str(&piece),
                Piece::Text(piece) => text.push_str(&piece),
            }
        }
        (thinking, text)
    }

    #[test]
    fn every_split_gives_the_same() {
        for (answer, thinking, text) in [
            ("<think>\nhm é </thin> k\n</think>\n\nYes </think>.", "\nhm é </thin> k\n", "Yes </think>."),
            ("\n<think></think>ok", "", "ok"),
            ("<think>cut off", "cut off", ""),
            ("<thinking> is a tag", "", "<thinking> is a tag"),
            ("Write <think>x</think>.", "", "Write <think>x</think>."),
            ("  plain", "", "  plain"),
            ("<thi", "", "<thi"),
        ] {
            let expected = (thinking.to_owned(), text.to_owned());
            assert_eq!(read(&[answer]), expected, "{answer}");
            let letters: Vec<String> = answer.chars().map(String::from).collect();
            assert_eq!(read(&letters.iter().map(String::as_str).collect::<Vec<_>>()), expected, "{answer}");
            for (at, _) in answer.char_indices() {
                assert_eq!(read(&[&answer[..at], &answer[at..]]), expected, "{answer} at {at}");
            }
        }
    }
}
