//! Turns that wait for those before them, and turns that are ended where they rest.

use std::sync::Arc;

use everturn_core::{CancelReason, Outcome, TurnId};

use super::{
    Harness,
    fixture::{
        Talk, accept, append, append_rest, assert_log, config, ended, node, options, page, receipt, rest, segment,
        submit, timed, usage, waiting,
    },
};
use crate::{BeginTurn, Command, Refusal, ResumeTurn, Start, Store, TurnStatus, TurnSummary};

/// Ordinal and status of the session's turns.
async fn turns(store: &Arc<dyn Store>, talk: &Talk) -> Vec<(TurnId, u64, TurnStatus)> {
    let turns = store.turns(&talk.tenant, &talk.session).await.expect("turns");
    turns.into_iter().map(|turn| (turn.id, turn.ordinal, turn.status)).collect()
}

/// The turn that was started last, and how many are queued behind it.
async fn place(store: &Arc<dyn Store>, talk: &Talk) -> (Option<TurnSummary>, u64) {
    let session = talk.read(store).await;
    (session.last_turn, session.queued)
}

fn summary(id: &TurnId, status: TurnStatus) -> Option<TurnSummary> {
    Some(TurnSummary { id: id.clone(), status })
}

/// One after the other, each when those before it are over.
pub async fn queued_turns_run_in_order(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let names: Vec<TurnId> = (0..4).map(|_| TurnId::mint()).collect();
    accept(&store, talk.begin(&names[0], None, 1)).await;
    for (turn, version) in names[1..].iter().zip(1..) {
        assert_eq!(submit(&store, talk.queue(turn, version)).await, receipt(0, version + 1));
    }
    assert_eq!(place(&store, &talk).await, (summary(&names[0], TurnStatus::Running), 3));
    let mut version = 4;
    for (index, turn) in names.iter().enumerate() {
        let queued = names.len() - index - 1;
        if index > 0 {
            // None of those behind it.
            for other in &names[index + 1..] {
                let resume = talk.resume(other, version, segment(1, 1));
                assert_eq!(submit(&store, resume).await, Err(Refusal::Changed));
            }
            assert_eq!(submit(&store, talk.resume(turn, version, segment(1, 1))).await, receipt(1, version + 1));
            version += 1;
        }
        assert_eq!(place(&store, &talk).await, (summary(turn, TurnStatus::Running), queued as u64));
        accept(&store, append(turn, 1, segment(2, 2))).await;
        let end = append_rest(turn, 1, segment(4, 1), rest(ended(), 1));
        assert_eq!(submit(&store, end).await, receipt(1, version + 1));
        version += 1;
        assert_log(&store, turn, 4).await;
    }
    assert_eq!(place(&store, &talk).await, (summary(&names[3], ended()), 0));
    let expected: Vec<_> = names.iter().zip(1..).map(|(turn, ordinal)| (turn.clone(), ordinal, ended())).collect();
    assert_eq!(turns(&store, &talk).await, expected);
    assert_eq!(submit(&store, talk.begin(&TurnId::mint(), Some(version), 1)).await, receipt(1, version + 1));
}

