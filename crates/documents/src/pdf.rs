//! The text of PDFs.
//!
//! This reader is our own because of what files from strangers can do to a server. The libraries that were tried build
//! all objects of a file first, or unpack whatever a file asks them to: a file of some kilobytes took gigabytes of
//! memory, and none can be stopped from outside. Here everything is paid for from one [`Budget`], so the time and the
//! memory that a file takes are bounded whatever is in it. It does only what text needs: no images, no drawing.
//!
//! Left out: fonts that give glyphs without saying what they mean (most East Asian fonts without a character map; each
//! run of such glyphs becomes one U+FFFD), and the order in which people read columns (text comes as it is stored).

mod budget;
mod character_map;
mod content;
mod crypt;
mod encoding;
mod file;
mod filter;
mod font;
mod layout;
mod lexer;
mod lzw;
mod matrix;
mod object;
mod pages;
mod password_hash;
mod ranges;
#[cfg(test)]
mod tests;
mod text_state;

use self::{budget::Budget, content::Reader, file::File};
use crate::DocumentError;

/// Bytes that are looked at or made while one file is read: some seconds of work at most. Half a megabyte of text on
/// 137 pages, in a file of 8 MB, takes a fourteenth of it.
const BUDGET: usize = 384 << 20;

/// What was found in a PDF.
pub(crate) struct Pdf {
    /// The pages one after the other, with an empty line between them.
    pub(crate) text: String,
    pub(crate) pages: u32,
    /// Whether there is more text than was kept.
    pub(crate) is_cut: bool,
}

/// Reads at most `text_bytes` of text. A PDF that has none, as of a scanned page, gives an empty text.
pub(crate) fn read(bytes: &[u8], text_bytes: usize) -> Result<Pdf, DocumentError> {
    read_within(&Budget::new(BUDGET), bytes, text_bytes)
}

fn read_within(budget: &Budget, bytes: &[u8], text_bytes: usize) -> Result<Pdf, DocumentError> {
    let file = File::open(bytes, budget).map_err(|_locked| DocumentError::PasswordProtected)?;
    let mut reader = Reader::new(&file, text_bytes);
    let mut pages = 0;
    pages::for_each(&file, |page| {
        pages += 1;
        if !reader.is_done() {
            reader.read_page(page);
        }
    });
    if pages == 0 {
        let what = match budget.is_spent() {
            true => "the PDF takes too much work to read; print it to a new PDF and send that",
            false => "the PDF has no pages that can be found; it may be damaged",
        };
        return Err(DocumentError::Unreadable { what: what.to_owned() });
    }
    let is_cut = reader.is_done();
    Ok(Pdf { text: reader.into_text(), pages, is_cut })
}
