//! Answers that come as one document, because the provider does not stream.

use expect_test::expect;

use super::*;

#[test]
fn chat() {
    let answer = r#"{
        "id": "chatcmpl-1", "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "Let me see.", "reasoning_content": "hm", "refusal": null,
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}]
        }}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4}
    }"#;
    check(
        ProviderKind::OpenAi,
        answer,
        expect![[r#"
        used 3+4
        Thinking("hm")
        Text("Let me see.")
        call 0 starts: clock
        call 0 input: {}
        call 0: clock {}
        ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"field\":\"reasoning_content\"}},{\"text\":11},\"call\"]}")
        Stop 3+4"#]],
    );
}

#[test]
fn responses() {
    let answer = r#"{
        "id": "resp_1", "object": "response", "status": "completed", "error": null, "incomplete_details": null,
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gAAA"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
            {"type": "function_call", "call_id": "call_1", "name": "clock", "arguments": "{}"}
        ],
        "usage": {"input_tokens": 3, "output_tokens": 4}
    }"#;
    check(
        RESPONSES,
        answer,
        expect![[r#"
        used 3+4
        Thinking("hm")
        Text("Let me see.")
        call 0 starts: clock
        call 0 input: {}
        call 0: clock {}
        ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"reasoning\":{\"id\":\"rs_1\",\"summary\":[{\"text\":\"hm\",\"type\":\"summary_text\"}],\"encrypted_content\":\"gAAA\"}}},{\"text\":11},\"call\"]}")
        Stop 3+4"#]],
    );
}

#[test]
fn anthropic() {
    let answer = r#"{
        "id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "EqQB"},
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "toolu_1", "name": "clock", "input": {"zone": "UTC"}}
        ],
        "usage": {"input_tokens": 3, "output_tokens": 4}
    }"#;
    check(
        ProviderKind::Anthropic,
        answer,
        expect![[r#"
        used 3+4
        Thinking("hm")
        Text("Let me see.")
        call 0 starts: clock
        call 0 input: {"zone":"UTC"}
        call 0: clock {"zone":"UTC"}
        ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"type\":\"thinking\",\"length\":2,\"signature\":\"EqQB\"}},{\"text\":11},{\"own\":{\"type\":\"tool_use\",\"id\":\"toolu_1\"}},\"call\"]}")
        Stop 3+4"#]],
    );
}

#[test]
fn gemini() {
    let answer = r#"[
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Let "}]}}]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "me see."}]}, "finishReason": "STOP"}],
         "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}}
    ]"#;
    check(
        ProviderKind::Gemini,
        answer,
        expect![[r#"
        Text("Let ")
        used 3+4
        Text("me see.")
        Stop 3+4"#]],
    );
}

#[test]
fn what_is_no_answer() {
    for wire in [SAMPLES[0].0, RESPONSES, SAMPLES[1].0] {
        let shown = show(&read(wire, [&b"{\"error\":{\"message\":\"no such model\"}}"[..]]));
        assert!(shown.contains("no such model"), "{shown}");
        let shown = show(&read(wire, [&b"{\"hello\":\"world\"}"[..]]));
        assert!(
            shown.contains("no answer of a model; check base_url (the server's log has what it answered)"),
            "{shown}"
        );
    }
}
