//! Items as the protocol's text has them.

use everturn_core::{CallId, Json};
use serde::Serialize;

use super::{CallOut, ImageUrl, Item, ResultItems};
use crate::Style;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum DescribedItem<'a> {
    Text { text: &'a str },
    Image { source: SourceOut<'a> },
    Thinking { thinking: &'a str },
    ToolRequest { id: &'a CallId, tool_call: CallOut<'a> },
    ToolResponse { id: &'a CallId, tool_result: DescribedResult<'a> },
    ToolConfirmationRequest { id: &'a CallId, tool_name: &'a str, arguments: &'a Json, prompt: &'a str },
    ElicitationRequest { id: &'a str, message: &'a str, requested_schema: &'a Json },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum SourceOut<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

#[derive(Serialize)]
pub(super) struct DescribedResult<'a> {
    content: ResultItems<'a>,
    is_error: bool,
}

impl<'a> DescribedItem<'a> {
    pub(super) fn of(item: &Item<'a>) -> Self {
        match *item {
            Item::Text(text) => Self::Text { text },
            Item::Image(url) => Self::Image {
                source: match ImageUrl::of(url) {
                    ImageUrl::Data { mime_type, data } => SourceOut::Base64 { media_type: mime_type, data },
                    ImageUrl::Address(url) => SourceOut::Url { url },
                },
            },
            Item::Thinking(thinking) => Self::Thinking { thinking },
            Item::ToolRequest(call) => Self::ToolRequest { id: &call.id, tool_call: CallOut::of(call) },
            Item::ToolResponse { id, content, is_error } => {
                let content = ResultItems { style: Style::Described, content };
                Self::ToolResponse { id, tool_result: DescribedResult { content, is_error } }
            }
            Item::Confirmation { call, prompt } => {
                Self::ToolConfirmationRequest { id: &call.id, tool_name: &call.name, arguments: &call.input, prompt }
            }
            Item::Elicitation { id, message, schema } => {
                Self::ElicitationRequest { id, message, requested_schema: schema }
            }
        }
    }
}
