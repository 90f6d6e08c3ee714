//! `/forms`: what people are asked. A form is answered by a spawn in its session.

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use everturn_core::Json as Text;
use everturn_engine::{Form, FormState};
use everturn_http::Scope;
use everturn_store::RecordFilter;
use http::HeaderMap;
use serde::Serialize;

use crate::{
    error::{ApiError, Thing},
    paging::{List, ListQuery, Page},
    path,
    routes::Api,
    time::rfc3339,
};

#[derive(Serialize)]
struct Forms<'a> {
    forms: Vec<FormOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct FormOut<'a> {
    form_id: &'a str,
    form_kind: &'static str,
    status: &'a str,
    session_id: &'a str,
    message_id: &'a str,
    payload: Payload<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<&'a Text>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed_at: Option<String>,
}

#[derive(Serialize)]
struct Payload<'a> {
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
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
