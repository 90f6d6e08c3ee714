//! Answers of OpenAI's Responses.

use expect_test::expect;

use super::*;

#[test]
fn responses_sample() {
    check(
        RESPONSES,
        SAMPLES[4].1,
        expect![[r#"
        Thinking("Two cities, ")
        Thinking("hm.")
        Thinking("\n\nFirst Tokyo.")
        Text("Grüße, ")
        Text("東京")
        call 0 starts: get_weather
        call 0 input: {"location":
        call 1 starts: clock
        call 0 input: "Tokyo"}
        call 0: get_weather {"location":"Tokyo"}
        call 1 input: {}
        call 1: clock {}
        used 12+34
        ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"reasoning\":{\"id\":\"rs_1\",\"summary\":[{\"text\":\"Two cities, hm.\",\"type\":\"summary_text\"},{\"text\":\"First Tokyo.\",\"type\":\"summary_text\"}],\"encrypted_content\":\"gAAAA1\"}}},{\"text\":15},{\"own\":{\"message\":{\"phase\":\"commentary\"}}},\"call\",\"call\"]}")
        Stop 12+34"#]],
    );
}

#[test]
fn responses_endings() {
    let text = r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"x"}"#;
    for (end, expect) in [
        (
            r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":1,"output_tokens":2}}}"#,
            expect![[r#"
                Text("x")
                used 1+2
                MaxTokens 1+2"#]],
        ),
        (
            r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}"#,
            expect![[r#"
                Text("x")
                Refusal ?"#]],
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"Please try again in 11.054s."},"usage":null}}"#,
            expect![[r#"
                Text("x")
                RateLimited: test reports: Please try again in 11.054s."#]],
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"The server had an error."},"usage":{"input_tokens":1,"output_tokens":2}}}"#,
            expect![[r#"
                Text("x")
                used 1+2
                Unavailable: test reports: The server had an error."#]],
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"invalid_prompt","message":"Flagged."}}}"#,
            expect![[r#"
                Text("x")
                Notice("the provider stopped the answer: Flagged.")
                Refusal ?"#]],
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":null}}"#,
            expect![[r#"
            Text("x")
            Unavailable: test gave its answer up with a failure that it does not explain"#]],
        ),
        (
            r#"{"type":"error","code":"context_length_exceeded","message":"Your input exceeds the context window of this model.","param":"input","sequence_number":2}"#,
            expect![[r#"
                Text("x")
                ContextOverflow: test reports: Your input exceeds the context window of this model."#]],
        ),
        (
            r#"{"type":"error","sequence_number":2,"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"Your input exceeds the context window of this model.","param":"input"}}"#,
            expect![[r#"
                Text("x")
                ContextOverflow: test reports: Your input exceeds the context window of this model."#]],
        ),
        (
            r#"{"error":{"message":"Bad gateway"}}"#,
            expect![[r#"
            Text("x")
            Unavailable: test reports: Bad gateway"#]],
        ),
        (
            r#"[DONE]"#,
            expect![[r#"
            Text("x")
            Unavailable: test closed the stream before its answer was complete"#]],
        ),
        (
            r#"{"type":"response.completed","response":7}"#,
            expect![[r#"
                Text("x")
                Unavailable: test sent what is no part of an answer (the server's log has it)"#]],
        ),
    ] {
        check(RESPONSES, &events([text, end]), expect);
    }
}

#[test]
fn responses_oddities() {
    // A refusal; two messages of one answer are parted for readers, and the record knows the gap.
    check(
        RESPONSES,
        &events([
            r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hm."}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"Hm."}]}}"#,
            r#"{"type":"response.refusal.delta","output_index":1,"content_index":0,"delta":"I cannot."}"#,
            r#"{"type":"response.refusal.done","output_index":1,"content_index":0,"refusal":"I cannot."}"#,
            r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#,
        ]),
        expect![[r#"
            Text("Hm.")
            Text("\n\n")
            Text("I cannot.")
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"text\":3},{\"own\":{\"message\":{\"phase\":null}}},{\"text\":2},{\"own\":\"gap\"},{\"text\":9}]}")
            Refusal ?"#]],
    );
    // Nothing streamed: all is in the items, or only in the response; reasoning without its encrypted content is not kept.
    check(
        RESPONSES,
        &events([
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]}}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c","name":"clock","arguments":"{\"x\":1}"}}"#,
            r#"{"type":"response.something.new","item":"?","text":{},"response":[]}"#,
            r#"{"type":"response.completed","response":{"status":"completed","output":[{},{},{"type":"message","content":[{"type":"output_text","text":"Hello."}]}]}}"#,
        ]),
        expect![[r#"
            Thinking("Hm.")
            call 0 starts: clock
            call 0 input: {"x":1}
            call 0: clock {"x":1}
            Text("Hello.")
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[\"call\",{\"text\":6}]}")
            Stop ?"#]],
    );
    // Reasoning as text and as a summary is shown once; items of other kinds are kept unless they want an answer.
    check(
        RESPONSES,
        &events([
            r#"{"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":"Hm."}"#,
            r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"Hm."}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"web_search_call","id":"ws_1"}}"#,
            r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"custom_tool_call","id":"ct_1"}}"#,
            r#"{"type":"response.output_text.done","output_index":3,"content_index":0,"text":"Hello."}"#,
            r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#,
        ]),
        expect![[r#"
            Thinking("Hm.")
            Text("Hello.")
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"item\":{\"id\":\"ws_1\",\"type\":\"web_search_call\"}}},{\"text\":6}]}")
            Stop ?"#]],
    );
}
