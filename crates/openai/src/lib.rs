//! OpenAI's chat completions: an SDK that was made for OpenAI talks to agents.
//!
//! A request without `session_id` is whole in itself: it makes a session of the history that it brings and runs its last
//! message at once. One with `session_id` goes on with that session. Calls of the application's own tools come back with
//! ids that know where they wait (`call_id.rs`), so that the results find their turn without being told where it is.
//! This crate alone knows the protocol's JSON.

mod again;
mod answer;
mod attempts;
mod call_id;
mod chat;
mod content;
mod delivery;
mod description;
mod end;
mod error;
mod files;
mod follow_up;
mod messages;
mod models;
mod out;
mod parameters;
mod projection;
mod reasoning;
mod request;
mod response_format;
mod retries;
mod routes;
mod tool_choice;
mod waiting;

pub use projection::projections;
pub use routes::{OpenAi, routes};
