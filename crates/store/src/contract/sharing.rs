//! Turns that several sessions have, and what becomes of them when one lets go.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use everturn_core::{Event, SegmentBuilder, Timestamp, TurnId};

use super::{
    Harness,
    fixture::{Talk, accept, append, over, page, read_all, receipt, replace_log, segment, submit},
};
use crate::{Refusal, Store};

/// The fork has all that it had, also after a restart, and can be forked again; the deleted session has nothing.
pub async fn a_shared_turn_outlives_its_session(harness: &impl Harness) {
    let mut store = harness.open().await;
    let (parent, fork, next) = (Talk::new("acme"), Talk::new("acme"), Talk::new("acme"));
    let turns = parent.converse(&store, 3).await;
    accept(&store, fork.fork(&parent, 7, 2)).await;
    let before = fork.told(&store).await;
    accept(&store, parent.delete()).await;
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        assert_eq!(fork.told(&store).await, before);
        fork.assert_turns(&store, &turns[..2]).await;
        parent.assert_without(&store, &turns).await;
        assert_eq!(read_all(&store, &turns[2], 100).await, Vec::new(), "nobody has it");
        assert_eq!(submit(&store, append(&turns[0], 1, segment(4, 1))).await, Err(Refusal::Changed));
        assert_eq!(submit(&store, append(&turns[2], 1, segment(4, 1))).await, Err(Refusal::NotFound));
    }
    let mut turns = turns[..2].to_vec();
    turns.push(fork.go_on(&store).await);
    accept(&store, next.fork(&fork, 3, 3)).await;
    accept(&store, fork.delete()).await;
    next.assert_turns(&store, &turns).await;
    accept(&store, next.delete()).await;
    for turn in &turns {
        assert_eq!(read_all(&store, turn, 100).await, Vec::new());
        // The name is as free as that of a turn which never was, though nobody will give it again.
        assert_eq!(submit(&store, append(turn, 1, segment(4, 1))).await, Err(Refusal::NotFound));
    }
}

/// A turn that was taken away from one session is there for the other, and its name says nothing to the first.
pub async fn truncation_takes_from_one_session_alone(harness: &impl Harness) {
    let mut store = harness.open().await;
    let (parent, fork) = (Talk::new("acme"), Talk::new("acme"));
    let mut turns = parent.converse(&store, 4).await;
    accept(&store, fork.fork(&parent, 9, 3)).await;
    let shared = turns[..3].to_vec();
    // The parent, below what is shared.
    accept(&store, parent.truncate(9, 1)).await;
    parent.assert_turns(&store, &turns[..1]).await;
    parent.assert_without(&store, &turns[1..]).await;
    fork.assert_turns(&store, &shared).await;
    assert_eq!(read_all(&store, &turns[3], 100).await, Vec::new(), "nobody has it");
    // Both have a second turn now, and they are not the same.
    turns.truncate(1);
    turns.push(parent.go_on(&store).await);
    drop(store);
    store = harness.open().await;
    parent.assert_turns(&store, &turns).await;
    fork.assert_turns(&store, &shared).await;
    for (talk, other) in [(&parent, &shared[1]), (&fork, &turns[1])] {
        assert_eq!(submit(&store, talk.end(other, 12, segment(4, 1))).await, Err(Refusal::NotFound));
    }
    // The fork, below what it shares still, and what it was given.
    let place = over(&TurnId::mint(), 3);
    accept(&store, fork.truncate_to(1, 2, Some(place.clone()))).await;
    let forked = [shared[0].clone(), shared[1].clone(), place.turn];
    fork.assert_turns(&store, &forked).await;
    assert_eq!(read_all(&store, &shared[2], 100).await, Vec::new());
    accept(&store, fork.truncate(2, 0)).await;
    fork.assert_turns(&store, &[]).await;
    parent.assert_turns(&store, &turns).await;
    for turn in &forked[1..] {
        assert_eq!(read_all(&store, turn, 100).await, Vec::new());
    }
    let next = fork.go_on(&store).await;
    fork.assert_turns(&store, &[next]).await;
}

/// Sessions that share with each other in many ways, and what each of them has.
async fn family(store: &Arc<dyn Store>) -> Vec<(Talk, Vec<TurnId>)> {
    let talks: Vec<Talk> = (0..4).map(|_| Talk::new("acme")).collect();
    let mut first = talks[0].converse(store, 3).await;
    // A fork that goes on; a fork of that, of both kinds of turns; and another of the first one.
    accept(store, talks[1].fork(&talks[0], 7, 2)).await;
    let mut second = first[..2].to_vec();
    second.push(talks[1].go_on(store).await);
    second.push(talks[1].go_on(store).await);
    accept(store, talks[2].fork(&talks[1], 5, 3)).await;
    let mut third = second[..3].to_vec();
    third.push(talks[2].go_on(store).await);
    accept(store, talks[3].fork(&talks[0], 7, 3)).await;
    let fourth = first.clone();
    first.push(talks[0].go_on(store).await);
    talks.into_iter().zip([first, second, third, fourth]).collect()
}

/// Fails unless each session that is left has its turns, and what none has is gone.
async fn assert_family(store: &Arc<dyn Store>, family: &[Option<(Talk, Vec<TurnId>)>], all: &[TurnId]) {
    let left = || family.iter().flatten();
    for (talk, turns) in left() {
        talk.assert_turns(store, turns).await;
    }
    for turn in all.iter().filter(|turn| !left().any(|(_, turns)| turns.contains(turn))) {
        assert_eq!(read_all(store, turn, 100).await, Vec::new(), "nobody has it any more");
    }
}

