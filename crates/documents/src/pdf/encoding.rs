//! Which character a byte means in fonts that have one byte per glyph.

use std::{collections::HashMap, sync::LazyLock};

/// The encodings that PDF knows by name, and the one of its symbol font.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Standard,
    WinAnsi,
    MacRoman,
    Symbol,
    /// Pictures, of which any stands for a bullet.
    Dingbats,
}

/// From 0x80 on; a space is where there is nothing.
const WIN_ANSI: &str = "€ ‚ƒ„…†‡ˆ‰Š‹Œ Ž  ‘’“”•–—˜™š›œ žŸ";
/// From 0x80 on.
const MAC_ROMAN: &str = "ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø¿¡¬√ƒ≈∆«»… ÀÃÕŒœ–—“”‘’÷◊\
                         ÿŸ⁄€‹›ﬁﬂ‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ ÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ";
/// From 0xa1 on.
const STANDARD: &str =
    "¡¢£⁄¥ƒ§¤'“«‹›ﬁﬂ –†‡· ¶•‚„”»…‰ ¿ `´ˆ˜¯˘˙¨ ˚¸ ˝˛ˇ—                Æ ª    ŁØŒº     æ   ı  łøœß    ";
/// From 0x41 and from 0x61 on.
const GREEK_CAPITALS: &str = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ";
const GREEK: &str = "αβχδεφγηιϕκλμνοπθρστυϖωξψζ";
/// From 0xa1 to 0xd7.
const SYMBOLS: &str = "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…  ↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅";

/// Names of glyphs, as `name=character`.
static NAMES: LazyLock<HashMap<&str, char>> = LazyLock::new(|| {
    let pairs = include_str!("glyph_names.txt").split_whitespace();
    pairs
        .filter_map(|pair| pair.split_once('='))
        .filter_map(|(name, text)| Some((name, text.chars().next()?)))
        .collect()
});

impl Encoding {
    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"StandardEncoding" => Some(Self::Standard),
            b"WinAnsiEncoding" => Some(Self::WinAnsi),
            b"MacRomanEncoding" => Some(Self::MacRoman),
            _ => None,
        }
    }

    /// The character, if the encoding has one there.
    pub(crate) fn character(self, byte: u8) -> Option<char> {
        let from = |table: &str, first: u8| {
            let index = usize::from(byte.checked_sub(first)?);
            table.chars().nth(index).filter(|character| *character != ' ')
        };
        match (self, byte) {
            (_, b' ') | (Self::MacRoman, 0xca) => Some(' '),
            (Self::Dingbats, b'!'..) => Some('•'),
            (Self::Standard, b'\'') => Some('’'),
            (Self::Standard, b'`') => Some('‘'),
            (Self::Symbol, b'A'..=b'Z') => from(GREEK_CAPITALS, b'A'),
            (Self::Symbol, b'a'..=b'z') => from(GREEK, b'a'),
            (_, b'!'..=b'~') => Some(char::from(byte)),
            (Self::Standard, 0xa1..) => from(STANDARD, 0xa1),
            (Self::MacRoman, 0x80..) => from(MAC_ROMAN, 0x80),
            (Self::Symbol, 0xa1..) => from(SYMBOLS, 0xa1),
            (Self::WinAnsi, 0xa0..) => Some(char::from(byte)),
            // What has no character there is drawn as a bullet.
            (Self::WinAnsi, 0x80..) => from(WIN_ANSI, 0x80).or(Some('•')),
            _ => None,
        }
    }
}

/// The character that a glyph's name means: by the list, or as `A`, `uni20AC`, `u1F600`, `f_i` and `one.alt` say it.
/// Of a ligature it is the text.
pub(crate) fn named(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    let name = name.split_once('.').map_or(name, |(name, _)| name);
    if name.is_empty() || name.len() > 64 {
        return None;
    }
    name.split('_').map(named_one).collect()
}

fn named_one(name: &str) -> Option<char> {
    if let Some(character) = NAMES.get(name) {
        return Some(*character);
    }
    let mut characters = name.chars();
    if let (Some(one), None) = (characters.next(), characters.next()) {
        return Some(one);
    }
    let digits = name.strip_prefix("uni").filter(|digits| digits.len() == 4);
    let digits = digits.or_else(|| name.strip_prefix('u').filter(|digits| (4..=6).contains(&digits.len())));
    match digits {
        Some(digits) => char::from_u32(u32::from_str_radix(digits, 16).ok()?),
        None if name == "space" || name == "nbspace" => Some(' '),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_complete() {
        let lengths =
            [WIN_ANSI, MAC_ROMAN, STANDARD, GREEK_CAPITALS, GREEK, SYMBOLS].map(|table| table.chars().count());
        assert_eq!(lengths, [32, 128, 95, 26, 26, 55]);
        assert_eq!(NAMES.len(), include_str!("glyph_names.txt").split_whitespace().count());
    }

    #[test]
    fn each_encoding_has_its_own_characters() {
        for (encoding, byte, character) in [
            (Encoding::Standard, b'\'', Some('’')),
            (Encoding::Standard, 0xfb, Some('ß')),
            (Encoding::Standard, 0xd1, None),
            (Encoding::WinAnsi, 0x80, Some('€')),
            (Encoding::WinAnsi, 0x9f, Some('Ÿ')),
            (Encoding::WinAnsi, 0xe9, Some('é')),
            (Encoding::MacRoman, 0xff, Some('ˇ')),
            (Encoding::MacRoman, 0xca, Some(' ')),
            (Encoding::Symbol, b'w', Some('ω')),
            (Encoding::Symbol, 0xd7, Some('⋅')),
            (Encoding::Dingbats, b'4', Some('•')),
            (Encoding::WinAnsi, 0x07, None),
        ] {
            assert_eq!(encoding.character(byte), character, "{encoding:?} {byte:#x}");
        }
    }
}
