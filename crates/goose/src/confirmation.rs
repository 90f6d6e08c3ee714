//! `POST /action-required/tool-confirmation`: a person's word on a call that waits for it.

use axum::{Json, body::Body, extract::State};
use everturn_core::{CallId, FormId, SessionId, TenantId};
use everturn_engine::{Form, FormState, SubmitError, Verdict};
use everturn_http::{Caller, Scope};
use http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    answers::{Always, NotDecided, Posted},
    describe::{Decision, Nothing},
    error::ApiError,
    routes::{Api, empty},
};

/// What the model is told of a call that was denied.
const DECLINED: &str = "The user has declined to run this tool. DO NOT attempt to call this tool again. If there are no \
    alternative methods to proceed, clearly explain the situation and STOP.";

/// How long a call's id may be, in bytes.
const MAX_CALL_ID: usize = 128;

#[derive(Deserialize)]
pub(crate) struct DecisionIn {
    id: Option<String>,
    action: Option<String>,
    #[serde(rename = "sessionId", alias = "session_id")]
    session: Option<String>,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Decide { granted: bool, always: bool },
    Cancel,
}

impl Action {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "allow_once" => Self::Decide { granted: true, always: false },
            "always_allow" => Self::Decide { granted: true, always: true },
            "deny_once" | "deny" => Self::Decide { granted: false, always: false },
            "always_deny" => Self::Decide { granted: false, always: true },
            "cancel" => Self::Cancel,
            _ => return None,
        })
    }
}

/// Say whether a tool may run
///
/// The call is shown and waits as long as it takes, also across restarts. To say the same twice is fine.
#[utoipa::path(
    post, path = "/action-required/tool-confirmation", operation_id = "goose_released_confirm_tool",
    request_body(content = Decision, description = "The word on a call", example = json!({
        "id": "call_0197f2ab", "action": "allow_once", "sessionId": "20260304_1",
    })),
    responses(
        (status = 200, description = "It is decided", body = Nothing, example = json!({})),
        Always, Posted, NotDecided,
    ),
)]
pub(crate) async fn decide(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Json<Value>, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let DecisionIn { id, action, session } = api.read(&caller, &headers, body).await?;
    let call = CallId::new(id.ok_or_else(|| ApiError::invalid("id is missing: the id of the tool request"))?);
    let action = action.ok_or_else(|| ApiError::invalid("action is missing"))?;
    let action = Action::of(&action).ok_or_else(|| {
        let shown: String = action.chars().take(64).collect();
        let known = "allow_once, always_allow, deny_once, always_deny or cancel";
        ApiError::invalid(format!("action {shown:?} is not known; use {known}"))
    })?;
    let form = api.form_of(&caller.tenant, &call, session.as_deref()).await?;
    match action {
        // A turn that is over does not ask the model what to do without the tool.
        Action::Cancel => {
            if form.state == FormState::Open.as_str() {
                api.engine.stop(&caller.tenant, &form.session, Some(&form.turn), None).await?;
            }
        }
        Action::Decide { granted, always } => {
            let reason = (!granted).then(|| DECLINED.to_owned());
            let verdict = Verdict { granted, always, reason };
            api.say(&caller, &form, &call, verdict).await?;
        }
    }
    Ok(empty())
}

impl Api {
    async fn form_of(&self, tenant: &TenantId, call: &CallId, session: Option<&str>) -> Result<Form, ApiError> {
        let found = match call.as_str().len() {
            1..=MAX_CALL_ID => self.engine.form(tenant, &FormId::of_call(call)).await?,
            _ => None,
        };
        let found = found.filter(|form| session.is_none_or(|session| form.session.as_str() == session));
        found.ok_or_else(|| {
            let shown: String = call.as_str().chars().take(128).collect();
            let message = format!("there is no tool request {shown:?} that was asked about in this session");
            ApiError::not_found(message)
        })
    }

    async fn say(&self, caller: &Caller, form: &Form, call: &CallId, verdict: Verdict) -> Result<(), ApiError> {
        let tenant = &caller.tenant;
        let (session, granted, always): (&SessionId, bool, bool) = (&form.session, verdict.granted, verdict.always);
        if form.state != FormState::Open.as_str() {
            return self.say_again(tenant, form, granted, always).await;
        }
        match self.engine.decide(tenant, &caller.account, session, call, verdict, None).await {
            Ok(_) => Ok(()),
            // Somebody else was faster.
            Err(SubmitError::FormClosed { form }) => match self.engine.form(tenant, &form).await? {
                Some(form) => self.say_again(tenant, &form, granted, always).await,
                None => Err(ApiError::submit(SubmitError::NotFound, Some(session))),
            },
            Err(error) => Err(ApiError::submit(error, Some(session))),
        }
    }
}

impl Api {
    /// The same word twice counts once; what was to stand stands, should it not have got that far.
    async fn say_again(&self, tenant: &TenantId, form: &Form, granted: bool, always: bool) -> Result<(), ApiError> {
        said_before(form, granted)?;
        match form.opened.asks_for.as_ref().filter(|_| always) {
            Some(call) => {
                let remembered = self.engine.remember(tenant, &call.name, granted).await;
                remembered.map_err(|error| ApiError::submit(error, Some(&form.session)))
            }
            None => Ok(()),
        }
    }
}

/// The same word twice is no trouble, another one is.
fn said_before(form: &Form, granted: bool) -> Result<(), ApiError> {
    let answer = form.answer.as_ref().map(|answer| answer.to_value()["approved"].clone());
    if answer == Some(Value::Bool(granted)) {
        return Ok(());
    }
    Err(ApiError::conflict(match (form.state.as_str(), answer) {
        ("answered", Some(Value::Bool(true))) => "this call was allowed before".to_owned(),
        ("answered", _) => "this call was denied before".to_owned(),
        (state, _) => format!("nobody waits for a word on this call any more: it is {state}"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_all_releases_are_known() {
        assert_eq!(Action::of("always_deny"), Some(Action::Decide { granted: false, always: true }));
        assert_eq!(Action::of("deny"), Action::of("deny_once"));
        assert_eq!(Action::of("AllowOnce"), None);
    }
}
