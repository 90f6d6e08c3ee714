//! Reading logs.

use std::sync::Arc;

use bytes::Bytes;
use everturn_core::{Event, SegmentBuilder, Timestamp, TurnId};

use super::{
    Harness,
    fixture::{Talk, accept, append, append_rest, assert_log, ended, page, read_all, rest, segment},
};
use crate::{TurnOutline, TurnStatus};

/// A reader may stand anywhere, in a running turn and in one that is over, and take pages of any size.
pub async fn reads_go_on_from_every_seq(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 1)).await;
    let mut head = 1;
    for count in [1, 2, 5, 1, 9, 3] {
        accept(&store, append(&turn, 1, segment(head + 1, count))).await;
        head += count;
    }
    for is_over in [false, true] {
        if is_over {
            accept(&store, append_rest(&turn, 1, segment(head + 1, 2), rest(ended(), 1))).await;
            head += 2;
        }
        for max_bytes in [0, 1, 20, 50, 1 << 20] {
            for after in 0..=head + 2 {
                let mut at = after;
                loop {
                    let events = page(&store, &turn, at, max_bytes).await;
                    for (index, (seq, event)) in events.iter().enumerate() {
                        assert_eq!(*seq, at + 1 + index as u64);
                        assert_eq!(*event, Event::TextDelta(format!("event {seq}")));
                    }
                    if events.is_empty() {
                        break;
                    }
                    at += events.len() as u64;
                }
                assert_eq!(at, after.max(head), "from {after} in pages of {max_bytes}");
            }
        }
        assert_eq!(store.read(&turn, u64::MAX, 100).await, Ok(Vec::new()));
    }
}

/// A page ends with the segment that reaches the limit.
pub async fn reads_are_bounded(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 1)).await;
    for number in 0..40 {
        accept(&store, append(&turn, 1, segment(2 + 10 * number, 10))).await;
    }
    for is_over in [false, true] {
        if is_over {
            accept(&store, append_rest(&turn, 1, segment(402, 1), rest(ended(), 1))).await;
        }
        for max_bytes in [0, 1, 500, 2000] {
            let segments = store.read(&turn, 0, max_bytes).await.expect("a page");
            let sizes: Vec<usize> = segments.iter().map(|segment| segment.bytes().len()).collect();
            let (_, before_last) = sizes.split_last().expect("at least one segment");
            let size = before_last.iter().sum::<usize>();
            assert!(before_last.is_empty() || size < max_bytes, "{size} of {max_bytes} bytes before the last segment");
        }
    }
}

/// A hundred thousand events in many commits, some of them large.
pub async fn large_logs_are_read_in_pages(harness: &impl Harness) {
    const HEAD: u64 = 100_000;
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 1)).await;
    let mut head = 1;
    let mut size = 1;
    while head < HEAD {
        let batch = (0..50).map_while(|_| {
            let count = size.min(HEAD - head);
            let command = (count > 0).then(|| append(&turn, 1, segment(head + 1, count)));
            head += count;
            size = size * 7 % 83 + 1;
            command
        });
        let batch: Vec<_> = batch.collect();
        let verdicts = store.commit(Arc::new(batch)).await.expect("a commit");
        assert!(verdicts.iter().all(Result::is_ok));
    }
    for is_over in [false, true] {
        if is_over {
            accept(&store, append_rest(&turn, 1, segment(HEAD + 1, 30_000), rest(ended(), 1))).await;
            head += 30_000;
        }
        let events = read_all(&store, &turn, 64 * 1024).await;
        assert_eq!(events.len() as u64, head);
        assert!(events.iter().zip(1..).all(|((seq, _), expected)| *seq == expected));
    }
}

/// What a later version wrote is given back as it was written.
pub async fn unknown_events_survive(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 1)).await;
    let unknown = Event::Unknown { kind: 60_000, payload: Bytes::from_static(&[0, 255, 1, 254, b'{']) };
    let mut builder = SegmentBuilder::new(2);
    builder.push(Timestamp(5), &unknown);
    let written = builder.take();
    accept(&store, append(&turn, 1, written.clone())).await;
    assert_eq!(page(&store, &turn, 1, 100).await, [(2, unknown.clone())]);
    accept(&store, append_rest(&turn, 1, segment(3, 1), rest(ended(), 1))).await;
    drop(store);
    let store = harness.open().await;
    assert_eq!(page(&store, &turn, 1, 1).await, [(2, unknown)]);
    let segments = store.read(&turn, 1, 1).await.expect("a page");
    assert_eq!(segments, [written]);
}

