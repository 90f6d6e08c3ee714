//! Feeds what strangers may send to everything that reads it: damaged, cut, multiplied and mixed.
//!
//! A [`targets::Target`] reads bytes and says what is wrong with how they were read. [`mutate`] makes new inputs of a
//! corpus; it does not see which code they reach. So the corpora matter: each file shows a target one more thing that it can
//! read. Every run names its seed, with which it can be repeated.

pub mod corpus;
pub mod mutate;
pub mod random;
pub mod run;
pub mod targets;
