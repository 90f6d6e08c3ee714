//! Tells text from other bytes, and decodes it.

use std::borrow::Cow;

/// The text, without its byte order mark. The error says, in words, what is there instead.
pub(crate) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, String> {
    let text = match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => utf_8(rest)?,
        [0xff, 0xfe, rest @ ..] => utf_16(rest, u16::from_le_bytes)?,
        [0xfe, 0xff, rest @ ..] => utf_16(rest, u16::from_be_bytes)?,
        rest => utf_8(rest)?,
    };
    match text.char_indices().find(|(_, character)| is_binary(*character)) {
        Some((at, character)) => {
            Err(format!("binary data (control character 0x{:02x} at byte {at})", u32::from(character)))
        }
        None => Ok(text),
    }
}

fn utf_8(bytes: &[u8]) -> Result<Cow<'_, str>, String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(error) => {
            let at = error.valid_up_to();
            // In text of another encoding, the bytes up to here are text all the same.
            let found = match bytes.iter().any(|byte| is_binary(char::from(*byte)) && byte.is_ascii()) {
                true => "binary data",
                false => "text in an encoding other than UTF-8 and UTF-16",
            };
            Err(format!("{found} (byte 0x{:02x} at {at})", bytes.get(at).copied().unwrap_or_default()))
        }
    }
}

fn utf_16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Cow<'_, str>, String> {
    let (units, rest) = bytes.as_chunks::<2>();
    let text: Result<String, _> = char::decode_utf16(units.iter().map(|pair| unit(*pair))).collect();
    match text {
        Ok(text) if rest.is_empty() => Ok(Cow::Owned(text)),
        Ok(_) | Err(_) => Err("broken UTF-16 text".to_owned()),
    }
}

/// Characters that no text has. Colours of a terminal's output and page breaks are in use.
fn is_binary(character: char) -> bool {
    character.is_ascii_control() && !matches!(character, '\t' | '\n' | '\r' | '\x0c' | '\x1b')
}
