//! What a document is, and why something is none.

use serde::{Deserialize, Serialize};

/// What kind of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Text without a known form.
    Text,
    /// Text with Markdown's marks.
    Markdown,
    /// A table, its cells separated by commas, semicolons, tabs or bars.
    Csv,
    /// One JSON object or array.
    Json,
    /// A web page.
    Html,
    /// A PDF.
    Pdf,
    /// An image. It has no text.
    Image(ImageFormat),
}

/// The formats of images that models take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ImageFormat {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    Webp,
}

impl Kind {
    /// The media type, as HTTP names it.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain",
            Self::Markdown => "text/markdown",
            Self::Csv => "text/csv",
            Self::Json => "application/json",
            Self::Html => "text/html",
            Self::Pdf => "application/pdf",
            Self::Image(ImageFormat::Png) => "image/png",
            Self::Image(ImageFormat::Jpeg) => "image/jpeg",
            Self::Image(ImageFormat::Gif) => "image/gif",
            Self::Image(ImageFormat::Webp) => "image/webp",
        }
    }
}

/// What was found in the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// What kind of document.
    pub kind: Kind,
    /// The kind's media type.
    pub media_type: &'static str,
    /// The text. None for an image; empty if there is none to be found, as in a PDF of scanned pages.
    pub text: Option<String>,
    /// The number of pages of a PDF.
    pub pages: Option<u32>,
    /// Whether there was more text than is kept.
    pub cut: bool,
}

/// How much is taken and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The longest document, in bytes.
    pub bytes: usize,
    /// The text that is kept of it, in bytes.
    pub text_bytes: usize,
}

impl Default for Bounds {
    /// 50 MB of document, 1 MiB of text.
    fn default() -> Self {
        Self { bytes: 50_000_000, text_bytes: 1 << 20 }
    }
}

/// Why bytes are not taken as a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum DocumentError {
    /// It is something else.
    #[error(
        "the document seems to be {found}, which cannot be read; send plain text (UTF-8), Markdown, CSV, JSON, HTML, \
         PDF, or a PNG, JPEG, GIF or WebP image"
    )]
    Unsupported {
        /// What it seems to be, in words.
        found: String,
    },
    /// It is longer than what is taken.
    #[error("the document has {bytes} bytes, at most {limit} are taken; split it or leave out what is not needed")]
    TooLarge {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// It is an encrypted PDF that does not open without a password.
    #[error("the PDF opens only with a password; save it without one and send it again")]
    PasswordProtected,
    /// It is of a known kind but broken.
    #[error("the document cannot be read: {what}")]
    Unreadable {
        /// What is wrong, in words.
        what: String,
    },
    /// Nothing is in it.
    #[error("the document is empty")]
    Empty,
}
