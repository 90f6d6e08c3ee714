//! Formats of answers that a provider refuses.

use everturn_core::OutputFormat;

use super::{Change, is_quoted};
use crate::{
    model::ModelRequest,
    provider::learned::{Learned, MediaDigest},
};

/// What refusals of formats have in common. Some servers make a grammar of them.
const ABOUT_FORMATS: &[&str] = &[
    "response format",
    "response_format",
    "response mime type",
    "response_mime_type",
    "output format",
    "output_format",
    "structured output",
    "json mode",
    "json_schema",
    "too many states",
    "nesting depth",
    "too complex for compilation",
    "grammar",
    "unimplemented keys",
];

/// The change that a refusal of the answer's format asks for.
pub(super) fn refused(words: &str, request: &ModelRequest, body: &[u8], learned: &Learned) -> Option<Change> {
    let format = of(request, learned)?;
    // The names of our own fields stand in every such body.
    let says = |phrase: &&str| words.contains(phrase) && (phrase.contains('_') || !is_quoted(body, phrase));
    ABOUT_FORMATS.iter().any(says).then_some(Change::Format(format))
}

/// Tells the format of a request apart from others, unless it was refused before.
pub(super) fn of(request: &ModelRequest, learned: &Learned) -> Option<MediaDigest> {
    let format = match request.options.output.as_ref()? {
        OutputFormat::JsonObject => MediaDigest::of("json_object"),
        OutputFormat::JsonSchema { schema, .. } => MediaDigest::of(schema.as_str()),
    };
    (!learned.media.contains(&format)).then_some(format)
}
