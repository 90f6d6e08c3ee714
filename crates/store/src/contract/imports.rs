//! Sessions that bring turns along, and what is counted of them.

use everturn_core::{Message, Timestamp, TurnId, Usage};

use super::{
    Harness,
    fixture::{
        Talk, accept, append_rest, assert_log, ended, over, read_all, receipt, rest, segment, submit, usage, waiting,
    },
};
use crate::{BeginTurn, Command, EndedTurn, NodeId, Refusal, Rest, Start, TurnStatus};

/// With their ends, their logs and their times. The session goes on after them, and counts its own tokens alone.
pub async fn a_session_begins_with_turns(harness: &impl Harness) {
    let mut store = harness.open().await;
    let talk = Talk::new("acme");
    let turns: Vec<TurnId> = (0..3).map(|_| TurnId::mint()).collect();
    let ended_turns = vec![
        EndedTurn { at: Timestamp(3), ..over(&turns[0], 3) },
        EndedTurn { begins_history: true, at: Timestamp(4), ..over(&turns[1], 700) },
        EndedTurn { segment: segment(1, 0), ..over(&turns[2], 3) },
    ];
    assert_eq!(submit(&store, talk.import(ended_turns.clone())).await, receipt(0, 1));
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        let told = talk.told(&store).await;
        for ((found, given), head) in told.turns.iter().zip(&ended_turns).zip([3, 700, 0]) {
            assert_eq!((&found.id, &found.status, found.head), (&given.turn, &given.rest.status, head));
            assert_eq!((&found.messages, found.begins_history), (&given.rest.messages, given.begins_history));
            assert_eq!((found.usage, &found.compaction), (given.rest.usage, &given.rest.compaction));
            assert_eq!((found.created_at, found.rested_at), (given.at, Some(given.at)));
            assert_log(&store, &found.id, head).await;
        }
        assert_eq!(told.turns.len(), 3);
        let session = told.session.expect("a session");
        assert_eq!((session.version, session.usage, session.updated_at), (1, Usage::default(), Timestamp(10)));
        assert_eq!(session.last_turn.expect("a turn").id, turns[2]);
        assert_eq!(store.claim(&NodeId("node b".to_owned()), 10).await, Ok(Vec::new()));
        assert_eq!(store.old_logs(Timestamp(5), 1, 10).await, Ok(turns[..2].to_vec()));
    }
    let next = talk.go_on(&store).await;
    assert_eq!(talk.read_turn(&store, &next).await.ordinal, 4);
    assert_eq!(talk.read(&store).await.usage, usage(5));
}

/// History that ends in the middle of a turn: those before it are shared, the beginning of it is brought along.
pub async fn a_fork_brings_turns_along(harness: &impl Harness) {
    let store = harness.open().await;
    let (parent, fork) = (Talk::new("acme"), Talk::new("acme"));
    let mut turns = parent.converse(&store, 3).await;
    turns[2] = TurnId::mint();
    turns.push(TurnId::mint());
    let brought = turns[2..].iter().map(|turn| over(turn, 3)).collect();
    assert_eq!(submit(&store, fork.fork_with(&parent, 7, 2, brought)).await, receipt(0, 1));
    fork.assert_turns(&store, &turns).await;
    parent.assert_without(&store, &turns[2..]).await;
    assert_eq!(fork.read(&store).await.usage, Usage::default());
    turns.push(fork.go_on(&store).await);
    fork.assert_turns(&store, &turns).await;
    // What one brought, another may share.
    let last = Talk::new("acme");
    accept(&store, last.fork(&fork, 3, 3)).await;
    last.assert_turns(&store, &turns[..3]).await;
}

/// Whether a new session brings them or an old one is given them; and nothing comes of it.
pub async fn turns_that_make_no_sense_are_not_brought(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, other) = (Talk::new("acme"), Talk::new("acme"));
    let known = talk.converse(&store, 2).await;
    let (new, next) = (TurnId::mint(), TurnId::mint());
    let with = |status| Rest { status, ..rest(ended(), 1) };
    for (turn, refusal) in [
        (EndedTurn { rest: with(waiting()), ..over(&new, 1) }, Refusal::Changed),
        (EndedTurn { rest: with(TurnStatus::Running), ..over(&new, 1) }, Refusal::Changed),
        (EndedTurn { rest: with(TurnStatus::Queued), ..over(&new, 1) }, Refusal::Changed),
        (EndedTurn { segment: segment(2, 1), ..over(&new, 1) }, Refusal::Gap { head: 0, first_seq: 2 }),
        (over(&known[0], 1), Refusal::Exists),
        (over(&known[1], 1), Refusal::Exists),
    ] {
        let before = talk.told(&store).await;
        for command in [
            other.import(vec![turn.clone()]),
            other.import(vec![over(&next, 1), turn.clone()]),
            other.fork_with(&talk, 5, 1, vec![turn.clone()]),
            talk.truncate_to(5, 1, Some(turn)),
        ] {
            assert_eq!(submit(&store, command).await, Err(refusal.clone()));
        }
        assert_eq!(talk.told(&store).await, before);
    }
    let twice = other.import(vec![over(&next, 1), over(&new, 1), over(&next, 2)]);
    assert_eq!(submit(&store, twice).await, Err(Refusal::Exists));
    assert_eq!(store.session(&other.tenant, &other.session).await, Ok(None));
    for turn in [&new, &next] {
        assert_eq!(read_all(&store, turn, 100).await, Vec::new());
    }
    accept(&store, other.import(vec![over(&next, 3), over(&new, 3)])).await;
    other.assert_turns(&store, &[next, new]).await;
}

