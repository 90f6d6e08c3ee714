//! The durable agent server: its command line, its configuration and how its parts are put together.

mod api_document;
mod banner;
pub mod cli;
mod compose;
pub mod config;
pub mod document_reader;
pub mod guard;
mod keys;
mod machine_memory;
mod mcp;
mod models;
mod reload;
mod secrets;
pub mod serve;
mod space_metrics;
pub mod telemetry;
mod terminal;
mod vacuum;
