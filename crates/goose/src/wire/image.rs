//! Images: by source in the one style, flat in the other, a URL inside.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::field::{At, FieldError, shown};

/// An image's URL, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageUrl<'a> {
    /// The image itself.
    Data { mime_type: &'a str, data: &'a str },
    /// Where it is.
    Address(&'a str),
}

#[derive(Deserialize)]
struct SourceIn {
    #[serde(rename = "media_type", alias = "mimeType", alias = "mime_type", alias = "mediaType")]
    media_type: Option<String>,
    data: Option<Box<RawValue>>,
    url: Option<String>,
}

impl<'a> ImageUrl<'a> {
    pub(crate) fn of(url: &'a str) -> Self {
        let parts = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        match parts {
            Some((mime_type, data)) => Self::Data { mime_type, data },
            None => Self::Address(url),
        }
    }

    /// The URL of an image that a client sends.
    pub(crate) fn read(
        at: &At<'_>,
        source: Option<&RawValue>,
        data: Option<&RawValue>,
        mime_type: Option<&str>,
    ) -> Result<String, FieldError> {
        let Some(source) = source else { return inline(at, data, mime_type) };
        let at = At::Field(at, "source");
        let SourceIn { media_type, data, url } = at.object(source)?;
        match url {
            Some(url) if url.starts_with("https://") => Ok(url),
            Some(url) => Err(At::Field(&at, "url").error(format!("{:?} is no https:// URL", shown(&url)))),
            None => inline(&at, data.as_deref(), media_type.as_deref()),
        }
    }
}

fn inline(at: &At<'_>, data: Option<&RawValue>, mime_type: Option<&str>) -> Result<String, FieldError> {
    let raw = data.ok_or_else(|| at.error("an image needs data, in base64, and its media type"))?;
    let at_data = At::Field(at, "data");
    let data: String = at_data.value(raw)?;
    let kind = mime_type.filter(|kind| is_image_type(kind)).ok_or_else(|| {
        let found = mime_type.map_or_else(|| "is missing".to_owned(), |found| format!("is {:?}", shown(found)));
        at.error(format!("the media type of an image must be such as \"image/png\"; it {found}"))
    })?;
    if !is_base64(&data) {
        return Err(at_data.error("is not base64"));
    }
    Ok(format!("data:{kind};base64,{data}"))
}

fn is_image_type(kind: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    kind.len() <= 64 && kind.strip_prefix("image/").is_some_and(|kind| !kind.is_empty() && kind.bytes().all(plain))
}

fn is_base64(data: &str) -> bool {
    let digits = data.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !digits.is_empty() && data.len() - digits.len() <= 2 && digits.bytes().all(is_digit)
}
