//! What is told besides.

use everturn_core::{CallId, Compaction, Event, Json, TurnStarted, Usage};
use everturn_goose::projections;
use expect_test::expect;

use super::{check, show, started, step};

#[test]
fn news_of_tools_is_passed_on() {
    let notified = |call_id: Option<&str>, method: &str, params: &str| Event::Notified {
        call_id: call_id.map(CallId::new),
        method: method.to_owned(),
        params: Json::parse(params).unwrap(),
    };
    let progress = r#"{"progressToken":1,"progress":0.5}"#;
    check(
        &[started()],
        notified(Some("call_1"), "notifications/progress", progress),
        expect![[r##"
        # goose-seed Continue
        id: 2
        data: {"type":"Notification","request_id":"call_1","message":{"method":"notifications/progress","params":{"progressToken":1,"progress":0.5}},"token_state":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"accumulated_input_tokens":1350,"accumulated_output_tokens":725,"accumulated_total_tokens":2075}}

        # goose Continue
        id: 2
        data: {"type":"Notification","request_id":"call_1","message":{"method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}}

        # goose-session Continue
        id: 2
        data: {"type":"Notification","request_id":"call_1","message":{"method":"notifications/progress","params":{"progressToken":1,"progress":0.5}},"chat_request_id":"req-1"}

    "##]],
    );
    check(
        &[started()],
        notified(None, "notifications/tools/list_changed", "{}"),
        expect![[r##"
        # goose-seed Continue
        id: 2
        data: {"type":"Notification","request_id":"turn_1","message":{"method":"notifications/tools/list_changed","params":{}},"token_state":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"accumulated_input_tokens":1350,"accumulated_output_tokens":725,"accumulated_total_tokens":2075}}

        # goose Continue
        id: 2
        data: {"type":"Notification","request_id":"turn_1","message":{"method":"notifications/tools/list_changed"}}

        # goose-session Continue
        id: 2
        data: {"type":"Notification","request_id":"turn_1","message":{"method":"notifications/tools/list_changed"},"chat_request_id":"req-1"}

    "##]],
    );
}

#[test]
fn another_model_is_told() {
    let event = Event::ModelChanged { model: "openai/gpt-4".to_owned(), reason: "overloaded".to_owned() };
    check(
        &[started()],
        event,
        expect![[r##"
        # goose-seed Continue
        id: 2
        data: {"type":"ModelChange","model":"gpt-4","mode":"fallback","token_state":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"accumulated_input_tokens":1350,"accumulated_output_tokens":725,"accumulated_total_tokens":2075}}

        # goose Continue
        id: 2
        data: {"type":"ModelChange","model":"gpt-4","mode":"fallback"}

        # goose-session Continue
        id: 2
        data: {"type":"ModelChange","request_id":"req-1","model":"gpt-4","mode":"fallback","chat_request_id":"req-1"}

    "##]],
    );
}

#[test]
fn the_conversation_is_shown_when_it_was_replaced() {
    let compaction =
        Compaction { summary: "short".to_owned(), covers: 3, usage: Usage::of(10, 1), ..Compaction::default() };
    check(
        &[started()],
        Event::HistoryCompacted(compaction),
        expect![[r##"
        # goose-seed Continue
        id: 2
        data: {"type":"UpdateConversation","conversation":[{"role":"user","content":[{"type":"text","text":"Look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}}],"created_at":"2026-03-04T10:00:00Z","id":"turn_1.u2"},{"role":"assistant","content":[{"type":"text","text":"I read"},{"type":"tool_request","id":"call_1","tool_call":{"name":"read_file","arguments":{"path":"/srv/file.txt"}}}],"created_at":"2026-03-04T10:00:09Z","id":"turn_1.a1"},{"role":"user","content":[{"type":"tool_response","id":"call_1","tool_result":{"content":[{"type":"text","text":"inside"}],"is_error":false}}],"created_at":"2026-03-04T10:00:09Z","id":"turn_1.call_1"}],"token_state":{"input_tokens":10,"output_tokens":1,"total_tokens":11,"accumulated_input_tokens":1360,"accumulated_output_tokens":726,"accumulated_total_tokens":2086}}

        # goose Continue
        id: 2
        data: {"type":"UpdateConversation","conversation":[{"id":"turn_1.u2","role":"user","created":1772618400,"content":[{"type":"text","text":"Look"},{"type":"image","data":"iVBO","mimeType":"image/png"}],"metadata":{"userVisible":true,"agentVisible":true}},{"id":"turn_1.a1","role":"assistant","created":1772618409,"content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"I read"},{"type":"toolRequest","id":"call_1","toolCall":{"status":"success","value":{"name":"read_file","arguments":{"path":"/srv/file.txt"}}}}],"metadata":{"userVisible":true,"agentVisible":true}},{"id":"turn_1.call_1","role":"user","created":1772618409,"content":[{"type":"toolResponse","id":"call_1","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"inside"}],"isError":false}}}],"metadata":{"userVisible":true,"agentVisible":true}},{"id":"turn_1.a2","role":"assistant","created":1772618409,"content":[{"type":"thinking","thinking":"only thought","signature":""}],"metadata":{"userVisible":true,"agentVisible":true}}]}

        # goose-session Continue
        id: 2
        data: {"type":"UpdateConversation","request_id":"req-1","conversation":[{"id":"turn_1.u2","role":"user","created":1772618400,"content":[{"type":"text","text":"Look"},{"type":"image","data":"iVBO","mimeType":"image/png"}],"metadata":{"userVisible":true,"agentVisible":true}},{"id":"turn_1.a1","role":"assistant","created":1772618409,"content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"I read"},{"type":"toolRequest","id":"call_1","toolCall":{"status":"success","value":{"name":"read_file","arguments":{"path":"/srv/file.txt"}}}}],"metadata":{"userVisible":true,"agentVisible":true}},{"id":"turn_1.call_1","role":"user","created":1772618409,"content":[{"type":"toolResponse","id":"call_1","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"inside"}],"isError":false}}}],"metadata":{"userVisible":true,"agentVisible":true}},{"id":"turn_1.a2","role":"assistant","created":1772618409,"content":[{"type":"thinking","thinking":"only thought","signature":""}],"metadata":{"userVisible":true,"agentVisible":true}}],"chat_request_id":"req-1"}

    "##]],
    );
    let reason = "the provider hung up".to_owned();
    let restarted = Event::StepRestarted { reason, attempt: 1, usage: Usage::of(5, 1) };
    let [released, _] = projections();
    let (shown, _) = show(released, &[started(), step(1), restarted]);
    assert!(shown.contains("UpdateConversation"), "{shown}");
    let overridden = Event::TurnStarted(TurnStarted { begins_history: true, ..TurnStarted::default() });
    let (shown, _) = show(released, &[overridden]);
    assert!(shown.contains("UpdateConversation"), "{shown}");
}
