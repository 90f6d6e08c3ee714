//! The integration tests of this crate: one binary.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test that uses them")]

mod suite;