fn orders(names: &[usize]) -> Vec<Vec<usize>> {
    if names.is_empty() {
        return vec![Vec::new()];
    }
    let each = names.iter().enumerate().flat_map(|(index, name)| {
        let mut others = names.to_vec();
        others.remove(index);
        orders(&others).into_iter().map(move |order| [vec![*name], order].concat())
    });
    each.collect()
}

/// In every order, at once or by parts.
pub async fn sessions_let_go_in_any_order(harness: &impl Harness) {
    let mut store = harness.open().await;
    for (number, order) in orders(&[0, 1, 2, 3]).into_iter().enumerate() {
        let mut family: Vec<Option<_>> = family(&store).await.into_iter().map(Some).collect();
        let all: Vec<TurnId> = family.iter().flatten().flat_map(|(_, turns)| turns.clone()).collect();
        assert_family(&store, &family, &all).await;
        for (step, index) in order.iter().enumerate() {
            // Every second order goes by truncations, some of them to the beginning.
            if number % 2 == 1
                && let Some((talk, turns)) = &mut family[*index]
            {
                let through = (number / 2 + step) % 4;
                let version = talk.read(&store).await.version;
                accept(&store, talk.truncate(version, through as u64)).await;
                turns.truncate(through);
                assert_family(&store, &family, &all).await;
            }
            let (talk, turns) = family[*index].take().expect("a session that is left");
            accept(&store, talk.delete()).await;
            talk.assert_without(&store, &turns).await;
            if (number + step) % 8 == 0 {
                drop(store);
                store = harness.open().await;
            }
            assert_family(&store, &family, &all).await;
        }
    }
}

/// It is one log, wherever it is read.
pub async fn the_log_of_a_shared_turn_is_shortened_once(harness: &impl Harness) {
    let store = harness.open().await;
    let (parent, fork) = (Talk::new("acme"), Talk::new("acme"));
    let turns = parent.converse(&store, 2).await;
    accept(&store, fork.fork(&parent, 5, 2)).await;
    let told = (parent.told(&store).await, fork.told(&store).await);
    assert_eq!(store.old_logs(Timestamp(100), 1, 10).await, Ok(turns.clone()), "each once");
    let mut builder = SegmentBuilder::new(1);
    builder.push(Timestamp(1), &Event::Dropped { count: 3 });
    let short = vec![builder.take()];
    assert_eq!(submit(&store, replace_log(&turns[0], short.clone(), 1)).await, receipt(1, 0));
    assert_eq!(store.old_logs(Timestamp(100), 1, 10).await, Ok(turns[1..].to_vec()));
    accept(&store, parent.delete()).await;
    // The one that has it now is as good as the one that ran it.
    assert_eq!(submit(&store, replace_log(&turns[1], short, 2)).await, receipt(1, 0));
    assert_eq!(store.old_logs(Timestamp(100), 2, 10).await, Ok(turns[..1].to_vec()));
    for turn in &turns {
        assert_eq!(page(&store, turn, 0, 100).await, [(1, Event::Dropped { count: 3 })]);
    }
    assert_eq!(fork.told(&store).await, told.1);
    assert_eq!(fork.told(&store).await.turns, told.0.turns);
    accept(&store, fork.truncate(1, 1)).await;
    assert_eq!(store.old_logs(Timestamp(100), 9, 10).await, Ok(turns[..1].to_vec()));
}

/// A reader sees all of a fork's turns, whoever lets go of them at that moment.
pub async fn readers_of_a_fork_notice_nothing(harness: &impl Harness) {
    let store = harness.open().await;
    let mut holders: Vec<Talk> = (0..30).map(|_| Talk::new("acme")).collect();
    let turns = holders[0].converse(&store, 3).await;
    for holder in &holders[1..] {
        accept(&store, holder.fork(&holders[0], 7, 3)).await;
    }
    let fork = Talk::new("acme");
    accept(&store, fork.fork(&holders[0], 7, 3)).await;
    let expected = fork.told(&store).await;
    let is_done = Arc::new(AtomicBool::new(false));
    let reader = {
        let (store, fork, turns, is_done) = (Arc::clone(&store), fork.clone(), turns.clone(), Arc::clone(&is_done));
        tokio::spawn(async move {
            let mut rounds = 0;
            // At least once after the last change, too.
            loop {
                let was_done = is_done.load(Ordering::Acquire);
                assert_eq!(fork.told(&store).await, expected);
                fork.assert_turns(&store, &turns).await;
                rounds += 1;
                if was_done && rounds > 1 {
                    return;
                }
            }
        })
    };
    // The turns go from hand to hand among those who share them, while others come and go.
    for round in 0..60 {
        if round >= 20 {
            let next = fork.another();
            accept(&store, next.fork(&fork, 1, 3)).await;
            holders.push(next);
        }
        let gone = holders.remove(if round % 4 == 3 { holders.len() / 2 } else { 0 });
        if round % 3 == 0 {
            let version = gone.read(&store).await.version;
            accept(&store, gone.truncate(version, 1)).await;
        }
        accept(&store, gone.delete()).await;
    }
    is_done.store(true, Ordering::Release);
    reader.await.expect("the reader is content");
    fork.assert_turns(&store, &turns).await;
}
