//! Answers of chat completions.

use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn chat_sample() {
    check(
        ProviderKind::OpenAi,
        SAMPLES[0].1,
        expect![[r#"
            Thinking("The user wants ")
            Thinking("two cities.")
            Text("Grüße, ")
            Text("東京")
            call 0 starts: get_weather
            call 0 input: {"location":
            call 1 starts: clock
            call 0 input: "Tokyo"}
            used 12+34
            call 0: get_weather {"location":"Tokyo"}
            call 1: clock {}
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"field\":\"reasoning_content\"}},{\"text\":15},\"call\",\"call\"]}")
            Stop 12+34"#]],
    );
}

#[test]
fn chat_records() {
    // OpenRouter's details come in pieces, and Gemini's signatures with calls that have no index.
    check(
        ProviderKind::OpenAi,
        &events([
            r#"{"choices":[{"delta":{"reasoning":"Two ","reasoning_details":[{"type":"reasoning.text","text":"Two ","index":0}]}}]}"#,
            r#"{"choices":[{"delta":{"reasoning":"cities.","reasoning_details":[{"type":"reasoning.text","text":"cities.","index":0,"signature":"S"}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"clock","arguments":"{}"},"extra_content":{"google":{"thought_signature":"G"}}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"clock","arguments":""}}]},"finish_reason":"stop"}]}"#,
            "[DONE]",
        ]),
        expect![[r#"
            Thinking("Two ")
            Thinking("cities.")
            call 0 starts: clock
            call 0 input: {}
            call 1 starts: clock
            call 0: clock {}
            call 1: clock {}
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"field\":\"reasoning\"}},{\"own\":{\"details\":[{\"index\":0,\"signature\":\"S\",\"text\":\"Two cities.\",\"type\":\"reasoning.text\"}]}},{\"own\":{\"call\":{\"place\":0,\"id\":\"a\",\"extra\":{\"google\":{\"thought_signature\":\"G\"}}}}},{\"own\":{\"call\":{\"place\":1,\"id\":\"b\"}}},\"call\",\"call\"]}")
            Stop ?"#]],
    );
    // Mistral's thinking within the content, then usage in Moonshot's and Groq's places: the last word counts.
    check(
        ProviderKind::OpenAi,
        &events([
            r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm, "}]}]}}],"usage":null}"#,
            r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm."}]}]},"usage":{"prompt_tokens":1,"completion_tokens":1}}]}"#,
            r#"{"choices":[{"delta":{"content":"Well."},"finish_reason":"model_length"}],"x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":2}}}"#,
        ]),
        expect![[r#"
            Thinking("Hm, ")
            used 1+1
            Thinking("hm.")
            used 1+2
            Text("Well.")
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"thinking\":7}},{\"text\":5}]}")
            MaxTokens 1+2"#]],
    );
    // Details alone, and a chunk without choices.
    check(
        ProviderKind::OpenAi,
        &events([
            r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.summary","summary":"Hm."}]}}]}"#,
            r#"{"choices":null,"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
            "[DONE]",
        ]),
        expect![[r#"
            Thinking("Hm.")
            used 1+1
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"details\":[{\"summary\":\"Hm.\",\"type\":\"reasoning.summary\"}]}}]}")
            Stop 1+1"#]],
    );
}

/// Two calls with one index and one id: the second begins where the first is whole. A name that is merely repeated begins none.
#[test]
fn chat_calls_with_the_same_id() {
    let call = |arguments: &str| {
        let delta =
            json!({"tool_calls": [{"index": 0, "id": "call_0", "function": {"name": "look", "arguments": arguments}}]});
        json!({"choices": [{"delta": delta}]}).to_string()
    };
    let input = |arguments: &str| {
        let delta = json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]});
        json!({"choices": [{"delta": delta}]}).to_string()
    };
    let end = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}).to_string();
    let frames =
        [call(""), input("{\"a\":"), input("1}"), call(""), input("{\"a\""), input(":2}"), call("{\"a\":3}"), call("")];
    let frames: Vec<&str> = frames.iter().chain([&end]).map(String::as_str).collect();
    check(
        ProviderKind::OpenAi,
        &frames.iter().map(|frame| format!("data: {frame}\n\n")).collect::<String>(),
        expect![[r#"
            call 0 starts: look
            call 0 input: {"a":
            call 0 input: 1}
            call 1 starts: look
            call 1 input: {"a"
            call 1 input: :2}
            call 2 starts: look
            call 2 input: {"a":3}
            call 0: look {"a":1}
            call 1: look {"a":2}
            call 2: look {"a":3}
            Stop ?"#]],
    );
}

#[test]
fn chat_errors_in_many_shapes() {
    for (chunk, expect) in [
        (
            r#"{"code":20015,"message":"reasoning_content is missing","data":null}"#,
            expect!["Unavailable: test reports: reasoning_content is missing"],
        ),
        (
            r#"{"detail":"Extra inputs are not permitted"}"#,
            expect!["Unavailable: test reports: Extra inputs are not permitted"],
        ),
        (
            r#"{"base_resp":{"status_code":1004,"status_msg":"login fail"}}"#,
            expect!["Unavailable: test reports: login fail"],
        ),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"network_error"}]}"#,
            expect!["Unavailable: test gave its answer up with network_error"],
        ),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"model_context_window_exceeded"}]}"#,
            expect!["ContextOverflow: test reports: the answer ran out of the context window"],
        ),
        (r#"{"choices":[{"delta":{},"finish_reason":"sensitive"}]}"#, expect!["Refusal ?"]),
    ] {
        check(ProviderKind::OpenAi, &events([chunk]), expect);
    }
}

