//! Goose, as its protocol is described and as it was released: what clients of either see.

mod conversations;
mod effects;
mod ends;
mod events;
mod examples;
mod frames;
mod inputs;
mod overrides;
mod questions;
mod recipes;
mod sessions;
mod tokens;
mod transcript;
mod world;
