//! Gemini's answers.

use expect_test::expect;

use super::*;

#[test]
fn gemini_sample() {
    check(
        ProviderKind::Gemini,
        SAMPLES[2].1,
        expect![[r#"
            used 12+0
            Thinking("Two cities, ")
            Thinking("hm.")
            Text("Grüße, ")
            Text("東京")
            call 0 starts: get_weather
            call 0: get_weather {"location":"Tokyo"}
            used 12+34
            call 1 starts: clock
            call 1: clock {}
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"text\":15},{\"own\":{\"next\":{\"signature\":\"CiQB\"}}},\"call\",\"call\"]}")
            Stop 12+34"#]],
    );
}

#[test]
fn gemini_endings() {
    let stream = |reason: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"x\"}}]}},\"finishReason\":\"{reason}\"}}]}}\n\n"
        )
    };
    let reasons = [
        "FINISH_REASON_UNSPECIFIED",
        "STOP",
        "FUNCTION_CALL",
        "MAX_TOKENS",
        "CONTINUATION",
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "ESCALATION",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "LANGUAGE",
        "PUP_LIMITED_DISABLED",
        "MISSING_THOUGHT_SIGNATURE",
        "TOO_MANY_TOOL_CALLS",
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "MALFORMED_RESPONSE",
        "IMAGE_OTHER",
        "NO_IMAGE",
        "OTHER",
        "OF_LATER_DAYS",
    ];
    let ending = |reason: &&str| {
        let items = read(ProviderKind::Gemini, [stream(reason).as_bytes()]);
        assert_eq!(show(&items[..1]), "Text(\"x\")");
        format!("{reason} -> {}", show(&items[1..]))
    };
    expect![[r#"
        FINISH_REASON_UNSPECIFIED -> Unavailable: test closed the stream before its answer was complete
        STOP -> Stop ?
        FUNCTION_CALL -> Stop ?
        MAX_TOKENS -> MaxTokens ?
        CONTINUATION -> MaxTokens ?
        SAFETY -> Refusal ?
        RECITATION -> Refusal ?
        BLOCKLIST -> Refusal ?
        PROHIBITED_CONTENT -> Refusal ?
        SPII -> Refusal ?
        ESCALATION -> Refusal ?
        MODEL_ARMOR -> Refusal ?
        IMAGE_SAFETY -> Refusal ?
        IMAGE_PROHIBITED_CONTENT -> Refusal ?
        IMAGE_RECITATION -> Refusal ?
        LANGUAGE -> Rejected: test reports: the answer ended with LANGUAGE
        PUP_LIMITED_DISABLED -> Rejected: test reports: the answer ended with PUP_LIMITED_DISABLED
        MISSING_THOUGHT_SIGNATURE -> Rejected: test reports: the answer ended with MISSING_THOUGHT_SIGNATURE
        TOO_MANY_TOOL_CALLS -> Rejected: test reports: the answer ended with TOO_MANY_TOOL_CALLS
        MALFORMED_FUNCTION_CALL -> Unavailable: test gave its answer up with MALFORMED_FUNCTION_CALL
        UNEXPECTED_TOOL_CALL -> Unavailable: test gave its answer up with UNEXPECTED_TOOL_CALL
        MALFORMED_RESPONSE -> Unavailable: test gave its answer up with MALFORMED_RESPONSE
        IMAGE_OTHER -> Unavailable: test gave its answer up with IMAGE_OTHER
        NO_IMAGE -> Unavailable: test gave its answer up with NO_IMAGE
        OTHER -> Unavailable: test gave its answer up with OTHER
        OF_LATER_DAYS -> Unavailable: test gave its answer up with OF_LATER_DAYS"#]]
    .assert_eq(&reasons.iter().map(ending).collect::<Vec<_>>().join("\n"));
    let blocked = "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\n\n";
    let items = read(ProviderKind::Gemini, [blocked.as_bytes()]);
    assert_eq!(show(&items[items.len() - 1..]), "Refusal ?");
    check(
        ProviderKind::Gemini,
        "data: {\"error\":{\"code\":503,\"message\":\"The model is overloaded.\",\"status\":\"UNAVAILABLE\"}}\n\n",
        expect!["Unavailable: test reports: The model is overloaded."],
    );
    check(
        ProviderKind::Gemini,
        "data: {\"candidates\":[{\"finishReason\":\"MALFORMED_FUNCTION_CALL\",\"finishMessage\":\"Malformed function call: print(\"}]}\n\n",
        expect!["Unavailable: test gave its answer up with MALFORMED_FUNCTION_CALL: Malformed function call: print("],
    );
    // An answer of nothing but thoughts is none.
    for parts in
        ["", "{\"text\":\"\"}", "{\"text\":\"hm\",\"thought\":true}", "{\"text\":\"\",\"thoughtSignature\":\"A\"}"]
    {
        let stream =
            format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{parts}]}},\"finishReason\":\"STOP\"}}]}}\n\n");
        let items = read(ProviderKind::Gemini, [stream.as_bytes()]);
        let last = show(&items[items.len() - 1..]);
        assert_eq!(last, "Unavailable: test gave its answer up with STOP and neither text nor calls", "{parts}");
    }
}

#[test]
fn gemini_parts() {
    // Signatures on a text, between texts, on calls and on nothing; two calls in one chunk, one without input.
    check(
        ProviderKind::Gemini,
        concat!(
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"one\",\"thoughtSignature\":\"A\"},{\"text\":\"two\"}]}}]}\n\n",
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"three\"}]}}]}\n\n",
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"id\":\"46ww\",\"name\":\"clock\"},\"thoughtSignature\":\"B\"},",
            "{\"functionCall\":{\"id\":\"\",\"name\":\"clock\",\"args\":null}}]}}]}\n\n",
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\",\"thoughtSignature\":\"C\"}]},\"finishReason\":\"STOP\"}]}\n\n",
            "data: {\"candidates\":null,\"usageMetadata\":{\"promptTokenCount\":5,\"toolUsePromptTokenCount\":2,\"candidatesTokenCount\":3}}\n\n",
        ),
        expect![[r#"
            Text("one")
            Text("two")
            Text("three")
            call 0 starts: clock
            call 0: clock {}
            call 1 starts: clock
            call 1: clock {}
            used 7+3
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"next\":{\"signature\":\"A\"}}},{\"text\":3},{\"own\":{\"next\":{}}},{\"text\":8},{\"own\":{\"next\":{\"signature\":\"B\",\"id\":\"46ww\"}}},\"call\",\"call\",{\"own\":{\"empty\":{\"signature\":\"C\"}}}]}")
            Stop 7+3"#]],
    );
    // Text after a call.
    check(
        ProviderKind::Gemini,
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"clock\",\"args\":[]}},{\"text\":\"x\"}]},\"finishReason\":\"STOP\"}]}\n\n",
        expect![[r#"
            call 0 starts: clock
            bad call 0: clock is not a JSON object: []
            Text("x")
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[\"call\",{\"text\":1}]}")
            Stop ?"#]],
    );
}

#[test]
fn gemini_usage() {
    let stream = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":900,\"cachedContentTokenCount\":700,\"toolUsePromptTokenCount\":10,\"candidatesTokenCount\":20,\"thoughtsTokenCount\":30}}\n\n";
    let items = read(ProviderKind::Gemini, [stream.as_bytes()]);
    let Some(Ok(ModelEvent::Finished { usage, .. })) = items.last() else { panic!("{items:?}") };
    let expected = everturn_core::Usage { input: 910, output: 50, cached_input: 700, cache_write: 0, reasoning: 30 };
    assert_eq!(*usage, Some(expected));
}
