//! The tool `read_result`: which requests offer it, and what it reads.

use everturn_core::{Json, Message, ToolSpec, compaction::READ_RESULT};
use everturn_store::StoreError;
use everturn_tools::ResultRequest;

use crate::{session_history::PAGE, turn::Turn};

/// The fewest bytes that a call reads at once, however small the window is.
const LEAST: usize = 256;

impl Turn {
    /// The tools that the model is offered. `read_result` comes and stays with the compaction that first shortened a
    /// result: between two compactions the list does not change, since providers cache it.
    pub(crate) fn tool_specs(&self) -> Vec<ToolSpec> {
        let mut specs = self.agent.tool_specs(&self.config, &self.shared.tools);
        self.fit_tools(&mut specs);
        if self.compaction().is_some_and(|compaction| compaction.reads_results) {
            self.add_read_result(&mut specs);
        }
        specs
    }

    /// Adds `read_result` to these tools, unless there is a tool of that name.
    pub(crate) fn add_read_result(&self, specs: &mut Vec<ToolSpec>) {
        if !specs.iter().any(|spec| spec.name == READ_RESULT) {
            specs.extend(self.shared.tools.get(READ_RESULT).map(|tool| tool.spec().clone()));
        }
    }

    /// Whether a call is one of `read_result`, offered because results were shortened.
    pub(crate) fn may_read_results(&self, name: &str) -> bool {
        name == READ_RESULT && self.compaction().is_some_and(|compaction| compaction.reads_results)
    }

    /// What a call of `read_result` gives.
    pub(crate) async fn read_result(&self, input: &Json) -> Result<String, String> {
        let mut request = ResultRequest::parse(input)?;
        // A part that fills the window would only be shortened again.
        let window = self.context_window().unwrap_or(u64::MAX);
        let most = usize::try_from(window / 4).unwrap_or(usize::MAX).max(LEAST);
        request.length = request.length.min(most);
        let is_it = |message: &Message| match message {
            Message::Tool { call_id, content, .. } if call_id.as_str() == request.call_id => {
                Some(content.text_and_media())
            }
            _ => None,
        };
        let own = self.state.messages();
        let text = own.iter().rev().chain(self.earlier_given().full().rev()).find_map(is_it);
        let text = match text {
            Some(text) => Some(text),
            // Messages that a summary stands for are in the store alone.
            None => {
                self.find_in_store(is_it).await.map_err(|error| format!("the conversation cannot be read: {error}"))?
            }
        };
        let text = text.ok_or_else(|| {
            let id: String = request.call_id.chars().take(64).collect();
            format!(
                "this conversation has no result of a call {id:?}; the note in a shortened result names its call_id"
            )
        })?;
        request.part_of(&text)
    }

    /// Looks through the stored messages of the session, the newest first, until one gives something.
    async fn find_in_store<T>(&self, find: impl Fn(&Message) -> Option<T>) -> Result<Option<T>, StoreError> {
        let mut below = None;
        loop {
            let page = self.shared.store.turns_below(&self.tenant, &self.session, below, PAGE).await?;
            let found = page.iter().flat_map(|turn| turn.messages.iter().rev()).find_map(&find);
            if found.is_some() || page.len() < PAGE {
                return Ok(found);
            }
            below = page.last().map(|turn| turn.ordinal);
        }
    }
}
