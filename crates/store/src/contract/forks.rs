//! Sessions that begin with the history of another.

use everturn_core::{TurnId, Usage};

use super::{
    Harness,
    fixture::{
        Talk, accept, append, append_rest, assert_log, commit, ended, key, keyed, over, receipt, repeated, rest,
        segment, submit, tenant, timed, usage, waiting,
    },
};
use crate::{Command, Refusal, TurnStatus};

/// Under the same names, in the same places, with the same logs, also after a restart; the other session stays as it is.
pub async fn a_fork_has_the_turns_of_another(harness: &impl Harness) {
    let mut store = harness.open().await;
    let parent = Talk::new("acme");
    let turns = parent.converse(&store, 4).await;
    let before = parent.told(&store).await;
    let fork = parent.another();
    let Command::CreateSession(mut new) = fork.fork(&parent, 9, 3) else { unreachable!("a creation") };
    new.title = Some("a fork".to_owned());
    assert_eq!(submit(&store, Command::CreateSession(new)).await, receipt(0, 1));
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        assert_eq!(parent.told(&store).await, before);
        fork.assert_turns(&store, &turns[..3]).await;
        fork.assert_without(&store, &turns[3..]).await;
        let told = fork.told(&store).await;
        assert_eq!(told.turns, before.turns[..3]);
        let session = told.session.expect("a session");
        assert_eq!((session.version, session.queued, session.usage), (1, 0, Usage::default()));
        assert_eq!((session.title.as_deref(), session.created_at), (Some("a fork"), session.updated_at));
        let listed = store.sessions(&fork.tenant, None, 10).await.expect("a list");
        let names: Vec<_> = listed.iter().map(|row| &row.session.id).collect();
        assert_eq!(names, [&fork.session, &parent.session]);
        assert_eq!(listed[0].session, session);
    }
}

/// What one adds is not the other's, in turns or in tokens; new turns come after those that are shared.
pub async fn a_fork_goes_its_own_way(harness: &impl Harness) {
    let store = harness.open().await;
    let (parent, fork) = (Talk::new("acme"), Talk::new("acme"));
    let mut turns = parent.converse(&store, 3).await;
    accept(&store, fork.fork(&parent, 7, 2)).await;
    let mut forked = turns[..2].to_vec();
    for _ in 0..2 {
        turns.push(parent.go_on(&store).await);
        forked.push(fork.go_on(&store).await);
    }
    parent.assert_turns(&store, &turns).await;
    parent.assert_without(&store, &forked[2..]).await;
    fork.assert_turns(&store, &forked).await;
    fork.assert_without(&store, &turns[2..]).await;
    assert_eq!(parent.read(&store).await.usage, usage(25));
    assert_eq!(fork.read(&store).await.usage, usage(10));
    // Pages go through both kinds of turns.
    let page = store.turns_below(&fork.tenant, &fork.session, Some(4), 2).await.expect("a page");
    assert_eq!(page.into_iter().map(|turn| turn.id).collect::<Vec<_>>(), [forked[2].clone(), forked[1].clone()]);
}

/// A fork has turns of its own and turns that it shares, and both can be shared again.
pub async fn forks_can_be_forked(harness: &impl Harness) {
    let store = harness.open().await;
    let talks: Vec<Talk> = (0..5).map(|_| Talk::new("acme")).collect();
    let mut turns = talks[0].converse(&store, 2).await;
    for pair in talks.windows(2) {
        let version = pair[0].read(&store).await.version;
        accept(&store, pair[1].fork(&pair[0], version, turns.len() as u64)).await;
        pair[1].assert_turns(&store, &turns).await;
        turns.push(pair[1].go_on(&store).await);
        pair[1].assert_turns(&store, &turns).await;
    }
    for (talk, count) in talks.iter().zip(2..) {
        talk.assert_turns(&store, &turns[..count]).await;
    }
    // Two of the same, and one of a part.
    let (twin, part) = (Talk::new("acme"), Talk::new("acme"));
    accept(&store, twin.fork(&talks[4], 3, 6)).await;
    accept(&store, part.fork(&talks[4], 3, 3)).await;
    twin.assert_turns(&store, &turns).await;
    part.assert_turns(&store, &turns[..3]).await;
}

/// What is asked for beyond the end is not there; a session without turns can be forked, too.
pub async fn a_fork_may_have_all_turns_or_none(harness: &impl Harness) {
    let store = harness.open().await;
    let (parent, empty) = (Talk::new("acme"), Talk::new("acme"));
    let turns = parent.converse(&store, 2).await;
    accept(&store, empty.create()).await;
    for (from, version, through, expected) in [
        (&parent, 5, u64::MAX, &turns[..]),
        (&parent, 5, 3, &turns[..]),
        (&parent, 5, 2, &turns[..]),
        (&parent, 5, 0, &[]),
        (&empty, 1, u64::MAX, &[]),
    ] {
        let fork = Talk::new("acme");
        accept(&store, fork.fork(from, version, through)).await;
        fork.assert_turns(&store, expected).await;
        let next = fork.go_on(&store).await;
        assert_eq!(fork.read_turn(&store, &next).await.ordinal, expected.len() as u64 + 1);
    }
}

