//! The answers that say no, for the API document. Each is made as the handlers make it.

use std::{marker::PhantomData, time::Duration};

use everturn_core::submission;
use everturn_engine::{QuotaExceeded, SubmitError, Whose};
use everturn_http::{
    AuthError, BodyError, KeyError, Scope,
    document::{self, Events},
};
use http::StatusCode;
use serde_json::json;
use utoipa::{
    IntoResponses, PartialSchema as _, ToSchema,
    openapi::{Content, RefOr},
};

use crate::{
    describe::{Event, ReleasedEvent},
    error::{ApiError, ErrorBody},
};

/// What is told, and when.
type Told = (&'static str, ApiError);

macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident = [$($told:expr),* $(,)?];)*) => {
        $(
            $(#[$doc])*
            pub(crate) struct $name;

            impl utoipa::IntoResponses for $name {
                fn responses() -> document::Answers {
                    told([$($told),*])
                }
            }
        )*
    };
}

/// Events that say that a session is busy.
pub(crate) trait Busy {
    /// How they look.
    const BUSY: &'static str;
}

impl Busy for Event {
    const BUSY: &'static str = r#"data: {"type":"Error","error":"Session already has an active request. Cancel it first, or wait until it ends.","token_state":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"accumulated_input_tokens":12,"accumulated_output_tokens":4,"accumulated_total_tokens":16}}

data: {"type":"Finish","reason":"error","token_state":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"accumulated_input_tokens":12,"accumulated_output_tokens":4,"accumulated_total_tokens":16}}

"#;
}

impl Busy for ReleasedEvent {
    const BUSY: &'static str = r#"data: {"type":"Error","error":"Session already has an active request. Cancel it first, or wait until it ends."}

data: {"type":"Finish","reason":"error","token_state":{"inputTokens":12,"outputTokens":4,"totalTokens":16,"accumulatedInputTokens":12,"accumulatedOutputTokens":4,"accumulatedTotalTokens":16,"accumulatedCost":null}}

"#;
}

/// What a door may answer besides where something is said and its answer streams: clients that take events are told in
/// events that the session is busy.
pub(crate) struct Refused<E>(PhantomData<E>);

impl<E: ToSchema + Busy> IntoResponses for Refused<E> {
    fn responses() -> document::Answers {
        let mut answers = NotSaid::responses();
        if let Some(RefOr::T(busy)) = answers.get_mut("409") {
            let content = Content::builder().schema(Some(Events::<E>::schema())).example(Some(json!(E::BUSY))).build();
            busy.content.insert("text/event-stream".to_owned(), content.into());
        }
        answers
    }
}

fn told<const N: usize>(errors: [Told; N]) -> document::Answers {
    let answer = |(when, error): Told| {
        let status = error.status().as_u16();
        // A value of strings cannot fail to be written.
        (status, when, serde_json::to_value(error.body()).unwrap_or_default())
    };
    document::errors::<ErrorBody>(errors.map(answer))
}

