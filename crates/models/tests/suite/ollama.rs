//! Ollama's rules, request by request: what is sent, and what is said of the things that are not.

use std::{collections::BTreeMap, sync::Arc};

use everturn_core::{
    Block, CallId, Content, Effort, Json, Message, ModelOptions, OutputFormat, Thinking, ToolChoice, ToolSpec, ToolUse,
};
use everturn_models::{Model, ModelRequest, Provider, ProviderConfig, ProviderKind};
use expect_test::{Expect, expect};
use serde_json::value::RawValue;

use super::{
    scripted::{Scripted, scripted},
    transcript::answer,
};

const OK: &str = "{\"message\":{\"content\":\"ok\"},\"done\":true,\"done_reason\":\"stop\"}\n";

/// A server that describes its models like this, and a model of it.
async fn serve(model: &str, show: Option<&str>) -> (Scripted, Arc<dyn Model>) {
    let mut routes = vec![("/api/chat", "200 OK", OK.to_owned())];
    routes.extend(show.map(|show| ("/api/show", "200 OK", show.to_owned())));
    let server = scripted(routes).await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::Ollama) };
    let model = Provider::new("ollama", config).unwrap().model(model);
    (server, model)
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest { messages: messages.into(), ..ModelRequest::default() }
}

/// What a request becomes once the server has described the model, and what is said of it.
async fn check(model: &str, show: Option<&str>, request: ModelRequest, expect: Expect) {
    let (server, model) = serve(model, show).await;
    model.prepare(0).await;
    let answer = answer(&*model, request).await;
    assert!(answer.contains("text: ok"), "{answer}");
    let body = server.last_body();
    let fields: BTreeMap<&str, &RawValue> = serde_json::from_str(&body).unwrap();
    let mut lines: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    lines.retain(|line| !["model: ", "stream: ", "shift: ", "truncate: "].iter().any(|name| line.starts_with(name)));
    let notices = answer.lines().filter_map(|line| line.strip_prefix("notice: "));
    lines.extend(notices.flat_map(|line| line.split('|')).map(|notice| format!("- {notice}")));
    expect.assert_eq(&lines.join("\n"));
}

