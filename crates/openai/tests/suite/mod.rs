//! The protocol against an engine in memory, by whole requests and answers.

mod again;
mod answers;
mod failures;
mod harness;
mod refusals;
mod sessions;
mod streams;
mod tools;
mod waiting;
