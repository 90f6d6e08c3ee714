//! What every HTTP dialect shares: keys, limits on bodies, event streams, CORS, request ids, the accept loop.
//!
//! Nothing here knows a protocol. A dialect brings its routes, its request types, its errors and its projections.

mod activity;
mod auth;
mod body;
mod connection;
mod crowd;
mod docs;
pub mod document;
mod forwarded;
mod frame_stream;
mod held_answer;
mod host;
mod idempotency;
mod keys;
mod metrics;
mod object;
mod operations;
mod origins;
mod problem;
mod proxies;
mod renewal;
mod request_id;
mod server;
mod session_stream;
mod stream;
mod tls;
mod view_error;
mod views;

pub use auth::{AuthError, Caller, NoScope, Scope, retry_seconds};
pub use body::{BodyError, BodyLimits, Received, parse_json, read_body};
pub use docs::docs;
pub use frame_stream::{Snapshots, frame_stream};
pub use held_answer::held;
pub use host::own_host;
pub use idempotency::{IDEMPOTENCY_KEY, KeyError, named_submission, submission_key};
pub use keys::{
    BookError, Key, KeyInfo, KeyStatus, Keys, MAX_KEY_NAME, MAX_LIVE_KEYS, MetricsKey, NewKey, Quotas, end_with_key,
};
pub use metrics::{HttpMetrics, count_answers};
pub use object::Object;
pub use operations::{Operations, Report, operations};
pub use origins::{NoOrigin, Origin, Origins, cross_origin};
pub use problem::{RefusedOpenly, problem};
pub use proxies::{ClientAddress, Proxies, ProxyHeaders};
pub use request_id::request_id;
pub use server::{Connections, serve};
pub use session_stream::session_stream;
pub use stream::{MESSAGE_ID, Patience, SESSION_ID, event_stream, identify, impatient_event_stream};
pub use tls::{Tls, TlsError, TlsFiles, Untimely};
pub use views::{Views, views};
