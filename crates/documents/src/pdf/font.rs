//! What the bytes that a page shows in a font mean, and how wide they are.

use super::{
    character_map::{CharacterMap, value},
    encoding::{Encoding, named},
    file::File,
    object::{Dict, Object},
    ranges::Ranges,
};

/// Bytes of a character map.
const MAX_MAP: usize = 2 << 20;
/// What a font costs, however little it says.
const LOADING: usize = 4096;
/// The width of a glyph whose width is not said, in font sizes.
const USUAL_WIDTH: f64 = 0.5;

pub(crate) struct Font {
    to_unicode: Option<CharacterMap>,
    codes: Codes,
    /// In font sizes.
    widths: Ranges<f64>,
    default_width: f64,
    /// Whether the widths are those of the font.
    exact: bool,
}

enum Codes {
    /// One byte is one glyph. What each means without a character map.
    Simple(Box<[Option<String>; 256]>),
    /// Codes of two bytes, or as the character map has them.
    Composite {
        /// The codes are UTF-16.
        is_utf_16: bool,
    },
}

/// One glyph of a text that is shown.
pub(crate) struct Glyph {
    pub(crate) text: String,
    /// In font sizes.
    pub(crate) width: f64,
    /// Whether word spacing is added.
    pub(crate) is_word_space: bool,
}

impl Font {
    pub(crate) fn load(file: &File<'_>, dict: &Dict) -> Self {
        file.budget().pay(LOADING);
        let map = file.lookup(dict, b"ToUnicode").into_stream();
        let map = map.map(|stream| CharacterMap::parse(&file.decode(&stream, MAX_MAP), file.budget()));
        let to_unicode = map.filter(|map| !map.is_empty());
        if dict.has_name(b"Subtype", b"Type0") {
            Self::composite(file, dict, to_unicode)
        } else {
            Self::simple(file, dict, to_unicode)
        }
    }

    fn simple(file: &File<'_>, dict: &Dict, to_unicode: Option<CharacterMap>) -> Self {
        // Only fonts that are drawn by procedures have a scale of their own.
        let matrix = file.lookup(dict, b"FontMatrix").into_array();
        let scale = matrix.first().and_then(Object::as_number).filter(|scale| *scale > 0.0).unwrap_or(0.001);
        let first = file.lookup(dict, b"FirstChar").as_count().unwrap_or_default().min(255) as u32;
        let widths = file.lookup(dict, b"Widths").into_array().into_iter().take(256);
        let widths: Vec<_> = (first..)
            .zip(widths)
            .filter_map(|(code, width)| Some((code, code, file.resolve(width).as_number()? * scale)))
            .collect();
        Self {
            to_unicode,
            codes: Codes::Simple(Box::new(simple_texts(file, dict))),
            exact: !widths.is_empty(),
            widths: Ranges::new(widths),
            default_width: USUAL_WIDTH,
        }
    }

    fn composite(file: &File<'_>, dict: &Dict, to_unicode: Option<CharacterMap>) -> Self {
        let descendants = file.lookup(dict, b"DescendantFonts").into_array();
        let descendant = descendants.into_iter().next().unwrap_or(Object::Null);
        let descendant = file.resolve(descendant).into_dict().unwrap_or_default();
        let default_width = file.lookup(&descendant, b"DW").as_number().unwrap_or(1000.0) * 0.001;
        let encoding = file.lookup(dict, b"Encoding");
        let name = encoding.as_name().unwrap_or_default();
        let is_utf_16 = name.starts_with(b"Uni") && (contains(name, b"UCS2") || contains(name, b"UTF16"));
        Self {
            to_unicode,
            codes: Codes::Composite { is_utf_16 },
            widths: composite_widths(file, file.lookup(&descendant, b"W").into_array()),
            default_width,
            exact: true,
        }
    }

    /// Whether the places where glyphs end are known.
    pub(crate) fn is_exact(&self) -> bool {
        self.exact
    }

