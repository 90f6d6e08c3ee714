//! From bytes to tokens, and from tokens to values.
//!
//! The same syntax is used by a file's objects, by the content of pages and by character maps. Nothing is refused here:
//! what cannot be understood is left out, because many a PDF in use is a little broken.

use super::{
    budget::Budget,
    object::{Dict, Object},
};

/// Values within values.
const MAX_NESTING: usize = 48;
/// Values in one object, at any depth: it bounds the memory that a value takes.
const MAX_VALUES: usize = 1 << 18;

/// What a value costs beside its bytes.
const VALUE: usize = 4;

#[derive(Debug, PartialEq)]
pub(crate) enum Token<'a> {
    Number(f64),
    String(Vec<u8>),
    Name(Vec<u8>),
    ArrayOpen,
    ArrayClose,
    DictOpen,
    DictClose,
    /// Anything else: an operator, `true`, `obj`.
    Word(&'a [u8]),
}

pub(crate) struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    budget: &'a Budget,
    /// Whether `12 0 R` is a reference. There are none in the content of pages and in character maps.
    references: bool,
}

pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b'\0' | b'\t' | b'\n' | b'\x0c' | b'\r' | b' ')
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'/' | b'%')
}

fn is_regular(byte: u8) -> bool {
    !is_space(byte) && !is_delimiter(byte)
}

impl<'a> Lexer<'a> {
    /// For objects, from a position on.
    pub(crate) fn new(bytes: &'a [u8], at: usize, budget: &'a Budget) -> Self {
        Self { bytes, at: at.min(bytes.len()), budget, references: true }
    }

    /// For the content of a page, and for what has the same syntax.
    pub(crate) fn of_content(bytes: &'a [u8], budget: &'a Budget) -> Self {
        Self { bytes, at: 0, budget, references: false }
    }

