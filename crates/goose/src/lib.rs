//! Goose, in two forms: as its protocol is described, and as its releases spoke it.
//!
//! This crate alone knows Goose's JSON: [`routes`] are its doors, `wire` its types, both ways and in
//! both styles, `projection` its views of the log.

mod absent;
mod agent;
mod agent_update;
mod answers;
mod apps;
mod call_tool;
mod choices;
mod config;
mod confirmation;
mod deeplink;
mod describe;
mod error;
mod extensions;
mod fork;
mod insights;
mod permissions;
mod projection;
mod providers;
mod reach;
mod recipe;
mod recipe_list;
mod recipe_values;
mod refusal;
mod reply;
mod routes;
mod scalar;
mod search;
mod session_out;
mod sessions;
mod split;
mod style;
mod time;
mod transfer;
mod wire;

pub use projection::{projections, session_projection};
pub use routes::{Goose, routes};
pub use style::Style;
