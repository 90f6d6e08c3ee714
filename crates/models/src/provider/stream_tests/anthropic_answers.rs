//! Anthropic's answers.

use expect_test::expect;

use super::*;

#[test]
fn anthropic_sample() {
    check(
        ProviderKind::Anthropic,
        SAMPLES[1].1,
        expect![[r#"
            used 42+1
            Thinking("Two cities, ")
            Thinking("hm.")
            Text("Grüße, ")
            Text("東京")
            call 0 starts: get_weather
            call 0 input: {"location":
            call 0 input: "Tokyo"}
            call 0: get_weather {"location":"Tokyo"}
            call 1 starts: clock
            call 1: clock {}
            used 42+34
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"type\":\"thinking\",\"length\":15,\"signature\":\"EqQB\"}},{\"own\":{\"type\":\"redacted_thinking\",\"data\":\"Emwk\"}},{\"text\":15},{\"own\":{\"type\":\"tool_use\",\"id\":\"toolu_1\"}},\"call\",{\"own\":{\"type\":\"tool_use\",\"id\":\"toolu_2\"}},\"call\"]}")
            Stop 42+34"#]],
    );
}

#[test]
fn anthropic_endings() {
    let stream = |reason: &str| {
        format!(
            "data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{reason}\"}}}}\n\ndata: {{\"type\":\"message_stop\"}}\n\n"
        )
    };
    check(ProviderKind::Anthropic, &stream("end_turn"), expect!["Stop ?"]);
    check(ProviderKind::Anthropic, &stream("max_tokens"), expect!["MaxTokens ?"]);
    check(ProviderKind::Anthropic, &stream("refusal"), expect!["Refusal ?"]);
    check(
        ProviderKind::Anthropic,
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
        expect!["Unavailable: test reports: Overloaded"],
    );
    // Input that comes whole with the block, and a block of a kind we do not know.
    check(
        ProviderKind::Anthropic,
        &(concat!(
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"server_tool_use\",\"name\":\"web\"}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n",
            "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
            "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"a\",\"input\":{\"x\":1}}}\n\n",
            "data: {\"type\":\"content_block_stop\",\"index\":1}\n\n",
        )
        .to_owned()
            + &stream("tool_use")),
        expect![[r#"
            call 0 starts: a
            call 0 input: {"x":1}
            call 0: a {"x":1}
            Stop ?"#]],
    );
}
