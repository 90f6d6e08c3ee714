//! MCP servers as tools of turns, through everything that there is in between.

mod approvals;
mod broken;
mod by_hand;
mod commands;
mod confinement;
mod effects;
mod failures;
mod lists;
mod orphans;
mod parallel;
mod peers;
mod questions;
mod secrets;
mod shown_history;
mod tool_events;
pub(super) mod world;
