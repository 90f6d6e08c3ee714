//! Puts glyphs together to lines of text.
//!
//! A page says where each glyph goes, not where words and lines end. They end where the next glyph is not where the
//! last one ended.

/// How far a glyph stands off for a new line, across the direction of writing; in font sizes.
const LINE: f64 = 0.5;
/// From here on it is a new paragraph.
const PARAGRAPH: f64 = 2.0;
/// How far it stands off for a new word, along the direction of writing.
const WORD: f64 = 0.17;
/// From here on it is a new column.
const COLUMN: f64 = 2.0;

/// Where a glyph is on the page, and how large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) begin: (f64, f64),
    pub(crate) end: (f64, f64),
    /// The direction of writing, of length 1.
    pub(crate) direction: (f64, f64),
    /// The font's size on the page.
    pub(crate) size: f64,
    /// Whether the end is known, and not guessed.
    pub(crate) exact: bool,
}

/// Text that grows to a limit.
pub(crate) struct Layout {
    text: String,
    limit: usize,
    last: Option<Spot>,
    is_full: bool,
}

impl Layout {
    pub(crate) fn new(limit: usize) -> Self {
        Self { text: String::new(), limit, last: None, is_full: false }
    }

    /// Whether something did not fit.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) fn end_page(&mut self) {
        self.separate("\n\n");
        self.last = None;
    }

    pub(crate) fn into_text(mut self) -> String {
        self.text.truncate(self.text.trim_end().len());
        self.text
    }

    pub(crate) fn show(&mut self, glyph: &str, spot: Spot) {
        if let Some(last) = self.last {
            self.separate_from(last, spot);
        }
        self.last = Some(spot);
        for character in glyph.chars() {
            self.push(character);
        }
    }

    fn separate_from(&mut self, last: Spot, spot: Spot) {
        let (dx, dy) = (spot.begin.0 - last.end.0, spot.begin.1 - last.end.1);
        let size = last.size.max(spot.size).max(1e-6);
        let along = (dx * last.direction.0 + dy * last.direction.1) / size;
        let across = (dy * last.direction.0 - dx * last.direction.1).abs() / size;
        if across > PARAGRAPH {
            self.separate("\n\n");
        } else if across > LINE || along < -COLUMN {
            self.separate("\n");
        } else if along > COLUMN {
            self.separate("\t");
        } else if along > WORD || (!last.exact && along.abs() > 1e-3) {
            self.separate(" ");
        }
    }

    /// Ends a word, a line or a paragraph, if one has begun.
    fn separate(&mut self, separator: &str) {
        if self.is_full || self.text.is_empty() || self.text.ends_with('\n') && separator != "\n\n" {
            return;
        }
        let end = if separator.starts_with('\n') {
            self.text.trim_end().len()
        } else {
            self.text.trim_end_matches(' ').len()
        };
        self.text.truncate(end);
        if self.text.len() + separator.len() > self.limit {
            // Nothing is lost yet, but what comes next must not read as if it came right after.
            self.limit = self.text.len();
        } else if !self.text.is_empty() {
            self.text.push_str(separator);
        }
    }

    fn push(&mut self, character: char) {
        let character = match character {
            '\u{fb00}' => return "ff".chars().for_each(|part| self.push(part)),
            '\u{fb01}' => return "fi".chars().for_each(|part| self.push(part)),
            '\u{fb02}' => return "fl".chars().for_each(|part| self.push(part)),
            '\u{fb03}' => return "ffi".chars().for_each(|part| self.push(part)),
            '\u{fb04}' => return "ffl".chars().for_each(|part| self.push(part)),
            // The bullet of the symbol fonts.
            '\u{f0b7}' => '•',
            '\u{e000}'..='\u{f8ff}' => char::REPLACEMENT_CHARACTER,
            character if character.is_whitespace() => ' ',
            character if character.is_control() => return,
            character => character,
        };
        // One sign for any number of glyphs of unknown meaning, one space between words.
        let repeats = matches!(character, char::REPLACEMENT_CHARACTER | ' ') && self.text.ends_with(character);
        let leads = character == ' ' && (self.text.is_empty() || self.text.ends_with(['\n', '\t']));
        if self.is_full || repeats || leads {
            return;
        }
        if self.text.len() + character.len_utf8() > self.limit {
            self.is_full = true;
        } else {
            self.text.push(character);
        }
    }
}
