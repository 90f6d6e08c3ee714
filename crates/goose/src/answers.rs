//! The answers that say no, for the API document. Each is made as the handlers make it.

use std::time::Duration;

use everturn_core::submission::Refused;
use everturn_engine::{SubmitError, Whose};
use everturn_http::{AuthError, BodyError, KeyError, Scope, document};
use http::StatusCode;

use crate::error::{ApiError, ErrorBody};

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
        ("There is no such session, recipe or question", no_session()),
        ("A turn runs in the session", ApiError::submit(Refused::Busy.into(), None)),
        ("The name was used for another request", key_reused()),
        ("The session was deleted", {
            ApiError::new(StatusCode::GONE, "session session-abc123 was deleted; its name is not used again")
        }),
    ];
    /// What making a session may answer besides.
    NotMade = [
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
    /// There is no such session.
    NoSession = [("There is no such session", no_session())];
}

fn no_session() -> ApiError {
    ApiError::no_session("session-none")
}

fn key_reused() -> ApiError {
    ApiError::submit(SubmitError::KeyReused { key: "order-17".to_owned() }, None)
}

fn limited() -> ApiError {
    AuthError::TooMany { whose: Whose::Key, limit: 10, retry_after: Duration::from_millis(100) }.into()
}
