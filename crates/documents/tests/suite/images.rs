//! Images are known by their headers.

use everturn_documents::{Bounds, DocumentError, ImageFormat, Kind, read};

use super::sample::PNG;

fn webp(chunk: &[u8], data: &[u8]) -> Vec<u8> {
    [b"RIFF\x40\0\0\0WEBP", chunk, b"\x0a\0\0\0", data].concat()
}

/// A JPEG whose frame header comes after an application segment.
fn jpeg(height: u16, width: u16) -> Vec<u8> {
    let [h, w] = [height.to_be_bytes(), width.to_be_bytes()];
    [b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xff\xc2\0\x0b\x08", &h[..], &w, b"\x01\x01\x11\0"]
        .concat()
}

#[test]
fn images_are_taken() {
    let cases = [
        (PNG.to_vec(), ImageFormat::Png, "image/png"),
        (jpeg(3, 2), ImageFormat::Jpeg, "image/jpeg"),
        (b"GIF89a\x02\0\x03\0\0\0\0;".to_vec(), ImageFormat::Gif, "image/gif"),
        (webp(b"VP8X", b"\0\0\0\0\x01\0\0\x02\0\0"), ImageFormat::Webp, "image/webp"),
        (webp(b"VP8L", b"\x2f\x01\x80\0\0"), ImageFormat::Webp, "image/webp"),
        (webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a\x02\0\x03\0"), ImageFormat::Webp, "image/webp"),
    ];
    for (bytes, format, media_type) in cases {
        let document = read("image.txt", &bytes, Bounds::default()).unwrap();
        assert_eq!((document.kind, document.media_type, document.text), (Kind::Image(format), media_type, None));
        // Cut off within its header, it is none.
        let whole = if format == ImageFormat::Jpeg { bytes.len() - 4 } else { bytes.len() - 1 };
        for length in 14..whole.min(25) {
            let error = read("image.txt", &bytes[..length], Bounds::default()).unwrap_err();
            assert!(matches!(error, DocumentError::Unreadable { .. }), "{format:?} {length}: {error}");
        }
    }
}

#[test]
fn sizes_are_believed_within_reason() {
    for bytes in [jpeg(0, 5), jpeg(5, 65_000), b"GIF89a\0\0\x03\0\0\0\0;".to_vec()] {
        let error = read("image", &bytes, Bounds::default()).unwrap_err();
        assert!(matches!(error, DocumentError::Unreadable { .. }), "{error}");
    }
    expect_test::expect!["the document cannot be read: the JPEG image is not valid: its header says 65000 × 5 pixels, each side must have 1 to 16384"]
        .assert_eq(&read("image", &jpeg(5, 65_000), Bounds::default()).unwrap_err().to_string());
}
