//! The protocol against an engine in memory, by whole requests and answers.

mod again;
mod answers;
mod failed_results;
mod failures;
mod formats;
mod harness;
mod refusals;
mod sessions;
mod slow_tool;
mod streams;
mod tools;
mod waiting;
