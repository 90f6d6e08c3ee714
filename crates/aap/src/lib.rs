//! The Agent Application Protocol, version 1.
//!
//! An application owns the user interface and its own tools; the server runs the loop, the history and its tools. This
//! crate alone knows the protocol's JSON: [`routes`] are its doors, `wire` its types, `projection` its view of the log.

mod answer;
mod cursor;
mod error;
mod meta;
mod projection;
mod request;
mod routes;
mod session;
mod wire;

pub use projection::projections;
pub use routes::{Aap, routes};