/// No events, no owner; its input is there, and the session's settings are those that came with it.
pub async fn a_queued_turn_has_not_begun(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    talk.wait(&store, &turn).await;
    let Command::BeginTurn(mut begin) = talk.queue(&next, 2) else { unreachable!("a beginning") };
    begin.config = config("queued");
    let messages = begin.messages.clone();
    assert_eq!(submit(&store, timed(Command::BeginTurn(begin), 45)).await, receipt(0, 3));

    assert!(talk.read_turn(&store, &turn).await.options.is_empty());
    let record = talk.read_turn(&store, &next).await;
    assert_eq!((record.status, record.head, record.ordinal), (TurnStatus::Queued, 0, 2));
    assert_eq!((record.messages, record.created_at.0, record.rested_at), (messages.clone(), 45, None));
    assert_eq!(record.options, options());
    assert_eq!(page(&store, &next, 0, 100).await, Vec::new());
    let session = talk.read(&store).await;
    assert_eq!((session.version, session.updated_at.0, session.config), (3, 45, config("queued")));
    assert_eq!((session.last_turn, session.queued), (summary(&turn, waiting()), 1));

    for epoch in [0, 1] {
        let refusal = Err(if epoch == 0 { Refusal::Changed } else { Refusal::Fenced });
        for events in [segment(1, 0), segment(1, 1)] {
            assert_eq!(submit(&store, append(&next, epoch, events.clone())).await, refusal);
            assert_eq!(submit(&store, append_rest(&next, epoch, events, rest(ended(), 1))).await, refusal);
        }
    }
    assert_eq!(store.claim(&node("node b"), 10).await, Ok(Vec::new()));

    accept(&store, talk.end(&turn, 3, segment(3, 1))).await;
    accept(&store, talk.resume(&next, 4, segment(1, 2))).await;
    let record = talk.read_turn(&store, &next).await;
    assert_eq!((record.status, record.head, record.messages), (TurnStatus::Running, 2, messages));
    assert_eq!(record.options, options());
    drop(store);
    let store = harness.open().await;
    let claimed = store.claim(&node("node b"), 10).await.expect("claims");
    assert_eq!(
        claimed.into_iter().map(|claim| (claim.turn, claim.epoch, claim.head)).collect::<Vec<_>>(),
        [(next, 2, 2)]
    );
}

/// Not while another runs or waits, and none that was not queued comes before it. The one that waits goes on all the same.
pub async fn nothing_passes_the_queue(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    accept(&store, talk.begin(&turn, None, 1)).await;
    accept(&store, talk.queue(&next, 1)).await;
    assert_eq!(submit(&store, talk.resume(&next, 2, segment(1, 1))).await, Err(Refusal::Changed));
    accept(&store, append_rest(&turn, 1, segment(2, 1), rest(waiting(), 1))).await;
    assert_eq!(submit(&store, talk.resume(&next, 3, segment(1, 1))).await, Err(Refusal::Changed));
    let replace = talk.replace(&TurnId::mint(), 3, &turn, segment(3, 1));
    assert_eq!(submit(&store, replace).await, Err(Refusal::Changed));
    assert_eq!(submit(&store, talk.resume(&turn, 3, segment(3, 1))).await, receipt(2, 4));
    accept(&store, append_rest(&turn, 2, segment(4, 1), rest(ended(), 1))).await;
    assert_eq!(submit(&store, talk.begin(&TurnId::mint(), Some(5), 1)).await, Err(Refusal::Changed));
    assert_eq!(submit(&store, talk.resume(&next, 5, segment(2, 1))).await, Err(Refusal::Gap { head: 0, first_seq: 2 }));
    assert_eq!(submit(&store, talk.resume(&next, 5, segment(1, 1))).await, receipt(1, 6));
}

