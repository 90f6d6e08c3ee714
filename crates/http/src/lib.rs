//! What every HTTP dialect shares: keys, limits on bodies, event streams, CORS, request ids, the accept loop.
//!
//! Nothing here knows a protocol. A dialect brings its routes, its request types, its errors and its projections.

mod auth;
mod body;
mod cors;
mod idempotency;
mod metrics;
mod object;
mod operations;
mod request_id;
mod server;
mod stream;
mod views;

pub use auth::{AuthError, Caller, Key, Keys, Scope};
pub use body::{BodyError, BodyLimits, parse_json, read_body};
pub use cors::cors;
pub use idempotency::{IDEMPOTENCY_KEY, KeyError, submission_key};
pub use metrics::{HttpMetrics, count_answers};
pub use object::Object;
pub use operations::{Operations, operations};
pub use request_id::request_id;
pub use server::{Connections, serve};
pub use stream::{MESSAGE_ID, SESSION_ID, event_stream, identify};
pub use views::{Views, views};
