//! The protocol of Goose's releases, under `/goose`: the built program, its tools in an MCP server of its own.

mod confirmation;
mod controls;
mod cut_readers;
mod desktop;
mod doors;
mod elicitation;
mod events;
mod forks;
mod hostile;
mod hostile_files;
mod keys;
mod requests;
mod sessions;
mod shown;
mod standing;
mod stuck;
mod transfer;
mod world;
