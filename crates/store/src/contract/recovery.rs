//! What a restart finds, and who owns it then.

use everturn_core::TurnId;

use super::{
    Harness,
    fixture::{Talk, accept, append, append_rest, assert_log, ended, node, receipt, rest, segment, submit, waiting},
};
use crate::{ClaimedTurn, Refusal, TurnStatus};

/// Everything that reads give is the same afterwards.
pub async fn commits_survive_a_restart(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let (turn, next, last) = (TurnId::mint(), TurnId::mint(), TurnId::mint());
    talk.wait(&store, &turn).await;
    accept(&store, talk.replace(&next, 2, &turn, segment(3, 1))).await;
    accept(&store, append_rest(&next, 1, segment(2, 40), rest(ended(), 9))).await;
    accept(&store, talk.begin(&last, Some(4), 1)).await;
    accept(&store, append(&last, 1, segment(2, 7))).await;
    let before = (
        store.session(&talk.tenant, &talk.session).await.expect("a read"),
        store.sessions(&talk.tenant, None, 10).await.expect("a list"),
        store.turns(&talk.tenant, &talk.session).await.expect("turns"),
    );
    drop(store);
    let store = harness.open().await;
    let after = (
        store.session(&talk.tenant, &talk.session).await.expect("a read"),
        store.sessions(&talk.tenant, None, 10).await.expect("a list"),
        store.turns(&talk.tenant, &talk.session).await.expect("turns"),
    );
    assert_eq!(before, after);
    assert_log(&store, &turn, 3).await;
    assert_log(&store, &next, 41).await;
    assert_log(&store, &last, 8).await;
}

/// The owner that is given a turn goes on where the log ends; what it submits again is recognised.
pub async fn running_turns_survive_a_restart(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 3)).await;
    accept(&store, append(&turn, 1, segment(4, 2))).await;
    drop(store);
    let store = harness.open().await;
    assert_eq!(submit(&store, talk.begin(&turn, None, 3)).await, receipt(1, 1));
    let claimed = store.claim(&node("node b"), 10).await.expect("claims");
    let expected = ClaimedTurn {
        tenant: talk.tenant.clone(),
        session: talk.session.clone(),
        turn: turn.clone(),
        by: None,
        epoch: 2,
        head: 5,
    };
    assert_eq!(claimed, [expected]);
    accept(&store, append(&turn, 2, segment(6, 1))).await;
    let end = append_rest(&turn, 2, segment(7, 1), rest(ended(), 1));
    assert_eq!(submit(&store, end).await, receipt(2, 2));
    assert_log(&store, &turn, 7).await;
}

/// The former owner's appends are refused from then on, also after another restart.
pub async fn claims_fence_the_former_owner(harness: &impl Harness) {
    let mut store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 1)).await;
    for (name, epoch) in [("node b", 2), ("node c", 3)] {
        drop(store);
        store = harness.open().await;
        let claimed = store.claim(&node(name), 10).await.expect("claims");
        assert_eq!(claimed.iter().map(|claim| claim.epoch).collect::<Vec<_>>(), [epoch]);
        assert_eq!(store.claim(&node(name), 10).await, Ok(Vec::new()), "it has an owner now");
        assert_eq!(submit(&store, append(&turn, epoch - 1, segment(2, 1))).await, Err(Refusal::Fenced));
        let end = append_rest(&turn, epoch - 1, segment(2, 1), rest(ended(), 1));
        assert_eq!(submit(&store, end).await, Err(Refusal::Fenced));
    }
    drop(store);
    let store = harness.open().await;
    assert_eq!(submit(&store, append(&turn, 2, segment(2, 1))).await, Err(Refusal::Fenced));
    accept(&store, append_rest(&turn, 3, segment(2, 1), rest(waiting(), 1))).await;
    assert_eq!(submit(&store, talk.resume(&turn, 2, segment(3, 1))).await, receipt(4, 3));
}

/// In the order in which the turns began, as many as were asked for.
pub async fn claims_are_limited_and_oldest_first(harness: &impl Harness) {
    let store = harness.open().await;
    let mut turns = Vec::new();
    for _ in 0..7 {
        let turn = TurnId::mint();
        accept(&store, Talk::new("acme").begin(&turn, None, 1)).await;
        turns.push(turn);
    }
    drop(store);
    let store = harness.open().await;
    assert_eq!(store.claim(&node("node b"), 0).await, Ok(Vec::new()));
    for expected in [&turns[..3], &turns[3..6], &turns[6..], &[]] {
        let claimed = store.claim(&node("node b"), 3).await.expect("claims");
        assert_eq!(claimed.into_iter().map(|claim| claim.turn).collect::<Vec<_>>(), expected);
    }
}

/// Neither those that wait nor those that are over; a turn of this node's own is not claimed either.
pub async fn resting_turns_are_not_claimed(harness: &impl Harness) {
    let store = harness.open().await;
    let (waits, ends, runs) = (Talk::new("acme"), Talk::new("acme"), Talk::new("acme"));
    let turn = TurnId::mint();
    waits.wait(&store, &TurnId::mint()).await;
    accept(&store, ends.begin(&turn, None, 1)).await;
    accept(&store, append_rest(&turn, 1, segment(2, 1), rest(ended(), 1))).await;
    accept(&store, runs.begin(&TurnId::mint(), None, 1)).await;
    assert_eq!(store.claim(&runs.node, 10).await, Ok(Vec::new()));
}

/// All that is needed to go on with turns, at once, is what is read one by one.
pub async fn unfinished_turns_are_read_together(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, other, gone) = (Talk::new("acme"), Talk::new("evil"), Talk::new("acme"));
    let (first, turn, of_other) = (TurnId::mint(), TurnId::mint(), TurnId::mint());
    talk.wait(&store, &first).await;
    accept(&store, talk.replace(&turn, 2, &first, segment(3, 1))).await;
    accept(&store, talk.queue(&TurnId::mint(), 3)).await;
    accept(&store, append(&turn, 1, segment(2, 40))).await;
    accept(&store, append(&turn, 1, segment(42, 1))).await;
    accept(&store, other.begin(&of_other, None, 1)).await;
    accept(&store, gone.begin(&TurnId::mint(), None, 1)).await;
    let mut claimed = store.claim(&node("node b"), 10).await.expect("claims");
    assert_eq!(claimed.len(), 3);
    accept(&store, gone.delete()).await;
    // Nobody is told of another's.
    claimed.push(ClaimedTurn { tenant: other.tenant.clone(), ..claimed[0].clone() });
    for (page, max_bytes) in [(64, 1 << 20), (2, 1)] {
        let found = store.unfinished(&claimed, page, max_bytes).await.expect("a read");
        assert_eq!(found.len(), claimed.len());
        for (claim, found) in claimed.iter().zip(&found) {
            let session = store.session(&claim.tenant, &claim.session).await.expect("a read");
            assert_eq!(found.as_ref().map(|found| &found.session), session.as_ref());
            let Some(found) = found else { continue };
            let own = store.turn(&claim.tenant, &claim.session, &claim.turn).await.expect("a read");
            let behind = own.map(|turn| turn.ordinal + 1);
            let turns = store.turns_below(&claim.tenant, &claim.session, behind, page).await.expect("turns");
            assert!(turns.iter().all(|turn| turn.status != TurnStatus::Queued), "{turns:?}");
            let log = store.read(&claim.turn, 0, max_bytes).await.expect("a log");
            assert_eq!((&found.turns, &found.log), (&turns, &log));
        }
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false, false]);
    }
}
