//! Conversations on chat completions.

use expect_test::expect;

use super::{check, conversation, written};
use crate::provider::chat::Chat;

#[test]
fn chat_reasoning_goes_back_where_it_is_wanted() {
    let field = |model: &str, name: &str| {
        format!(r#"chat:{{"from":"p/{model}","pieces":[{{"own":{{"field":"{name}"}}}},{{"text":6}},"call"]}}"#)
    };
    let mut shown = String::new();
    for (host, model, name) in [
        ("api.deepseek.com", "deepseek-flash", "reasoning_content"),
        ("api.moonshot.ai", "kimi-k3", "reasoning_content"),
        ("api.z.ai", "glm-5.3", "reasoning_content"),
        ("10.0.0.1", "deepseek-v4", "reasoning"),
        ("10.0.0.1", "deepseek-r1", "reasoning_content"),
        ("127.0.0.1", "qwen3", "reasoning"),
        ("api.example.com", "qwen3", "reasoning"),
        ("api.groq.com", "openai/gpt-oss-120b", "reasoning"),
        ("api.cerebras.ai", "gpt-oss-120b", "reasoning"),
        ("api.cerebras.ai", "zai-glm-5", "reasoning_content"),
        ("api.openai.com", "gpt-5", "reasoning_content"),
    ] {
        let request = conversation(&field(model, name), "Hm.", "A sec.", &["call_1"]);
        let lines = written(&Chat, host, model, &request, false);
        shown.push_str(&format!("{host} {model}: {}\n", lines[1]));
    }
    expect![[r#"
        api.deepseek.com deepseek-flash: {"content":"A sec.","reasoning_content":"Hm.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"}]}
        api.moonshot.ai kimi-k3: {"content":"A sec.","reasoning_content":"Hm.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"}]}
        api.z.ai glm-5.3: {"content":"A sec.","reasoning_content":"Hm.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"}]}
        10.0.0.1 deepseek-v4: {"content":"A sec.","reasoning":"Hm.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"}]}
        10.0.0.1 deepseek-r1: {"content":"A sec.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"}]}
        127.0.0.1 qwen3: {"content":"A sec.","reasoning":"Hm.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"}]}
        api.example.com qwen3: {"content":"A sec.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"}]}
        api.groq.com openai/gpt-oss-120b: {"content":"A sec.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"}]}
        api.cerebras.ai gpt-oss-120b: {"content":"A sec.","reasoning":"Hm.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"}]}
        api.cerebras.ai zai-glm-5: {"content":"A sec.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"}]}
        api.openai.com gpt-5: {"content":"A sec.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"}]}
    "#]].assert_eq(&shown);
    // Reasoning of another model does not go back, and where some is required something stands in for it.
    for (host, model) in
        [("api.deepseek.com", "deepseek-flash"), ("api.moonshot.ai", "kimi-k3"), ("127.0.0.1", "qwen3")]
    {
        let request = conversation(&field("other", "reasoning_content"), "Hm.", "A sec.", &["call_1"]);
        let lines = written(&Chat, host, model, &request, false);
        assert!(!lines[1].contains("Hm."), "{}", lines[1]);
        assert_eq!(lines[1].contains("reasoning_content"), model != "qwen3", "{}", lines[1]);
    }
}

