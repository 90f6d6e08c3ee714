//! The stored form of version 1, byte by byte. What released versions wrote must stay readable.

use bytes::Bytes;
use everturn_core::{
    compaction::{Change, Shortened},
    *,
};

/// Payloads with the number of their kind, as they are stored.
fn golden(payloads: &[(u8, &str)]) -> Vec<u8> {
    let mut bytes = vec![1];
    for (kind, payload) in payloads {
        // Each a millisecond after the one before; lengths as varints.
        bytes.extend([*kind, 1]);
        let mut length = payload.len();
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend_from_slice(payload.as_bytes());
    }
    bytes
}

#[track_caller]
fn check(events: &[Event], payloads: &[(u8, &str)]) {
    let mut builder = SegmentBuilder::new(1);
    (1..).zip(events).for_each(|(at, event)| builder.push(Timestamp(at), event));
    let segment = builder.take();
    let golden = golden(payloads);
    assert_eq!(String::from_utf8_lossy(segment.bytes()), String::from_utf8_lossy(&golden), "what is written");
    let read = Segment::from_stored(1, segment.count(), Bytes::from(golden));
    let decoded: Vec<_> = read.events().map(|raw| raw.unwrap().decode().unwrap()).collect();
    assert_eq!(decoded, events, "what is read");
}

fn call(id: &str) -> CallId {
    CallId::new(id)
}

#[test]
fn lengths_and_times() {
    let mut builder = SegmentBuilder::new(1);
    builder.push(Timestamp(300), &Event::TextDelta("é".into()));
    builder.push(Timestamp(301), &Event::TextDelta("x".repeat(200)));
    builder.push(Timestamp(5), &Event::ThinkingDelta(String::new()));
    let golden =
        [b"\x01\x03\xac\x02\x02".as_slice(), "é".as_bytes(), b"\x03\x01\xc8\x01", &[b'x'; 200], b"\x04\x00\x00"];
    assert_eq!(builder.take().bytes(), golden.concat().as_slice());
}

