//! What each view shows of each event.

mod ends;
mod messages;
mod news;

use std::sync::Arc;

use bytes::Bytes;
use everturn_core::{
    Block, CallId, Content, Event, Finish, Json, Message, Outcome, Said, Segment, SegmentBuilder, Standing,
    StepFinished, Timestamp, ToolUse, TurnEnded, TurnId, TurnStarted, Usage,
};
use everturn_engine::{Cursor, Flow, Frames, Projection, TurnView};
use everturn_goose::{projections, session_projection};
use expect_test::Expect;

use super::harness::contract;

/// 2026-03-04T10:00:00Z.
const BEGAN: i64 = 1_772_618_400_000;

fn all() -> [&'static dyn Projection; 3] {
    let [released, described] = projections();
    [described, released, session_projection()]
}

fn started() -> Event {
    Event::TurnStarted(TurnStarted {
        agent: "demo".to_owned(),
        input: vec![Message::user("Hello")],
        request: Some("req-1".to_owned()),
        compacts: false,
        used_before: Usage::of(1350, 725),
        last_used: Usage::of(120, 30),
        by: None,
        ..TurnStarted::default()
    })
}

fn step(step: u32) -> Event {
    Event::StepStarted { step, model: "demo/demo".to_owned() }
}

fn call(id: &str) -> ToolUse {
    let input = Json::parse(r#"{"path":"/srv/file.txt"}"#).unwrap();
    ToolUse { id: CallId::new(id), name: "read_file".to_owned(), input }
}

fn finished(content: Content, finish: Finish) -> Event {
    let usage = Usage::of(150, 75);
    Event::StepFinished(StepFinished { content, finish, usage, deltas_dropped: false, step: 0, withheld: Vec::new() })
}

fn ended(outcome: Outcome) -> Event {
    let usage = Usage::of(150, 75);
    Event::TurnEnded(TurnEnded { outcome, usage, response: String::new(), artifacts: Vec::new() })
}

fn segment(events: &[Event]) -> Segment {
    let mut builder = SegmentBuilder::new(1);
    for (seconds, event) in (0..).zip(events) {
        builder.push(Timestamp(BEGAN + seconds * 1000), event);
    }
    builder.take()
}

fn conversation() -> Arc<[Said]> {
    let turn: TurnId = "turn_1".parse().unwrap();
    let image = Block::Image { url: "data:image/png;base64,iVBO".into() };
    let messages = vec![
        Message::System { content: "Be brief.".to_owned() },
        Message::User { content: Content::Blocks(vec![Block::Text("Look".to_owned()), image]) },
        Message::Assistant {
            content: Content::answer("hm".to_owned(), None, "I read".to_owned(), vec![call("call_1")]),
        },
        Message::Tool { call_id: CallId::new("call_1"), content: Content::Text("inside".to_owned()), is_error: false },
        Message::Assistant { content: Content::answer("only thought".to_owned(), None, String::new(), Vec::new()) },
    ];
    Said::of_turn(&turn, Timestamp(BEGAN), Timestamp(BEGAN + 9000), messages).into()
}

/// The frames of these events in one view, and how its stream goes on after the last of them.
fn show(projection: &dyn Projection, events: &[Event]) -> (String, Flow) {
    let (mut view, mut out, mut flow) = (view(), Vec::new(), Flow::Continue);
    for event in segment(events).events() {
        let event = event.unwrap();
        view.standing.apply(&event).unwrap();
        view.conversation = projection.shows_conversation(&event).then(conversation);
        flow = projection.project(&view, &event, &mut Frames::new(&mut out, event.last_seq, 0)).unwrap();
    }
    (String::from_utf8(out).unwrap(), flow)
}

fn view() -> TurnView {
    let (session, turn) = ("session-abc123".parse().unwrap(), "turn_1".parse().unwrap());
    TurnView { session, turn, standing: Standing::default(), conversation: None }
}

/// What all three views show of the last of these events.
#[track_caller]
fn check(before: &[Event], event: Event, expected: Expect) {
    let mut transcript = String::new();
    for projection in all() {
        let (earlier, _) = show(projection, before);
        let events: Vec<_> = before.iter().cloned().chain([event.clone()]).collect();
        let (shown, flow) = show(projection, &events);
        let new = shown.strip_prefix(&earlier).unwrap();
        let schema = match projection.name() {
            "goose-seed" => "goose.Event",
            "goose" => "goose.ReleasedEvent",
            _ => "goose.SessionEvent",
        };
        for line in new.lines().filter_map(|line| line.strip_prefix("data: ")) {
            contract().check_named(schema, &serde_json::from_str(line).unwrap());
        }
        transcript += &format!("# {} {flow:?}\n{new}", projection.name());
    }
    expected.assert_eq(&transcript);
}

#[test]
fn streams_begin_and_stay_open_with_pings() {
    let opening = |projection: &dyn Projection| String::from_utf8_lossy(projection.opening()).into_owned();
    assert_eq!(all().map(opening), ["data: {\"type\":\"Ping\"}\n\n", "data: {\"type\":\"Ping\"}\n\n", ": ping\n"]);
    for projection in all() {
        assert_eq!(projection.heartbeat(Cursor::after(7)), Bytes::from_static(projection.opening()));
    }
    assert_eq!(all().map(Projection::is_session_wide), [false, false, true]);
}
