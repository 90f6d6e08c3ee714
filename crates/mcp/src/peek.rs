//! What the SDK leaves out when it reads a message: the order of a form's fields, and whether a tool runs as a task only.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use everturn_core::Json;
use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Longest message that is looked into, in bytes: forms are short, and lists of tools have bounds of their own.
const MOST: usize = 4 * 1024 * 1024;
/// Schemas that are kept until their questions are handled.
const SCHEMAS: usize = 64;

/// What was seen in the messages of one connection. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peeked(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    schemas: VecDeque<(RequestId, Json)>,
    task_tools: HashSet<String>,
}

#[derive(Deserialize)]
struct Asked<'a> {
    id: RequestId,
    #[serde(borrow)]
    params: Form<'a>,
}

#[derive(Deserialize)]
struct Form<'a> {
    #[serde(borrow, rename = "requestedSchema")]
    schema: &'a RawValue,
}

#[derive(Deserialize)]
struct Listed {
    result: Page,
}

#[derive(Deserialize)]
struct Page {
    tools: Vec<Listing>,
}

#[derive(Deserialize)]
struct Listing {
    name: String,
    #[serde(default)]
    execution: Option<Execution>,
}

#[derive(Deserialize)]
struct Execution {
    #[serde(default, rename = "taskSupport")]
    task_support: Option<String>,
}

/// Whether the SDK may have left something out of a message: of a question, or of a list. What comes in floods is neither.
pub(crate) fn may_lack(message: &ServerJsonRpcMessage) -> bool {
    match message {
        JsonRpcMessage::Request(_) => true,
        JsonRpcMessage::Response(response) => {
            matches!(response.result, ServerResult::ListToolsResult(_) | ServerResult::CustomResult(_))
        }
        JsonRpcMessage::Notification(_) | JsonRpcMessage::Error(_) => false,
    }
}

impl Peeked {
    /// Looks at a message as it came.
    pub(crate) fn look(&self, message: &[u8]) {
        if message.len() > MOST {
            return;
        }
        if mentions(message, b"\"requestedSchema\"")
            && let Ok(Asked { id, params }) = serde_json::from_slice(message)
        {
            self.with(|state| {
                if state.schemas.len() == SCHEMAS {
                    state.schemas.pop_front();
                }
                state.schemas.push_back((id, Json::from(params.schema.to_owned())));
            });
        }
        if mentions(message, b"\"taskSupport\"")
            && let Ok(Listed { result }) = serde_json::from_slice(message)
        {
            let runs_as_task = |tool: &Listing| {
                let support = tool.execution.as_ref().and_then(|execution| execution.task_support.as_deref());
                support == Some("required")
            };
            let named = result.tools.into_iter().filter(runs_as_task).map(|tool| tool.name);
            self.with(|state| state.task_tools.extend(named));
        }
    }

    /// The schema that a question came with, as the server wrote it.
    pub(crate) fn take_schema(&self, question: &RequestId) -> Option<Json> {
        self.with(|state| {
            let at = state.schemas.iter().position(|(id, _)| id == question)?;
            state.schemas.remove(at).map(|(_, schema)| schema)
        })
    }

    /// Whether a tool has been listed as one that runs as a task only.
    pub(crate) fn runs_as_task_only(&self, tool: &str) -> bool {
        self.with(|state| state.task_tools.contains(tool))
    }

    /// Forgets what was listed, before the tools are listed again.
    pub(crate) fn forget_tools(&self) {
        self.with(|state| state.task_tools.clear());
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn mentions(message: &[u8], word: &[u8]) -> bool {
    message.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_kept_as_they_were_written() {
        let peeked = Peeked::default();
        peeked.look(br#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"?","requestedSchema":{"z":1,"a":2}}}"#);
        assert_eq!(peeked.take_schema(&RequestId::Number(8)), None);
        let schema = peeked.take_schema(&RequestId::Number(7));
        assert_eq!(schema.as_ref().map(Json::as_str), Some(r#"{"z":1,"a":2}"#));
        assert_eq!(peeked.take_schema(&RequestId::Number(7)), None, "once");
        for id in 0..1000 {
            peeked.look(format!(r#"{{"id":{id},"params":{{"requestedSchema":{{}}}}}}"#).as_bytes());
        }
        assert_eq!(peeked.with(|state| state.schemas.len()), SCHEMAS, "questions that nobody handles are forgotten");
    }

    #[test]
    fn tools_that_run_as_tasks_only() {
        let peeked = Peeked::default();
        peeked.look(br#"{"id":1,"result":{"tools":[{"name":"a","execution":{"taskSupport":"required"}},{"name":"b","execution":{"taskSupport":"optional"}},{"name":"c"}]}}"#);
        assert_eq!(["a", "b", "c"].map(|tool| peeked.runs_as_task_only(tool)), [true, false, false]);
        peeked.forget_tools();
        assert!(!peeked.runs_as_task_only("a"));
    }
}
