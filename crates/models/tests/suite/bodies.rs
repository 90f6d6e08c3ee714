//! What each wire makes of each kind of content, as the provider receives it.

use std::collections::BTreeMap;

use everturn_core::{Block, CallId, Content, Json, Message, ModelOptions, ToolSpec, ToolUse};
use everturn_models::{ModelRequest, OpenAiWire, Provider, ProviderConfig, ProviderKind};
use expect_test::{Expect, expect};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    raw_server::{Then, response, serve},
    transcript::answer,
};

/// The body that a request becomes.
async fn body(kind: ProviderKind, model: &str, config: ProviderConfig, request: ModelRequest) -> String {
    let server = serve(response("400 Bad Request", &["content-length: 0"], ""), Then::Close).await;
    let config = ProviderConfig { base_url: Some(server.url), ..config };
    let model = Provider::new(kind.as_str(), config).unwrap().model(model);
    answer(&*model, request).await;
    server.task.await.unwrap()
}

/// The messages in a body, as text.
#[derive(Deserialize)]
struct Messages<'a> {
    #[serde(borrow, alias = "contents", alias = "input")]
    messages: Vec<&'a RawValue>,
}

/// The messages of a request's body, one a line.
async fn check(kind: ProviderKind, model: &str, messages: Vec<Message>, expect: Expect) {
    check_with(ProviderConfig::new(kind), model, messages, expect).await;
}

/// As [`check`], on OpenAI's Responses.
async fn check_responses(model: &str, messages: Vec<Message>, expect: Expect) {
    check_with(responses(), model, messages, expect).await;
}

fn responses() -> ProviderConfig {
    ProviderConfig { wire: Some(OpenAiWire::Responses), ..ProviderConfig::new(ProviderKind::OpenAi) }
}

async fn check_with(config: ProviderConfig, model: &str, messages: Vec<Message>, expect: Expect) {
    let request = ModelRequest { messages: messages.into(), ..ModelRequest::default() };
    let body = body(config.kind, model, config, request).await;
    let Messages { messages } = serde_json::from_str(&body).unwrap();
    let lines: Vec<&str> = messages.into_iter().map(RawValue::get).collect();
    expect.assert_eq(&lines.join("\n"));
}

fn image(url: &str) -> Block {
    Block::Image { url: url.into() }
}

fn images() -> Vec<Message> {
    let blocks = vec![
        Block::Text("Compare these.".into()),
        image("https://example.com/a.png"),
        image("data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"),
        image("data:image/svg+xml,<svg/>"),
    ];
    vec![Message::User { content: Content::Blocks(blocks) }]
}