#[test]
fn chat_mistral_history() {
    let record = r#"chat:{"from":"p/magistral","pieces":[{"own":{"thinking":3}},{"text":6},"call"]}"#;
    check(
        &Chat,
        "api.mistral.ai",
        "magistral",
        &conversation(record, "Hm.", "A sec.", &["call_1"]),
        expect![[r#"
        {"content":"Time?","role":"user"}
        {"content":[{"thinking":[{"text":"Hm.","type":"text"}],"type":"thinking"},{"text":"A sec.","type":"text"}],"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"DVQBKJeG6","type":"function"}]}
        {"content":"12:00","role":"tool","tool_call_id":"DVQBKJeG6"}
        {"content":"I have read the results.","role":"assistant"}
        {"content":"And now?","role":"user"}"#]],
    );
}

#[test]
fn chat_openrouter_history() {
    let record = r#"chat:{"from":"p/google/gemini-3-pro","pieces":[{"own":{"field":"reasoning"}},{"text":6},
        {"own":{"details":[{"type":"reasoning.encrypted","data":"AA","id":"tool_0_clock","index":0,"format":"google-gemini-v1"}]}},
        {"own":{"call":{"place":0,"id":"tool_0_clock"}}},"call"]}"#;
    let request = conversation(record, "Hm.", "A sec.", &["call_1"]);
    check(
        &Chat,
        "openrouter.ai",
        "google/gemini-3-pro",
        &request,
        expect![[r#"
        {"content":"Time?","role":"user"}
        {"content":"A sec.","reasoning_details":[{"data":"AA","format":"google-gemini-v1","id":"tool_0_clock","index":0,"type":"reasoning.encrypted"}],"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"tool_0_clock","type":"function"}]}
        {"content":"12:00","role":"tool","tool_call_id":"tool_0_clock"}
        {"content":"And now?","role":"user"}"#]],
    );
}

/// OpenRouter counts the calls of each answer anew. In a request, each call has an id of its own, also in the details.
#[test]
fn chat_openrouter_ids_that_come_again() {
    let record = r#"chat:{"from":"p/google/gemini-3-pro","pieces":[{"text":6},
        {"own":{"details":[{"type":"reasoning.encrypted","data":"AA","id":"tool_0_clock"}]}},
        {"own":{"call":{"place":0,"id":"tool_0_clock"}}},"call"]}"#;
    let mut request = conversation(record, "Hm.", "A sec.", &["call_1"]);
    let again = conversation(record, "Hm.", "A sec.", &["call_2"]);
    request.messages = request.messages.iter().chain(again.messages.iter()).cloned().collect();
    let lines = written(&Chat, "openrouter.ai", "google/gemini-3-pro", &request, false).join("\n");
    assert_eq!(lines.matches(r#""id":"tool_0_clock""#).count(), 2, "{lines}");
    assert_eq!(lines.matches(r#""id":"call_2""#).count(), 2, "{lines}");
    assert_eq!(lines.matches(r#""tool_call_id":"tool_0_clock""#).count(), 1, "{lines}");
    assert_eq!(lines.matches(r#""tool_call_id":"call_2""#).count(), 1, "{lines}");
}

#[test]
fn chat_gemini_history() {
    let host = "generativelanguage.googleapis.com";
    let record = r#"chat:{"from":"p/gemini-3-pro","pieces":[{"own":{"call":{"place":0,"id":"x","extra":{"google":{"thought_signature":"S"}}}}},{"own":{"call":{"place":1,"id":"y"}}},"call","call"]}"#;
    check(
        &Chat,
        host,
        "gemini-3-pro",
        &conversation(record, "", "", &["call_1", "call_2"]),
        expect![[r#"
        {"content":"Time?","role":"user"}
        {"content":"","role":"assistant","tool_calls":[{"extra_content":{"google":{"thought_signature":"S"}},"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"},{"function":{"arguments":"{}","name":"clock"},"id":"call_2","type":"function"}]}
        {"content":"12:00","role":"tool","tool_call_id":"call_1"}
        {"content":"12:00","role":"tool","tool_call_id":"call_2"}
        {"content":"And now?","role":"user"}"#]],
    );
    check(
        &Chat,
        host,
        "gemini-3-pro",
        &conversation("other:{}", "", "", &["call_1", "call_2"]),
        expect![[r#"
        {"content":"Time?","role":"user"}
        {"content":"","role":"assistant","tool_calls":[{"extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}},"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"},{"function":{"arguments":"{}","name":"clock"},"id":"call_2","type":"function"}]}
        {"content":"12:00","role":"tool","tool_call_id":"call_1"}
        {"content":"12:00","role":"tool","tool_call_id":"call_2"}
        {"content":"And now?","role":"user"}"#]],
    );
}
