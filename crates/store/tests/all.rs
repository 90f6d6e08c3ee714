//! The integration tests of this crate: one binary.

#![expect(clippy::unwrap_used, reason = "a test that meets a surprise has failed")]

mod suite;
