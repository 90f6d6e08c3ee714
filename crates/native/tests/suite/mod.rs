//! The API against an engine in memory, by whole requests and answers.

mod agents;
mod artifacts;
mod documents;
mod forms;
mod harness;
mod refusals;
mod sessions;
mod stopping;
mod turns;
