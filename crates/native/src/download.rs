//! Files that are downloaded. What is in them comes from outside or from a model: no browser may show it as a page of
//! this server.

use std::{fmt::Write as _, io};

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse, Response},
};
use everturn_documents::clean_name;
use futures_util::Stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};

/// A file to give out.
pub(crate) struct Download<'a> {
    /// Its name, for people.
    pub(crate) name: &'a str,
    pub(crate) content_type: &'a str,
    /// The same for the same content only. Characters of ids alone.
    pub(crate) tag: String,
}

impl Download<'_> {
    /// Whether the client has it already.
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        let tags = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok()).unwrap_or_default();
        tags.split(',').any(|tag| tag.trim().trim_start_matches("W/").trim_matches('"') == self.tag)
    }

    /// The answer to a client that has it.
    pub(crate) fn unchanged(&self) -> Response {
        self.with_headers(StatusCode::NOT_MODIFIED.into_response())
    }

    /// The file.
    pub(crate) fn answer(&self, content: Bytes) -> Response {
        self.with_name(content.into_response())
    }

    /// The file, as it is read.
    pub(crate) fn stream(
        &self,
        bytes: usize,
        content: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Response {
        let mut response = self.with_name(Body::from_stream(content).into_response());
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
        response
    }

    fn with_name(&self, response: Response) -> Response {
        let mut response = self.with_headers(response);
        let headers = response.headers_mut();
        let kind = HeaderValue::from_str(self.content_type);
        let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
        headers.insert(header::CONTENT_TYPE, kind);
        if let Ok(value) = HeaderValue::from_str(&disposition(self.name)) {
            headers.insert(header::CONTENT_DISPOSITION, value);
        }
        response
    }

    fn with_headers(&self, mut response: Response) -> Response {
        let headers = response.headers_mut();
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
        // Kept, but asked about each time: it may have been deleted.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", self.tag)) {
            headers.insert(header::ETAG, tag);
        }
        response
    }
}

/// A name that every system takes for a file, with this extension if it has not got it.
pub(crate) fn file_name(title: &str, extension: &str) -> String {
    let name = clean_name(&title.replace(['/', '\\'], "-"));
    let has_it =
        name.rsplit_once('.').is_some_and(|(stem, end)| !stem.is_empty() && end.eq_ignore_ascii_case(extension));
    if has_it { name } else { format!("{name}.{extension}") }
}

/// `Content-Disposition` of RFC 6266: a plain name for old programs, the real one for all others.
fn disposition(name: &str) -> String {
    let name = name.replace(['<', '>', ':', '"', '|', '?', '*', '/', '\\'], "_");
    let plain = |c: char| if c.is_ascii_graphic() && c != '%' || c == ' ' { c } else { '_' };
    let plain: String = name.chars().map(plain).collect();
    let mut encoded = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_safe_names_with_an_extension() {
        for (title, expected) in [
            ("Report", "Report.md"),
            ("notes.MD", "notes.MD"),
            (".md", ".md.md"),
            ("Q1/Q2 plan", "Q1-Q2 plan.md"),
            ("../../etc/passwd", "..-..-etc-passwd.md"),
            ("a\r\nb\u{202e}", "a  b.md"),
            ("", "document.md"),
        ] {
            assert_eq!(file_name(title, "md"), expected, "{title:?}");
        }
    }

    #[test]
    fn names_stand_in_headers() {
        assert_eq!(disposition("plan.md"), "attachment; filename=\"plan.md\"; filename*=UTF-8''plan.md");
        assert_eq!(
            disposition("Ré \"5%\"; x=1.md"),
            "attachment; filename=\"R_ _5__; x=1.md\"; filename*=UTF-8''R%C3%A9%20_5%25_%3B%20x%3D1.md"
        );
        assert_eq!(disposition("a\\b\nc"), "attachment; filename=\"a_b_c\"; filename*=UTF-8''a_b%0Ac");
    }

    #[test]
    fn a_known_file_is_not_sent_again() {
        let download = Download { name: "x", content_type: "text/plain", tag: "art_1-2".to_owned() };
        let known = |tags: &str| {
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, tags.parse().unwrap())]);
            download.is_known(&headers)
        };
        assert!(known("\"art_1-2\""));
        assert!(known("\"art_1-1\", W/\"art_1-2\""));
        assert!(!known("\"art_1-1\""));
        assert!(!download.is_known(&HeaderMap::new()));
    }
}
