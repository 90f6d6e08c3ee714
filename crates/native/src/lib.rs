//! The durable streaming API, version 1.
//!
//! A client spawns a turn, then reads its log from any point and as often as it likes; the turn itself does not care.
//! This crate alone knows the API's JSON: [`routes`] are its doors, `projection` its view of the log. The stream of a
//! turn is read through the door that all dialects share (`everturn_http::views`).

mod agents;
mod answers;
mod artifacts;
mod code;
mod compact;
mod cut;
mod documents;
mod download;
mod error;
mod forms;
mod frame;
mod keys;
mod links;
mod messages;
mod model_options;
mod nullable;
mod paging;
mod path;
mod permissions;
mod projection;
mod routes;
mod session_out;
mod sessions;
mod spawn;
mod spawn_request;
mod stop;
mod thing;
mod time;
mod token;
mod turn_out;
mod upload;
mod usage;

pub use projection::projections;
pub use routes::{Native, routes};