    /// Where the next token is looked for.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn jump(&mut self, at: usize) {
        self.at = at.min(self.bytes.len());
    }

    pub(crate) fn token(&mut self) -> Option<Token<'a>> {
        let begin = self.at;
        let token = self.unpaid_token();
        self.budget.pay(self.at - begin).then_some(token).flatten()
    }

    /// The next value. None at the end, and at a word or a bracket that is no value; that is then consumed.
    pub(crate) fn object(&mut self) -> Option<Object> {
        let token = self.token()?;
        self.object_from(token)
    }

    /// The value that begins with `token`. None if it is no value.
    pub(crate) fn object_from(&mut self, token: Token<'a>) -> Option<Object> {
        self.value(token, 0, &mut 0)
    }

    fn value(&mut self, token: Token<'a>, depth: usize, values: &mut usize) -> Option<Object> {
        *values += 1;
        if depth > MAX_NESTING || *values > MAX_VALUES || !self.budget.pay(VALUE) {
            return None;
        }
        match token {
            Token::Number(number) => Some(self.reference(number).unwrap_or(Object::Number(number))),
            Token::String(bytes) => Some(Object::String(bytes)),
            Token::Name(name) => Some(Object::Name(name)),
            Token::ArrayOpen => Some(Object::Array(self.array(depth, values))),
            Token::DictOpen => Some(Object::Dict(self.dict(depth, values))),
            Token::Word(b"true") => Some(Object::Bool(true)),
            Token::Word(b"false") => Some(Object::Bool(false)),
            Token::Word(b"null") => Some(Object::Null),
            Token::Word(_) | Token::ArrayClose | Token::DictClose => None,
        }
    }

    fn array(&mut self, depth: usize, values: &mut usize) -> Vec<Object> {
        let mut items = Vec::new();
        while let Some(token) = self.token_within(values) {
            match token {
                Token::ArrayClose | Token::DictClose => break,
                token => items.extend(self.value(token, depth + 1, values)),
            }
        }
        items
    }

    fn dict(&mut self, depth: usize, values: &mut usize) -> Dict {
        let mut dict = Dict::default();
        while let Some(token) = self.token_within(values) {
            match token {
                Token::DictClose => break,
                Token::Name(key) => match self.token_within(values) {
                    None | Some(Token::DictClose) => break,
                    Some(token) => {
                        if let Some(value) = self.value(token, depth + 1, values) {
                            dict.0.insert(key, value);
                        }
                    }
                },
                // Not a key: left out.
                _ => *values += 1,
            }
        }
        dict
    }

    /// A token inside a value. None where the value cannot go on: it was not closed, or is too large.
    fn token_within(&mut self, values: &usize) -> Option<Token<'a>> {
        let before = self.at;
        let token = self.token().filter(|_| *values <= MAX_VALUES)?;
        if let Token::Word(b"endobj" | b"obj" | b"endstream" | b"stream" | b"trailer") = token {
            self.at = before;
            return None;
        }
        Some(token)
    }

    /// `12 0 R`, of which the 12 was read.
    fn reference(&mut self, number: f64) -> Option<Object> {
        let id = Object::Number(number).as_count().and_then(|number| u32::try_from(number).ok());
        let id = id.filter(|_| self.references)?;
        let before = self.at;
        // A look ahead for a digit saves two tokens for most numbers that are no reference.
        self.skip_space();
        if self.peek().is_some_and(|byte| byte.is_ascii_digit())
            && let Some(Token::Number(_)) = self.token()
            && let Some(Token::Word(b"R")) = self.token()
        {
            return Some(Object::Reference(id));
        }
        self.at = before;
        None
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Over white space and comments.
    pub(crate) fn skip_space(&mut self) {
        while let Some(byte) = self.peek() {
            if is_space(byte) {
                self.at += 1;
            } else if byte == b'%' {
                let rest = &self.bytes[self.at..];
                self.at += memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
            } else {
                break;
            }
        }
    }

    fn unpaid_token(&mut self) -> Option<Token<'a>> {
        self.skip_space();
        let first = self.peek()?;
        let second = self.bytes.get(self.at + 1).copied();
        let (token, length) = match (first, second) {
            (b'[', _) => (Token::ArrayOpen, 1),
            (b']', _) => (Token::ArrayClose, 1),
            (b'<', Some(b'<')) => (Token::DictOpen, 2),
            (b'>', Some(b'>')) => (Token::DictClose, 2),
            (b'(', _) => return Some(Token::String(self.literal_string())),
            (b'<', _) => return Some(Token::String(self.hex_string())),
            (b'/', _) => return Some(Token::Name(self.name())),
            (b'{' | b'}' | b')' | b'>', _) => (Token::Word(&self.bytes[self.at..=self.at]), 1),
            _ => return Some(self.word()),
        };
        self.at += length;
        Some(token)
    }

    fn regular(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| !is_regular(*byte)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn word(&mut self) -> Token<'a> {
        let word = self.regular();
        number(word).map_or(Token::Word(word), Token::Number)
    }

    fn name(&mut self) -> Vec<u8> {
        self.at += 1;
        let raw = self.regular();
        let mut name = Vec::with_capacity(raw.len());
        let mut rest = raw;
        while let [first, tail @ ..] = rest {
            match (first, tail) {
                (b'#', [high, low, tail @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    name.push(hex_digit(*high) << 4 | hex_digit(*low));
                    rest = tail;
                }
                (byte, tail) => {
                    name.push(*byte);
                    rest = tail;
                }
            }
        }
        name
    }

    fn hex_string(&mut self) -> Vec<u8> {
        let rest = &self.bytes[self.at + 1..];
        let end = memchr::memchr(b'>', rest).unwrap_or(rest.len());
        self.at += end + 2;
        self.at = self.at.min(self.bytes.len());
        from_hex(&rest[..end])
    }

    fn literal_string(&mut self) -> Vec<u8> {
        self.at += 1;
        let mut string = Vec::new();
        let mut open = 1_usize;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'(' => open += 1,
                b')' => {
                    open -= 1;
                    if open == 0 {
                        break;
                    }
                }
                b'\\' => {
                    string.extend(self.escape());
                    continue;
                }
                _ => {}
            }
            string.push(byte);
        }
        string
    }

    /// What follows a backslash. None for a line break that is not meant.
    fn escape(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(match byte {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => b'\x08',
            b'f' => b'\x0c',
            b'\r' => {
                if self.peek() == Some(b'\n') {
                    self.at += 1;
                }
                return None;
            }
            b'\n' => return None,
            b'0'..=b'7' => {
                let mut code = u32::from(byte - b'0');
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'7') = self.peek() else { break };
                    code = code * 8 + u32::from(digit - b'0');
                    self.at += 1;
                }
                // High-order overflow is to be ignored, says the standard.
                code as u8
            }
            other => other,
        })
    }
}

