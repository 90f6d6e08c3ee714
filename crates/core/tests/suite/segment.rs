//! The stored form: what goes in comes out, and rubbish is told from it.

use bytes::Bytes;
use everturn_core::*;
use proptest::{collection::vec, prelude::*};

use super::arbitrary::event;

/// Events in segments of these sizes, in their stored form.
fn stored(first_seq: u64, events: &[(Event, i64)], size: usize) -> Vec<Segment> {
    let mut builder = SegmentBuilder::new(first_seq);
    let mut segments = Vec::new();
    for (index, (event, at)) in events.iter().enumerate() {
        if index > 0 && index % size == 0 {
            segments.push(builder.take());
        }
        builder.push(Timestamp(*at), event);
    }
    segments.push(builder.take());
    segments
}

/// Each event with its seq: the next one, but a run that was dropped has as many as it says.
fn numbered(first_seq: u64, events: &[(Event, i64)]) -> Vec<(u64, Event)> {
    let mut next = first_seq;
    let number = |(event, _): &(Event, i64)| {
        let seq = next;
        next += if let Event::Dropped { count } = event { u64::from(*count) } else { 1 };
        (seq, event.clone())
    };
    events.iter().map(number).collect()
}

proptest! {
    #[test]
    fn every_event_survives_a_round_trip(events in vec((event(), 0..5000_i64), 1..20), size in 1..20_usize) {
        let mut read = Vec::new();
        let mut next = 7;
        for segment in stored(7, &events, size) {
            let segment = Segment::from_stored(segment.first_seq(), segment.count(), segment.bytes().clone());
            prop_assert_eq!(segment.first_seq(), next, "segments follow one another");
            let mut last = Timestamp(0);
            for raw in segment.events() {
                let raw = raw.unwrap();
                prop_assert!(raw.at >= last, "times never go back");
                last = raw.at;
                next = raw.last_seq + 1;
                read.push((raw.seq, raw.decode().unwrap()));
            }
            prop_assert_eq!(segment.last_seq() + 1, next, "a segment ends with its last event");
        }
        prop_assert_eq!(read, numbered(7, &events));
    }

    /// A reader that has seen everything up to some event finds the next one, also within a run that was dropped.
    #[test]
    fn a_segment_can_be_read_from_any_seq(events in vec((event(), 0..5000_i64), 1..12)) {
        let segment = stored(1, &events, usize::MAX).remove(0);
        let all = numbered(1, &events);
        for cursor in 0..=segment.last_seq() {
            let after: Vec<_> = segment.events().map(Result::unwrap).filter(|raw| raw.seq > cursor).collect();
            let expected = all.iter().position(|(seq, _)| *seq > cursor).map_or(&[][..], |at| &all[at..]);
            prop_assert_eq!(after.len(), expected.len());
            for (raw, (seq, event)) in after.iter().zip(expected) {
                prop_assert_eq!((raw.seq, raw.decode().unwrap()), (*seq, event.clone()));
            }
        }
    }

    #[test]
    fn rubbish_is_an_error_and_never_a_panic(bytes in vec(any::<u8>(), 0..64), count in 0..9_u32) {
        let segment = Segment::from_stored(1, count, Bytes::from(bytes));
        for raw in segment.events() {
            let Ok(raw) = raw else { break };
            let _ = raw.decode();
        }
    }

    #[test]
    fn a_cut_segment_is_noticed(events in vec(event(), 1..6)) {
        let mut builder = SegmentBuilder::new(1);
        events.iter().for_each(|event| builder.push(Timestamp(1), event));
        let whole = builder.take();
        for end in 0..whole.bytes().len() {
            let cut = Segment::from_stored(1, whole.count(), whole.bytes().slice(..end));
            prop_assert!(cut.events().any(|raw| raw.is_err()), "cut at {end}");
        }
    }

    /// Says how many events it should have, and is found out if it has more or fewer.
    #[test]
    fn a_run_that_says_more_than_the_segment_has_is_noticed(count in 1..9_u32, says in 0..9_u32) {
        let mut builder = SegmentBuilder::new(1);
        builder.push(Timestamp(1), &Event::TextDelta("x".into()));
        builder.push(Timestamp(1), &Event::Dropped { count });
        let whole = builder.take();
        prop_assert_eq!(whole.count(), 1 + count);
        let told = Segment::from_stored(1, 1 + says, whole.bytes().clone());
        let sound = told.events().all(|raw| raw.is_ok());
        // With nothing after the first event to count, nobody looks at the run.
        prop_assert_eq!(sound, says == count || says == 0);
    }
}

#[test]
fn an_artifacts_piece_is_read_without_a_copy_where_it_can_be() {
    let id: ArtifactId = "art_1".parse().unwrap();
    let mut builder = SegmentBuilder::new(1);
    for text in ["plain", "a\n\"line\" é"] {
        builder
            .push(Timestamp(1), &Event::ArtifactDelta(ArtifactDelta { id: id.clone(), index: 3, text: text.into() }));
    }
    let segment = builder.take();
    let pieces: Vec<_> = segment.events().map(|raw| raw.unwrap().artifact_delta().unwrap()).collect();
    let shown: Vec<_> = pieces.iter().map(|piece| (piece.id.as_ref(), piece.index, piece.text.as_ref())).collect();
    assert_eq!(shown, [("art_1", 3, "plain"), ("art_1", 3, "a\n\"line\" é")]);
    assert!(matches!(pieces[0].text, std::borrow::Cow::Borrowed(_)));
}

#[test]
fn a_later_version_is_refused_by_name() {
    let error = Segment::from_stored(1, 1, Bytes::from_static(&[2, 0, 0, 0])).events().next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "corrupt log segment: version 2 is newer than 1, the last one known at byte 0");
}
