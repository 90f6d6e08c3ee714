//! The reasoning of earlier answers, which most clients leave out of the conversations that they send.
//!
//! Some providers want the reasoning before a tool call back for as long as the conversation has the call: DeepSeek, Kimi,
//! Gemini. The ids of calls say which turn made them, and that turn has it. A turn that began with a whole conversation has the
//! reasoning of all of it, so that one turn is looked up, however long the conversation is. An answer that the client has
//! changed gets none. Where nothing is found, the reasoning counts that the client has sent: nothing proves it, so that only
//! providers get it that take any text.

use everturn_core::{Block, Content, Message, ToolUse};
use everturn_http::Caller;
use everturn_store::TurnRecord;

use crate::{
    call_id::{self, CallPlace},
    error::ApiError,
    messages::Conversation,
    request::{Anything, MessageIn, ReasoningDetailIn},
    routes::Api,
};

impl Api {
    /// Gives the answers of a conversation that made calls their reasoning back, as far as it can be found.
    pub(crate) async fn restore_reasoning(
        &self,
        caller: &Caller,
        conversation: &mut Conversation,
    ) -> Result<(), ApiError> {
        let Some(place) = conversation.last_place() else { return Ok(()) };
        let Some(turn) = self.turn_at(caller, &place).await? else { return Ok(()) };
        let answers: Vec<&Message> = turn.messages.iter().filter(|said| said.tool_uses().next().is_some()).collect();
        // Both are in the same order, unless the client has changed it: the next answer is looked for after the one before.
        let mut next = 0;
        conversation.change_answers(|text, calls| {
            let is_it = |at: &usize| is_same(answers[*at], text, calls);
            let found = (next..answers.len()).chain(0..next).find(is_it)?;
            next = found + 1;
            let Message::Assistant { content } = answers[found] else { return None };
            content.blocks().iter().find_map(|block| match block {
                Block::Thinking { text, signature } => Some((text.clone(), signature.clone())),
                _ => None,
            })
        });
        Ok(())
    }

    async fn turn_at(&self, caller: &Caller, place: &CallPlace) -> Result<Option<TurnRecord>, ApiError> {
        let Some(record) = self.engine.session(&caller.tenant, &place.session).await? else { return Ok(None) };
        self.turn_with(caller, &record, Some(place)).await
    }
}

/// A call of the conversation, with its id as the client has it.
pub(crate) struct ClientCall<'c> {
    pub(crate) id: &'c str,
    pub(crate) call: &'c ToolUse,
}

/// Whether an answer says and calls the same.
fn is_same(answer: &Message, text: &str, calls: &[ClientCall<'_>]) -> bool {
    let Message::Assistant { content } = answer else { return false };
    let made: Vec<&ToolUse> = answer.tool_uses().collect();
    let is_call = |(made, ClientCall { id, call }): (&&ToolUse, &ClientCall<'_>)| {
        let is_id = made.id == call.id || call_id::place(id).is_some_and(|place| place.is(&made.id));
        is_id && made.name == call.name && made.input.to_value() == call.input.to_value()
    };
    content.text() == text && made.len() == calls.len() && made.iter().zip(calls).all(is_call)
}

/// An answer with this reasoning.
pub(crate) fn with_reasoning(content: &Content, thinking: String, signature: Option<String>) -> Content {
    let calls = content.blocks().iter().filter_map(|block| match block {
        Block::ToolUse(call) => Some(call.clone()),
        _ => None,
    });
    Content::answer(thinking, signature, content.text(), calls.collect())
}

/// The reasoning that a client sends with an answer, under any of the names that servers give it; else nothing.
pub(crate) fn reasoning_of(message: &MessageIn) -> String {
    let text = |field: &Anything| serde_json::from_str::<String>(field.as_ref()?.get()).ok();
    let text =
        [&message.reasoning_content, &message.reasoning].into_iter().filter_map(text).find(|text| !text.is_empty());
    let details = || {
        let details: Vec<ReasoningDetailIn> = serde_json::from_str(message.reasoning_details.as_ref()?.get()).ok()?;
        Some(details.into_iter().filter_map(|detail| detail.text.or(detail.summary)).collect())
    };
    text.or_else(details).unwrap_or_default()
}