#[test]
fn steps() {
    let usage = Usage::of(3, 1);
    let input = vec![Message::user("hi"), Message::System { content: "be brief".into() }];
    let used = ToolUse { id: call("c1"), name: "look".into(), input: Json::parse(r#"{"a": 1}"#).unwrap() };
    let blocks = vec![
        Block::Thinking { text: "hm".into(), signature: Some("s".into()) },
        Block::Text("yes".into()),
        Block::ToolUse(used.clone()),
    ];
    let content = Content::Blocks(blocks);
    check(
        &[
            Event::TurnStarted(TurnStarted {
                agent: "demo".into(),
                opens_session: true,
                input,
                begins_history: true,
                request: Some("r1".into()),
                compacts: false,
                used_before: Usage { input: 7, output: 8, cached_input: 4, cache_write: 2, reasoning: 5 },
                last_used: Usage::of(6, 3),
                by: Some("key_1".parse().unwrap()),
                options: ModelOptions { effort: Some(Effort::High), ..ModelOptions::default() },
            }),
            Event::StepStarted { step: 1, model: "p/m".into() },
            Event::ToolCalled { call: used, route: CallRoute::Refused { reason: "no".into() } },
            Event::StepFinished(StepFinished {
                content,
                finish: Finish::ToolUse,
                usage,
                deltas_dropped: false,
                step: 0,
                withheld: vec![call("c1")],
            }),
            Event::StepFinished(StepFinished {
                content: Content::Text("é".into()),
                finish: Finish::Stop,
                usage,
                deltas_dropped: true,
                step: 2,
                withheld: Vec::new(),
            }),
            Event::StepRestarted { reason: "cut".into(), attempt: 2, usage },
            Event::ModelChanged { model: "p/n".into(), reason: "down".into() },
            Event::HistoryCompacted(Compaction { summary: "s".into(), covers: 4, usage, ..Compaction::default() }),
            Event::HistoryCompacted(Compaction {
                summary: "s".into(),
                covers: 4,
                usage,
                first: Some(0),
                current: Some(3),
                system: Some(vec![1]),
                shortened: vec![Shortened { at: 5, keep: 64 }],
                left_out: 2,
                excerpt: "e".into(),
                reads_results: true,
                change: Some(Change { messages: 4, shortened: 1, tokens_before: 9, tokens_after: 3 }),
            }),
        ],
        &[
            (
                1,
                r#"{"agent":"demo","opens_session":true,"input":[{"user":{"content":{"text":"hi"}}},{"system":{"content":"be brief"}}],"begins_history":true,"request":"r1","used_before":{"input":7,"output":8,"cached_input":4,"cache_write":2,"reasoning":5},"last_used":{"input":6,"output":3},"by":"key_1","options":{"effort":"high"}}"#,
            ),
            (2, r#"{"step":1,"model":"p/m"}"#),
            (5, r#"{"call":{"id":"c1","name":"look","input":{"a": 1}},"route":{"refused":{"reason":"no"}}}"#),
            (
                6,
                r#"{"content":{"blocks":[{"thinking":{"text":"hm","signature":"s"}},{"text":"yes"},{"tool_use":{"id":"c1","name":"look","input":{"a": 1}}}]},"finish":"tool_use","usage":{"input":3,"output":1},"withheld":["c1"]}"#,
            ),
            (
                6,
                r#"{"content":{"text":"é"},"finish":"stop","usage":{"input":3,"output":1},"deltas_dropped":true,"step":2}"#,
            ),
            (7, r#"{"reason":"cut","attempt":2,"usage":{"input":3,"output":1}}"#),
            (8, r#"{"model":"p/n","reason":"down"}"#),
            (13, r#"{"summary":"s","covers":4,"usage":{"input":3,"output":1}}"#),
            (
                13,
                r#"{"summary":"s","covers":4,"usage":{"input":3,"output":1},"first":0,"current":3,"system":[1],"shortened":[{"at":5,"keep":64}],"left_out":2,"excerpt":"e","reads_results":true,"change":{"messages":4,"shortened":1,"tokens_before":9,"tokens_after":3}}"#,
            ),
        ],
    );
}

#[test]
fn tools_forms_and_timers() {
    let waiting = |id: &str, waiting_for, until| WaitingCall { id: call(id), name: "t".into(), waiting_for, until };
    let form = FormOpened {
        form_id: "form_1".parse().unwrap(),
        call_id: call("c2"),
        kind: FormKind::Approval,
        title: "Allow?".into(),
        description: None,
        schema: Json::parse(r#"{"type":"object"}"#).unwrap(),
        asks_for: Some(ToolUse { id: call("c2"), name: "t".into(), input: Json::empty_object() }),
        expires_at: Some(Timestamp(99)),
    };
    let yes = Json::parse(r#"{"yes":true}"#).unwrap();
    check(
        &[
            Event::ToolIntended {
                call_id: call("c1"),
                effect_id: "eff_1".parse().unwrap(),
                effect: EffectClass::ReadOnly,
                tool: "look".into(),
                label: "Look".into(),
                step: 2,
            },
            Event::ToolFinished {
                call_id: call("c1"),
                tool: "look".into(),
                content: Content::Text("r".into()),
                is_error: true,
                duration_ms: 12,
                never_began: None,
                application: false,
            },
            Event::ToolFinished {
                call_id: call("c1"),
                tool: "look".into(),
                content: Content::Text("r".into()),
                is_error: true,
                duration_ms: 0,
                never_began: Some(2),
                application: true,
            },
            Event::TimerSet { call_id: call("c3"), from: Timestamp(5), wake_at: Timestamp(9) },
            Event::FormOpened(form),
            Event::Waiting(Wait::of(vec![
                waiting("c2", WaitingFor::Permission, Some(Timestamp(99))),
                waiting("c3", WaitingFor::Timer, Some(Timestamp(9))),
                waiting("c4", WaitingFor::Form, None),
                waiting("c5", WaitingFor::Result, None),
            ])),
            Event::Waiting(Wait { calls: Vec::new(), wake_at: Some(Timestamp(7)) }),
            Event::Resumed {
                answers: vec![
                    Answer::Permission { call_id: call("c2"), granted: false, reason: Some("no".into()) },
                    Answer::Elapsed { call_id: call("c3") },
                    Answer::Form { call_id: call("c4"), value: yes },
                    Answer::Result { call_id: call("c5"), content: Content::Text("5".into()) },
                    Answer::Expired { call_id: call("c6") },
                ],
                options: None,
            },
            Event::Resumed {
                answers: vec![Answer::Elapsed { call_id: call("c3") }],
                options: Some(Box::new(ModelOptions { seed: Some(7), ..ModelOptions::default() })),
            },
        ],
        &[
            (9, r#"{"call_id":"c1","effect_id":"eff_1","effect":"read_only","tool":"look","label":"Look","step":2}"#),
            (10, r#"{"call_id":"c1","tool":"look","content":{"text":"r"},"is_error":true,"duration_ms":12}"#),
            (
                10,
                r#"{"call_id":"c1","tool":"look","content":{"text":"r"},"is_error":true,"duration_ms":0,"never_began":2,"application":true}"#,
            ),
            (15, r#"{"call_id":"c3","from":5,"wake_at":9}"#),
            (
                16,
                r#"{"form_id":"form_1","call_id":"c2","kind":"approval","title":"Allow?","schema":{"type":"object"},"asks_for":{"id":"c2","name":"t","input":{}},"expires_at":99}"#,
            ),
            (
                11,
                r#"{"calls":[{"id":"c2","name":"t","waiting_for":"permission","until":99},{"id":"c3","name":"t","waiting_for":"timer","until":9},{"id":"c4","name":"t","waiting_for":"form"},{"id":"c5","name":"t","waiting_for":"result"}],"wake_at":99}"#,
            ),
            (11, r#"{"calls":[],"wake_at":7}"#),
            (
                12,
                r#"[{"permission":{"call_id":"c2","granted":false,"reason":"no"}},{"elapsed":{"call_id":"c3"}},{"form":{"call_id":"c4","value":{"yes":true}}},{"result":{"call_id":"c5","content":{"text":"5"}}},{"expired":{"call_id":"c6"}}]"#,
            ),
            (12, r#"{"answers":[{"elapsed":{"call_id":"c3"}}],"options":{"seed":7}}"#),
        ],
    );
}

#[test]
fn artifacts_ends_and_what_was_dropped() {
    let id: ArtifactId = "art_1".parse().unwrap();
    let yes = Json::parse(r#"{"yes":true}"#).unwrap();
    let artifact = ArtifactRef { id: id.clone(), version: 2, title: "T".into(), content_type: "text/markdown".into() };
    let usage = Usage::of(3, 1);
    let failed = Outcome::Failed { code: FailureCode::StepLimit, message: "m".into(), retryable: false };
    let (response, artifacts) = ("done".to_owned(), vec![artifact.clone()]);
    check(
        &[
            Event::ArtifactStarted(ArtifactStarted {
                id: id.clone(),
                version: 2,
                artifact_type: "markdown".into(),
                title: "T".into(),
            }),
            Event::ArtifactDelta(ArtifactDelta { id, index: 0, text: "é\n".into() }),
            Event::ArtifactFinished(artifact),
            Event::Dropped { count: 3 },
            Event::FormClosed { form_id: "form_1.2".parse().unwrap(), call_id: call("c1"), answer: Some(yes) },
            Event::FormClosed { form_id: "form_1.2".parse().unwrap(), call_id: call("c1"), answer: None },
            Event::Notified {
                call_id: Some(call("c1")),
                method: "notifications/progress".into(),
                params: Json::empty_object(),
            },
            Event::Notified { call_id: None, method: "m".into(), params: Json::empty_object() },
            Event::StepUsed(usage),
            Event::TurnEnded(TurnEnded { outcome: Outcome::Completed, usage, response, artifacts }),
            Event::TurnEnded(TurnEnded { usage, ..TurnState::default().ended(failed) }),
            Event::Unknown { kind: 99, payload: Bytes::from_static(b"of a later version") },
        ],
        &[
            (17, r#"{"id":"art_1","version":2,"artifact_type":"markdown","title":"T"}"#),
            (18, r#"{"id":"art_1","index":0,"text":"é\n"}"#),
            (19, r#"{"id":"art_1","version":2,"title":"T","content_type":"text/markdown"}"#),
            (20, r#"{"count":3}"#),
            (21, r#"{"form_id":"form_1.2","call_id":"c1","answer":{"yes":true}}"#),
            (21, r#"{"form_id":"form_1.2","call_id":"c1"}"#),
            (22, r#"{"call_id":"c1","method":"notifications/progress","params":{}}"#),
            (22, r#"{"method":"m","params":{}}"#),
            (23, r#"{"input":3,"output":1}"#),
            (
                14,
                r#"{"outcome":"completed","usage":{"input":3,"output":1},"response":"done","artifacts":[{"id":"art_1","version":2,"title":"T","content_type":"text/markdown"}]}"#,
            ),
            (
                14,
                r#"{"outcome":{"failed":{"code":"STEP_LIMIT","message":"m","retryable":false}},"usage":{"input":3,"output":1}}"#,
            ),
            (99, "of a later version"),
        ],
    );
}

/// Fields that were not there in the beginning may be absent.
#[test]
fn what_has_a_default_may_be_missing() {
    let read = |kind: u8, payload: &str| {
        let bytes = golden(&[(kind, payload)]);
        Segment::from_stored(1, 1, Bytes::from(bytes)).events().next().unwrap().unwrap().decode().unwrap()
    };
    let ended = TurnState::default().ended(Outcome::Completed);
    assert_eq!(read(14, r#"{"outcome":"completed","usage":{"input":0,"output":0}}"#), Event::TurnEnded(ended));
    assert_eq!(read(11, r#"{"calls":[]}"#), Event::Waiting(Wait::default()));
    assert_eq!(
        read(1, r#"{"agent":"a","input":[],"of_a_later_version":1}"#),
        Event::TurnStarted(TurnStarted { agent: "a".into(), ..TurnStarted::default() })
    );
}
