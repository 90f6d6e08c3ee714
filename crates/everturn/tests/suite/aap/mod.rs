//! The Agent Application Protocol, version 1, as a client sees it.

mod capabilities;
mod client_tools;
mod cors;
mod errors;
mod failed_calls;
mod history;
mod images;
mod keys;
mod listing;
mod meta;
mod modes;
mod options;
mod overrides;
mod parallel;
mod permissions;
mod provider_trouble;
mod repetition;
mod resumption;
mod running;
mod seed;
mod stops;
mod submissions;
mod trusted_tools;
mod withdrawn_tools;