/// A session that is there, the version that it has, and nothing that would have happened already.
pub async fn a_turn_is_queued_in_a_session(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    let queued = |change: &dyn Fn(&mut BeginTurn)| {
        let mut begin = BeginTurn { start: Start::Queued, ..talk.begin_turn(&next, Some(2), 0) };
        change(&mut begin);
        Command::BeginTurn(Box::new(begin))
    };
    let unopened = queued(&|begin| begin.expected_version = None);
    assert_eq!(submit(&store, unopened.clone()).await, Err(Refusal::NotFound));
    assert_eq!(submit(&store, talk.queue(&next, 1)).await, Err(Refusal::NotFound));
    talk.wait(&store, &turn).await;
    assert_eq!(submit(&store, unopened).await, Err(Refusal::Exists));
    let outdated = queued(&|begin| (begin.expected_version, begin.config) = (Some(1), config("other")));
    assert_eq!(submit(&store, outdated).await, Err(Refusal::Changed));
    let Command::BeginTurn(replace) = talk.replace(&next, 2, &turn, segment(3, 1)) else { unreachable!("a beginning") };
    let superseding = queued(&|begin| begin.supersedes.clone_from(&replace.supersedes));
    assert_eq!(submit(&store, superseding).await, Err(Refusal::Changed));
    let with_events = queued(&|begin| begin.segment = segment(1, 1));
    assert_eq!(submit(&store, with_events).await, Err(Refusal::Changed));
    assert_eq!(place(&store, &talk).await, (summary(&turn, waiting()), 0));

    // Behind a turn, behind nothing, in a session that never had any.
    let fresh = Talk::new("acme");
    accept(&store, fresh.create()).await;
    assert_eq!(submit(&store, fresh.queue(&TurnId::mint(), 1)).await, receipt(0, 2));
    assert_eq!(place(&store, &fresh).await, (None, 1));
    assert_eq!(submit(&store, talk.queue(&next, 2)).await, receipt(0, 3));
    let stranger = Talk::new("evil");
    accept(&store, stranger.create()).await;
    assert_eq!(submit(&store, stranger.queue(&next, 1)).await, Err(Refusal::Exists));
}

/// Those who looked at a session together join its queue together, and the first leaves it, as long as nobody has changed
/// the settings that they saw.
pub async fn a_queue_does_not_depend_on_the_version(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let names: Vec<TurnId> = (0..4).map(|_| TurnId::mint()).collect();
    accept(&store, talk.begin(&names[0], None, 1)).await;
    let batch: Vec<_> = names[1..].iter().map(|turn| talk.queue(turn, 1)).collect();
    for _ in 0..2 {
        let kept = store.commit(Arc::new(batch.clone())).await;
        assert_eq!(kept, Ok(vec![receipt(0, 2), receipt(0, 3), receipt(0, 4)]));
    }
    let with = |command: Command, agent: &str| match command {
        Command::BeginTurn(begin) => Command::BeginTurn(Box::new(BeginTurn { config: config(agent), ..*begin })),
        Command::ResumeTurn(resume) => Command::ResumeTurn(Box::new(ResumeTurn { config: config(agent), ..*resume })),
        other => other,
    };
    for refused in [with(talk.queue(&TurnId::mint(), 1), "other"), talk.queue(&TurnId::mint(), 5)] {
        assert_eq!(submit(&store, refused).await, Err(Refusal::Changed));
    }
    accept(&store, append_rest(&names[0], 1, segment(2, 1), rest(ended(), 1))).await;

    let resume = |turn: &TurnId, agent: &str| with(talk.resume(turn, 1, segment(1, 1)), agent);
    assert_eq!(submit(&store, resume(&names[1], "other")).await, Err(Refusal::Changed));
    assert_eq!(submit(&store, resume(&names[2], "begun")).await, Err(Refusal::Changed));
    assert_eq!(submit(&store, resume(&names[1], "begun")).await, receipt(1, 6));
    assert_eq!(submit(&store, resume(&names[2], "begun")).await, Err(Refusal::Changed));
    // One that waits is taken up as it was seen.
    accept(&store, append_rest(&names[1], 1, segment(2, 1), rest(waiting(), 1))).await;
    let resume = with(talk.resume(&names[1], 6, segment(3, 1)), "begun");
    assert_eq!(submit(&store, resume).await, Err(Refusal::Changed));
    assert_eq!(place(&store, &talk).await, (summary(&names[1], waiting()), 2));

    // There is no queue to join in a session that has nothing to do any more.
    let (talk, turn) = (Talk::new("acme"), TurnId::mint());
    accept(&store, talk.begin(&turn, None, 1)).await;
    accept(&store, append_rest(&turn, 1, segment(2, 1), rest(ended(), 1))).await;
    assert_eq!(submit(&store, talk.queue(&TurnId::mint(), 1)).await, Err(Refusal::Changed));
}

