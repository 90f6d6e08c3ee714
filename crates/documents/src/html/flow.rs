//! Text that flows: any white space is one space, and lines end where a block does.

/// What comes before the next character.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Break {
    None,
    Space,
    Cell,
    Line,
    Paragraph,
}

/// Text that grows to a limit.
pub(crate) struct Flow {
    text: String,
    limit: usize,
    pending: Break,
    /// What stands before the next character, after the break.
    mark: &'static str,
    is_full: bool,
}

impl Flow {
    pub(crate) fn new(limit: usize) -> Self {
        Self { text: String::new(), limit, pending: Break::None, mark: "", is_full: false }
    }

    /// Whether something did not fit.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Has at least this break before the next character.
    pub(crate) fn separate(&mut self, separator: Break) {
        self.pending = self.pending.max(separator);
    }

    /// Has this mark before the next character, instead of any other mark.
    pub(crate) fn mark(&mut self, mark: &'static str) {
        self.mark = mark;
    }

    /// Adds a character of a text that flows.
    pub(crate) fn push(&mut self, character: char) {
        if character.is_whitespace() {
            self.separate(Break::Space);
        } else if !character.is_control() {
            self.push_as_is(character);
        }
    }

    /// Adds a character of a text whose white space counts.
    pub(crate) fn push_preformatted(&mut self, character: char) {
        match character {
            '\n' => self.push_as_is('\n'),
            '\t' => self.push_as_is('\t'),
            character if character.is_control() => {}
            character => self.push_as_is(character),
        }
    }

    fn push_as_is(&mut self, character: char) {
        let separator = match std::mem::replace(&mut self.pending, Break::None) {
            _ if self.text.is_empty() => "",
            Break::None => "",
            Break::Space => " ",
            Break::Cell => "\t",
            Break::Line => "\n",
            Break::Paragraph => "\n\n",
        };
        let mark = std::mem::take(&mut self.mark);
        let space = if mark.is_empty() { "" } else { " " };
        let parts = [separator, mark, space];
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if self.is_full || self.text.len() + length + character.len_utf8() > self.limit {
            self.is_full = true;
        } else {
            self.text.extend(parts);
            self.text.push(character);
        }
    }
}
