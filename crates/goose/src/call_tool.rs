//! `POST /agent/call_tool`: a page that the desktop shows calls a tool of its session.

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use everturn_core::{Content, Json as Text};
use everturn_engine::DirectCallError;
use everturn_http::{Scope, document::any_json};
use everturn_store::SessionRecord;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use crate::{
    Style,
    answers::{Always, NoSession, Posted},
    describe::session,
    error::ApiError,
    routes::{Api, session_named},
    wire::ResultItems,
};

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::CallToolRequest)]
pub(crate) struct CallIn {
    #[schema(schema_with = session, required)]
    session_id: Option<String>,
    /// The tool, as the session's list has it: `server__tool`.
    #[schema(required, nullable = false)]
    name: Option<String>,
    /// An object that fits the tool's schema; empty if it is left out.
    #[schema(schema_with = any_json, required = false)]
    arguments: Option<Box<RawValue>>,
}

/// What a tool gave.
#[derive(utoipa::ToSchema)]
#[schema(as = goose::CallToolResponse)]
#[expect(dead_code, reason = "what the answer looks like, for the document")]
struct Called {
    /// Texts and images.
    content: Vec<Value>,
    /// Whether it says that the call failed.
    #[schema(rename = "isError")]
    is_error: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CalledOut<'a> {
    content: ResultItems<'a>,
    is_error: bool,
}

/// Call a tool of a session
///
/// One that the session has and that runs without asking. The conversation does not show it, and a client that goes away
/// ends the call.
#[utoipa::path(
    post, path = "/agent/call_tool", operation_id = "goose_released_call_tool",
    request_body(content = CallIn, description = "Which session, tool and arguments", example = json!({
        "session_id": "20260304_1", "name": "files__read", "arguments": { "path": "notes.txt" },
    })),
    responses(
        (status = 200, description = "What it gave", body = Called, example = json!({
            "content": [{ "type": "text", "text": "milk" }], "isError": false,
        })),
        Always, Posted, NoSession,
    ),
)]
pub(crate) async fn call(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let CallIn { session_id, name, arguments } = api.read(&caller, &headers, body).await?;
    let name = name.ok_or_else(|| ApiError::invalid("name is missing: the name of a tool"))?;
    let arguments = match arguments.as_deref().map(RawValue::get) {
        None | Some("null") => Text::empty_object(),
        Some(text) if text.starts_with('{') => {
            Text::of(&json!(arguments)).map_err(|error| ApiError::internal(&error))?
        }
        Some(_) => return Err(ApiError::invalid("arguments: they are an object")),
    };
    let record = api.record(&caller.tenant, &session_named(session_id)?).await?;
    let record = SessionRecord { config: api.chosen_config(&record).await?, ..record };
    let agent = api.agent_of(&caller.tenant, &record.config).await?;
    let output = api.engine.call_directly(&record, &agent, &name, arguments).await.map_err(refused)?;
    let content: &Content = &output.content;
    let content = ResultItems { style: Style::Released, content };
    Ok(Json(CalledOut { content, is_error: output.is_error }).into_response())
}

fn refused(error: DirectCallError) -> ApiError {
    let text = error.to_string();
    match error {
        DirectCallError::UnknownTool { .. } => ApiError::not_found(text),
        DirectCallError::AsksFirst { .. } | DirectCallError::Denied { .. } => {
            ApiError::new(StatusCode::FORBIDDEN, text)
        }
        DirectCallError::OnlyInTurn { .. } | DirectCallError::Input { .. } => ApiError::invalid(text),
        DirectCallError::Busy => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, text),
        DirectCallError::Store(error) => error.into(),
    }
}
