//! From bytes to a document.

use memchr::memmem;
use serde::de::IgnoredAny;

use crate::{Bounds, Document, DocumentError, Kind, binary, csv, html, image, markdown, pdf, plain};

/// How far into a file a PDF may begin: some come with a few bytes of something else in front.
const PDF_HEADER: usize = 1024;

/// Says what the bytes are, and what text is in them.
///
/// The bytes decide: an image is an image whatever it is named. Only between the kinds of plain text that cannot always
/// be told apart does the end of the name help.
pub fn read(name: &str, bytes: &[u8], bounds: Bounds) -> Result<Document, DocumentError> {
    if bytes.len() > bounds.bytes {
        return Err(DocumentError::TooLarge { bytes: bytes.len(), limit: bounds.bytes });
    }
    if let Some(format) = image::recognise(bytes) {
        return Ok(document(Kind::Image(format?), None, None, false));
    }
    if bytes.trim_ascii_start().starts_with(b"%PDF-") {
        return read_pdf(bytes, bounds);
    }
    match plain::decode(bytes) {
        Ok(text) => read_text(name, &text, bounds),
        Err(_) if memmem::find(&bytes[..bytes.len().min(PDF_HEADER)], b"%PDF-").is_some() => read_pdf(bytes, bounds),
        Err(found) => {
            Err(DocumentError::Unsupported { found: binary::recognise(bytes).map_or(found, ToOwned::to_owned) })
        }
    }
}

fn document(kind: Kind, text: Option<String>, pages: Option<u32>, cut: bool) -> Document {
    Document { kind, media_type: kind.media_type(), text, pages, cut }
}

fn read_pdf(bytes: &[u8], bounds: Bounds) -> Result<Document, DocumentError> {
    let pdf = pdf::read(bytes, bounds.text_bytes)?;
    Ok(document(Kind::Pdf, Some(pdf.text), Some(pdf.pages), pdf.is_cut))
}

fn read_text(name: &str, text: &str, bounds: Bounds) -> Result<Document, DocumentError> {
    if text.trim().is_empty() {
        return Err(DocumentError::Empty);
    }
    if text.starts_with("{\\rtf") {
        // It is text, but what it says lies between its commands.
        return Err(DocumentError::Unsupported { found: "an RTF document".to_owned() });
    }
    let kind = plain_kind(name, text);
    let (text, cut) = match kind {
        Kind::Html => html::to_text(text, bounds.text_bytes),
        _ => {
            let end = text.floor_char_boundary(bounds.text_bytes);
            (text[..end].to_owned(), end < text.len())
        }
    };
    Ok(document(kind, Some(text), None, cut))
}

fn plain_kind(name: &str, text: &str) -> Kind {
    if is_json(text) {
        return Kind::Json;
    }
    if html::looks_like(text) {
        return Kind::Html;
    }
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    match &*ending {
        "csv" | "tsv" => Kind::Csv,
        "md" | "markdown" => Kind::Markdown,
        // Configuration and programs have marks that look like Markdown's. Their names tell.
        "" | "txt" | "text" if markdown::looks_like(text) => Kind::Markdown,
        _ if csv::looks_like(text) => Kind::Csv,
        _ => Kind::Text,
    }
}

/// A JSON object or array. A number or a word by itself is as well a text.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}
