//! Claude's signed thinking behind OpenRouter: its details go back only after the same instructions, tools and messages as
//! when they were given, because Anthropic refuses them after any other; see [`crate::provider::binding`].

use serde::Serialize;

use super::history::Message;
use crate::provider::{
    binding::{count, prefix, run},
    proof::Prefix,
};

/// Leaves out the details that no longer count where they stand. Returns the prefix of the answer to this request.
pub(super) fn leave_out_foreign(
    messages: &mut [Message<'_>],
    tools: &[impl Serialize],
) -> Result<String, serde_json::Error> {
    let mut digest = Prefix::default();
    for tool in tools {
        digest.add(&serde_json::to_vec(tool)?);
    }
    let (mut places, mut counts) = (Vec::new(), Vec::new());
    for (place, message) in messages.iter_mut().enumerate() {
        let details = match message {
            Message::Assistant(answer) => answer.reasoning_details.take(),
            Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
        };
        let before = digest.digest();
        digest.add(&serde_json::to_vec(message)?);
        let Message::Assistant(answer) = message else { continue };
        let valid = answer.prefix.as_deref().and_then(|prefix| count(prefix, &before));
        if let (Some(details), Some(valid)) = (details, valid) {
            answer.reasoning_details = Some(details);
            places.push(place);
            counts.push(valid);
        }
    }
    let kept = run(&counts);
    for place in &places[..places.len() - kept] {
        if let Some(Message::Assistant(answer)) = messages.get_mut(*place) {
            answer.reasoning_details = None;
        }
    }
    Ok(prefix(&digest.digest(), kept))
}