answers! {
    /// What every door may answer.
    Always = [
        ("No key was sent", AuthError::Missing.into()),
        ("The key is not valid", AuthError::Invalid.into()),
        ("The key does not allow this", AuthError::Scope { needed: Scope::Chat }.into()),
        ("The key or its tenant is at a limit", limited()),
        ("The server is busy or stopping, or its store is in trouble", {
            ApiError::submit(SubmitError::ShuttingDown, None)
        }),
    ];
    /// What a door may answer besides that takes JSON.
    Posted = [
        ("The body is not valid", BodyError::Malformed("the body is not valid at id: invalid type".to_owned()).into()),
        ("The body did not arrive in time", BodyError::TooSlow.into()),
        ("The body is too long", BodyError::TooLong { limit: 1_048_576 }.into()),
        ("The body is not JSON", BodyError::NotJson(Some("text/plain".to_owned())).into()),
        ("A field is missing or makes no sense", ApiError::invalid("session_id is missing")),
    ];
    /// What a door may answer besides where something is said.
    NotSaid = [
        ("The tenant stores as much as it may", storage_full()),
        ("There is no such session, recipe or question", no_session()),
        ("A turn runs in the session", ApiError::submit(submission::Refused::Busy.into(), None)),
        ("The name was used for another request", key_reused()),
        ("The session was deleted", {
            ApiError::new(StatusCode::GONE, "session session-abc123 was deleted; its name is not used again")
        }),
    ];
    /// What making a session may answer besides.
    NotMade = [
        ("The tenant stores as much as it may", storage_full()),
        ("There is no such recipe", ApiError::not_found("there is no recipe \"code-helper\"; there are: plain")),
        ("The key was used for another request", key_reused()),
    ];
    /// What a change of a session's recipe may answer besides.
    NotDressed = [
        ("There is no such session, or it has no recipe", ApiError::not_found("Recipe not found")),
        ("The session has begun", {
            ApiError::conflict("this session has begun, and keeps the values that its recipe has")
        }),
    ];
    /// What a cut may answer besides.
    NotCut = [
        ("The tenant stores as much as it may", storage_full()),
        ("There is no such session or message", no_session()),
        ("A turn runs or waits in the session", ApiError::conflict("a turn runs or waits in this session")),
        ("The key was used for another request", key_reused()),
    ];
    /// What a decision may answer besides.
    NotDecided = [
        ("Nobody asked about this call", {
            ApiError::not_found("there is no tool request \"call_none\" that was asked about in this session")
        }),
        ("Something else was decided before", ApiError::conflict("this call was allowed before")),
    ];
    /// What deleting may answer besides.
    NotDeleted = [
        ("The header Idempotency-Key is not as it must be", KeyError.into()),
        ("There is no such session", no_session()),
        ("The key was used for another request", key_reused()),
    ];
    /// What a stream of a session may answer besides.
    NotOpened = [
        ("Last-Event-ID is not the id of an event of this stream", {
            ApiError::new(StatusCode::BAD_REQUEST, "Last-Event-ID \"x\" is not the id of an event of this stream")
        }),
        ("There is no such session", no_session()),
        ("The cursor is beyond what there is", ApiError::invalid("the cursor is beyond the turn's last event, 17")),
    ];
    /// What a list may answer besides.
    NotListed = [
        ("The query cannot be read", ApiError::new(StatusCode::BAD_REQUEST, "the query string is not valid")),
        ("A parameter makes no sense", ApiError::invalid("limit=\"0\" is not a number from 1 to 200")),
    ];
    /// What a question about a session of the query may answer besides.
    NotAsked = [
        ("The query cannot be read", ApiError::new(StatusCode::BAD_REQUEST, "the query string is not valid")),
        ("There is no such session", no_session()),
        ("A parameter is missing", ApiError::invalid("session_id is missing")),
    ];
    /// What a change of tools or modes may answer besides.
    NotChosen = [
        ("The session's application says which tools it trusts, or there are too many standing permissions", {
            ApiError::conflict("this session's application says which tools it trusts")
        }),
    ];
    /// What a look at a resource may answer besides.
    NotRead = [
        ("There is no such session, or it has no such MCP server", no_session()),
        ("The MCP server does not give it", {
            ApiError::not_found("the resource cannot be read: MCP server \"files\": it has no resources")
        }),
    ];
    /// There is no such session.
    NoSession = [("There is no such session", no_session())];
}

fn no_session() -> ApiError {
    ApiError::no_session("session-none")
}

fn key_reused() -> ApiError {
    ApiError::submit(SubmitError::KeyReused { key: "order-17".to_owned() }, None)
}

fn storage_full() -> ApiError {
    let quota = QuotaExceeded::Storage { limit: 10_000_000_000, used: 10_000_002_048 };
    ApiError::submit(quota.into(), None)
}

fn limited() -> ApiError {
    AuthError::TooMany { whose: Whose::Key, limit: 10, retry_after: Duration::from_millis(100) }.into()
}
