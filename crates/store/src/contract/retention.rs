//! Logs that have become shorter.

use std::sync::Arc;

use everturn_core::{Event, Segment, SegmentBuilder, Timestamp, TurnId};

use super::{
    Harness,
    fixture::{
        Talk, accept, append, append_rest, assert_log, ended, page, read_all, receipt, replace_log, rest, segment,
        submit, timed, waiting,
    },
};
use crate::{Refusal, Store};

/// The log of `head` events without most of them: in each of its segments, `kept` events stay and `dropped` go.
fn shortened(head: u64, kept: u64, dropped: u64) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut builder = SegmentBuilder::new(1);
    while builder.next_seq() <= head {
        for _ in 0..kept.min(head + 1 - builder.next_seq()) {
            let seq = builder.next_seq();
            builder.push(Timestamp(seq as i64), &Event::TextDelta(format!("event {seq}")));
        }
        let count = dropped.min(head + 1 - builder.next_seq()) as u32;
        if count > 0 {
            builder.push(Timestamp(head as i64), &Event::Dropped { count });
        }
        segments.push(builder.take());
    }
    segments
}

fn events(segments: &[Segment]) -> Vec<(u64, Event)> {
    let events = segments.iter().flat_map(Segment::events);
    events.map(|event| event.expect("an event")).map(|event| (event.seq, event.decode().expect("an event"))).collect()
}

/// A turn of one event and then `parts` of ten, which is over by then.
async fn ended_turn(store: &Arc<dyn Store>, parts: u64, at: i64) -> (Talk, TurnId, u64) {
    let (talk, turn) = (Talk::new("acme"), TurnId::mint());
    accept(store, talk.begin(&turn, None, 1)).await;
    for part in 0..parts {
        accept(store, append(&turn, 1, segment(2 + 10 * part, 10))).await;
    }
    accept(store, timed(append_rest(&turn, 1, segment(2 + 10 * parts, 1), rest(ended(), 1)), at)).await;
    (talk, turn, 2 + 10 * parts)
}

/// Wherever a reader stands, in pages of any size, also after a restart; what else is known of the turn stays.
pub async fn a_shorter_log_is_read_from_every_seq(harness: &impl Harness) {
    let mut store = harness.open().await;
    let (talk, turn, head) = ended_turn(&store, 12, 40).await;
    let (_, other, other_head) = ended_turn(&store, 3, 40).await;
    let record = talk.read_turn(&store, &turn).await;
    for (level, kept, dropped) in [(1, 3, 7), (2, 1, 40), (3, 0, 10_000)] {
        let segments = shortened(head, kept, dropped);
        for _ in 0..2 {
            assert_eq!(submit(&store, replace_log(&turn, segments.clone(), level)).await, receipt(1, 0));
        }
        for is_reopened in [false, true] {
            if is_reopened {
                drop(store);
                store = harness.open().await;
            }
            let expected = events(&segments);
            for max_bytes in [0, 1, 50, 200, 1 << 20] {
                assert_eq!(read_all(&store, &turn, max_bytes).await, expected, "in pages of {max_bytes}");
                for after in 0..=head + 1 {
                    let found = page(&store, &turn, after, max_bytes).await;
                    // The first one may have begun before.
                    let from = expected.iter().rposition(|(seq, _)| *seq <= after + 1).expect("the first event");
                    let from = if after >= head { expected.len() } else { from };
                    assert_eq!(found, expected[from..from + found.len()], "after {after}");
                    assert!(after >= head || !found.is_empty(), "after {after}");
                }
            }
            assert_eq!(talk.read_turn(&store, &turn).await, record);
        }
    }
    assert_log(&store, &other, other_head).await;
}

/// Not while there is more to come, not with other seqs, and not a longer one.
pub async fn only_the_log_of_an_ended_turn_is_replaced(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, turn, next) = (Talk::new("acme"), TurnId::mint(), TurnId::mint());
    let segments = || vec![segment(1, 2)];
    assert_eq!(submit(&store, replace_log(&turn, segments(), 1)).await, Err(Refusal::NotFound));
    accept(&store, talk.begin(&turn, None, 2)).await;
    assert_eq!(submit(&store, replace_log(&turn, segments(), 1)).await, Err(Refusal::Changed));
    accept(&store, append_rest(&turn, 1, segment(3, 0), rest(waiting(), 1))).await;
    assert_eq!(submit(&store, replace_log(&turn, segments(), 1)).await, Err(Refusal::Changed));
    accept(&store, talk.queue(&next, 2)).await;
    assert_eq!(submit(&store, replace_log(&next, Vec::new(), 1)).await, Err(Refusal::Changed));
    accept(&store, talk.end(&turn, 3, segment(3, 3))).await;
    let version = talk.read(&store).await.version;

    let gap = |first_seq| Err(Refusal::Gap { head: 5, first_seq });
    for (wrong, first_seq) in [
        (vec![], 1),
        (vec![segment(1, 4)], 5),
        (vec![segment(1, 6)], 7),
        (vec![segment(2, 4)], 2),
        (vec![segment(1, 2), segment(4, 2)], 4),
        (vec![segment(1, 3), segment(3, 3)], 3),
        (vec![segment(1, 5), segment(6, 1)], 7),
    ] {
        assert_eq!(submit(&store, replace_log(&turn, wrong, 1)).await, gap(first_seq));
    }
    assert_log(&store, &turn, 5).await;
    let shorter = shortened(5, 1, 3);
    assert_eq!(submit(&store, replace_log(&turn, shorter.clone(), 2)).await, receipt(1, 0));
    assert_eq!(submit(&store, replace_log(&turn, vec![segment(1, 5)], 1)).await, Err(Refusal::Changed));
    assert_eq!(read_all(&store, &turn, 100).await, events(&shorter));
    assert_eq!(talk.read(&store).await.version, version);
    // What ended it is recognised still.
    assert_eq!(submit(&store, talk.end(&turn, 3, segment(3, 3))).await, receipt(1, 4));
    // An empty part among the others is none.
    let with_empty = vec![segment(1, 0), segment(1, 2), segment(3, 0), segment(3, 3)];
    assert_eq!(submit(&store, replace_log(&turn, with_empty, 2)).await, receipt(1, 0));
    assert_log(&store, &turn, 5).await;
}

