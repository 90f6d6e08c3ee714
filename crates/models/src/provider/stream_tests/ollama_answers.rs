//! Ollama's answers.

use expect_test::expect;

use super::*;

#[test]
fn ollama_sample() {
    check(
        ProviderKind::Ollama,
        SAMPLES[3].1,
        expect![[r#"
            Thinking("Two cities, ")
            Thinking("hm.")
            Text("Grüße, ")
            Text("東京")
            call 0 starts: get_weather
            call 0: get_weather {"location":"Tokyo"}
            call 1 starts: clock
            call 1: clock {}
            used 12+34
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"text\":15},{\"own\":null},\"call\",\"call\"]}")
            Stop 12+34"#]],
    );
}

#[test]
fn ollama_endings() {
    check(
        ProviderKind::Ollama,
        "{\"message\":{\"content\":\"x\"},\"done\":true,\"done_reason\":\"length\"}\n",
        expect![[r#"
            Text("x")
            MaxTokens ?"#]],
    );
    check(
        ProviderKind::Ollama,
        "{\"message\":{\"content\":\"x\"},\"done\":false}\n{\"error\":\"model runner has unexpectedly stopped\"}\n",
        expect![[r#"
            Text("x")
            Unavailable: test reports: model runner has unexpectedly stopped"#]],
    );
    check(
        ProviderKind::Ollama,
        "{\"error\":\"the prompt is longer than the context length currently available to the model\"}\n",
        expect![
            "ContextOverflow: test reports: the prompt is longer than the context length currently available to the model"
        ],
    );
    // The model came, and nobody asked it.
    check(
        ProviderKind::Ollama,
        "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"load\"}\n",
        expect!["Unavailable: test gave its answer up with load"],
    );
    // Thoughts without a call leave no record; calls in several records, one without input.
    check(
        ProviderKind::Ollama,
        "{\"message\":{\"content\":\"x\",\"thinking\":\"hm\"}}\n{\"message\":null,\"done\":true}\n",
        expect![[r#"
            Thinking("hm")
            Text("x")
            Stop ?"#]],
    );
    check(
        ProviderKind::Ollama,
        concat!(
            "{\"message\":{\"thinking\":\"hm\",\"tool_calls\":[{\"function\":{\"name\":\"a\"}}]},\"done\":false}\n",
            "{\"message\":{\"tool_calls\":[{\"function\":{\"name\":\"b\",\"arguments\":{\"x\":1}}}]},\"done\":false}\n",
            "{\"done\":true,\"done_reason\":\"stop\",\"eval_count\":3}\n",
        ),
        expect![[r#"
            Thinking("hm")
            call 0 starts: a
            call 0: a {}
            call 1 starts: b
            call 1: b {"x":1}
            used 0+3
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":null},\"call\",\"call\"]}")
            Stop 0+3"#]],
    );
}
