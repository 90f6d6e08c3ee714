//! Where a page of sessions begins, as text that clients do not look into.

use crate::error::ApiError;

/// The text of a position.
pub(crate) fn encode(position: u64) -> String {
    format!("p{position:x}")
}

/// The position of a text that we gave out.
pub(crate) fn decode(text: &str) -> Result<u64, ApiError> {
    let position = text.strip_prefix('p').filter(|digits| !digits.starts_with('+'));
    position.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        ApiError::bad_request(format!("after={shown:?} is not a cursor of this server; use `next` of the page before"))
    })
}
