//! Input that nobody means well with: refused in good order, and the server still answers.

mod bytes;
mod memory;
mod mutations;
mod schemas;
mod sizes;
mod types;

use super::harness::Answer;

/// A refusal of the right shape, or an answer; never a fault of the server.
#[track_caller]
fn never_a_fault(answer: &Answer) {
    assert!(answer.status < 500, "a client's input is no fault of the server: {answer:?}");
    if answer.status >= 400 {
        answer.error();
    }
}
