//! Images as the wires want them: by address, or as base64 with a type.

/// An image's URL, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Image<'a> {
    /// To be fetched by the provider.
    Address(&'a str),
    /// A `data:` URL.
    Data { media_type: &'a str, base64: &'a str },
    /// A `data:` URL that is not base64, which no provider takes.
    Unreadable,
}

impl<'a> Image<'a> {
    pub(super) fn of(url: &'a str) -> Self {
        let Some(data) = url.strip_prefix("data:") else { return Self::Address(url) };
        let Some((media_type, base64)) = data.split_once(";base64,") else { return Self::Unreadable };
        let media_type = media_type.split(';').next().unwrap_or(media_type);
        Self::Data { media_type: if media_type.is_empty() { "image/png" } else { media_type }, base64 }
    }
}

/// What stands in for an image that is not base64.
pub(super) const UNREADABLE: &str = "[An image was left out here: its data URL is not base64.]";

/// The media type that an address suggests.
pub(super) fn media_type_of(address: &str) -> &'static str {
    let path = address.split(['?', '#']).next().unwrap_or(address);
    match path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).as_deref() {
        Some("png") => "image/png",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        Some("heic") => "image/heic",
        _ => "image/jpeg",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, image) in [
            ("https://example.com/a.png", Image::Address("https://example.com/a.png")),
            ("data:image/gif;base64,AAAA", Image::Data { media_type: "image/gif", base64: "AAAA" }),
            ("data:image/gif;name=x;base64,AAAA", Image::Data { media_type: "image/gif", base64: "AAAA" }),
            ("data:;base64,AAAA", Image::Data { media_type: "image/png", base64: "AAAA" }),
            ("data:image/svg+xml,<svg/>", Image::Unreadable),
            ("data:", Image::Unreadable),
        ] {
            assert_eq!(Image::of(url), image, "{url}");
        }
        assert_eq!(media_type_of("https://example.com/a.PNG?size=1.jpg"), "image/png");
        assert_eq!(media_type_of("https://example.com/photo"), "image/jpeg");
    }
}