/// Turns that go on are one session's. Those before them can be shared meanwhile.
pub async fn only_ended_turns_are_shared(harness: &impl Harness) {
    let store = harness.open().await;
    let parent = Talk::new("acme");
    let turns = parent.converse(&store, 2).await;
    let (current, queued) = (TurnId::mint(), TurnId::mint());
    let fork = async |version: u64, through: u64| {
        let fork = parent.another();
        let verdict = submit(&store, fork.fork(&parent, version, through)).await;
        match &verdict {
            Ok(_) => fork.assert_turns(&store, &turns[..2]).await,
            Err(_) => assert_eq!(store.session(&fork.tenant, &fork.session).await, Ok(None)),
        }
        verdict
    };
    accept(&store, parent.begin(&current, Some(5), 1)).await;
    accept(&store, parent.queue(&queued, 6)).await;
    for through in [3, 4, u64::MAX] {
        assert_eq!(fork(7, through).await, Err(Refusal::Changed), "the third runs");
    }
    assert_eq!(fork(7, 2).await, receipt(0, 1));
    accept(&store, append_rest(&current, 1, segment(2, 1), rest(waiting(), 1))).await;
    assert_eq!(fork(8, 3).await, Err(Refusal::Changed), "the third waits");
    assert_eq!(fork(8, 2).await, receipt(0, 1));
    accept(&store, parent.end(&current, 8, segment(3, 1))).await;
    assert_eq!(fork(9, 4).await, Err(Refusal::Changed), "the fourth is queued");
    assert_eq!(fork(9, 2).await, receipt(0, 1));
    let third = parent.another();
    assert_eq!(submit(&store, third.fork(&parent, 9, 3)).await, receipt(0, 1));
    assert_eq!(third.read(&store).await.queued, 0);
    assert_eq!(third.told(&store).await.turns.len(), 3);
    // The one that was never run is a turn like the others once it has ended, also where the last turn is asked for.
    accept(&store, parent.end(&queued, 9, segment(1, 3))).await;
    let all = parent.another();
    assert_eq!(submit(&store, all.fork(&parent, 10, 4)).await, receipt(0, 1));
    let last = all.read(&store).await.last_turn.expect("a turn");
    assert_eq!((last.id, last.status), (queued, ended()));
    assert_eq!(parent.read(&store).await.last_turn.expect("a turn").id, current);
}

/// Nothing comes of a fork that is refused.
pub async fn forks_are_refused(harness: &impl Harness) {
    let store = harness.open().await;
    let (parent, gone, fork) = (Talk::new("acme"), Talk::new("acme"), Talk::new("acme"));
    let turns = parent.converse(&store, 2).await;
    gone.converse(&store, 1).await;
    accept(&store, gone.delete()).await;
    let stranger = Talk { tenant: tenant("evil"), ..fork.clone() };
    for (command, refusal) in [
        (fork.fork(&parent, 4, 1), Refusal::Changed),
        (fork.fork(&parent, 6, 1), Refusal::Changed),
        (fork.fork(&Talk::new("acme"), 1, 1), Refusal::NotFound),
        (fork.fork(&gone, 3, 1), Refusal::NotFound),
        (fork.fork(&fork, 1, 1), Refusal::NotFound),
        (stranger.fork(&parent, 5, 1), Refusal::NotFound),
        (gone.fork(&parent, 5, 1), Refusal::Exists),
        (timed(parent.fork(&parent, 5, 1), 11), Refusal::Exists),
    ] {
        assert_eq!(submit(&store, keyed(command, &key("k", "x"), 11)).await, Err(refusal));
    }
    assert_eq!(store.session(&stranger.tenant, &fork.session).await, Ok(None));
    assert_eq!(store.session(&fork.tenant, &fork.session).await, Ok(None));
    assert_eq!(store.kept(&fork.tenant, "k", everturn_core::Timestamp(11)).await, Ok(None));
    accept(&store, fork.fork(&parent, 5, 1)).await;
    fork.assert_turns(&store, &turns[..1]).await;
}

