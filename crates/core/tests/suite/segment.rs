//! The stored form: what goes in comes out, and rubbish is told from it.

use bytes::Bytes;
use everturn_core::*;
use proptest::{collection::vec, prelude::*};

use super::arbitrary::event;

proptest! {
    #[test]
    fn every_event_survives_a_round_trip(events in vec((event(), 0..5000_i64), 1..20), split in 0..20_usize) {
        let mut builder = SegmentBuilder::new(7);
        let mut segments = Vec::new();
        for (index, (event, at)) in events.iter().enumerate() {
            if index == split && !builder.is_empty() {
                segments.push(builder.take());
            }
            builder.push(Timestamp(*at), event);
        }
        segments.push(builder.take());
        let mut read = Vec::new();
        for segment in &segments {
            let stored = Segment::from_stored(segment.first_seq(), segment.count(), segment.bytes().clone());
            let mut last = Timestamp(0);
            for raw in stored.events() {
                let raw = raw.unwrap();
                prop_assert!(raw.at >= last, "times never go back");
                last = raw.at;
                read.push((raw.seq, raw.decode().unwrap()));
            }
        }
        let written: Vec<_> = (7..).zip(events.into_iter().map(|(event, _)| event)).collect();
        prop_assert_eq!(read, written);
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
}

#[test]
fn a_later_version_is_refused_by_name() {
    let error = Segment::from_stored(1, 1, Bytes::from_static(&[2, 0, 0, 0])).events().next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "corrupt log segment: version 2 is newer than 1, the last one known at byte 0");
}

/// The stored form of released versions must stay readable: this is what version 1 wrote.
#[test]
fn the_stored_form_of_version_1() {
    let mut builder = SegmentBuilder::new(1);
    let input = vec![Message::user("hi")];
    let started = Event::TurnStarted(TurnStarted { agent: "demo".into(), opens_session: true, input });
    builder.push(Timestamp(300), &started);
    builder.push(Timestamp(301), &Event::TextDelta("é".into()));
    let usage = Usage { input: 3, output: 1 };
    let ended = Event::TurnEnded(TurnEnded { outcome: Outcome::Completed, usage });
    builder.push(Timestamp(301), &ended);
    let segment = builder.take();
    let golden: &[&[u8]] = &[
        b"\x01",
        b"\x01\xac\x02\x52",
        br#"{"agent":"demo","opens_session":true,"input":[{"user":{"content":{"text":"hi"}}}]}"#,
        b"\x03\x01\x02",
        "é".as_bytes(),
        b"\x0e\x00\x36",
        br#"{"outcome":"completed","usage":{"input":3,"output":1}}"#,
    ];
    let golden = golden.concat();
    assert_eq!(String::from_utf8_lossy(segment.bytes()), String::from_utf8_lossy(&golden));
    let read = Segment::from_stored(1, 3, Bytes::from(golden));
    let events: Vec<_> = read.events().map(|raw| raw.unwrap().decode().unwrap()).collect();
    assert_eq!(events, [started, Event::TextDelta("é".into()), ended]);
}
