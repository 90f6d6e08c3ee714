//! Rules that the repository keeps, as tests.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends with a panic")]

mod suite;
