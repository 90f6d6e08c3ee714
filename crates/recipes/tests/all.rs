//! Tests of the crate from outside, in one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends with a panic")]

mod suite;