/// Whatever page a reader is given is of one log alone, and goes on where the reader stands.
pub async fn readers_find_one_log_or_the_other(harness: &impl Harness) {
    let store = harness.open().await;
    for _ in 0..10 {
        let (_, turn, head) = ended_turn(&store, 100, 40).await;
        let old: Vec<Segment> = store.read(&turn, 0, usize::MAX).await.expect("a log");
        let new = shortened(head, 4, 25);
        let follow = |max_bytes: usize| {
            let (store, turn, old, new) = (Arc::clone(&store), turn.clone(), old.clone(), new.clone());
            tokio::spawn(async move {
                let (mut after, mut is_new, mut reads) = (0, false, 0);
                while !is_new || reads < 50 {
                    let found = store.read(&turn, after, max_bytes).await.expect("a page");
                    let of = |log: &[Segment]| {
                        let from = log.iter().position(|segment| segment.last_seq() > after);
                        log[from.unwrap_or(log.len())..].starts_with(&found)
                    };
                    let (of_old, of_new) = (of(&old), of(&new));
                    assert!(of_old || of_new, "a page after {after} that is of neither log");
                    assert!(of_new || !is_new, "the old log after the new one was seen");
                    is_new |= !of_old;
                    reads += 1;
                    after = found.last().map_or(0, Segment::last_seq);
                    tokio::task::yield_now().await;
                }
            })
        };
        let readers = [follow(1), follow(300), follow(1 << 20)];
        tokio::task::yield_now().await;
        accept(&store, replace_log(&turn, new.clone(), 1)).await;
        for reader in readers {
            reader.await.expect("a reader that saw a whole log");
        }
        assert_eq!(read_all(&store, &turn, 1000).await, events(&new));
    }
}

/// Those that are over, and longer than they should be by then.
pub async fn old_logs_are_found(harness: &impl Harness) {
    let mut store = harness.open().await;
    let mut ended = Vec::new();
    for at in [300, 100, 200] {
        ended.push(ended_turn(&store, 1, at).await);
    }
    let (waits, runs) = (Talk::new("acme"), Talk::new("acme"));
    waits.wait(&store, &TurnId::mint()).await;
    accept(&store, runs.begin(&TurnId::mint(), None, 1)).await;
    accept(&store, runs.queue(&TurnId::mint(), 1)).await;
    let names = |order: &[usize]| -> Vec<TurnId> { order.iter().map(|index| ended[*index].1.clone()).collect() };
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        for level in [1, 2, u8::MAX] {
            assert_eq!(store.old_logs(Timestamp(100), level, 10).await, Ok(Vec::new()));
            assert_eq!(store.old_logs(Timestamp(201), level, 10).await, Ok(names(&[1, 2])));
            assert_eq!(store.old_logs(Timestamp(1_000), level, 10).await, Ok(names(&[1, 2, 0])));
            assert_eq!(store.old_logs(Timestamp(1_000), level, 2).await, Ok(names(&[1, 2])));
        }
        assert_eq!(store.old_logs(Timestamp(1_000), 0, 10).await, Ok(Vec::new()));
    }
    for (index, level) in [(1, 1), (2, 2)] {
        accept(&store, replace_log(&ended[index].1, shortened(12, 1, 20), level)).await;
    }
    for (level, order) in [(1, vec![0]), (2, vec![1, 0]), (3, vec![1, 2, 0])] {
        assert_eq!(store.old_logs(Timestamp(1_000), level, 10).await, Ok(names(&order)), "level {level}");
        assert_eq!(store.old_logs(Timestamp(1_000), level, 1).await, Ok(names(&order[..1])), "level {level}");
    }
    accept(&store, ended[0].0.delete()).await;
    assert_eq!(store.old_logs(Timestamp(1_000), 2, 10).await, Ok(names(&[1])));
    // The time is that of the end, not of an earlier rest.
    let (talk, turn) = (Talk::new("acme"), TurnId::mint());
    talk.wait(&store, &turn).await;
    accept(&store, timed(talk.end(&turn, 2, segment(3, 1)), 700)).await;
    assert_eq!(store.old_logs(Timestamp(700), 1, 10).await, Ok(Vec::new()));
    assert_eq!(store.old_logs(Timestamp(701), 1, 10).await, Ok(vec![turn]));
}