/// Whatever became of the turn meanwhile.
pub async fn queueing_again_is_recognised(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.create()).await;
    let queue = talk.queue(&turn, 1);
    for _ in 0..2 {
        assert_eq!(submit(&store, queue.clone()).await, receipt(0, 2));
    }
    let resume = talk.resume(&turn, 2, segment(1, 1));
    for _ in 0..2 {
        assert_eq!(submit(&store, resume.clone()).await, receipt(1, 3));
        assert_eq!(submit(&store, queue.clone()).await, receipt(0, 2));
    }
    accept(&store, append_rest(&turn, 1, segment(2, 1), rest(ended(), 1))).await;
    assert_eq!(submit(&store, queue).await, receipt(0, 2));
    assert_eq!(submit(&store, resume).await, receipt(1, 3));
    assert_eq!(place(&store, &talk).await, (summary(&turn, ended()), 0));
    assert_log(&store, &turn, 2).await;
}

/// Whether it waits or is queued; but not while it runs, nor twice.
pub async fn a_resting_turn_is_ended(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let (turn, second, third) = (TurnId::mint(), TurnId::mint(), TurnId::mint());
    assert_eq!(submit(&store, talk.end(&turn, 1, segment(1, 1))).await, Err(Refusal::NotFound));
    accept(&store, talk.begin(&turn, None, 1)).await;
    assert_eq!(submit(&store, talk.end(&second, 1, segment(1, 1))).await, Err(Refusal::NotFound));
    assert_eq!(submit(&store, talk.end(&turn, 1, segment(2, 1))).await, Err(Refusal::Changed));
    accept(&store, talk.queue(&second, 1)).await;
    accept(&store, talk.queue(&third, 2)).await;

    // The first of the queue, while the turn before it runs.
    assert_eq!(submit(&store, talk.end(&second, 2, segment(1, 1))).await, Err(Refusal::Changed));
    let gap = Err(Refusal::Gap { head: 0, first_seq: 2 });
    assert_eq!(submit(&store, talk.end(&second, 3, segment(2, 1))).await, gap);
    for status in [waiting(), TurnStatus::Running, TurnStatus::Queued] {
        let Command::EndTurn(mut end) = talk.end(&second, 3, segment(1, 1)) else { unreachable!("an end") };
        end.rest = rest(status, 3);
        assert_eq!(submit(&store, Command::EndTurn(end)).await, Err(Refusal::Changed));
    }
    let stranger = Talk { tenant: Talk::new("evil").tenant, ..talk.clone() };
    assert_eq!(submit(&store, stranger.end(&second, 3, segment(1, 1))).await, Err(Refusal::NotFound));
    assert_eq!(submit(&store, talk.end(&second, 3, segment(1, 2))).await, receipt(0, 4));
    assert_eq!(submit(&store, talk.end(&second, 4, segment(3, 1))).await, Err(Refusal::Changed));
    assert_eq!(place(&store, &talk).await, (summary(&turn, TurnStatus::Running), 1));
    let (record, end) = (talk.read_turn(&store, &second).await, rest(ended(), 3));
    assert_eq!((record.status, record.head, record.rested_at.map(|at| at.0)), (ended(), 2, Some(55)));
    assert_eq!((record.messages, record.usage, record.compaction), (end.messages, end.usage, end.compaction));
    assert_log(&store, &second, 2).await;

    // The one that waits, with another behind it.
    accept(&store, append_rest(&turn, 1, segment(2, 1), rest(waiting(), 5))).await;
    assert_eq!(submit(&store, talk.end(&turn, 5, segment(3, 1))).await, receipt(1, 6));
    assert_eq!(place(&store, &talk).await, (summary(&turn, ended()), 1));
    assert_eq!(talk.read(&store).await.usage, usage(6));
    assert_log(&store, &turn, 3).await;
    assert_eq!(submit(&store, append(&turn, 1, segment(4, 1))).await, Err(Refusal::Changed));
    // The one behind the ended one is first now.
    assert_eq!(submit(&store, talk.resume(&third, 6, segment(1, 1))).await, receipt(1, 7));
    assert_eq!(place(&store, &talk).await, (summary(&third, TurnStatus::Running), 0));
}

