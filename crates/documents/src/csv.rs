//! Recognises tables of separated values.

/// How much of a text is looked at.
const LOOK_BYTES: usize = 64 << 10;
const LOOK_RECORDS: usize = 100;
/// How many lines make a table, if nothing else says that it is one.
const MIN_RECORDS: usize = 3;
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Whether every line has the same number of cells, and more than one.
pub(crate) fn looks_like(text: &str) -> bool {
    DELIMITERS.iter().any(|delimiter| is_table(text.as_bytes(), *delimiter))
}

fn is_table(text: &[u8], delimiter: u8) -> bool {
    let looked = &text[..text.len().min(LOOK_BYTES)];
    let mut survey = Survey { delimiter, cells: None, records: 0, regular: true, spaced: 0, total: 0 };
    let mut record = Record::default();
    let mut quoted = false;
    let mut previous = b'\n';
    for byte in looked {
        match byte {
            b'"' if quoted => quoted = false,
            // A quote within a cell is a part of it, but a second one right after the first goes on with it.
            b'"' if previous == delimiter || previous == b'\n' || previous == b'"' => quoted = true,
            b'\n' if !quoted => survey.take(std::mem::take(&mut record)),
            byte if !quoted => record.take(*byte, previous, survey.delimiter),
            _ => {}
        }
        previous = *byte;
        if !survey.regular || survey.records >= LOOK_RECORDS {
            break;
        }
    }
    // The last line need not end, but one that was cut off by the look says nothing.
    if looked.len() == text.len() && !quoted {
        survey.take(record);
    }
    survey.is_table()
}

#[derive(Default)]
struct Record {
    delimiters: usize,
    /// Delimiters with a space after them, as commas have in sentences.
    spaced: usize,
    any: bool,
}

impl Record {
    fn take(&mut self, byte: u8, previous: u8, delimiter: u8) {
        self.any |= !byte.is_ascii_whitespace();
        self.delimiters += usize::from(byte == delimiter);
        self.spaced += usize::from(byte == b' ' && previous == delimiter);
    }
}

struct Survey {
    delimiter: u8,
    cells: Option<usize>,
    records: usize,
    regular: bool,
    spaced: usize,
    total: usize,
}

impl Survey {
    fn take(&mut self, record: Record) {
        if !record.any && record.delimiters == 0 {
            return;
        }
        self.records += 1;
        self.spaced += record.spaced;
        self.total += record.delimiters;
        let cells = *self.cells.get_or_insert(record.delimiters);
        self.regular &= cells == record.delimiters;
    }

    fn is_table(&self) -> bool {
        let enough = self.records >= MIN_RECORDS && self.cells.is_some_and(|delimiters| delimiters > 0);
        enough && self.regular && self.spaced * 2 < self.total
    }
}
