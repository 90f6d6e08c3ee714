//! The answers that say no, for the API document. Each is made as the handlers make it.

use everturn_core::submission::Refused;
use everturn_engine::{QuotaExceeded, SubmitError};
use everturn_http::{AuthError, BodyError, BookError, KeyError, MAX_LIVE_KEYS, Scope, document};

use crate::{
    code::Code,
    compact,
    error::{ApiError, ErrorBody, Thing},
    keys,
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

fn told<const N: usize>(errors: [Told; N]) -> document::Answers {
    let answer = |(when, error): Told| {
        let status = error.status().as_u16();
        // A value of strings cannot fail to be written.
        (status, when, serde_json::to_value(ErrorBody { detail: error }).unwrap_or_default())
    };
    document::errors::<ErrorBody>(errors.map(answer))
}

answers! {
    /// What every door may answer.
    Always = [
        ("No key was sent", AuthError::Missing.into()),
        ("The key is not valid", AuthError::Invalid.into()),
        ("The key does not allow this", AuthError::Scope { needed: Scope::Admin }.into()),
        ("The key or its tenant is at a limit", limited()),
        ("The store is in trouble, or the server is busy or stopping", {
            ApiError::new(Code::Overloaded, "the server is busy; try again later")
        }),
    ];
    /// What a list may answer besides.
    Listed = [
        ("The cursor is none of this list", {
            ApiError::new(Code::CursorInvalid, "cursor=\"x\" is not a cursor of this list")
                .hint("use next_cursor of the page before, as it is")
        }),
        ("The query is not as it must be", ApiError::invalid("limit=\"0\" is not a number from 1 to 200")),
    ];
    /// What a door may answer besides that takes JSON.
    Posted = [
        ("The body ended early", BodyError::Cut.into()),
        ("The body did not arrive in time", BodyError::TooSlow.into()),
        ("The body is too long", BodyError::TooLong { limit: 1_048_576 }.into()),
        ("The body is not JSON", BodyError::NotJson(Some("text/plain".to_owned())).into()),
        ("The request is not as it must be", ApiError::invalid("name is missing")),
    ];
    /// What a door may answer besides that takes an `Idempotency-Key`, and no body.
    Keyed = [
        ("The key was used for another request", key_reused()),
        ("The header Idempotency-Key is not as it must be", KeyError.into()),
    ];
    /// What a change of a session may answer.
    Busy = [
        ("The tenant stores as much as it may", storage_full()),
        ("A turn runs or waits in the session", ApiError::submit(Refused::Busy.into(), None)),
        ("The key was used for another request", key_reused()),
    ];
    /// What a wish to compact may answer.
    NotCompacted = [("A turn runs, waits or is queued in the session", compact::busy())];
    /// What a spawn may answer.
    NotSpawned = [
        ("The tenant stores as much as it may", storage_full()),
        ("A turn runs in the session, and on_busy says to reject then", {
            ApiError::submit(Refused::Busy.into(), None)
        }),
        ("As many messages as may wait are waiting", ApiError::submit(SubmitError::QueueFull { limit: 16 }, None)),
        ("The form is not open", ApiError::submit(Refused::Empty.into(), None)),
        ("The key was used for another request", key_reused()),
        ("There is no such session, agent, document or form", ApiError::no(Thing::Session, "sess_none")),
    ];
    /// What making an agent may answer.
    AgentTaken = [
        ("There is, or was, an agent of this id", {
            ApiError::new(Code::AgentExists, "there is, or was, an agent \"ann\"; choose another agent_id")
        }),
        ("The key was used for another request", key_reused()),
    ];
    /// What changing an agent may answer.
    AgentChanged = [
        ("The body ended early", BodyError::Cut.into()),
        ("The agent is configured on the server", read_only()),
        ("There is no such agent", ApiError::no(Thing::Agent, "ann")),
        ("Somebody else changes it", changed()),
        ("The key was used for another request", key_reused()),
    ];
    /// What deleting an agent may answer.
    AgentFixed = [
        ("The agent is configured on the server", read_only()),
        ("There is no such agent", ApiError::no(Thing::Agent, "ann")),
        ("Somebody else changes it", changed()),
        ("The key was used for another request", key_reused()),
    ];
    /// What an upload may answer.
    NotTaken = [
        ("The tenant would store more than it may", storage_full()),
        ("The body ended early", BodyError::Cut.into()),
        ("The document did not arrive in time", BodyError::TooSlow.into()),
        ("The document was deleted since, or the key is another one's", ApiError::no(Thing::Document, "doc_none")),
        ("The key was used for another request", key_reused()),
        ("The document is too large", {
            ApiError::new(Code::DocumentSizeExceeded, "the document has more than 50 MB, which is the limit")
                .hint("split it, or leave out what is not needed")
        }),
        ("It is not of a kind that can be read", {
            ApiError::new(Code::DocumentFormatUnsupported, "documents of this kind cannot be read")
        }),
        ("The form is not as it must be", {
            ApiError::invalid("the field \"file\" is missing; send the document in it")
        }),
        ("The document cannot be read", {
            ApiError::new(Code::DocumentPasswordProtected, "the document is protected with a password")
        }),
    ];
    /// There is no such session.
    NoSession = [("There is no such session", ApiError::no(Thing::Session, "sess_none"))];
    /// There is no such message.
    NoMessage = [("There is no such session or message", ApiError::no(Thing::Message, "turn_none"))];
    /// There is no such agent.
    NoAgent = [("There is no such agent", ApiError::no(Thing::Agent, "ann"))];
    /// There is no such document.
    NoDocument = [("There is no such document", ApiError::no(Thing::Document, "doc_none"))];
    /// There is no such form.
    NoForm = [("There is no such form", ApiError::no(Thing::Form, "form_none"))];
    /// There is no such artifact.
    NoArtifact = [("There is no such artifact, or no such version of it", ApiError::no(Thing::Artifact, "art_none"))];
    /// What making a key may answer.
    KeyNotMade = [
        ("The key does not allow this", AuthError::Scope { needed: Scope::Admin }.into()),
        ("The server has no keys yet", keys::first()),
        ("This request was made before", {
            BookError::MadeBefore { id: "key_0199a1b2c3d47e8f9a0b1c2d3e4f5a6b".to_owned() }.into()
        }),
        ("The tenant has as many keys as it may", BookError::TooMany { limit: MAX_LIVE_KEYS }.into()),
        ("The Idempotency-Key was used for another request", key_reused()),
    ];
    /// The key stands in the configuration.
    KeyFixed = [
        ("The key stands in the configuration", BookError::Configured { id: "key_config_ops".to_owned() }.into()),
        ("There is no such key", ApiError::no(Thing::Key, "key_none")),
        ("Somebody else changes it", BookError::Conflict { id: "key_none".to_owned() }.into()),
    ];
    /// There is no such key.
    NoKey = [("There is no such key", ApiError::no(Thing::Key, "key_none"))];
    /// There is no such permission.
    NoPermission = [("Nothing was decided about this tool", ApiError::no(Thing::Permission, "clock"))];
}

fn key_reused() -> ApiError {
    ApiError::submit(SubmitError::KeyReused { key: "order-17".to_owned() }, None)
}

fn read_only() -> ApiError {
    let message =
        "agent \"demo\" is configured on this server and read-only; change the server's configuration instead";
    ApiError::new(Code::AgentReadOnly, message)
}

fn changed() -> ApiError {
    let message = "agent \"ann\" was changed by somebody else meanwhile; read it and try again";
    ApiError::new(Code::Conflict, message)
}

fn storage_full() -> ApiError {
    QuotaExceeded::Storage { limit: 10_000_000_000, used: 10_000_002_048 }.into()
}

fn limited() -> ApiError {
    ApiError::new(Code::RateLimited, "the key may make 10 requests per second; try again in 1 s")
}
