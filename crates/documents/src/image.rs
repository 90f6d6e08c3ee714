//! Recognises images by their headers. Their pixels are never unpacked.

use crate::{DocumentError, ImageFormat};

/// The longest side that is taken, in pixels. No model looks at more than this, and a header can promise anything.
const MAX_SIDE: u32 = 16_384;

/// The format, if the bytes begin as an image does. An error if it goes on as none.
pub(crate) fn recognise(bytes: &[u8]) -> Option<Result<ImageFormat, DocumentError>> {
    let (format, size) = match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', rest @ ..] => (ImageFormat::Png, png_size(rest)),
        [0xff, 0xd8, 0xff, ..] => (ImageFormat::Jpeg, jpeg_size(&bytes[2..])),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', rest @ ..] => (ImageFormat::Gif, gif_size(rest)),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', rest @ ..] => (ImageFormat::Webp, webp_size(rest)),
        _ => return None,
    };
    Some(check(format, size))
}

fn check(format: ImageFormat, size: Option<(u32, u32)>) -> Result<ImageFormat, DocumentError> {
    let problem = match size {
        Some((1..=MAX_SIDE, 1..=MAX_SIDE)) => return Ok(format),
        Some((width, height)) => {
            format!("its header says {width} × {height} pixels, each side must have 1 to {MAX_SIDE}")
        }
        None => "its header is damaged or incomplete".to_owned(),
    };
    let name = match format {
        ImageFormat::Png => "PNG",
        ImageFormat::Jpeg => "JPEG",
        ImageFormat::Gif => "GIF",
        ImageFormat::Webp => "WebP",
    };
    Err(DocumentError::Unreadable { what: format!("the {name} image is not valid: {problem}") })
}

/// The first chunk is the header: `IHDR`, 13 bytes.
fn png_size(rest: &[u8]) -> Option<(u32, u32)> {
    let rest = rest.strip_prefix(b"\0\0\0\x0dIHDR")?;
    let number = |at: usize| Some(u32::from_be_bytes(rest.get(at..at + 4)?.try_into().ok()?));
    // The depth and colour that follow, and the checksum, are there too in a file that is not cut off.
    rest.get(..17)?;
    Some((number(0)?, number(4)?))
}

/// The size is in the frame header, which comes after any number of other segments.
fn jpeg_size(mut rest: &[u8]) -> Option<(u32, u32)> {
    loop {
        // A marker may have fill bytes before it.
        let marker = rest.iter().position(|byte| *byte != 0xff).filter(|fill| *fill > 0)?;
        let kind = rest[marker];
        rest = &rest[marker + 1..];
        match kind {
            // Stand-alone markers.
            0x01 | 0xd0..=0xd8 => continue,
            // The image's data or end, without a frame header before it.
            0x00 | 0xd9 | 0xda => return None,
            _ => {}
        }
        let length = usize::from(u16::from_be_bytes(rest.get(..2)?.try_into().ok()?));
        let segment = rest.get(2..length)?;
        if matches!(kind, 0xc0..=0xcf) && !matches!(kind, 0xc4 | 0xc8 | 0xcc) {
            let [_, h1, h2, w1, w2, ..] = segment else { return None };
            return Some((u16::from_be_bytes([*w1, *w2]).into(), u16::from_be_bytes([*h1, *h2]).into()));
        }
        rest = &rest[length..];
    }
}

fn gif_size(rest: &[u8]) -> Option<(u32, u32)> {
    let [w1, w2, h1, h2, _, _, _, ..] = rest else { return None };
    Some((u16::from_le_bytes([*w1, *w2]).into(), u16::from_le_bytes([*h1, *h2]).into()))
}

/// One of three kinds of first chunk, each with its own way to write the size.
fn webp_size(rest: &[u8]) -> Option<(u32, u32)> {
    let data = rest.get(8..)?;
    match rest.get(..4)? {
        b"VP8X" => {
            let [_, _, _, _, w1, w2, w3, h1, h2, h3, ..] = data else { return None };
            let side = |low, middle, high| u32::from_le_bytes([low, middle, high, 0]) + 1;
            Some((side(*w1, *w2, *w3), side(*h1, *h2, *h3)))
        }
        b"VP8L" => {
            let [0x2f, bits @ ..] = data else { return None };
            let bits = u32::from_le_bytes(bits.get(..4)?.try_into().ok()?);
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8 " => {
            let [_, _, _, 0x9d, 0x01, 0x2a, w1, w2, h1, h2, ..] = data else { return None };
            let side = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
            Some((side(*w1, *w2), side(*h1, *h2)))
        }
        _ => None,
    }
}
