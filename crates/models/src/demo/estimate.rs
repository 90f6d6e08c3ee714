//! Token counts of the demo model: a deterministic guess, four bytes to a token.

use crate::model::ModelRequest;

/// What an image counts for. Its URL says nothing: a data URI holds all of its pixels.
const IMAGE_TOKENS: u64 = 256;

/// Tokens of a text of this many bytes.
pub(super) fn tokens(bytes: u64) -> u64 {
    (bytes / 4).max(1)
}

/// Tokens of a whole request.
pub(super) fn request(request: &ModelRequest) -> u64 {
    let size = request.messages.size();
    let mut bytes = request.system.len();
    for tool in request.tools.iter() {
        bytes += tool.name.len() + tool.description.len() + tool.input_schema.as_str().len();
    }
    tokens(bytes as u64 + size.bytes) + size.images * IMAGE_TOKENS
}