/// Readers that follow a turn see every event once, in order, while it runs, rests and is gathered.
pub async fn reads_are_gap_free_while_the_turn_comes_to_rest(harness: &impl Harness) {
    const TURNS: u64 = 40;
    const EVENTS: u64 = 60;
    let store = harness.open().await;
    for _ in 0..TURNS {
        let talk = Talk::new("acme");
        let turn = TurnId::mint();
        accept(&store, talk.begin(&turn, None, 1)).await;
        let follow = |max_bytes: usize| {
            let (store, turn) = (Arc::clone(&store), turn.clone());
            tokio::spawn(async move {
                let mut seen = 0;
                while seen < EVENTS {
                    for (seq, event) in page(&store, &turn, seen, max_bytes).await {
                        assert_eq!((seq, event), (seen + 1, Event::TextDelta(format!("event {}", seen + 1))));
                        seen = seq;
                    }
                    // Gives the writer a turn where there is one thread only.
                    tokio::task::yield_now().await;
                }
            })
        };
        let readers = [follow(1), follow(100), follow(1 << 20)];
        for first in (2..EVENTS).step_by(2) {
            accept(&store, append(&turn, 1, segment(first, 2))).await;
        }
        let last = if EVENTS.is_multiple_of(2) { EVENTS } else { EVENTS - 1 };
        accept(&store, append_rest(&turn, 1, segment(last, EVENTS + 1 - last), rest(ended(), 1))).await;
        for reader in readers {
            reader.await.expect("a reader that saw every event");
        }
        assert_log(&store, &turn, EVENTS).await;
    }
}

/// A read that begins after a commit has returned sees it.
pub async fn heads_are_those_of_the_last_commit(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 1)).await;
    let mut head = 1;
    for count in [1, 4, 2, 300] {
        accept(&store, append(&turn, 1, segment(head + 1, count))).await;
        head += count;
        let record = store.turn(&talk.tenant, &talk.session, &turn).await.expect("a read").expect("a turn");
        assert_eq!((record.head, &record.status), (head, &TurnStatus::Running));
        assert_eq!(store.turns(&talk.tenant, &talk.session).await.expect("turns"), [record]);
    }
}

/// Newest first, as many as were asked for, with the heads that they have.
pub async fn turns_are_read_in_pages(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let names: Vec<TurnId> = (0..7).map(|_| TurnId::mint()).collect();
    let mut version = None;
    for turn in &names[..5] {
        accept(&store, talk.begin(turn, version, 1)).await;
        let end = append_rest(turn, 1, segment(2, 1), rest(ended(), 1));
        version = Some(accept(&store, end).await.version);
    }
    accept(&store, talk.begin(&names[5], version, 1)).await;
    accept(&store, append(&names[5], 1, segment(2, 7))).await;
    accept(&store, talk.queue(&names[6], version.expect("a version") + 1)).await;
    let mut all = store.turns(&talk.tenant, &talk.session).await.expect("turns");
    assert_eq!(all.iter().map(|turn| turn.head).collect::<Vec<_>>(), [2, 2, 2, 2, 2, 8, 0]);
    all.reverse();
    for limit in 1..9 {
        let (mut seen, mut below) = (Vec::new(), None);
        loop {
            let page = store.turns_below(&talk.tenant, &talk.session, below, limit).await.expect("a page");
            let outlines = store.outlines_below(&talk.tenant, &talk.session, below, limit).await.expect("outlines");
            assert_eq!(outlines.len(), page.len());
            for (outline, turn) in outlines.into_iter().zip(&page) {
                let head = if turn.status == TurnStatus::Running { outline.head } else { turn.head };
                assert_eq!(outline, TurnOutline { head, ..TurnOutline::from(turn.clone()) });
            }
            let Some(last) = page.last() else { break };
            assert!(page.len() <= limit);
            below = Some(last.ordinal);
            seen.extend(page);
        }
        assert_eq!(seen, all, "in pages of {limit}");
    }
    let page = async |below, limit| store.turns_below(&talk.tenant, &talk.session, below, limit).await;
    assert_eq!(page(None, 0).await, Ok(Vec::new()));
    assert_eq!(page(Some(1), 9).await, Ok(Vec::new()));
    assert_eq!(page(Some(u64::MAX), 9).await, Ok(all));
    let stranger = Talk::new("evil").tenant;
    assert_eq!(store.turns_below(&stranger, &talk.session, None, 9).await, Ok(Vec::new()));
    assert_eq!(store.outlines_below(&stranger, &talk.session, None, 9).await, Ok(Vec::new()));
    assert_eq!(store.queued(&stranger, &talk.session, 9).await, Ok(Vec::new()));
}
