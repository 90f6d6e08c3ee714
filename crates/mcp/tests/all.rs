//! One binary for all integration tests of this crate.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod suite;
