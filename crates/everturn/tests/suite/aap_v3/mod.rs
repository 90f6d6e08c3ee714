//! The Agent Application Protocol, version 3, as a client sees it. What lies behind the doors is the same as in version 1,
//! and tested there.

mod application;
mod cors;
mod doors;
mod errors;
mod history;
mod listing;
mod overrides;
mod quotas;
mod repetition;
mod resumption;
mod seeds;
mod shape;
mod tenants;
mod tools;
mod turns;
mod two_versions;
