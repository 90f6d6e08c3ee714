//! Goose, in two forms: as its protocol is described, and as its releases spoke it.
//!
//! This crate alone knows Goose's JSON: [`routes`] are its doors, `wire` its types, both ways and in
//! both styles, `projection` its views of the log.

mod agent;
mod answers;
mod confirmation;
mod describe;
mod error;
mod fork;
mod projection;
mod recipe;
mod recipe_list;
mod recipe_values;
mod reply;
mod routes;
mod scalar;
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
