//! Cuts HTML into tags and the text between them, in one pass.
//!
//! Nothing is refused. What a tag means is not known here, only where it ends; so nothing nests, and nothing is looked
//! at again.

use memchr::{memchr, memmem};

#[derive(Debug, PartialEq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Open { name: &'a str, attributes: &'a str },
    Close { name: &'a str },
}

pub(crate) struct Scanner<'a> {
    rest: &'a str,
    /// Whether a `>` within quotes is a part of its attribute. Not after a quote that was never closed.
    trusts_quotes: bool,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(html: &'a str) -> Self {
        Self { rest: html, trusts_quotes: true }
    }

    /// Over everything up to the end tag of this name. Without one, that is the rest.
    pub(crate) fn skip_to_close(&mut self, name: &str) {
        let ends = memmem::find_iter(self.rest.as_bytes(), b"</").find(|at| {
            let after = &self.rest.as_bytes()[at + 2..];
            after.get(..name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
        });
        self.rest = &self.rest[ends.unwrap_or(self.rest.len())..];
    }

    pub(crate) fn piece(&mut self) -> Option<Piece<'a>> {
        loop {
            let text = self.text();
            if !text.is_empty() {
                return Some(Piece::Text(text));
            }
            // Here is the end, or a tag.
            let mut after = self.rest.strip_prefix('<')?;
            if let Some(comment) = after.strip_prefix("!--") {
                self.rest = memmem::find(comment.as_bytes(), b"-->").map_or("", |end| &comment[end + 3..]);
                continue;
            }
            if after.starts_with(['!', '?']) {
                self.rest = memchr(b'>', after.as_bytes()).map_or("", |end| &after[end + 1..]);
                continue;
            }
            let is_close = after.starts_with('/');
            after = after.strip_prefix('/').unwrap_or(after);
            let end = after.bytes().position(|byte| !is_name(byte)).unwrap_or(after.len());
            let (name, tag) = after.split_at(end);
            let attributes = &tag[..self.tag_end(tag)];
            self.rest = tag[attributes.len()..].strip_prefix('>').unwrap_or_default();
            return Some(if is_close { Piece::Close { name } } else { Piece::Open { name, attributes } });
        }
    }

    /// Takes the text up to the next tag.
    fn text(&mut self) -> &'a str {
        let bytes = self.rest.as_bytes();
        let begins_tag = |at: &usize| match &bytes[at + 1..] {
            [b'/', next, ..] => next.is_ascii_alphabetic(),
            [next, ..] => next.is_ascii_alphabetic() || matches!(next, b'!' | b'?'),
            [] => false,
        };
        let end = memchr::memchr_iter(b'<', bytes).find(begins_tag).unwrap_or(bytes.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        text
    }

    /// Where the tag ends: at a `>` outside of quotes.
    fn tag_end(&mut self, tag: &str) -> usize {
        let mut quote = None;
        let mut after_equals = false;
        for (at, byte) in tag.bytes().enumerate() {
            match (quote, byte) {
                (Some(open), byte) if byte == open => quote = None,
                (Some(_), _) => {}
                (None, b'>') => return at,
                (None, b'"' | b'\'') if after_equals && self.trusts_quotes => quote = Some(byte),
                (None, _) => {}
            }
            after_equals = byte == b'=' || after_equals && byte.is_ascii_whitespace();
        }
        if quote.is_some() {
            self.trusts_quotes = false;
            return memchr(b'>', tag.as_bytes()).unwrap_or(tag.len());
        }
        tag.len()
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b':' | b'_')
}

/// The value of an attribute, as it is written.
pub(crate) fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = attributes;
    loop {
        rest = rest.trim_start_matches(|character: char| character.is_ascii_whitespace() || character == '/');
        let end = rest.find(|character: char| character.is_ascii_whitespace() || character == '=')?;
        let (key, after) = rest.split_at(end);
        let Some(value) = after.trim_ascii_start().strip_prefix('=') else {
            rest = after;
            continue;
        };
        let value = value.trim_ascii_start();
        let (value, after) = match value.as_bytes().first() {
            Some(quote @ (b'"' | b'\'')) => {
                let value = &value[1..];
                let end = memchr(*quote, value.as_bytes()).unwrap_or(value.len());
                (&value[..end], value.get(end + 1..).unwrap_or_default())
            }
            _ => value.split_at(value.find(|character: char| character.is_ascii_whitespace()).unwrap_or(value.len())),
        };
        if key.eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = after;
    }
}
