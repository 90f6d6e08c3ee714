//! All integration tests of the crate, in one binary.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod suite;
