//! What is said, in both styles.

use everturn_core::{
    Block, CallId, Content, Event, Finish, FormId, FormKind, FormOpened, Json, StepFinished, ToolUse, Usage,
};
use expect_test::expect;

use super::{call, check, finished, started, step};

#[test]
fn text_comes_in_deltas_of_one_message() {
    check(
        &[started(), step(1)],
        Event::TextDelta("Here's \"a\"\n".to_owned()),
        expect![[r##"
        # goose-seed Continue
        id: 3
        data: {"type":"Message","message":{"role":"assistant","content":[{"type":"text","text":"Here's \"a\"\n"}],"created_at":"2026-03-04T10:00:01Z","id":"turn_1.a1"},"token_state":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"accumulated_input_tokens":1350,"accumulated_output_tokens":725,"accumulated_total_tokens":2075}}

        # goose Continue
        id: 3
        data: {"type":"Message","message":{"id":"turn_1.a1","role":"assistant","created":1772618401,"content":[{"type":"text","text":"Here's \"a\"\n"}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":120,"outputTokens":30,"totalTokens":150,"accumulatedInputTokens":1350,"accumulatedOutputTokens":725,"accumulatedTotalTokens":2075,"accumulatedCost":null}}

        # goose-session Continue
        id: 3
        data: {"type":"Message","request_id":"req-1","message":{"id":"turn_1.a1","role":"assistant","created":1772618401,"content":[{"type":"text","text":"Here's \"a\"\n"}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":120,"outputTokens":30,"totalTokens":150,"accumulatedInputTokens":1350,"accumulatedOutputTokens":725,"accumulatedTotalTokens":2075,"accumulatedCost":null},"chat_request_id":"req-1"}

    "##]],
    );
}

#[test]
fn reasoning_is_not_described() {
    check(
        &[started(), step(2)],
        Event::ThinkingDelta("hm".to_owned()),
        expect![[r##"
        # goose-seed Continue
        # goose Continue
        id: 3
        data: {"type":"Message","message":{"id":"turn_1.a2","role":"assistant","created":1772618401,"content":[{"type":"thinking","thinking":"hm","signature":""}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":120,"outputTokens":30,"totalTokens":150,"accumulatedInputTokens":1350,"accumulatedOutputTokens":725,"accumulatedTotalTokens":2075,"accumulatedCost":null}}

        # goose-session Continue
        id: 3
        data: {"type":"Message","request_id":"req-1","message":{"id":"turn_1.a2","role":"assistant","created":1772618401,"content":[{"type":"thinking","thinking":"hm","signature":""}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":120,"outputTokens":30,"totalTokens":150,"accumulatedInputTokens":1350,"accumulatedOutputTokens":725,"accumulatedTotalTokens":2075,"accumulatedCost":null},"chat_request_id":"req-1"}

    "##]],
    );
}

#[test]
fn calls_come_with_the_end_of_their_step() {
    let content = Content::answer("hm".to_owned(), None, "I read".to_owned(), vec![call("call_1"), call("call_2")]);
    check(
        &[started(), step(1)],
        finished(content, Finish::ToolUse),
        expect![[r##"
        # goose-seed Continue
        id: 3
        data: {"type":"Message","message":{"role":"assistant","content":[{"type":"tool_request","id":"call_1","tool_call":{"name":"read_file","arguments":{"path":"/srv/file.txt"}}},{"type":"tool_request","id":"call_2","tool_call":{"name":"read_file","arguments":{"path":"/srv/file.txt"}}}],"created_at":"2026-03-04T10:00:01Z","id":"turn_1.a1"},"token_state":{"input_tokens":150,"output_tokens":75,"total_tokens":225,"accumulated_input_tokens":1500,"accumulated_output_tokens":800,"accumulated_total_tokens":2300}}

        # goose Continue
        id: 3
        data: {"type":"Message","message":{"id":"turn_1.a1","role":"assistant","created":1772618401,"content":[{"type":"toolRequest","id":"call_1","toolCall":{"status":"success","value":{"name":"read_file","arguments":{"path":"/srv/file.txt"}}}},{"type":"toolRequest","id":"call_2","toolCall":{"status":"success","value":{"name":"read_file","arguments":{"path":"/srv/file.txt"}}}}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":150,"outputTokens":75,"totalTokens":225,"accumulatedInputTokens":1500,"accumulatedOutputTokens":800,"accumulatedTotalTokens":2300,"accumulatedCost":null}}

        # goose-session Continue
        id: 3
        data: {"type":"Message","request_id":"req-1","message":{"id":"turn_1.a1","role":"assistant","created":1772618401,"content":[{"type":"toolRequest","id":"call_1","toolCall":{"status":"success","value":{"name":"read_file","arguments":{"path":"/srv/file.txt"}}}},{"type":"toolRequest","id":"call_2","toolCall":{"status":"success","value":{"name":"read_file","arguments":{"path":"/srv/file.txt"}}}}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":150,"outputTokens":75,"totalTokens":225,"accumulatedInputTokens":1500,"accumulatedOutputTokens":800,"accumulatedTotalTokens":2300,"accumulatedCost":null},"chat_request_id":"req-1"}

    "##]],
    );
    let plain = finished(Content::Text("done".to_owned()), Finish::Stop);
    check(
        &[started(), step(1)],
        plain,
        expect![[r#"
        # goose-seed Continue
        # goose Continue
        # goose-session Continue
    "#]],
    );
}

#[test]
fn without_its_deltas_an_answer_comes_in_one_piece() {
    let content = Content::answer("hm".to_owned(), None, "I read".to_owned(), vec![call("call_1")]);
    let usage = Usage::of(150, 75);
    let event = Event::StepFinished(StepFinished {
        content,
        finish: Finish::ToolUse,
        usage,
        deltas_dropped: true,
        step: 0,
        withheld: Vec::new(),
    });
    check(
        &[started(), step(1), Event::Dropped { count: 3 }],
        event,
        expect![[r##"
            # goose-seed Continue
            data: {"type":"UpdateConversation","conversation":[{"role":"user","content":[{"type":"text","text":"Look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}}],"created_at":"2026-03-04T10:00:00Z","id":"turn_1.u2"},{"role":"user","content":[{"type":"tool_response","id":"call_1","tool_result":{"content":[{"type":"text","text":"inside"}],"is_error":false}}],"created_at":"2026-03-04T10:00:09Z","id":"turn_1.call_1"}],"token_state":{"input_tokens":150,"output_tokens":75,"total_tokens":225,"accumulated_input_tokens":1500,"accumulated_output_tokens":800,"accumulated_total_tokens":2300}}

            id: 6
            data: {"type":"Message","message":{"role":"assistant","content":[{"type":"text","text":"I read"},{"type":"tool_request","id":"call_1","tool_call":{"name":"read_file","arguments":{"path":"/srv/file.txt"}}}],"created_at":"2026-03-04T10:00:01Z","id":"turn_1.a1"},"token_state":{"input_tokens":150,"output_tokens":75,"total_tokens":225,"accumulated_input_tokens":1500,"accumulated_output_tokens":800,"accumulated_total_tokens":2300}}

            # goose Continue
            data: {"type":"UpdateConversation","conversation":[{"id":"turn_1.u2","role":"user","created":1772618400,"content":[{"type":"text","text":"Look"},{"type":"image","data":"iVBO","mimeType":"image/png"}],"metadata":{"userVisible":true,"agentVisible":true}},{"id":"turn_1.call_1","role":"user","created":1772618409,"content":[{"type":"toolResponse","id":"call_1","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"inside"}],"isError":false}}}],"metadata":{"userVisible":true,"agentVisible":true}},{"id":"turn_1.a2","role":"assistant","created":1772618409,"content":[{"type":"thinking","thinking":"only thought","signature":""}],"metadata":{"userVisible":true,"agentVisible":true}}]}

            id: 6
            data: {"type":"Message","message":{"id":"turn_1.a1","role":"assistant","created":1772618401,"content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"I read"},{"type":"toolRequest","id":"call_1","toolCall":{"status":"success","value":{"name":"read_file","arguments":{"path":"/srv/file.txt"}}}}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":150,"outputTokens":75,"totalTokens":225,"accumulatedInputTokens":1500,"accumulatedOutputTokens":800,"accumulatedTotalTokens":2300,"accumulatedCost":null}}

            # goose-session Continue
            data: {"type":"UpdateConversation","request_id":"req-1","conversation":[{"id":"turn_1.u2","role":"user","created":1772618400,"content":[{"type":"text","text":"Look"},{"type":"image","data":"iVBO","mimeType":"image/png"}],"metadata":{"userVisible":true,"agentVisible":true}},{"id":"turn_1.call_1","role":"user","created":1772618409,"content":[{"type":"toolResponse","id":"call_1","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"inside"}],"isError":false}}}],"metadata":{"userVisible":true,"agentVisible":true}},{"id":"turn_1.a2","role":"assistant","created":1772618409,"content":[{"type":"thinking","thinking":"only thought","signature":""}],"metadata":{"userVisible":true,"agentVisible":true}}],"chat_request_id":"req-1"}

            id: 6
            data: {"type":"Message","request_id":"req-1","message":{"id":"turn_1.a1","role":"assistant","created":1772618401,"content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"I read"},{"type":"toolRequest","id":"call_1","toolCall":{"status":"success","value":{"name":"read_file","arguments":{"path":"/srv/file.txt"}}}}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":150,"outputTokens":75,"totalTokens":225,"accumulatedInputTokens":1500,"accumulatedOutputTokens":800,"accumulatedTotalTokens":2300,"accumulatedCost":null},"chat_request_id":"req-1"}

        "##]],
    );
}

#[test]
fn results_are_said_by_the_user() {
    let image = Block::Image { url: "data:image/png;base64,iVBO".into() };
    let elsewhere = Block::Image { url: "https://example.com/a.png".into() };
    let content = Content::Blocks(vec![Block::Text("File contents here...".to_owned()), image, elsewhere]);
    let (call_id, tool) = (CallId::new("call_1"), "read_file".to_owned());
    let event = Event::ToolFinished {
        call_id,
        tool,
        content,
        is_error: false,
        duration_ms: 5,
        never_began: None,
        application: false,
    };
    check(
        &[started(), step(1)],
        event,
        expect![[r##"
        # goose-seed Continue
        id: 3
        data: {"type":"Message","message":{"role":"user","content":[{"type":"tool_response","id":"call_1","tool_result":{"content":[{"type":"text","text":"File contents here..."},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}},{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}],"is_error":false}}],"created_at":"2026-03-04T10:00:02Z","id":"turn_1.call_1"},"token_state":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"accumulated_input_tokens":1350,"accumulated_output_tokens":725,"accumulated_total_tokens":2075}}

        # goose Continue
        id: 3
        data: {"type":"Message","message":{"id":"turn_1.call_1","role":"user","created":1772618402,"content":[{"type":"toolResponse","id":"call_1","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"File contents here..."},{"type":"image","data":"iVBO","mimeType":"image/png"},{"type":"text","text":"![image](https://example.com/a.png)"}],"isError":false}}}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":120,"outputTokens":30,"totalTokens":150,"accumulatedInputTokens":1350,"accumulatedOutputTokens":725,"accumulatedTotalTokens":2075,"accumulatedCost":null}}

        # goose-session Continue
        id: 3
        data: {"type":"Message","request_id":"req-1","message":{"id":"turn_1.call_1","role":"user","created":1772618402,"content":[{"type":"toolResponse","id":"call_1","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"File contents here..."},{"type":"image","data":"iVBO","mimeType":"image/png"},{"type":"text","text":"![image](https://example.com/a.png)"}],"isError":false}}}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":120,"outputTokens":30,"totalTokens":150,"accumulatedInputTokens":1350,"accumulatedOutputTokens":725,"accumulatedTotalTokens":2075,"accumulatedCost":null},"chat_request_id":"req-1"}

    "##]],
    );
    let (call_id, tool) = (CallId::new("call_1"), "read_file".to_owned());
    let content = Content::Text("no such file".to_owned());
    check(
        &[started()],
        Event::ToolFinished {
            call_id,
            tool,
            content,
            is_error: true,
            duration_ms: 5,
            never_began: None,
            application: false,
        },
        expect![[r##"
        # goose-seed Continue
        id: 2
        data: {"type":"Message","message":{"role":"user","content":[{"type":"tool_response","id":"call_1","tool_result":{"content":[{"type":"text","text":"no such file"}],"is_error":true}}],"created_at":"2026-03-04T10:00:01Z","id":"turn_1.call_1"},"token_state":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"accumulated_input_tokens":1350,"accumulated_output_tokens":725,"accumulated_total_tokens":2075}}

        # goose Continue
        id: 2
        data: {"type":"Message","message":{"id":"turn_1.call_1","role":"user","created":1772618401,"content":[{"type":"toolResponse","id":"call_1","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"no such file"}],"isError":true}}}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":120,"outputTokens":30,"totalTokens":150,"accumulatedInputTokens":1350,"accumulatedOutputTokens":725,"accumulatedTotalTokens":2075,"accumulatedCost":null}}

        # goose-session Continue
        id: 2
        data: {"type":"Message","request_id":"req-1","message":{"id":"turn_1.call_1","role":"user","created":1772618401,"content":[{"type":"toolResponse","id":"call_1","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"no such file"}],"isError":true}}}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":120,"outputTokens":30,"totalTokens":150,"accumulatedInputTokens":1350,"accumulatedOutputTokens":725,"accumulatedTotalTokens":2075,"accumulatedCost":null},"chat_request_id":"req-1"}

    "##]],
    );
}

fn form(kind: FormKind, asks_for: Option<ToolUse>) -> Event {
    let call_id = CallId::new("call_1");
    Event::FormOpened(FormOpened {
        form_id: FormId::of_call(&call_id),
        call_id,
        kind,
        title: "Allow read_file?".to_owned(),
        description: asks_for.is_none().then(|| "Pick one".to_owned()),
        schema: Json::parse(r#"{"type":"object","properties":{}}"#).unwrap(),
        asks_for,
        expires_at: None,
    })
}

#[test]
fn approvals_and_questions_are_asked() {
    check(
        &[started()],
        form(FormKind::Approval, Some(call("call_1"))),
        expect![[r##"
        # goose-seed Continue
        id: 2
        data: {"type":"Message","message":{"role":"assistant","content":[{"type":"tool_confirmation_request","id":"call_1","tool_name":"read_file","arguments":{"path":"/srv/file.txt"},"prompt":"Allow read_file?"}],"created_at":"2026-03-04T10:00:01Z","id":"form_1"},"token_state":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"accumulated_input_tokens":1350,"accumulated_output_tokens":725,"accumulated_total_tokens":2075}}

        # goose Continue
        id: 2
        data: {"type":"Message","message":{"id":"form_1","role":"assistant","created":1772618401,"content":[{"type":"actionRequired","data":{"actionType":"toolConfirmation","id":"call_1","toolName":"read_file","arguments":{"path":"/srv/file.txt"},"prompt":null}}],"metadata":{"userVisible":true,"agentVisible":false}},"token_state":{"inputTokens":120,"outputTokens":30,"totalTokens":150,"accumulatedInputTokens":1350,"accumulatedOutputTokens":725,"accumulatedTotalTokens":2075,"accumulatedCost":null}}

        # goose-session Continue
        id: 2
        data: {"type":"Message","request_id":"req-1","message":{"id":"form_1","role":"assistant","created":1772618401,"content":[{"type":"actionRequired","data":{"actionType":"toolConfirmation","id":"call_1","toolName":"read_file","arguments":{"path":"/srv/file.txt"},"prompt":null}}],"metadata":{"userVisible":true,"agentVisible":false}},"token_state":{"inputTokens":120,"outputTokens":30,"totalTokens":150,"accumulatedInputTokens":1350,"accumulatedOutputTokens":725,"accumulatedTotalTokens":2075,"accumulatedCost":null},"chat_request_id":"req-1"}

    "##]],
    );
    check(
        &[started()],
        form(FormKind::Clarify, None),
        expect![[r##"
        # goose-seed Continue
        id: 2
        data: {"type":"Message","message":{"role":"assistant","content":[{"type":"elicitation_request","id":"form_1","message":"Allow read_file?\n\nPick one","requested_schema":{"type":"object","properties":{}}}],"created_at":"2026-03-04T10:00:01Z","id":"form_1"},"token_state":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"accumulated_input_tokens":1350,"accumulated_output_tokens":725,"accumulated_total_tokens":2075}}

        # goose Continue
        id: 2
        data: {"type":"Message","message":{"id":"form_1","role":"assistant","created":1772618401,"content":[{"type":"actionRequired","data":{"actionType":"elicitation","id":"form_1","message":"Allow read_file?\n\nPick one","requested_schema":{"type":"object","properties":{}}}}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":120,"outputTokens":30,"totalTokens":150,"accumulatedInputTokens":1350,"accumulatedOutputTokens":725,"accumulatedTotalTokens":2075,"accumulatedCost":null}}

        # goose-session Continue
        id: 2
        data: {"type":"Message","request_id":"req-1","message":{"id":"form_1","role":"assistant","created":1772618401,"content":[{"type":"actionRequired","data":{"actionType":"elicitation","id":"form_1","message":"Allow read_file?\n\nPick one","requested_schema":{"type":"object","properties":{}}}}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":120,"outputTokens":30,"totalTokens":150,"accumulatedInputTokens":1350,"accumulatedOutputTokens":725,"accumulatedTotalTokens":2075,"accumulatedCost":null},"chat_request_id":"req-1"}

    "##]],
    );
}
