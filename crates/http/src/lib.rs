//! What every HTTP dialect shares: keys, limits on bodies, event streams, CORS, request ids, the accept loop.
//!
//! Nothing here knows a protocol. A dialect brings its routes, its request types, its errors and its projections.

mod auth;
mod body;
mod cors;
mod frame_stream;
mod idempotency;
mod metrics;
mod object;
mod operations;
mod request_id;
mod server;
mod session_stream;
mod stream;
mod views;

pub use auth::{AuthError, Caller, Key, Keys, Scope};
pub use body::{BodyError, BodyLimits, parse_json, read_body};
pub use cors::cors;
pub use frame_stream::{Snapshots, frame_stream};
pub use idempotency::{IDEMPOTENCY_KEY, KeyError, named_submission, submission_key};
pub use metrics::{HttpMetrics, count_answers};
pub use object::Object;
pub use operations::{Operations, Report, operations};
pub use request_id::request_id;
pub use server::{Connections, serve};
pub use session_stream::session_stream;
pub use stream::{MESSAGE_ID, SESSION_ID, event_stream, identify};
pub use views::{Views, views};
