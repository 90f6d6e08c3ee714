//! Reads a tool's input while the model still writes it.
//!
//! A model's input arrives as pieces of JSON text, cut anywhere. [`InputStream`] walks over them and tells the texts at
//! the top of the object as they come, decoded. It builds no tree and keeps nothing but the current key. It is for
//! watching, not for judging: what it passes over (numbers, nested values) it does not check. Whether the input is valid
//! is known when all of it is there.

mod text;

use self::text::{Fed, TextDecoder};

/// Longest key that is told, in bytes. The member of a longer one is passed over.
const MAX_KEY: usize = 256;

/// What an input says, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A member with a text begins. A name that comes twice is told twice; whoever reads the whole input sees the last.
    Field {
        /// Its name.
        name: &'a str,
    },
    /// A piece of that text. Never empty, and never a part of a character. A lone surrogate is U+FFFD.
    Text(&'a str),
    /// The text is complete.
    FieldEnd,
    /// The object is complete.
    End,
}

/// The text is not, or not any more, the beginning of a JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the input is not a JSON object: unexpected {found:?} at byte {at}")]
pub struct NotAnObject {
    /// Where, in bytes from the beginning of the input.
    pub at: u64,
    /// What stands there.
    pub found: char,
}

/// Reads one input.
#[derive(Debug)]
pub struct InputStream {
    state: State,
    key: String,
    /// Whether the key is no longer than [`MAX_KEY`].
    key_fits: bool,
    text: TextDecoder,
    /// Bytes of the chunks before.
    passed: u64,
}

/// What stands before the next byte.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing.
    Start,
    /// `{`.
    Opened,
    /// A comma between members.
    Comma,
    /// A part of a key.
    Key,
    /// A key.
    AfterKey,
    /// A colon.
    Colon,
    /// A part of a text that is told.
    Text,
    /// A part of a text that is not: its key is too long.
    PassedText,
    /// A part of a nested object or array.
    Nested { depth: u64 },
    /// A part of a text in it.
    NestedText { depth: u64 },
    /// A part of a number, `true`, `false` or `null`.
    Scalar,
    /// A whole member.
    AfterValue,
    /// The whole object.
    Done,
    /// Something that does not belong there.
    Failed(NotAnObject),
}

impl InputStream {
    /// Before the first piece.
    pub fn new() -> Self {
        Self { state: State::Start, key: String::new(), key_fits: true, text: TextDecoder::default(), passed: 0 }
    }

    /// Reads a chunk and tells what it says. After an error every further chunk gives the same one.
    pub fn push(&mut self, chunk: &str, on: &mut impl FnMut(Piece<'_>)) -> Result<(), NotAnObject> {
        if let State::Failed(error) = self.state {
            return Err(error);
        }
        match self.walk(chunk, on) {
            Ok(()) => {
                self.passed += chunk.len() as u64;
                Ok(())
            }
            Err(Unexpected { at }) => {
                let found = chunk[at..].chars().next().unwrap_or_default();
                let error = NotAnObject { at: self.passed + at as u64, found };
                self.state = State::Failed(error);
                Err(error)
            }
        }
    }

    fn walk(&mut self, chunk: &str, on: &mut impl FnMut(Piece<'_>)) -> Result<(), Unexpected> {
        let mut at = 0;
        while at < chunk.len() {
            at = match self.state {
                State::Key | State::Text | State::PassedText | State::NestedText { .. } => {
                    self.within_text(chunk, at, on)?
                }
                State::Nested { depth } => self.within_nested(chunk.as_bytes(), at, depth),
                State::Start
                | State::Opened
                | State::Comma
                | State::AfterKey
                | State::Colon
                | State::Scalar
                | State::AfterValue
                | State::Done
                | State::Failed(_) => {
                    self.between(chunk.as_bytes()[at], on).ok_or(Unexpected { at })?;
                    at + 1
                }
            };
        }
        Ok(())
    }

    /// Reads on in a text, and gives the place after what it read.
    fn within_text(&mut self, chunk: &str, at: usize, on: &mut impl FnMut(Piece<'_>)) -> Result<usize, Unexpected> {
        let (state, key, key_fits) = (self.state, &mut self.key, &mut self.key_fits);
        let fed = self.text.feed(&chunk[at..], &mut |piece| match state {
            State::Key => {
                *key_fits &= key.len() + piece.len() <= MAX_KEY;
                if *key_fits {
                    key.push_str(piece);
                }
            }
            State::Text => on(Piece::Text(piece)),
            _ => {}
        });
        let Fed { used, ended } = fed.map_err(|wrong| Unexpected { at: at + wrong })?;
        if ended {
            self.state = match state {
                State::Key => State::AfterKey,
                State::NestedText { depth } => State::Nested { depth },
                _ => State::AfterValue,
            };
            if matches!(state, State::Text) {
                on(Piece::FieldEnd);
            }
        }
        Ok(at + used)
    }

    /// Passes over nested values, up to a text or to their end, and gives the place after what it passed.
    fn within_nested(&mut self, bytes: &[u8], at: usize, mut depth: u64) -> usize {
        for (place, byte) in bytes.iter().enumerate().skip(at) {
            match byte {
                b'"' => {
                    self.state = State::NestedText { depth };
                    return place + 1;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 1 => {
                    self.state = State::AfterValue;
                    return place + 1;
                }
                b'}' | b']' => depth -= 1,
                _ => {}
            }
        }
        self.state = State::Nested { depth };
        bytes.len()
    }

    /// Takes a byte outside of texts and nested values, if it may stand there.
    fn between(&mut self, byte: u8, on: &mut impl FnMut(Piece<'_>)) -> Option<()> {
        let is_space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        self.state = match (self.state, byte) {
            (State::Scalar, _) if is_space => State::AfterValue,
            (state, _) if is_space => state,
            (State::Start, b'{') => State::Opened,
            (State::Opened | State::Comma, b'"') => {
                self.key.clear();
                self.key_fits = true;
                State::Key
            }
            (State::AfterKey, b':') => State::Colon,
            (State::Colon, b'"') if self.key_fits => {
                on(Piece::Field { name: &self.key });
                State::Text
            }
            (State::Colon, b'"') => State::PassedText,
            (State::Colon, b'{' | b'[') => State::Nested { depth: 1 },
            (State::Colon | State::Scalar, b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') => {
                State::Scalar
            }
            (State::Scalar | State::AfterValue, b',') => State::Comma,
            (State::Opened | State::Scalar | State::AfterValue, b'}') => {
                on(Piece::End);
                State::Done
            }
            _ => return None,
        };
        Some(())
    }
}

impl Default for InputStream {
    fn default() -> Self {
        Self::new()
    }
}

/// A byte of the chunk that does not belong there.
struct Unexpected {
    at: usize,
}

#[cfg(test)]
mod tests;