fn hex_digit(byte: u8) -> u8 {
    char::from(byte).to_digit(16).map_or(0, |digit| digit as u8)
}

/// The bytes that hexadecimal digits spell. What is no digit is passed over, a missing last digit is 0.
pub(crate) fn from_hex(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 2 + 1);
    let mut high = None;
    for digit in text.iter().filter(|byte| byte.is_ascii_hexdigit()).map(|byte| hex_digit(*byte)) {
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(high << 4 | digit),
        }
    }
    bytes.extend(high.map(|high| high << 4));
    bytes
}

/// A number as PDF writes it: no exponent; some writers double the sign.
fn number(word: &[u8]) -> Option<f64> {
    let (negative, digits) = match word {
        [b'-', b'-', rest @ ..] | [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (mut value, mut scale, mut any) = (0.0_f64, None, false);
    for byte in digits {
        match (byte, &mut scale) {
            (b'0'..=b'9', scale) => {
                any = true;
                let digit = f64::from(byte - b'0');
                match scale {
                    None => value = value * 10.0 + digit,
                    Some(scale) => {
                        *scale /= 10.0;
                        value += digit * *scale;
                    }
                }
            }
            (b'.', None) => scale = Some(1.0),
            // `1.2-3` is written by some; the rest is noise.
            (b'-', _) if any => break,
            _ => return None,
        }
    }
    let value = value.min(1e30);
    any.then_some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &Expect) {
        let budget = Budget::new(1 << 20);
        expected.assert_eq(&format!("{:?}", Lexer::new(text.as_bytes(), 0, &budget).object()));
    }

    #[test]
    fn strings_and_names_are_unescaped() {
        check(
            r"(a\(b\)\101\7(c)\n\q\
d)",
            &expect![[r#"Some(String([97, 40, 98, 41, 65, 7, 40, 99, 41, 10, 113, 100]))"#]],
        );
        check("<48 65 6c6>", &expect!["Some(String([72, 101, 108, 96]))"]);
        check("/A#42#zz% comment", &expect!["Some(Name([65, 66, 35, 122, 122]))"]);
    }

    #[test]
    fn numbers_are_as_writers_write_them() {
        check(
            "[1 -2.5 +.5 4. --6 1.2-3 12 0 R - 1e5]",
            &expect![
                "Some(Array([Number(1.0), Number(-2.5), Number(0.5), Number(4.0), Number(-6.0), Number(1.2), Reference(12)]))"
            ],
        );
    }

    #[test]
    fn what_is_not_closed_ends_with_the_object() {
        check("[1 [2 endobj 3", &expect!["Some(Array([Number(1.0), Array([Number(2.0)])]))"]);
        check("<</A 1 /B >> 2", &expect!["Some(Dict(Dict({[65]: Number(1.0)})))"]);
    }

    #[test]
    fn values_nest_and_grow_within_bounds() {
        let budget = Budget::new(16 << 20);
        let deep = "[".repeat(100_000);
        assert!(Lexer::new(deep.as_bytes(), 0, &budget).object().is_some());
        let long = format!("[{}]", "0 ".repeat(MAX_VALUES * 2));
        let values = Lexer::new(long.as_bytes(), 0, &budget).object().map(|array| array.into_array().len());
        assert!(values.is_some_and(|values| values <= MAX_VALUES));
    }
}
