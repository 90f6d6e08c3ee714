//! Items as the releases of Goose wrote them.

use everturn_core::{CallId, Json};
use serde::Serialize;

use super::{CallOut, ImageUrl, Item, ResultItems};
use crate::Style;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum ReleasedItem<'a> {
    Text {
        text: &'a str,
    },
    /// An image that is elsewhere: the releases know none.
    #[serde(rename = "text")]
    Link {
        text: String,
    },
    Image {
        data: &'a str,
        mime_type: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'static str,
    },
    ToolRequest {
        id: &'a CallId,
        tool_call: Success<CallOut<'a>>,
    },
    ToolResponse {
        id: &'a CallId,
        tool_result: Success<ReleasedResult<'a>>,
    },
    ActionRequired {
        data: ActionOut<'a>,
    },
}

#[derive(Serialize)]
pub(super) struct Success<T> {
    status: &'static str,
    value: T,
}

impl<T> Success<T> {
    fn of(value: T) -> Self {
        Self { status: "success", value }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReleasedResult<'a> {
    content: ResultItems<'a>,
    is_error: bool,
}

#[derive(Serialize)]
#[serde(tag = "actionType", rename_all = "camelCase")]
pub(super) enum ActionOut<'a> {
    #[serde(rename_all = "camelCase")]
    ToolConfirmation { id: &'a CallId, tool_name: &'a str, arguments: &'a Json, prompt: Option<&'a str> },
    /// Its fields were never renamed.
    Elicitation { id: &'a str, message: &'a str, requested_schema: &'a Json },
}

impl<'a> ReleasedItem<'a> {
    pub(super) fn of(item: &Item<'a>) -> Self {
        match *item {
            Item::Text(text) => Self::Text { text },
            Item::Image(url) => match ImageUrl::of(url) {
                ImageUrl::Data { mime_type, data } => Self::Image { data, mime_type },
                ImageUrl::Address(url) => Self::Link { text: format!("![image]({url})") },
            },
            Item::Thinking(thinking) => Self::Thinking { thinking, signature: "" },
            Item::ToolRequest(call) => Self::ToolRequest { id: &call.id, tool_call: Success::of(CallOut::of(call)) },
            Item::ToolResponse { id, content, is_error } => {
                let content = ResultItems { style: Style::Released, content };
                Self::ToolResponse { id, tool_result: Success::of(ReleasedResult { content, is_error }) }
            }
            // A prompt is shown as a warning by the desktop; there is nothing to warn of.
            Item::Confirmation { call, .. } => {
                let (id, tool_name, arguments) = (&call.id, call.name.as_str(), &call.input);
                Self::ActionRequired { data: ActionOut::ToolConfirmation { id, tool_name, arguments, prompt: None } }
            }
            Item::Elicitation { id, message, schema } => {
                Self::ActionRequired { data: ActionOut::Elicitation { id, message, requested_schema: schema } }
            }
        }
    }
}
