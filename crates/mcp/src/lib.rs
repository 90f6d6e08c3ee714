//! MCP servers as tools.
//!
//! [`Mcp::start`] takes the [`ServerConfig`]s of a configuration, starts what they name, keeps it running, and puts the
//! servers' tools into a [`everturn_tools::ToolSet`]. Each server is started once and shared by all sessions. Nothing
//! waits for it: until it is ready, and whenever it is not, the set of tools knows why, and calls fail at once.
//!
//! - A server that fails is started again, for ever, with growing pauses ([`Backoff`]).
//! - A program never runs without its [`guard`], so that it never outlives this process, nor do its children.
//! - Everything that a server says is bounded: messages, notifications, tools, schemas, images, lines for the log.
//! - What a call reports goes to the [`everturn_tools::Reporter`] of that call: progress, log messages, questions to the
//!   person.
//!
//! How servers are: [`Mcp::health`], [`Mcp::report`], [`Metrics`]. Only this crate knows the MCP SDK.

mod calls;
mod chatter;
mod config;
mod confinement;
mod connection;
pub mod guard;
mod habits;
mod handler;
mod health;
mod http;
mod kept_lists;
mod launcher;
mod lines;
mod link;
mod listing;
mod metrics;
mod naming;
mod outcome;
mod peek;
mod process;
mod resources;
mod scan;
mod server;
mod servers;
mod stdio;
mod tap;
mod tool;
mod words;

pub use config::{Backoff, Endpoint, MAX_NAME, ServerConfig, effect_word, is_server_name};
pub use confinement::{Confined, Confinement, Landlock, Sandbox};
pub use health::{LeftOut, ServerHealth, ServerReport, ServerState, ToolReport};
pub use kept_lists::KeptLists;
pub use launcher::Launcher;
pub use metrics::Metrics;
pub use servers::{Mcp, Parts, Reloaded};
