//! How streams end, and what does not show in them.

use bytes::Bytes;
use everturn_core::{
    ArtifactDelta, ArtifactId, ArtifactRef, ArtifactStarted, CallId, CallRoute, CancelReason, EffectClass, EffectId,
    Event, FailureCode, FormId, Outcome, Timestamp, Usage, Wait,
};
use everturn_engine::{Flow, Frames};
use expect_test::expect;

use super::{all, call, check, ended, segment, show, started, step, view};

#[test]
fn ends_say_why() {
    check(
        &[started()],
        ended(Outcome::Completed),
        expect![[r##"
        # goose-seed Close
        id: 2
        data: {"type":"Finish","reason":"stop","token_state":{"input_tokens":150,"output_tokens":75,"total_tokens":225,"accumulated_input_tokens":1500,"accumulated_output_tokens":800,"accumulated_total_tokens":2300}}

        # goose Close
        id: 2
        data: {"type":"Finish","reason":"stop","token_state":{"inputTokens":150,"outputTokens":75,"totalTokens":225,"accumulatedInputTokens":1500,"accumulatedOutputTokens":800,"accumulatedTotalTokens":2300,"accumulatedCost":null}}

        # goose-session Close
        id: 2
        data: {"type":"Finish","request_id":"req-1","reason":"stop","token_state":{"inputTokens":150,"outputTokens":75,"totalTokens":225,"accumulatedInputTokens":1500,"accumulatedOutputTokens":800,"accumulatedTotalTokens":2300,"accumulatedCost":null},"chat_request_id":"req-1"}

    "##]],
    );
    let reasons = [
        (Outcome::MaxTokens, "length"),
        (Outcome::Cancelled { reason: CancelReason::UserStop }, "cancel"),
        (Outcome::Cancelled { reason: CancelReason::Superseded }, "cancel"),
        (Outcome::Cancelled { reason: CancelReason::SessionDeleted }, "cancel"),
    ];
    for (outcome, reason) in reasons {
        for projection in all() {
            let (shown, flow) = show(projection, &[ended(outcome.clone())]);
            assert!(shown.contains(&format!("\"reason\":\"{reason}\"")) && !shown.contains("Error"), "{shown}");
            assert_eq!((flow, shown.matches("data: ").count()), (Flow::Close, 1));
        }
    }
}

#[test]
fn trouble_comes_before_the_end() {
    let (code, message) = (FailureCode::StepLimit, "25 model calls".to_owned());
    check(
        &[started()],
        ended(Outcome::Failed { code, message, retryable: false }),
        expect![[r##"
        # goose-seed Close
        id: 2.1
        data: {"type":"Error","error":"STEP_LIMIT: 25 model calls","token_state":{"input_tokens":150,"output_tokens":75,"total_tokens":225,"accumulated_input_tokens":1500,"accumulated_output_tokens":800,"accumulated_total_tokens":2300}}

        id: 2.2
        data: {"type":"Finish","reason":"error","token_state":{"input_tokens":150,"output_tokens":75,"total_tokens":225,"accumulated_input_tokens":1500,"accumulated_output_tokens":800,"accumulated_total_tokens":2300}}

        # goose Close
        id: 2.1
        data: {"type":"Error","error":"STEP_LIMIT: 25 model calls"}

        id: 2.2
        data: {"type":"Finish","reason":"error","token_state":{"inputTokens":150,"outputTokens":75,"totalTokens":225,"accumulatedInputTokens":1500,"accumulatedOutputTokens":800,"accumulatedTotalTokens":2300,"accumulatedCost":null}}

        # goose-session Close
        id: 2.1
        data: {"type":"Error","request_id":"req-1","error":"STEP_LIMIT: 25 model calls","chat_request_id":"req-1"}

        id: 2.2
        data: {"type":"Finish","request_id":"req-1","reason":"error","token_state":{"inputTokens":150,"outputTokens":75,"totalTokens":225,"accumulatedInputTokens":1500,"accumulatedOutputTokens":800,"accumulatedTotalTokens":2300,"accumulatedCost":null},"chat_request_id":"req-1"}

    "##]],
    );
    for outcome in [Outcome::Refused, Outcome::Cancelled { reason: CancelReason::Timeout }] {
        for projection in all() {
            let (shown, _) = show(projection, &[ended(outcome.clone())]);
            assert!(shown.contains("\"type\":\"Error\"") && shown.contains("\"reason\":\"error\""), "{shown}");
        }
    }
}

#[test]
fn who_has_seen_the_trouble_is_shown_the_end() {
    let (code, message) = (FailureCode::Internal, "oops".to_owned());
    let event = ended(Outcome::Failed { code, message, retryable: false });
    for projection in all() {
        assert_eq!(projection.parts(&event), 2);
        let (segment, mut out) = (segment(std::slice::from_ref(&event)), Vec::new());
        let raw = segment.events().next().unwrap().unwrap();
        projection.project(&view(), &raw, &mut Frames::new(&mut out, 1, 1)).unwrap();
        let shown = String::from_utf8(out).unwrap();
        assert!(shown.starts_with("id: 1.2\ndata: {\"type\":\"Finish\""), "{shown}");
    }
}

#[test]
fn the_rest_is_not_shown() {
    let (call_id, id) = (CallId::new("call_1"), "art_1".parse::<ArtifactId>().unwrap());
    let artifact = || ArtifactRef {
        id: id.clone(),
        version: 1,
        title: "Tea".to_owned(),
        content_type: "text/markdown".to_owned(),
    };
    let hidden = [
        started(),
        step(1),
        Event::ToolCalled { call: call("call_1"), route: CallRoute::Inline },
        Event::ToolIntended {
            call_id: call_id.clone(),
            effect_id: EffectId::mint(),
            effect: EffectClass::ReadOnly,
            tool: "read_file".to_owned(),
            label: "Read".to_owned(),
            step: 1,
        },
        Event::TimerSet { call_id: call_id.clone(), from: Timestamp(1), wake_at: Timestamp(2) },
        Event::FormClosed { form_id: FormId::of_call(&call_id), call_id, answer: None },
        Event::Waiting(Wait::of(Vec::new())),
        Event::Resumed { answers: Vec::new(), options: None },
        Event::ArtifactStarted(ArtifactStarted {
            id: id.clone(),
            version: 1,
            artifact_type: "markdown".to_owned(),
            title: "Tea".to_owned(),
        }),
        Event::ArtifactDelta(ArtifactDelta { id: id.clone(), index: 0, text: "# Tea".to_owned() }),
        Event::ArtifactFinished(artifact()),
        Event::StepUsed(Usage::of(1, 1)),
        Event::Unknown { kind: 999, payload: Bytes::from_static(b"{}") },
    ];
    for projection in all() {
        for event in &hidden {
            assert_eq!(show(projection, std::slice::from_ref(event)), (String::new(), Flow::Continue), "{event:?}");
        }
    }
}