#[tokio::test]
async fn images_from_users() {
    check(ProviderKind::OpenAi, "m", images(), expect![[r#"{"role":"user","content":[{"type":"text","text":"Compare these."},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}},{"type":"image_url","image_url":{"url":"data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"}},{"type":"text","text":"[An image was left out here: its data URL is not base64.]"}]}"#]]).await;
    check_responses("m", images(), expect![[r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"Compare these."},{"type":"input_image","image_url":"https://example.com/a.png","detail":"auto"},{"type":"input_image","image_url":"data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7","detail":"auto"},{"type":"input_text","text":"[An image was left out here: its data URL is not base64.]"}]}"#]]).await;
    check(ProviderKind::Anthropic, "m", images(), expect![[r#"{"role":"user","content":[{"type":"text","text":"Compare these."},{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}},{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"}},{"type":"text","text":"[An image was left out here: its data URL is not base64.]","cache_control":{"type":"ephemeral"}}]}"#]]).await;
    check(ProviderKind::Gemini, "m", images(), expect![[r#"{"role":"user","parts":[{"text":"Compare these."},{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/a.png"}},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAAEElEQVR4AQEFAPr/AAAAAAAABQABZHiVOAAAAABJRU5ErkJggg=="}},{"text":"[An image was left out here: its data URL is not base64.]"}]}"#]]).await;
    check(ProviderKind::Ollama, "m", images(), expect![[r#"{"role":"user","content":"Compare these.\n\n[An image was left out here: https://example.com/a.png is not a data URL.]\n\n[An image was left out here: its data URL is not base64.]","images":["iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAAEElEQVR4AQEFAPr/AAAAAAAABQABZHiVOAAAAABJRU5ErkJggg=="]}"#]]).await;
}

/// Parallel calls, one of them failed, one with an image, then a user who goes on; ids and inputs as they were made.
fn calls() -> Vec<Message> {
    let call = |id: &str, name: &str, input: &str| ToolUse {
        id: CallId::new(id),
        name: name.into(),
        input: Json::parse(input).unwrap(),
    };
    let calls = vec![
        call("call_1", "camera", r#"{"z":1.50,"a":12345678901234567890}"#),
        call("call_2", "divide", "{}"),
        call("seed:3", "clock", "{}"),
    ];
    let result = |id: &str, content: Content, is_error| Message::Tool { call_id: CallId::new(id), content, is_error };
    let photo = vec![
        Block::Text("A photo.".into()),
        image(
            "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
        ),
    ];
    vec![
        Message::user("Go."),
        Message::Assistant { content: Content::answer(String::new(), None, "Going.".into(), calls) },
        result("call_1", Content::Blocks(photo), false),
        result("call_2", Content::Text("division by zero".into()), true),
        result("seed:3", Content::Text("12:00".into()), false),
        Message::user("And?"),
    ]
}

#[tokio::test]
async fn calls_and_results() {
    check(ProviderKind::OpenAi, "m", calls(), expect![[r#"
        {"role":"user","content":"Go."}
        {"role":"assistant","content":"Going.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"camera","arguments":"{\"z\":1.50,\"a\":12345678901234567890}"}},{"id":"call_2","type":"function","function":{"name":"divide","arguments":"{}"}},{"id":"call_mMJzNqrPcsSYFTVoUDK6TOQ5","type":"function","function":{"name":"clock","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"call_1","content":"A photo."}
        {"role":"tool","tool_call_id":"call_2","content":"division by zero"}
        {"role":"tool","tool_call_id":"call_mMJzNqrPcsSYFTVoUDK6TOQ5","content":"12:00"}
        {"role":"user","content":[{"type":"text","text":"The images of the tool results above:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}},{"type":"text","text":"And?"}]}"#]]).await;
    check_responses("m", calls(), expect![[r#"
        {"type":"message","role":"user","content":[{"type":"input_text","text":"Go."}]}
        {"type":"message","role":"assistant","content":"Going."}
        {"type":"function_call","call_id":"call_1","name":"camera","arguments":"{\"z\":1.50,\"a\":12345678901234567890}"}
        {"type":"function_call","call_id":"call_2","name":"divide","arguments":"{}"}
        {"type":"function_call","call_id":"call_mMJzNqrPcsSYFTVoUDK6TOQ5","name":"clock","arguments":"{}"}
        {"type":"function_call_output","call_id":"call_1","output":[{"type":"input_text","text":"A photo."},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==","detail":"auto"}]}
        {"type":"function_call_output","call_id":"call_2","output":"division by zero"}
        {"type":"function_call_output","call_id":"call_mMJzNqrPcsSYFTVoUDK6TOQ5","output":"12:00"}
        {"type":"message","role":"user","content":[{"type":"input_text","text":"And?"}]}"#]]).await;
    check(ProviderKind::Anthropic, "m", calls(), expect![[r#"
        {"role":"user","content":[{"type":"text","text":"Go.","cache_control":{"type":"ephemeral"}}]}
        {"role":"assistant","content":[{"type":"text","text":"Going."},{"type":"tool_use","id":"call_1","name":"camera","input":{"z":1.50,"a":12345678901234567890}},{"type":"tool_use","id":"call_2","name":"divide","input":{}},{"type":"tool_use","id":"seed_3","name":"clock","input":{}}]}
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"A photo."},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}}]},{"type":"tool_result","tool_use_id":"call_2","content":[{"type":"text","text":"division by zero"}],"is_error":true},{"type":"tool_result","tool_use_id":"seed_3","content":[{"type":"text","text":"12:00"}]},{"type":"text","text":"And?","cache_control":{"type":"ephemeral"}}]}"#]]).await;
    check(ProviderKind::Gemini, "m", calls(), expect![[r#"
        {"role":"user","parts":[{"text":"Go."}]}
        {"role":"model","parts":[{"text":"Going."},{"functionCall":{"id":"call_1","name":"camera","args":{"z":1.50,"a":12345678901234567890}}},{"functionCall":{"id":"call_2","name":"divide","args":{}}},{"functionCall":{"id":"seed:3","name":"clock","args":{}}}]}
        {"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"camera","response":{"output":"A photo."}}},{"functionResponse":{"id":"call_2","name":"divide","response":{"error":"division by zero"}}},{"functionResponse":{"id":"seed:3","name":"clock","response":{"output":"12:00"}}}]}
        {"role":"user","parts":[{"text":"The images of the tool results above:"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}},{"text":"And?"}]}"#]]).await;
    check(ProviderKind::Gemini, "gemini-3-pro", calls(), expect![[r#"
        {"role":"user","parts":[{"text":"Go."}]}
        {"role":"model","parts":[{"text":"Going."},{"functionCall":{"id":"call_1","name":"camera","args":{"z":1.50,"a":12345678901234567890}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"id":"call_2","name":"divide","args":{}}},{"functionCall":{"id":"seed:3","name":"clock","args":{}}}]}
        {"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"camera","response":{"output":"A photo."},"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}}]}},{"functionResponse":{"id":"call_2","name":"divide","response":{"error":"division by zero"}}},{"functionResponse":{"id":"seed:3","name":"clock","response":{"output":"12:00"}}}]}
        {"role":"user","parts":[{"text":"And?"}]}"#]]).await;
    check(ProviderKind::Ollama, "m", calls(), expect![[r#"
        {"role":"user","content":"Go."}
        {"role":"assistant","content":"Going.","tool_calls":[{"id":"call_1","function":{"name":"camera","arguments":{"z":1.50,"a":12345678901234567890}}},{"id":"call_2","function":{"name":"divide","arguments":{}}},{"id":"seed:3","function":{"name":"clock","arguments":{}}}]}
        {"role":"tool","content":"A photo.","tool_name":"camera","tool_call_id":"call_1"}
        {"role":"tool","content":"division by zero","tool_name":"divide","tool_call_id":"call_2"}
        {"role":"tool","content":"12:00","tool_name":"clock","tool_call_id":"seed:3"}
        {"role":"user","content":"The images of the tool results above:\n\nAnd?","images":["iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="]}"#]]).await;
}

/// Reasoning that Anthropic, Gemini and nobody has signed.
fn thinking() -> Vec<Message> {
    let call = ToolUse { id: CallId::new("call_1"), name: "clock".into(), input: Json::empty_object() };
    let answer = |signature: Option<&str>, calls| Message::Assistant {
        content: Content::answer("Hm.".into(), signature.map(str::to_owned), "Well.".into(), calls),
    };
    vec![
        Message::user("1"),
        answer(
            Some(
                r#"anthropic:{"from":"anthropic/m","prefix":"56d6cd2ee2704e46d872f046.0","pieces":[{"own":{"type":"thinking","length":3,"signature":"EqQB"}},{"text":5}]}"#,
            ),
            vec![],
        ),
        Message::user("2"),
        answer(
            Some(
                r#"anthropic:{"from":"anthropic/m","prefix":"74a3da08d8a607c97f785c6e.1","pieces":[{"own":{"type":"thinking","length":3,"signature":"A"}},{"text":5},{"own":{"type":"redacted_thinking","data":"B"}}]}"#,
            ),
            vec![],
        ),
        Message::user("3"),
        answer(
            Some(
                r#"gemini:{"from":"gemini/gemini-3-pro","pieces":[{"own":{"next":{"signature":"TEXT"}}},{"text":5},{"own":{"next":{"signature":"CALL"}}},"call"]}"#,
            ),
            vec![call],
        ),
        Message::tool(CallId::new("call_1"), "12:00"),
        answer(None, vec![]),
        Message::user("4"),
    ]
}

#[tokio::test]
async fn reasoning_goes_back_to_who_signed_it() {
    check(ProviderKind::OpenAi, "m", thinking(), expect![[r#"
        {"role":"user","content":"1"}
        {"role":"assistant","content":"Well."}
        {"role":"user","content":"2"}
        {"role":"assistant","content":"Well."}
        {"role":"user","content":"3"}
        {"role":"assistant","content":"Well.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"clock","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"call_1","content":"12:00"}
        {"role":"assistant","content":"Well."}
        {"role":"user","content":"4"}"#]]).await;
    check_responses(
        "m",
        thinking(),
        expect![[r#"
        {"type":"message","role":"user","content":[{"type":"input_text","text":"1"}]}
        {"type":"message","role":"assistant","content":"Well."}
        {"type":"message","role":"user","content":[{"type":"input_text","text":"2"}]}
        {"type":"message","role":"assistant","content":"Well."}
        {"type":"message","role":"user","content":[{"type":"input_text","text":"3"}]}
        {"type":"message","role":"assistant","content":"Well."}
        {"type":"function_call","call_id":"call_1","name":"clock","arguments":"{}"}
        {"type":"function_call_output","call_id":"call_1","output":"12:00"}
        {"type":"message","role":"assistant","content":"Well."}
        {"type":"message","role":"user","content":[{"type":"input_text","text":"4"}]}"#]],
    )
    .await;
    check(ProviderKind::Anthropic, "m", thinking(), expect![[r#"
        {"role":"user","content":[{"type":"text","text":"1"}]}
        {"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"EqQB"},{"type":"text","text":"Well."}]}
        {"role":"user","content":[{"type":"text","text":"2"}]}
        {"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"A"},{"type":"text","text":"Well."},{"type":"redacted_thinking","data":"B"}]}
        {"role":"user","content":[{"type":"text","text":"3"}]}
        {"role":"assistant","content":[{"type":"text","text":"Well."},{"type":"tool_use","id":"call_1","name":"clock","input":{}}]}
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"12:00"}],"cache_control":{"type":"ephemeral"}}]}
        {"role":"assistant","content":[{"type":"text","text":"Well."}]}
        {"role":"user","content":[{"type":"text","text":"4","cache_control":{"type":"ephemeral"}}]}"#]]).await;
    check(ProviderKind::Gemini, "gemini-3-pro", thinking(), expect![[r#"
        {"role":"user","parts":[{"text":"1"}]}
        {"role":"model","parts":[{"text":"Well."}]}
        {"role":"user","parts":[{"text":"2"}]}
        {"role":"model","parts":[{"text":"Well."}]}
        {"role":"user","parts":[{"text":"3"}]}
        {"role":"model","parts":[{"text":"Well.","thoughtSignature":"TEXT"},{"functionCall":{"id":"call_1","name":"clock","args":{}},"thoughtSignature":"CALL"}]}
        {"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"clock","response":{"output":"12:00"}}}]}
        {"role":"model","parts":[{"text":"Well."}]}
        {"role":"user","parts":[{"text":"4"}]}"#]]).await;
    check(
        ProviderKind::Ollama,
        "m",
        thinking(),
        expect![[r#"
            {"role":"user","content":"1"}
            {"role":"assistant","content":"Well."}
            {"role":"user","content":"2"}
            {"role":"assistant","content":"Well."}
            {"role":"user","content":"3"}
            {"role":"assistant","content":"Well.","tool_calls":[{"id":"call_1","function":{"name":"clock","arguments":{}}}]}
            {"role":"tool","content":"12:00","tool_name":"clock","tool_call_id":"call_1"}
            {"role":"assistant","content":"Well."}
            {"role":"user","content":"4"}"#]],
    )
    .await;
}

/// Everything around the messages.
async fn check_rest(kind: ProviderKind, model: &str, config: ProviderConfig, expect: Expect) {
    let schema = r#"{"type":"object","properties":{"z":{},"a":{"type":"number","minimum":1.0}}}"#;
    let tool = ToolSpec {
        name: "clock".into(),
        title: Some("Clock".into()),
        description: "Tells the time.".into(),
        input_schema: Json::parse(schema).unwrap(),
    };
    let request = ModelRequest {
        system: "Be brief.".into(),
        messages: [Message::user("hello")].into(),
        tools: [tool].into(),
        options: ModelOptions { max_output_tokens: Some(2000), temperature: Some(700), ..ModelOptions::default() },
        ..ModelRequest::default()
    };
    let body = body(kind, model, config, request).await;
    let fields: BTreeMap<&str, &RawValue> = serde_json::from_str(&body).unwrap();
    let lines: Vec<String> = fields.into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
    expect.assert_eq(&lines.join("\n"));
}

#[tokio::test]
async fn instructions_tools_and_caps() {
    for (kind, model, expect) in [
        (
            ProviderKind::OpenAi,
            "gpt-4o",
            expect![[r#"
                max_tokens: 2000
                messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
                model: "gpt-4o"
                stream: true
                stream_options: {"include_usage":true}
                temperature: 0.7
                tools: [{"type":"function","function":{"name":"clock","description":"Tells the time.","parameters":{"type":"object","properties":{"z":{},"a":{"type":"number","minimum":1.0}}}}}]"#]],
        ),
        (
            ProviderKind::Anthropic,
            "claude-sonnet-4-5",
            expect![[r#"
                max_tokens: 2000
                messages: [{"role":"user","content":[{"type":"text","text":"hello","cache_control":{"type":"ephemeral"}}]}]
                model: "claude-sonnet-4-5"
                stream: true
                system: [{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}]
                thinking: {"type":"enabled","budget_tokens":1024}
                tools: [{"name":"clock","description":"Tells the time.","input_schema":{"type":"object","properties":{"z":{},"a":{"type":"number","minimum":1.0}}}}]"#]],
        ),
        (
            ProviderKind::Gemini,
            "models/gemini-2.5-flash",
            expect![[r#"
                contents: [{"role":"user","parts":[{"text":"hello"}]}]
                generationConfig: {"temperature":0.7,"maxOutputTokens":2000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":1024}}
                systemInstruction: {"parts":[{"text":"Be brief."}]}
                tools: [{"functionDeclarations":[{"name":"clock","description":"Tells the time.","parametersJsonSchema":{"type":"object","properties":{"z":{},"a":{"type":"number","minimum":1.0}}}}]}]"#]],
        ),
        (
            ProviderKind::Ollama,
            "qwen3",
            expect![[r#"
                messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
                model: "qwen3"
                options: {"num_ctx":8192,"temperature":0.7,"num_predict":2000}
                shift: false
                stream: true
                tools: [{"type":"function","function":{"name":"clock","description":"Tells the time.","parameters":{"type":"object","properties":{"z":{},"a":{"type":"number","description":"minimum: 1.0"}}}}}]
                truncate: false"#]],
        ),
    ] {
        let config =
            ProviderConfig { context_window: Some(8192), thinking_budget: Some(1500), ..ProviderConfig::new(kind) };
        check_rest(kind, model, config, expect).await;
    }
    check_rest(ProviderKind::OpenAi, "gpt-5.6", responses(), expect![[r#"
        include: ["reasoning.encrypted_content"]
        input: [{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}]
        instructions: "Be brief."
        max_output_tokens: 2000
        model: "gpt-5.6"
        reasoning: {"summary":"auto"}
        store: false
        stream: true
        stream_options: {"include_obfuscation":false}
        tools: [{"type":"function","name":"clock","description":"Tells the time.","parameters":{"type":"object","properties":{"z":{},"a":{"type":"number","minimum":1.0}}},"strict":false}]"#]]).await;
}

#[tokio::test]
async fn anthropic_is_told_a_cap_where_the_request_has_none() {
    let kind = ProviderKind::Anthropic;
    for (model, cap) in [("claude-3-haiku-20240307", 4096), ("claude-sonnet-4-5", 64_000), ("m", 32_000)] {
        let request = ModelRequest { messages: [Message::user("hello")].into(), ..ModelRequest::default() };
        let body = body(kind, model, ProviderConfig::new(kind), request).await;
        assert!(body.contains(&format!("\"max_tokens\":{cap},")), "{body}");
        assert!(!body.contains("thinking"), "{body}");
    }
}