#[test]
fn chat_finish_reasons() {
    let stream = |reason: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"x\"}},\"finish_reason\":{reason}}}]}}\n\n")
    };
    check(
        ProviderKind::OpenAi,
        &stream("\"stop\""),
        expect![[r#"
        Text("x")
        Stop ?"#]],
    );
    check(
        ProviderKind::OpenAi,
        &stream("\"length\""),
        expect![[r#"
        Text("x")
        MaxTokens ?"#]],
    );
    check(
        ProviderKind::OpenAi,
        &stream("\"content_filter\""),
        expect![[r#"
        Text("x")
        Refusal ?"#]],
    );
    check(
        ProviderKind::OpenAi,
        &stream("\"error\""),
        expect![[r#"
        Text("x")
        Unavailable: test gave its answer up with an error of the model's host"#]],
    );
    check(
        ProviderKind::OpenAi,
        &stream("null"),
        expect![[r#"
        Text("x")
        Unavailable: test closed the stream before its answer was complete"#]],
    );
    check(
        ProviderKind::OpenAi,
        &(stream("null") + "data: [DONE]\n\n"),
        expect![[r#"
        Text("x")
        Stop ?"#]],
    );
}

#[test]
fn chat_oddities() {
    // A refusal as text of its own.
    check(
        ProviderKind::OpenAi,
        concat!(
            "data: {\"choices\":[{\"delta\":{\"refusal\":\"I cannot.\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        ),
        expect![[r#"
            Text("I cannot.")
            Refusal ?"#]],
    );
    // Reasoning under OpenRouter's name, and under both names at once.
    check(
        ProviderKind::OpenAi,
        concat!(
            "data: {\"choices\":[{\"delta\":{\"reasoning\":\"a\",\"reasoning_details\":[{\"text\":\"a\"}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"reasoning\":\"b\",\"reasoning_content\":\"b\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"text\":\"c\"}]},{\"text\":\"d\"}]}}]}\n\n",
            "data: [DONE]\n\n",
        ),
        expect![[r#"
            Thinking("a")
            Thinking("b")
            Thinking("c")
            Text("d")
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"field\":\"reasoning\"}},{\"own\":{\"thinking\":1}},{\"text\":1},{\"own\":{\"details\":[{\"text\":\"a\"}]}}]}")
            Stop ?"#]],
    );
    // Calls that are all number 0 and have no ids; the name may come with every piece.
    check(
        ProviderKind::OpenAi,
        concat!(
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"a\",\"arguments\":\"{\\\"x\\\":\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"a\",\"arguments\":\"1}\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"a\",\"arguments\":\"\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"a\",\"arguments\":\"{}\"}}]}}]}\n\n",
            "data: [DONE]\n\n",
        ),
        expect![[r#"
            call 0 starts: a
            call 0 input: {"x":
            call 0 input: 1}
            call 1 starts: a
            call 1 input: {}
            call 0: a {"x":1}
            call 1: a {}
            Stop ?"#]],
    );
    // The same with one id for all of them.
    check(
        ProviderKind::OpenAi,
        concat!(
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{\"name\":\"a\",\"arguments\":\"{\\\"x\\\":\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{\"name\":\"a\",\"arguments\":\"1}\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{\"name\":\"b\",\"arguments\":\"{}\"}}]}}]}\n\n",
            "data: [DONE]\n\n",
        ),
        expect![[r#"
            call 0 starts: a
            call 0 input: {"x":
            call 0 input: 1}
            call 1 starts: b
            call 1 input: {}
            call 0: a {"x":1}
            call 1: b {}
            Stop ?"#]],
    );
    // Whole calls without an index, with an object for input; and calls that are all number 0.
    check(
        ProviderKind::OpenAi,
        concat!(
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"a\",\"arguments\":{\"x\":1}}},",
            "{\"function\":{\"name\":\"a\",\"arguments\":\"{}\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{\"name\":\"b\",\"arguments\":\"{}\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"2\",\"function\":{\"name\":\"b\",\"arguments\":\"{}\"}}]}}]}\n\n",
            "data: [DONE]\n\n",
        ),
        expect![[r#"
            call 0 starts: a
            call 0 input: {"x":1}
            call 1 starts: a
            call 1 input: {}
            call 2 starts: b
            call 2 input: {}
            call 3 starts: b
            call 3 input: {}
            call 0: a {"x":1}
            call 1: a {}
            call 2: b {}
            call 3: b {}
            Stop ?"#]],
    );
    // Input that is no object, cut by the cap on tokens.
    check(
        ProviderKind::OpenAi,
        concat!(
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{\"name\":\"a\",\"arguments\":\"{\\\"x\\\":\"}},",
            "{\"index\":1,\"id\":\"2\",\"function\":{\"name\":\"b\",\"arguments\":\"[1]\"}}]},\"finish_reason\":\"length\"}]}\n\n",
            "data: [DONE]\n\n",
        ),
        expect![[r#"
            call 0 starts: a
            call 0 input: {"x":
            call 1 starts: b
            call 1 input: [1]
            bad call 0: a is not a JSON object: {"x":
            bad call 1: b is not a JSON object: [1]
            MaxTokens ?"#]],
    );
    check(
        ProviderKind::OpenAi,
        "data: {\"error\":{\"message\":\"Provider returned error\",\"code\":502}}\n\n",
        expect!["Unavailable: test reports: Provider returned error"],
    );
    // Errors of older vLLM, and an end before the beginning.
    check(
        ProviderKind::OpenAi,
        concat!(
            "data: {\"object\":\"error\",\"message\":\"This model's maximum context length is 8 tokens\",\"code\":400}\n\n",
            "data: [DONE]\n\n",
        ),
        expect!["ContextOverflow: test reports: This model's maximum context length is 8 tokens"],
    );
    check(
        ProviderKind::OpenAi,
        "data: [DONE]\n\n",
        expect!["Unavailable: test gave its answer up with [DONE] before it said anything"],
    );
    check(
        ProviderKind::OpenAi,
        "data: <html>\n\n",
        expect!["Unavailable: test sent what is no part of an answer (the server's log has it)"],
    );
    check(
        ProviderKind::OpenAi,
        "data: {\"choices\":7}\n\n",
        expect!["Unavailable: test sent what is no part of an answer (the server's log has it)"],
    );
}