/// Whatever became of the fork and of the session that it was made of. Another one, or another use of its key, is refused.
pub async fn forking_again_is_recognised(harness: &impl Harness) {
    let mut store = harness.open().await;
    let (parent, fork) = (Talk::new("acme"), Talk::new("acme"));
    let turns = parent.converse(&store, 2).await;
    let last = TurnId::mint();
    let command = keyed(fork.fork_with(&parent, 5, 1, vec![over(&last, 3)]), &key("k", "fork"), 10);
    for _ in 0..2 {
        assert_eq!(submit(&store, command.clone()).await, receipt(0, 1));
    }
    for other in [
        fork.create(),
        fork.import(vec![over(&last, 3)]),
        fork.fork(&parent, 5, 0),
        fork.fork_with(&parent, 5, 1, vec![over(&TurnId::mint(), 3)]),
        timed(command.clone(), 11),
    ] {
        let other = match other {
            Command::CreateSession(new) => Command::CreateSession(Box::new(crate::NewSession { key: None, ..*new })),
            other => other,
        };
        assert_eq!(submit(&store, other).await, Err(Refusal::Exists));
    }
    assert_eq!(submit(&store, keyed(fork.create(), &key("k", "other"), 11)).await, repeated("fork"));
    let other = parent.another();
    assert_eq!(submit(&store, keyed(other.fork(&parent, 5, 1), &key("k", "other"), 10)).await, repeated("fork"));

    parent.go_on(&store).await;
    assert_eq!(submit(&store, command.clone()).await, receipt(0, 1));
    accept(&store, parent.truncate(7, 0)).await;
    assert_eq!(submit(&store, command.clone()).await, receipt(0, 1));
    accept(&store, parent.delete()).await;
    assert_eq!(submit(&store, command.clone()).await, receipt(0, 1));
    fork.assert_turns(&store, &[turns[0].clone(), last]).await;
    fork.go_on(&store).await;
    drop(store);
    store = harness.open().await;
    assert_eq!(submit(&store, command.clone()).await, receipt(0, 1));
    accept(&store, fork.delete()).await;
    assert_eq!(submit(&store, command.clone()).await, repeated("fork"));
    assert_eq!(submit(&store, fork.fork(&parent, 5, 1)).await, Err(Refusal::Exists));
}

/// A turn that is shared is over, through whichever session somebody speaks of it.
pub async fn shared_turns_do_not_go_on(harness: &impl Harness) {
    let store = harness.open().await;
    let (parent, fork) = (Talk::new("acme"), Talk::new("acme"));
    let turns = parent.converse(&store, 2).await;
    accept(&store, fork.fork(&parent, 5, 1)).await;
    let before = (parent.told(&store).await, fork.told(&store).await);
    for (talk, version) in [(&parent, 5), (&fork, 1)] {
        assert_eq!(submit(&store, talk.resume(&turns[0], version, segment(4, 1))).await, Err(Refusal::Changed));
        assert_eq!(submit(&store, talk.end(&turns[0], version, segment(4, 1))).await, Err(Refusal::Changed));
        let replace = talk.replace(&TurnId::mint(), version, &turns[0], segment(4, 1));
        assert_eq!(submit(&store, replace).await, Err(Refusal::Changed));
        assert_eq!(submit(&store, append(&turns[0], 1, segment(4, 1))).await, Err(Refusal::Changed));
    }
    // The second is not the fork's.
    assert_eq!(submit(&store, fork.resume(&turns[1], 1, segment(4, 1))).await, Err(Refusal::NotFound));
    assert_eq!(submit(&store, fork.end(&turns[1], 1, segment(4, 1))).await, Err(Refusal::NotFound));
    assert_eq!(submit(&store, fork.begin(&turns[1], Some(1), 1)).await, Err(Refusal::Exists));
    assert_eq!((parent.told(&store).await, fork.told(&store).await), before);
    assert_log(&store, &turns[0], 3).await;
}

/// A batch may make a session, its fork, and a turn of that, and take the first away again.
pub async fn a_batch_may_fork_what_it_made(harness: &impl Harness) {
    let store = harness.open().await;
    let (parent, fork, other) = (Talk::new("acme"), Talk::new("acme"), Talk::new("acme"));
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    let batch = vec![
        parent.begin(&turn, None, 1),
        fork.fork(&parent, 1, 1),
        append_rest(&turn, 1, segment(2, 2), rest(ended(), 1)),
        fork.fork(&parent, 2, 1),
        other.fork(&fork, 1, 1),
        fork.begin(&next, Some(1), 1),
        parent.delete(),
    ];
    let verdicts = commit(&store, batch).await;
    let changed = Err(Refusal::Changed);
    let expected = [receipt(1, 1), changed, receipt(1, 2), receipt(0, 1), receipt(0, 1), receipt(1, 2), receipt(0, 0)];
    assert_eq!(verdicts, expected);
    assert_log(&store, &turn, 3).await;
    assert_eq!(fork.read_turn(&store, &next).await.status, TurnStatus::Running);
    other.assert_turns(&store, &[turn]).await;
}
