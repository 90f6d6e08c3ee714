//! Which text the codes of a font mean: the `ToUnicode` of a font.

use super::{
    budget::Budget,
    lexer::{Lexer, Token},
    object::Object,
    ranges::Ranges,
};

/// The longest text of one code, in bytes. Longer ones are cut.
const MAX_TEXT: usize = 64;
/// Statements of how long codes are.
const MAX_CODE_SPACES: usize = 64;
/// Ranges of codes in one map: one for each code of two bytes.
const MAX_RANGES: usize = 1 << 16;

pub(crate) struct CharacterMap {
    /// Where the text of each range is in `units`.
    texts: Ranges<(u32, u8)>,
    /// The texts one after the other, in UTF-16. Many fonts are kept at once, so a map is kept small.
    units: Vec<u16>,
    /// The first and last code of each length in bytes, from 1 to 4.
    code_spaces: Vec<(usize, u32, u32)>,
}

impl CharacterMap {
    pub(crate) fn parse(bytes: &[u8], budget: &Budget) -> Self {
        let mut lexer = Lexer::of_content(bytes, budget);
        let mut parts = Parts::default();
        let mut operands: Vec<Object> = Vec::new();
        while let Some(token) = lexer.token() {
            match token {
                Token::Word(word) => {
                    match word {
                        b"endcodespacerange" => operands.chunks_exact(2).for_each(|pair| parts.add_code_space(pair)),
                        b"endbfchar" => operands.chunks_exact(2).for_each(|pair| parts.add_code(pair)),
                        b"endbfrange" => operands.chunks_exact(3).for_each(|range| parts.add_range(range)),
                        _ => {}
                    }
                    operands.clear();
                }
                token => operands.extend(lexer.object_from(token)),
            }
        }
        Self { texts: Ranges::new(parts.ranges), units: parts.units, code_spaces: parts.code_spaces }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// How many bytes the code at the beginning of `bytes` has, if the map says it.
    pub(crate) fn code_length(&self, bytes: &[u8]) -> Option<usize> {
        let fits = |(length, first, last): &&(usize, u32, u32)| {
            bytes.get(..*length).is_some_and(|code| (*first..=*last).contains(&value(code)))
        };
        self.code_spaces.iter().find(fits).map(|(length, _, _)| *length)
    }

    pub(crate) fn text(&self, code: u32) -> Option<String> {
        let (&(begin, length), offset) = self.texts.get(code)?;
        let (begin, length) = (begin as usize, usize::from(length));
        let mut units = self.units.get(begin..begin + length)?.to_vec();
        if let Some(last) = units.last_mut() {
            *last = last.wrapping_add(offset as u16);
        }
        Some(String::from_utf16_lossy(&units))
    }
}

/// A map in the making.
#[derive(Default)]
struct Parts {
    ranges: Vec<(u32, u32, (u32, u8))>,
    units: Vec<u16>,
    code_spaces: Vec<(usize, u32, u32)>,
}

impl Parts {
    fn add_code_space(&mut self, pair: &[Object]) {
        if let (Some(first), Some(last)) = (code(&pair[0]), code(&pair[1]))
            && let Some(length @ 1..=4) = pair[0].as_string().map(<[u8]>::len)
            && self.code_spaces.len() < MAX_CODE_SPACES
        {
            self.code_spaces.push((length, first, last));
        }
    }

    fn add_code(&mut self, pair: &[Object]) {
        if let Some(code) = code(&pair[0]) {
            self.add(code, code, &pair[1]);
        }
    }

    /// A range counts on from one text, or lists them.
    fn add_range(&mut self, range: &[Object]) {
        let (Some(first), Some(last)) = (code(&range[0]), code(&range[1])) else { return };
        match &range[2] {
            Object::Array(texts) => (first..=last).zip(texts).for_each(|(code, text)| self.add(code, code, text)),
            text => self.add(first, last, text),
        }
    }

    fn add(&mut self, first: u32, last: u32, text: &Object) {
        let Some(text) = text.as_string().filter(|_| self.ranges.len() < MAX_RANGES) else { return };
        let begin = self.units.len();
        match text {
            [byte] => self.units.push(u16::from(*byte)),
            text => {
                let (pairs, _) = text[..text.len().min(MAX_TEXT)].as_chunks::<2>();
                self.units.extend(pairs.iter().map(|pair| u16::from_be_bytes(*pair)));
            }
        }
        // Both fit: there are at most 2^16 texts of at most 32 units.
        self.ranges.push((first, last, (begin as u32, (self.units.len() - begin) as u8)));
    }
}

/// A code as a number.
pub(crate) fn value(code: &[u8]) -> u32 {
    code.iter().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn code(object: &Object) -> Option<u32> {
    object.as_string().filter(|code| code.len() <= 4).map(value)
}
