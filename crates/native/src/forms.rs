//! `/forms`: what people are asked. A form is answered by a spawn in its session.

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use everturn_core::{FormKind, Json as Text};
use everturn_engine::{Form, FormState};
use everturn_http::{Scope, document};
use everturn_store::RecordFilter;
use http::HeaderMap;
use serde::Serialize;
use serde_json::json;

use crate::{
    answers::{Always, Listed, NoForm},
    error::{ApiError, Thing},
    paging::{List, ListQuery, Page, Paged},
    path,
    routes::Api,
    time::rfc3339,
};

/// A page of forms.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Forms)]
struct Forms<'a> {
    forms: Vec<FormOut<'a>>,
    /// For the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// A question to people.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Form)]
struct FormOut<'a> {
    form_id: &'a str,
    #[schema(schema_with = kinds)]
    form_kind: &'static str,
    #[schema(schema_with = states)]
    status: &'a str,
    session_id: &'a str,
    message_id: &'a str,
    payload: Payload<'a>,
    /// What was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = document::any_json)]
    answer: Option<&'a Text>,
    #[schema(format = DateTime)]
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    closed_at: Option<String>,
}

/// The kinds of forms.
pub(crate) fn kinds() -> document::AnySchema {
    let kinds = [FormKind::Clarify, FormKind::Integration, FormKind::Signature, FormKind::Approval];
    document::schema(json!({ "type": "string", "enum": kinds.map(FormKind::as_str) }))
}

fn states() -> document::AnySchema {
    document::schema(json!({ "type": "string", "enum": FormState::ALL.map(FormState::as_str) }))
}

/// Which forms, for the document.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "a part of the list's query, for the document")]
struct StatusQuery {
    /// Of this status only
    #[param(schema_with = states, required = false)]
    status: Option<String>,
}

/// What is asked.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::FormPayload)]
struct Payload<'a> {
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    description: Option<&'a str>,
    /// A JSON schema: what an answer looks like.
    #[schema(schema_with = document::any_json)]
    schema: &'a Text,
    tool_call_id: &'a str,
}

impl<'a> From<&'a Form> for FormOut<'a> {
    fn from(form: &'a Form) -> Self {
        let opened = &form.opened;
        Self {
            form_id: opened.form_id.as_str(),
            form_kind: opened.kind.as_str(),
            status: &form.state,
            session_id: form.session.as_str(),
            message_id: form.turn.as_str(),
            payload: Payload {
                title: &opened.title,
                description: opened.description.as_deref(),
                schema: &opened.schema,
                tool_call_id: opened.call_id.as_str(),
            },
            answer: form.answer.as_ref(),
            created_at: rfc3339(form.created_at),
            expires_at: opened.expires_at.map(rfc3339),
            closed_at: form.closed_at.map(rfc3339),
        }
    }
}

/// List forms
///
/// What people are asked, newest first. A form is answered by a spawn in its session.
#[utoipa::path(
    get, path = "/forms", operation_id = "native_list_forms",
    params(
        Paged<{ List::Forms.letter() }>,
        ("session_id" = Option<String>, Query, description = "Of this session only", nullable = false),
        StatusQuery,
    ),
    responses(
        (status = 200, description = "A page", body = Forms<'_>, example = json!({ "forms": [{
            "form_id": "form_0198c0ffee", "form_kind": "clarify", "status": "open", "session_id": "sess_0198c0ffee",
            "message_id": "turn_0198c0ffee",
            "payload": {
                "title": "Which city?", "schema": { "type": "object", "properties": { "city": { "type": "string" } } },
                "tool_call_id": "call_1",
            },
            "created_at": "2026-07-25T17:20:00.120Z", "expires_at": "2026-07-26T17:20:00.120Z",
        }] })),
        Always, Listed,
    ),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    headers: HeaderMap,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let Query(query) = query?;
    let page = Page::new(List::Forms, &query)?;
    let state = query.status.as_deref().map(status).transpose()?;
    let mut forms = match query.session() {
        Some(session) => {
            let filter = RecordFilter { session, state: state.map(|state| state.as_str().to_owned()) };
            api.engine.forms(&caller.tenant, &filter, page.below, page.wanted()).await?
        }
        None => Vec::new(),
    };
    let next_cursor = page.cut(&mut forms, |form| form.position);
    let forms = forms.iter().map(FormOut::from).collect();
    Ok(Json(Forms { forms, next_cursor }).into_response())
}

/// Show a form
#[utoipa::path(
    get, path = "/forms/{form}", operation_id = "native_show_form",
    params(("form" = String, Path, description = "The form", example = "form_0198c0ffee")),
    responses(
        (status = 200, description = "The form", body = FormOut<'_>, example = json!({
            "form_id": "form_0198c0ffee", "form_kind": "clarify", "status": "open", "session_id": "sess_0198c0ffee",
            "message_id": "turn_0198c0ffee",
            "payload": {
                "title": "Which city?", "schema": { "type": "object", "properties": { "city": { "type": "string" } } },
                "tool_call_id": "call_1",
            },
            "created_at": "2026-07-25T17:20:00.120Z", "expires_at": "2026-07-26T17:20:00.120Z",
        })),
        Always, NoForm,
    ),
)]
pub(crate) async fn show(State(api): State<Api>, path: path::One, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let name = path::name(path, Thing::Form)?;
    let form = match name.parse() {
        Ok(id) => api.engine.form(&caller.tenant, &id).await?,
        Err(_) => None,
    };
    let form = form.ok_or_else(|| ApiError::no(Thing::Form, &name))?;
    Ok(Json(FormOut::from(&form)).into_response())
}

fn status(word: &str) -> Result<FormState, ApiError> {
    FormState::ALL.into_iter().find(|state| state.as_str() == word).ok_or_else(|| {
        let shown: String = word.chars().take(64).collect();
        let words = FormState::ALL.map(FormState::as_str).join(", ");
        ApiError::invalid(format!("status={shown:?} is not known; use one of: {words}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_words() {
        assert_eq!(status("open"), Ok(FormState::Open));
        assert_eq!(status("cancelled"), Ok(FormState::Cancelled));
        let error = format!("{:?}", status("Open").unwrap_err());
        assert!(error.contains("use one of: open, answered, expired, cancelled"), "{error}");
    }
}
