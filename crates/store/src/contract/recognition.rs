//! Commands that are submitted again because nobody knows what became of them.

use everturn_core::TurnId;

use super::{
    Harness,
    fixture::{
        Talk, accept, append, append_rest, assert_log, commit, config, ended, receipt, rest, segment, submit, usage,
        waiting,
    },
};
use crate::Refusal;

/// The same creation gives the same receipt, also when the session has a turn by now; another one is refused.
pub async fn creating_again_is_recognised(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    assert_eq!(submit(&store, talk.create()).await, receipt(0, 1));
    assert_eq!(submit(&store, talk.create()).await, receipt(0, 1));
    let crate::Command::CreateSession(mut other) = talk.create() else { unreachable!("a creation") };
    other.config = config("another");
    assert_eq!(submit(&store, crate::Command::CreateSession(other)).await, Err(Refusal::Exists));
    accept(&store, talk.begin(&TurnId::mint(), Some(1), 1)).await;
    assert_eq!(submit(&store, talk.create()).await, receipt(0, 1));
}

/// The turn's name tells.
pub async fn beginning_again_is_recognised(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    for _ in 0..2 {
        assert_eq!(submit(&store, talk.begin(&turn, None, 2)).await, receipt(1, 1));
    }
    accept(&store, append_rest(&turn, 1, segment(3, 1), rest(ended(), 1))).await;
    assert_eq!(submit(&store, talk.begin(&turn, None, 2)).await, receipt(1, 1));
    let next = TurnId::mint();
    for _ in 0..2 {
        assert_eq!(submit(&store, talk.begin(&next, Some(2), 1)).await, receipt(1, 3));
    }
    assert_eq!(store.turns(&talk.tenant, &talk.session).await.expect("turns").len(), 2);
    assert_log(&store, &turn, 3).await;
}

/// Events that are there already are not written again.
pub async fn appending_again_is_recognised(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 1)).await;
    for _ in 0..2 {
        assert_eq!(submit(&store, append(&turn, 1, segment(2, 3))).await, receipt(1, 0));
    }
    accept(&store, append(&turn, 1, segment(5, 1))).await;
    assert_eq!(submit(&store, append(&turn, 1, segment(2, 3))).await, receipt(1, 0));
    accept(&store, append_rest(&turn, 1, segment(6, 1), rest(ended(), 1))).await;
    assert_eq!(submit(&store, append(&turn, 1, segment(5, 1))).await, receipt(1, 0));
    assert_log(&store, &turn, 6).await;
}

/// Also after the session has gone on.
pub async fn resting_again_is_recognised(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 1)).await;
    let end = append_rest(&turn, 1, segment(2, 2), rest(ended(), 9));
    for _ in 0..2 {
        assert_eq!(submit(&store, end.clone()).await, receipt(1, 2));
    }
    accept(&store, talk.begin(&TurnId::mint(), Some(2), 1)).await;
    assert_eq!(submit(&store, end).await, receipt(1, 2));
    let session = store.session(&talk.tenant, &talk.session).await.expect("a read").expect("a session");
    assert_eq!((session.version, session.usage), (3, usage(9)));
    assert_log(&store, &turn, 3).await;
}

/// Also after the turn has rested again.
pub async fn resuming_again_is_recognised(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    talk.wait(&store, &turn).await;
    let resume = talk.resume(&turn, 2, segment(3, 1));
    for _ in 0..2 {
        assert_eq!(submit(&store, resume.clone()).await, receipt(2, 3));
    }
    accept(&store, append_rest(&turn, 2, segment(4, 1), rest(waiting(), 8))).await;
    assert_eq!(submit(&store, resume).await, receipt(2, 3));
    assert_log(&store, &turn, 4).await;
}

/// Deleting twice is one deletion; what never was is not found.
pub async fn deleting_again_is_recognised(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    assert_eq!(submit(&store, talk.delete()).await, Err(Refusal::NotFound));
    accept(&store, talk.create()).await;
    for _ in 0..2 {
        assert_eq!(submit(&store, talk.delete()).await, receipt(0, 0));
    }
}

/// The engine submits a batch again when its outcome is unknown.
pub async fn a_whole_batch_again_has_no_second_effect(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, other) = (Talk::new("acme"), Talk::new("acme"));
    let (turn, running) = (TurnId::mint(), TurnId::mint());
    let batch = vec![
        talk.create(),
        talk.begin(&turn, Some(1), 1),
        append(&turn, 1, segment(2, 2)),
        append_rest(&turn, 1, segment(4, 1), rest(waiting(), 5)),
        talk.resume(&turn, 3, segment(5, 1)),
        other.begin(&running, None, 1),
        append(&running, 1, segment(2, 2)),
        append(&running, 1, segment(4, 2)),
    ];
    let first = commit(&store, batch.clone()).await;
    assert!(first.iter().all(Result::is_ok));
    let before = (
        store.sessions(&talk.tenant, None, 10).await.expect("a list"),
        store.turns(&talk.tenant, &talk.session).await.expect("turns"),
    );
    let second = commit(&store, batch).await;
    // The rest in the middle was overtaken by the resumption: whoever asks again has another owner.
    let differing: Vec<_> = (0..first.len()).filter(|index| first[*index] != second[*index]).collect();
    assert!(differing.iter().all(|index| second[*index] == Err(Refusal::Fenced)), "{second:?}");
    let after = (
        store.sessions(&talk.tenant, None, 10).await.expect("a list"),
        store.turns(&talk.tenant, &talk.session).await.expect("turns"),
    );
    assert_eq!(before, after);
    assert_log(&store, &turn, 5).await;
    assert_log(&store, &running, 5).await;
}

/// The second of two answers at the same version is not taken for the first, even if it says the same.
pub async fn two_who_resume_at_once_are_told_apart(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    talk.wait(&store, &turn).await;
    assert_eq!(submit(&store, talk.resume(&turn, 2, segment(3, 1))).await, receipt(2, 3));
    assert_eq!(submit(&store, talk.resume(&turn, 2, segment(3, 2))).await, Err(Refusal::Changed));
    assert_eq!(submit(&store, talk.resume(&turn, 2, segment(3, 1))).await, Err(Refusal::Changed));
    assert_log(&store, &turn, 3).await;
}
