//! From bytes to a document.

use std::borrow::Cow;

use memchr::memmem;
use serde::de::IgnoredAny;

use crate::{Bounds, Document, DocumentError, Kind, binary, csv, html, image, markdown, pdf, plain};

/// How far into a file a PDF may begin: some come with a few bytes of something else in front.
const PDF_HEADER: usize = 1024;

/// What a look at the bytes says.
enum Look<'a> {
    /// It is a document of a kind that has nothing to be parsed.
    Plain(Document),
    Pdf,
    Html(Cow<'a, str>),
}

/// Says what the bytes are, and what text is in them.
///
/// The bytes decide: an image is an image whatever it is named. Only between the kinds of plain text that cannot always
/// be told apart does the end of the name help.
pub fn read(name: &str, bytes: &[u8], bounds: Bounds) -> Result<Document, DocumentError> {
    match look(name, bytes, bounds)? {
        Look::Plain(document) => Ok(document),
        Look::Pdf => {
            let pdf = pdf::read(bytes, bounds.text_bytes)?;
            Ok(document(Kind::Pdf, Some(pdf.text), Some(pdf.pages), pdf.is_cut))
        }
        Look::Html(page) => {
            let (text, cut) = html::to_text(&page, bounds.text_bytes);
            Ok(document(Kind::Html, Some(text), None, cut))
        }
    }
}

/// As [`read`], for what needs no parser: plain text of all kinds, images, of which only the header is looked at, and what is
/// refused. Takes one pass over the bytes. `None` for a PDF and for a web page.
pub fn read_plain(name: &str, bytes: &[u8], bounds: Bounds) -> Option<Result<Document, DocumentError>> {
    match look(name, bytes, bounds) {
        Ok(Look::Plain(document)) => Some(Ok(document)),
        Ok(Look::Pdf | Look::Html(_)) => None,
        Err(error) => Some(Err(error)),
    }
}

fn look<'a>(name: &str, bytes: &'a [u8], bounds: Bounds) -> Result<Look<'a>, DocumentError> {
    if bytes.len() > bounds.bytes {
        return Err(DocumentError::TooLarge { bytes: bytes.len(), limit: bounds.bytes });
    }
    if let Some(format) = image::recognise(bytes) {
        return Ok(Look::Plain(document(Kind::Image(format?), None, None, false)));
    }
    if bytes.trim_ascii_start().starts_with(b"%PDF-") {
        return Ok(Look::Pdf);
    }
    match plain::decode(bytes) {
        Ok(text) => look_at_text(name, text, bounds),
        Err(_) if memmem::find(&bytes[..bytes.len().min(PDF_HEADER)], b"%PDF-").is_some() => Ok(Look::Pdf),
        Err(found) => {
            Err(DocumentError::Unsupported { found: binary::recognise(bytes).map_or(found, ToOwned::to_owned) })
        }
    }
}

fn document(kind: Kind, text: Option<String>, pages: Option<u32>, cut: bool) -> Document {
    Document { kind, media_type: kind.media_type(), text, pages, cut }
}

fn look_at_text<'a>(name: &str, text: Cow<'a, str>, bounds: Bounds) -> Result<Look<'a>, DocumentError> {
    if text.trim().is_empty() {
        return Err(DocumentError::Empty);
    }
    if text.starts_with("{\\rtf") {
        // It is text, but what it says lies between its commands.
        return Err(DocumentError::Unsupported { found: "an RTF document".to_owned() });
    }
    let kind = plain_kind(name, &text);
    if kind == Kind::Html {
        return Ok(Look::Html(text));
    }
    let end = text.floor_char_boundary(bounds.text_bytes);
    Ok(Look::Plain(document(kind, Some(text[..end].to_owned()), None, end < text.len())))
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
        // A part of a page does not begin as a page does.
        "html" | "htm" | "xhtml" => Kind::Html,
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