/// By what it was decided upon and what it says; an end that came by another way is not taken for it.
pub async fn ending_again_is_recognised(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    talk.wait(&store, &turn).await;
    accept(&store, talk.queue(&next, 2)).await;
    let (first, second) = (talk.end(&turn, 3, segment(3, 1)), talk.end(&next, 4, segment(1, 1)));
    for _ in 0..2 {
        assert_eq!(submit(&store, first.clone()).await, receipt(1, 4));
    }
    for _ in 0..2 {
        assert_eq!(submit(&store, second.clone()).await, receipt(0, 5));
        assert_eq!(submit(&store, first.clone()).await, receipt(1, 4));
    }
    let Command::EndTurn(mut other) = first.clone() else { unreachable!("an end") };
    other.rest = rest(TurnStatus::Ended(Outcome::Cancelled { reason: CancelReason::UserStop }), 3);
    for command in [Command::EndTurn(other), talk.end(&turn, 3, segment(3, 2)), talk.end(&turn, 5, segment(3, 1))] {
        assert_eq!(submit(&store, command).await, Err(Refusal::Changed));
    }
    accept(&store, talk.begin(&TurnId::mint(), Some(5), 1)).await;
    assert_eq!(submit(&store, first).await, receipt(1, 4));
    assert_log(&store, &turn, 3).await;
    assert_log(&store, &next, 1).await;

    // Decided upon while it waited, but somebody answered, and it ended by itself after as many events.
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    talk.wait(&store, &turn).await;
    accept(&store, talk.resume(&turn, 2, segment(3, 1))).await;
    accept(&store, append_rest(&turn, 2, segment(4, 1), rest(ended(), 3))).await;
    assert_eq!(submit(&store, talk.end(&turn, 2, segment(3, 2))).await, Err(Refusal::Changed));
}

/// It has ended, but another one is what the session did last.
pub async fn a_turn_that_never_ran_is_not_the_last(harness: &impl Harness) {
    let mut store = harness.open().await;
    let (talk, fresh) = (Talk::new("acme"), Talk::new("acme"));
    let (turn, next, never) = (TurnId::mint(), TurnId::mint(), TurnId::mint());
    accept(&store, fresh.create()).await;
    accept(&store, fresh.queue(&never, 1)).await;
    accept(&store, fresh.end(&never, 2, segment(1, 1))).await;
    accept(&store, talk.begin(&turn, None, 1)).await;
    accept(&store, talk.queue(&next, 1)).await;
    accept(&store, talk.end(&next, 2, segment(1, 1))).await;
    for is_over in [false, true] {
        if is_over {
            accept(&store, append_rest(&turn, 1, segment(2, 1), rest(ended(), 1))).await;
            drop(store);
            store = harness.open().await;
        }
        let status = if is_over { ended() } else { TurnStatus::Running };
        assert_eq!(place(&store, &talk).await, (summary(&turn, status.clone()), 0));
        assert_eq!(turns(&store, &talk).await, [(turn.clone(), 1, status), (next.clone(), 2, ended())]);
        assert_eq!(place(&store, &fresh).await, (None, 0));
    }
    let last = TurnId::mint();
    assert_eq!(submit(&store, talk.begin(&last, Some(4), 1)).await, receipt(1, 5));
    assert_eq!(talk.read_turn(&store, &last).await.ordinal, 3);
    assert_eq!(place(&store, &talk).await, (summary(&last, TurnStatus::Running), 0));
    assert_eq!(submit(&store, fresh.begin(&TurnId::mint(), Some(3), 1)).await, receipt(1, 4));
}