    /// The glyph at the beginning of `bytes`, and what comes after it.
    pub(crate) fn glyph<'b>(&self, bytes: &'b [u8]) -> Option<(Glyph, &'b [u8])> {
        let (_, rest) = bytes.split_first()?;
        let (code, rest) = match &self.codes {
            Codes::Simple(_) => (&bytes[..1], rest),
            Codes::Composite { .. } => {
                let length = self.to_unicode.as_ref().and_then(|map| map.code_length(bytes)).unwrap_or(2);
                bytes.split_at(length.min(bytes.len()))
            }
        };
        let number = value(code);
        let mapped = self.to_unicode.as_ref().and_then(|map| map.text(number));
        let text = mapped.or_else(|| match &self.codes {
            Codes::Simple(texts) => texts.get(number as usize)?.clone(),
            Codes::Composite { is_utf_16: true } => {
                // A character that takes two codes is given with neither: they are rare where this is in use.
                char::from_u32(number).map(String::from)
            }
            Codes::Composite { is_utf_16: false } => None,
        });
        let glyph = Glyph {
            text: text.unwrap_or_else(|| char::REPLACEMENT_CHARACTER.to_string()),
            width: self.widths.get(number).map_or(self.default_width, |(width, _)| *width),
            is_word_space: code == b" ",
        };
        Some((glyph, rest))
    }
}

/// What each byte means in a font of one byte per glyph.
fn simple_texts(file: &File<'_>, dict: &Dict) -> [Option<String>; 256] {
    let encoding = file.lookup(dict, b"Encoding");
    let differences = match &encoding {
        Object::Dict(encoding) => file.lookup(encoding, b"Differences").into_array(),
        _ => Vec::new(),
    };
    let base = match &encoding {
        Object::Name(name) => Encoding::from_name(name),
        Object::Dict(encoding) => file.lookup(encoding, b"BaseEncoding").as_name().and_then(Encoding::from_name),
        _ => None,
    };
    let base = base.unwrap_or_else(|| own_encoding(file, dict));
    let mut texts = std::array::from_fn(|byte| base.character(byte as u8).map(String::from));
    let mut code = 0;
    for item in differences {
        match file.resolve(item) {
            Object::Number(number) => code = number as usize,
            Object::Name(name) => {
                if let Some(text) = texts.get_mut(code) {
                    *text = named(&name);
                }
                code = code.saturating_add(1);
            }
            _ => {}
        }
    }
    texts
}

/// The encoding of a font that names none, as far as its name tells.
fn own_encoding(file: &File<'_>, dict: &Dict) -> Encoding {
    let name = file.lookup(dict, b"BaseFont");
    let name = name.as_name().unwrap_or_default();
    if contains(name, b"Dingbats") || contains(name, b"Wingdings") {
        Encoding::Dingbats
    } else if name.ends_with(b"Symbol") || name.ends_with(b"SymbolMT") {
        Encoding::Symbol
    } else if dict.has_name(b"Subtype", b"TrueType") {
        Encoding::WinAnsi
    } else {
        Encoding::Standard
    }
}

/// `code [width …]` and `first last width`, one after the other.
fn composite_widths(file: &File<'_>, items: Vec<Object>) -> Ranges<f64> {
    let mut widths = Vec::new();
    let mut items = items.into_iter().map(|item| file.resolve(item));
    let code = |object: Option<Object>| object.and_then(|object| u16::try_from(object.as_count()?).ok()).map(u32::from);
    while let Some(first) = code(items.next()) {
        match items.next() {
            Some(Object::Array(list)) => {
                let list = (first..).zip(list);
                widths.extend(
                    list.filter_map(|(code, width)| Some((code, code, file.resolve(width).as_number()? * 0.001))),
                );
            }
            last => {
                let (Some(last), Some(width)) = (code(last), items.next().and_then(|width| width.as_number())) else {
                    break;
                };
                widths.push((first, last, width * 0.001));
            }
        }
    }
    Ranges::new(widths)
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(name, part).is_some()
}