/// The turns tell, also when the session has gone on; not those alone that another session has.
pub async fn importing_again_is_recognised(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, other) = (Talk::new("acme"), Talk::new("acme"));
    let turns = [TurnId::mint(), TurnId::mint()];
    let import = talk.import(turns.iter().map(|turn| over(turn, 3)).collect());
    for _ in 0..2 {
        assert_eq!(submit(&store, import.clone()).await, receipt(0, 1));
    }
    for wrong in [&turns[..1], &[turns[0].clone(), TurnId::mint()]] {
        let wrong = talk.import(wrong.iter().map(|turn| over(turn, 3)).collect());
        assert_eq!(submit(&store, wrong).await, Err(Refusal::Exists));
    }
    assert_eq!(submit(&store, talk.create()).await, Err(Refusal::Exists));
    assert_eq!(submit(&store, other.import(vec![over(&turns[0], 3)])).await, Err(Refusal::Exists));
    talk.go_on(&store).await;
    assert_eq!(submit(&store, import).await, receipt(0, 1));
    assert_eq!(talk.told(&store).await.turns.len(), 3);
}

/// As of the last rest of each turn, from the last turn on that began anew; shared turns count like the others.
pub async fn messages_are_counted(harness: &impl Harness) {
    let mut store = harness.open().await;
    let (talk, fork, stranger) = (Talk::new("acme"), Talk::new("acme"), Talk::new("evil"));
    let (first, second, third) = (TurnId::mint(), TurnId::mint(), TurnId::mint());
    let count = async |store: &std::sync::Arc<dyn crate::Store>, talk: &Talk| {
        let turns = talk.told(store).await.turns.len();
        (turns, store.message_count(&talk.tenant, &talk.session).await.expect("a count"))
    };
    assert_eq!(count(&store, &talk).await, (0, 0));
    accept(&store, talk.create()).await;
    assert_eq!(count(&store, &talk).await, (0, 0));
    accept(&store, talk.begin(&first, Some(1), 1)).await;
    assert_eq!(count(&store, &talk).await, (1, 1), "the input");
    accept(&store, talk.queue(&second, 2)).await;
    assert_eq!(count(&store, &talk).await, (2, 2));
    let more = Rest { messages: vec![Message::user("hello"); 4], ..rest(waiting(), 1) };
    accept(&store, append_rest(&first, 1, segment(2, 1), more)).await;
    assert_eq!(count(&store, &talk).await, (2, 5));
    accept(&store, talk.end(&first, 4, segment(3, 1))).await;
    assert_eq!(count(&store, &talk).await, (2, 3));
    accept(&store, talk.end(&second, 5, segment(1, 1))).await;
    assert_eq!(count(&store, &talk).await, (2, 4));

    // One that begins anew counts from when it is accepted, and those before it not any more.
    let begin = BeginTurn { begins_history: true, ..talk.begin_turn(&third, Some(6), 1) };
    accept(&store, Command::BeginTurn(Box::new(begin))).await;
    assert!(talk.read_turn(&store, &third).await.begins_history);
    assert_eq!(count(&store, &talk).await, (3, 1));
    accept(&store, append_rest(&third, 1, segment(2, 1), rest(ended(), 1))).await;
    assert_eq!(count(&store, &talk).await, (3, 2));
    talk.go_on(&store).await;
    assert_eq!(count(&store, &talk).await, (4, 4));
    let queued =
        BeginTurn { begins_history: true, start: Start::Queued, ..talk.begin_turn(&TurnId::mint(), Some(10), 0) };
    accept(&store, Command::BeginTurn(Box::new(queued))).await;
    assert_eq!(count(&store, &talk).await, (5, 1));

    accept(&store, fork.fork(&talk, 11, 2)).await;
    assert_eq!(count(&store, &fork).await, (2, 4), "before history began anew");
    let other = Talk::new("acme");
    accept(&store, other.fork(&talk, 11, 4)).await;
    drop(store);
    store = harness.open().await;
    assert_eq!(count(&store, &other).await, (4, 4));
    let begins = EndedTurn { begins_history: true, ..over(&TurnId::mint(), 1) };
    accept(&store, other.truncate_to(1, 2, Some(begins))).await;
    assert_eq!(count(&store, &other).await, (3, 2));
    accept(&store, other.truncate(2, 2)).await;
    assert_eq!(count(&store, &other).await, (2, 4), "and as if it never had");
    assert_eq!(store.message_count(&stranger.tenant, &talk.session).await, Ok(0));
}
