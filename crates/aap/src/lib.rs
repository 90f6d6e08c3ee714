//! The Agent Application Protocol, versions 1 and 3.
//!
//! An application owns the user interface and its own tools; the server runs the loop, the history and its tools. This
//! crate alone knows the protocol's JSON: `v1` and `v3` are its doors, `turn` and `session` what is behind both, `wire` its
//! types, `projection` its view of the log.

mod answer;
mod cursor;
mod error;
mod listing;
mod meta;
mod projection;
mod refusals;
mod request;
mod routes;
mod session;
mod turn;
mod v1;
mod v3;
mod version;
mod wire;

pub use projection::projections;
pub use routes::{Aap, routes};