fn asked(options: ModelOptions, tools: &[&str]) -> ModelRequest {
    let tool = |name: &&str| ToolSpec {
        name: (*name).to_owned(),
        title: None,
        description: "A tool.".into(),
        input_schema: Json::parse(r#"{"type":"object"}"#).unwrap(),
    };
    ModelRequest {
        system: "Be brief.".into(),
        messages: [Message::user("hello")].into(),
        tools: tools.iter().map(tool).collect(),
        options,
        ..ModelRequest::default()
    }
}

const SHOW: &str = r#"{"model_info":{"general.architecture":"qwen3","qwen3.context_length":262144},"capabilities":["completion","tools","thinking"]}"#;
const PLAIN: &str =
    r#"{"model_info":{"general.architecture":"gemma","gemma.context_length":8000},"capabilities":["completion"]}"#;

#[tokio::test]
async fn the_window_is_what_the_server_tells_once() {
    let (server, model) = serve("qwen3", Some(SHOW)).await;
    assert_eq!(model.context_window(), Some(8192));
    assert!(model.thinks());
    tokio::join!(model.prepare(0), model.prepare(0));
    model.prepare(0).await;
    assert_eq!(model.context_window(), Some(32_768));
    answer(&*model, request(vec![Message::user("hello")])).await;
    let lines: Vec<String> = server.seen().into_iter().map(|seen| format!("{} {}", seen.line, seen.body)).collect();
    expect![[r#"
        POST /api/show {"model":"qwen3"}
        POST /api/chat {"model":"qwen3","messages":[{"role":"user","content":"hello"}],"stream":true,"truncate":false,"shift":false,"options":{"num_ctx":32768}}"#]].assert_eq(&lines.join("\n"));

    let (_server, model) = serve("gemma", Some(PLAIN)).await;
    model.prepare(0).await;
    assert_eq!((model.context_window(), model.thinks()), (Some(8000), false));
}

#[tokio::test]
async fn a_server_that_tells_nothing_is_not_asked_all_the_time() {
    let (server, model) = serve("qwen3", None).await;
    model.prepare(0).await;
    model.prepare(0).await;
    assert_eq!(server.seen().len(), 1);
    assert_eq!(model.context_window(), Some(8192));
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    tokio::time::resume();
    model.prepare(0).await;
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_not_waited_for() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = Some(format!("http://{}", listener.local_addr().unwrap()));
    let config = ProviderConfig { base_url, ..ProviderConfig::new(ProviderKind::Ollama) };
    let model = Provider::new("ollama", config).unwrap().model("qwen3");
    let began = tokio::time::Instant::now();
    model.prepare(0).await;
    assert_eq!(began.elapsed().as_secs(), 2);
}

#[tokio::test]
async fn thinking_is_asked_for_where_the_model_can() {
    let options = |effort, thinking| asked(ModelOptions { effort, thinking, ..ModelOptions::default() }, &[]);
    let nothing = options(None, None);
    check(
        "qwen3",
        Some(SHOW),
        nothing,
        expect![[r#"
        messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
        options: {"num_ctx":32768}"#]],
    )
    .await;
    check(
        "qwen3",
        Some(SHOW),
        options(None, Some(Thinking::Off)),
        expect![[r#"
        messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
        options: {"num_ctx":32768}
        think: false"#]],
    )
    .await;
    check(
        "qwen3",
        Some(SHOW),
        options(None, Some(Thinking::Summary)),
        expect![[r#"
        messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
        options: {"num_ctx":32768}
        think: true"#]],
    )
    .await;
    check(
        "qwen3",
        Some(SHOW),
        options(Some(Effort::Max), None),
        expect![[r#"
        messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
        options: {"num_ctx":32768}
        think: "max""#]],
    )
    .await;
    check(
        "qwen3",
        Some(SHOW),
        options(Some(Effort::Minimal), Some(Thinking::On)),
        expect![[r#"
        messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
        options: {"num_ctx":32768}
        think: "low"
        - effort is low instead of minimal, which Ollama does not have"#]],
    )
    .await;
    check(
        "gpt-oss:20b",
        Some(SHOW),
        options(Some(Effort::High), Some(Thinking::Off)),
        expect![[r#"
        messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
        options: {"num_ctx":32768}
        think: "low"
        - effort is not sent: thinking is off
        - thinking cannot be off: gpt-oss:20b is asked for its lowest effort, low"#]],
    )
    .await;
    check(
        "gemma",
        Some(PLAIN),
        options(Some(Effort::High), None),
        expect![[r#"
        messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
        options: {"num_ctx":8000}
        - effort is not sent: gemma does not think"#]],
    )
    .await;
    check(
        "gemma",
        Some(PLAIN),
        options(None, Some(Thinking::Off)),
        expect![[r#"
        messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
        options: {"num_ctx":8000}
        think: false"#]],
    )
    .await;
}

#[tokio::test]
async fn sampling_has_its_names() {
    let options = ModelOptions {
        temperature: Some(700),
        top_p: Some(900),
        frequency_penalty: Some(-500),
        presence_penalty: Some(250),
        seed: Some(7),
        stop: vec!["END".into()],
        max_output_tokens: Some(2000),
        ..ModelOptions::default()
    };
    check("qwen3", None, asked(options, &[]), expect![[r#"
        messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
        options: {"num_ctx":8192,"temperature":0.7,"top_p":0.9,"frequency_penalty":-0.5,"presence_penalty":0.25,"seed":7,"stop":["END"],"num_predict":2000}"#]]).await;
}

#[tokio::test]
async fn tools_are_left_out_or_asked_for_in_words() {
    let options =
        |tool_choice| ModelOptions { tool_choice, parallel_tool_calls: Some(false), ..ModelOptions::default() };
    let tools = ["clock", "camera"];
    check("qwen3", Some(SHOW), asked(options(None), &tools), expect![[r#"
        messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
        options: {"num_ctx":32768}
        tools: [{"type":"function","function":{"name":"clock","description":"A tool.","parameters":{"type":"object","properties":{}}}},{"type":"function","function":{"name":"camera","description":"A tool.","parameters":{"type":"object","properties":{}}}}]"#]]).await;
    check(
        "qwen3",
        Some(SHOW),
        asked(options(Some(ToolChoice::None)), &tools),
        expect![[r#"
        messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
        options: {"num_ctx":32768}"#]],
    )
    .await;
    check("qwen3", Some(SHOW), asked(options(Some(ToolChoice::Required)), &tools), expect![[r#"
        messages: [{"role":"system","content":"Be brief.\n\nAnswer with a call of one of your tools."},{"role":"user","content":"hello"}]
        options: {"num_ctx":32768}
        tools: [{"type":"function","function":{"name":"clock","description":"A tool.","parameters":{"type":"object","properties":{}}}},{"type":"function","function":{"name":"camera","description":"A tool.","parameters":{"type":"object","properties":{}}}}]
        - tool_choice is asked for in words only: Ollama cannot force a call"#]]).await;
    check("qwen3", Some(SHOW), asked(options(Some(ToolChoice::Named("clock".into()))), &tools), expect![[r#"
        messages: [{"role":"system","content":"Be brief.\n\nAnswer with a call of the tool clock."},{"role":"user","content":"hello"}]
        options: {"num_ctx":32768}
        tools: [{"type":"function","function":{"name":"clock","description":"A tool.","parameters":{"type":"object","properties":{}}}},{"type":"function","function":{"name":"camera","description":"A tool.","parameters":{"type":"object","properties":{}}}}]
        - tool_choice is asked for in words only: Ollama cannot force a call"#]]).await;
    let (_server, model) = serve("qwen3", Some(SHOW)).await;
    let shown = answer(&*model, asked(options(Some(ToolChoice::Named("radio".into()))), &tools)).await;
    let why = "a call of the tool radio was asked for, which ollama/qwen3 cannot be given: it is not among the tools of \
               the call";
    assert_eq!(shown, format!("Rejected: {why}"));
    let (_server, model) = serve("gemma", Some(PLAIN)).await;
    model.prepare(0).await;
    let shown = answer(&*model, asked(options(Some(ToolChoice::Required)), &tools)).await;
    assert_eq!(shown, "Rejected: a tool call was asked for, and ollama/gemma takes none of the tools");
    check(
        "gemma",
        Some(PLAIN),
        asked(options(None), &tools),
        expect![[r#"
        messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
        options: {"num_ctx":8000}
        - all tools are left out: gemma takes none"#]],
    )
    .await;
}

#[tokio::test]
async fn answers_have_a_shape() {
    let schema = Json::parse(r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#).unwrap();
    let schema = OutputFormat::JsonSchema { name: "number".into(), description: None, schema, strict: true };
    let options = |output| ModelOptions { output: Some(output), ..ModelOptions::default() };
    check(
        "qwen3",
        Some(SHOW),
        asked(options(OutputFormat::JsonObject), &[]),
        expect![[r#"
        format: "json"
        messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
        options: {"num_ctx":32768}"#]],
    )
    .await;
    check(
        "qwen3",
        Some(SHOW),
        asked(options(schema.clone()), &[]),
        expect![[r#"
        format: {"type":"object","properties":{"n":{"type":"integer"}}}
        messages: [{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]
        options: {"num_ctx":32768}"#]],
    )
    .await;
    check("qwen3", Some(SHOW), asked(options(schema), &["clock"]), expect![[r#"
        messages: [{"role":"system","content":"Be brief.\n\nWhen you give your final answer, answer with JSON that fits this schema and nothing else:\n{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}}}"},{"role":"user","content":"hello"}]
        options: {"num_ctx":32768}
        tools: [{"type":"function","function":{"name":"clock","description":"A tool.","parameters":{"type":"object","properties":{}}}}]
        - the output format is asked for in words only: Ollama takes no output format together with tools"#]]).await;
}

#[tokio::test]
async fn images_go_to_models_that_see() {
    let blocks = vec![Block::Text("Look.".into()), Block::Image { url: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==".into() }];
    let messages = || vec![Message::User { content: Content::Blocks(blocks.clone()) }];
    let seeing = r#"{"capabilities":["completion","vision"]}"#;
    check(
        "llava",
        Some(seeing),
        request(messages()),
        expect![[r#"
            messages: [{"role":"user","content":"Look.","images":["iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="]}]
            options: {"num_ctx":8192}"#]],
    )
    .await;
    check(
        "gemma",
        Some(PLAIN),
        request(messages()),
        expect![[r#"
            messages: [{"role":"user","content":"Look.\n\n[An image was left out here: the model cannot read it.]"}]
            options: {"num_ctx":8000}
            - images are left out: gemma reads none"#]],
    )
    .await;
}

#[tokio::test]
async fn thoughts_before_a_call_go_back_to_the_model_that_had_them() {
    let call = ToolUse { id: CallId::new("call_1"), name: "clock".into(), input: Json::empty_object() };
    let step = |from: &str| {
        let record = format!(r#"ollama:{{"from":"{from}","pieces":[{{"text":5}},{{"own":null}},"call"]}}"#);
        let content = Content::answer("Hm.".into(), Some(record), "Well.".into(), vec![call.clone()]);
        vec![Message::user("1"), Message::Assistant { content }, Message::tool(CallId::new("call_1"), "12:00")]
    };
    check("qwen3", None, request(step("ollama/qwen3")), expect![[r#"
        messages: [{"role":"user","content":"1"},{"role":"assistant","content":"Well.","thinking":"Hm.","tool_calls":[{"id":"call_1","function":{"name":"clock","arguments":{}}}]},{"role":"tool","content":"12:00","tool_name":"clock","tool_call_id":"call_1"}]
        options: {"num_ctx":8192}"#]]).await;
    check("qwen3", None, request(step("ollama/other")), expect![[r#"
        messages: [{"role":"user","content":"1"},{"role":"assistant","content":"Well.","tool_calls":[{"id":"call_1","function":{"name":"clock","arguments":{}}}]},{"role":"tool","content":"12:00","tool_name":"clock","tool_call_id":"call_1"}]
        options: {"num_ctx":8192}"#]]).await;
}

/// A list shows the windows that calls use, not the windows that the models were trained with.
#[tokio::test]
async fn models_are_listed() {
    let list = r#"{"models":[{"name":"qwen3:8b","details":{"context_length":131072}}]}"#;
    let show =
        r#"{"model_info":{"general.architecture":"qwen3","qwen3.context_length":131072},"capabilities":["tools"]}"#;
    let routes = vec![("/api/tags", "200 OK", list.to_owned()), ("/api/show", "200 OK", show.to_owned())];
    let server = scripted(routes).await;
    for (context_window, expected) in [(None, 32_768), (Some(65_536), 65_536)] {
        let base_url = Some(server.url.clone());
        let config = ProviderConfig { base_url, context_window, ..ProviderConfig::new(ProviderKind::Ollama) };
        let models = Provider::new("ollama", config).unwrap().models().await.unwrap();
        let shown: Vec<_> = models.into_iter().map(|model| (model.id, model.context_window)).collect();
        assert_eq!(shown, [("qwen3:8b".to_owned(), Some(expected))]);
    }
}

/// An agent's window is the one that the model is loaded with, before the provider's.
#[tokio::test]
async fn an_agents_window_is_used() {
    let server = scripted(vec![("/api/chat", "200 OK", String::new())]).await;
    for (provider, agent, expected) in
        [(None, Some(9000), 9000), (Some(7000), Some(9000), 9000), (Some(7000), None, 7000)]
    {
        let base_url = Some(server.url.clone());
        let config = ProviderConfig { base_url, context_window: provider, ..ProviderConfig::new(ProviderKind::Ollama) };
        let model = Provider::new("ollama", config).unwrap().model("qwen3");
        let request = ModelRequest {
            messages: [Message::user("hello")].into(),
            context_window: agent,
            ..ModelRequest::default()
        };
        answer(&*model, request).await;
        let body = server.last_body();
        assert!(body.contains(&format!("\"num_ctx\":{expected}")), "{body}");
    }
}
