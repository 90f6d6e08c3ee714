//! Requests on OpenAI's two wires, by host and model: what each server takes, and what is told about the rest.

use std::{collections::HashMap, sync::Arc};

use everturn_core::{
    Block, CallId, Content, DocumentId, Effort, Json, Message, ModelOptions, OutputFormat, Thinking, ToolChoice,
    ToolSpec, ToolUse,
};
use expect_test::{Expect, expect};
use serde_json::Value;

use super::{
    catalog,
    chat::Chat,
    learned::Learned,
    responses::Responses,
    wire::{Ask, Settings, Wire},
};
use crate::model::{DocumentContent, ModelRequest};

/// The body that a wire writes, one field a line, then the notices. Fields that never change are left out.
fn written(wire: &dyn Wire, host: &str, model: &str, request: &ModelRequest, without_proofs: bool) -> Vec<String> {
    let settings = Settings { host: host.to_owned(), ..Settings::default() };
    let from = format!("p/{model}");
    let ask = Ask {
        from: &from,
        model,
        settings: &settings,
        known: catalog::known(model),
        learned: &Learned::default(),
        request,
        without_proofs,
    };
    let written = wire.write(&ask).unwrap();
    let body: Value = serde_json::from_slice(&written.body).unwrap();
    let mut lines = Vec::new();
    for (name, value) in body.as_object().unwrap() {
        match (name.as_str(), value) {
            ("model" | "stream" | "store", _) => {}
            ("messages" | "input", Value::Array(items)) => lines.extend(items.iter().map(Value::to_string)),
            ("tools", Value::Array(tools)) => lines.push(format!("tools: {}", tools.len())),
            ("stream_options", value) if value["include_usage"] == true || value["include_obfuscation"] == false => {}
            _ => lines.push(format!("{name}: {value}")),
        }
    }
    lines.extend(written.notices.into_iter().map(|notice| format!("notice: {notice}")));
    lines
}

fn hello(options: ModelOptions) -> ModelRequest {
    ModelRequest { messages: [Message::user("hello")].into(), options, ..ModelRequest::default() }
}

fn with_tool(request: ModelRequest) -> ModelRequest {
    let tool = ToolSpec {
        name: "clock".into(),
        title: None,
        description: "Tells the time.".into(),
        input_schema: Json::parse(r#"{"type":"object","properties":{}}"#).unwrap(),
    };
    ModelRequest { tools: [tool].into(), ..request }
}

/// What is written beside the conversation for the same request to several models.
fn check_options(wire: &dyn Wire, models: &[(&str, &str)], request: &ModelRequest, expect: Expect) {
    let mut shown = String::new();
    for (host, model) in models {
        let lines = written(wire, host, model, request, false);
        let lines: Vec<_> = lines.into_iter().filter(|line| !line.starts_with('{')).collect();
        shown.push_str(&format!("## {model}\n{}\n", lines.join("\n")));
    }
    expect.assert_eq(&shown);
}

fn check(wire: &dyn Wire, host: &str, model: &str, request: &ModelRequest, expect: Expect) {
    expect.assert_eq(&written(wire, host, model, request, false).join("\n"));
}

const OPENAI: &str = "api.openai.com";

#[test]
fn responses_effort_and_sampling() {
    let models = [
        (OPENAI, "gpt-6-astra"),
        (OPENAI, "gpt-5.6"),
        (OPENAI, "gpt-5.4"),
        (OPENAI, "gpt-5-mini"),
        (OPENAI, "gpt-4.1"),
        ("res.openai.azure.com", "my-deployment"),
    ];
    let sampling = ModelOptions { temperature: Some(200), top_p: Some(900), ..ModelOptions::default() };
    check_options(
        &Responses,
        &models,
        &hello(sampling.clone()),
        expect![[r###"
        ## gpt-6-astra
        include: ["reasoning.encrypted_content"]
        reasoning: {"summary":"auto"}
        notice: temperature is not sent: gpt-6-astra takes none while it thinks
        notice: top_p is not sent: gpt-6-astra takes none while it thinks
        ## gpt-5.6
        include: ["reasoning.encrypted_content"]
        reasoning: {"summary":"auto"}
        notice: temperature is not sent: gpt-5.6 takes none while it thinks
        notice: top_p is not sent: gpt-5.6 takes none while it thinks
        ## gpt-5.4
        include: ["reasoning.encrypted_content"]
        temperature: 0.2
        top_p: 0.9
        ## gpt-5-mini
        include: ["reasoning.encrypted_content"]
        reasoning: {"summary":"auto"}
        notice: temperature is not sent: gpt-5-mini takes none while it thinks
        notice: top_p is not sent: gpt-5-mini takes none while it thinks
        ## gpt-4.1
        temperature: 0.2
        top_p: 0.9
        ## my-deployment
        temperature: 0.2
        top_p: 0.9
    "###]],
    );
    let off = ModelOptions { thinking: Some(Thinking::Off), ..sampling };
    check_options(
        &Responses,
        &models,
        &hello(off),
        expect![[r###"
        ## gpt-6-astra
        include: ["reasoning.encrypted_content"]
        reasoning: {"effort":"low"}
        notice: thinking cannot be turned off: gpt-6-astra thinks at least at effort low
        notice: temperature is not sent: gpt-6-astra takes none while it thinks
        notice: top_p is not sent: gpt-6-astra takes none while it thinks
        ## gpt-5.6
        include: ["reasoning.encrypted_content"]
        reasoning: {"effort":"none"}
        temperature: 0.2
        top_p: 0.9
        ## gpt-5.4
        include: ["reasoning.encrypted_content"]
        reasoning: {"effort":"none"}
        temperature: 0.2
        top_p: 0.9
        ## gpt-5-mini
        include: ["reasoning.encrypted_content"]
        reasoning: {"effort":"minimal"}
        notice: thinking cannot be turned off: gpt-5-mini thinks at least at effort minimal
        notice: temperature is not sent: gpt-5-mini takes none while it thinks
        notice: top_p is not sent: gpt-5-mini takes none while it thinks
        ## gpt-4.1
        temperature: 0.2
        top_p: 0.9
        ## my-deployment
        reasoning: {"effort":"none"}
        temperature: 0.2
        top_p: 0.9
    "###]],
    );
    let max = ModelOptions { effort: Some(Effort::Max), thinking: Some(Thinking::On), ..ModelOptions::default() };
    check_options(
        &Responses,
        &models,
        &hello(max),
        expect![[r###"
        ## gpt-6-astra
        include: ["reasoning.encrypted_content"]
        reasoning: {"effort":"max"}
        ## gpt-5.6
        include: ["reasoning.encrypted_content"]
        reasoning: {"effort":"max"}
        ## gpt-5.4
        include: ["reasoning.encrypted_content"]
        reasoning: {"effort":"xhigh"}
        notice: effort is xhigh: gpt-5.4 has no effort max
        ## gpt-5-mini
        include: ["reasoning.encrypted_content"]
        reasoning: {"effort":"high"}
        notice: effort is high: gpt-5-mini has no effort max
        ## gpt-4.1
        notice: effort max is not sent: gpt-4.1 does not reason
        notice: thinking stays off: gpt-4.1 does not reason
        ## my-deployment
        reasoning: {"effort":"max"}
    "###]],
    );
    let summary = ModelOptions { thinking: Some(Thinking::Summary), ..ModelOptions::default() };
    check_options(
        &Responses,
        &models,
        &hello(summary),
        expect![[r###"
        ## gpt-6-astra
        include: ["reasoning.encrypted_content"]
        reasoning: {"summary":"auto"}
        ## gpt-5.6
        include: ["reasoning.encrypted_content"]
        reasoning: {"summary":"auto"}
        ## gpt-5.4
        include: ["reasoning.encrypted_content"]
        reasoning: {"effort":"medium","summary":"auto"}
        ## gpt-5-mini
        include: ["reasoning.encrypted_content"]
        reasoning: {"summary":"auto"}
        ## gpt-4.1
        notice: thinking stays off: gpt-4.1 does not reason
        ## my-deployment
        reasoning: {"summary":"auto"}
    "###]],
    );
}

#[test]
fn responses_formats_choices_and_caps() {
    let options = ModelOptions {
        max_output_tokens: Some(10),
        tool_choice: Some(ToolChoice::Named("clock".into())),
        parallel_tool_calls: Some(false),
        output: Some(OutputFormat::JsonSchema {
            name: "time".into(),
            description: None,
            schema: Json::parse(r#"{"type":"object","properties":{"hour":{"type":"integer"}}}"#).unwrap(),
            strict: false,
        }),
        stop: vec!["END".into()],
        seed: Some(7),
        frequency_penalty: Some(500),
        ..ModelOptions::default()
    };
    let request = ModelRequest { cache_key: Some("session ".repeat(9)), ..with_tool(hello(options)) };
    check(
        &Responses,
        OPENAI,
        "gpt-4.1",
        &request,
        expect![[r#"
        {"content":[{"text":"hello","type":"input_text"}],"role":"user","type":"message"}
        max_output_tokens: 16
        parallel_tool_calls: false
        prompt_cache_key: "e7b3827023ef95f90243009bc4a135eddf31c11f46d9a92a260090abe5819526"
        text: {"format":{"name":"time","schema":{"properties":{"hour":{"type":"integer"}},"type":"object"},"strict":false,"type":"json_schema"}}
        tool_choice: {"name":"clock","type":"function"}
        tools: 1
        notice: max_output_tokens is 16: gpt-4.1 takes no less
        notice: stop is not sent: OpenAI's Responses API has no such option
        notice: seed is not sent: OpenAI's Responses API has no such option
        notice: frequency_penalty is not sent: OpenAI's Responses API has no such option"#]],
    );
    let options = ModelOptions {
        output: Some(OutputFormat::JsonObject),
        tool_choice: Some(ToolChoice::Required),
        ..ModelOptions::default()
    };
    let request = ModelRequest { cache_key: Some("session".into()), ..hello(options) };
    check(
        &Responses,
        OPENAI,
        "gpt-4.1",
        &request,
        expect![[r#"
        {"content":[{"text":"Answer with a JSON object.","type":"input_text"}],"role":"developer","type":"message"}
        {"content":[{"text":"hello","type":"input_text"}],"role":"user","type":"message"}
        prompt_cache_key: "session"
        text: {"format":{"type":"json_object"}}"#]],
    );
}

fn call(id: &str) -> ToolUse {
    ToolUse { id: CallId::new(id), name: "clock".into(), input: Json::empty_object() }
}

/// A question, an answer with this record that made calls, their results, and another question.
fn conversation(record: &str, thinking: &str, text: &str, ids: &[&str]) -> ModelRequest {
    let calls = ids.iter().map(|id| call(id)).collect();
    let answer = Content::answer(thinking.into(), Some(record.into()), text.into(), calls);
    let mut messages = vec![Message::user("Time?"), Message::Assistant { content: answer }];
    messages.extend(ids.iter().map(|id| Message::tool(CallId::new(*id), "12:00")));
    messages.push(Message::user("And now?"));
    ModelRequest { messages: messages.into(), ..ModelRequest::default() }
}

#[test]
fn responses_history() {
    let record = r#"responses:{"from":"p/gpt-5.6","pieces":[
        {"own":{"reasoning":{"id":"rs_1","summary":[],"encrypted_content":"A"}}},{"text":4},{"own":{"message":{"phase":"commentary"}}},
        {"own":{"reasoning":{"id":"rs_2","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"B"}}},"call","call",
        {"own":{"item":{"type":"web_search_call","id":"ws_1","status":"completed"}}},
        {"own":{"reasoning":{"id":"rs_1","summary":[],"encrypted_content":"A"}}},{"text":2},{"own":"gap"},{"text":5},
        {"own":{"message":{"phase":"final_answer"}}},{"own":{"reasoning":{"id":"rs_3","summary":[],"encrypted_content":"C"}}}]}"#;
    let long = "long/".repeat(20);
    let request = conversation(record, "Hm.", "One.\n\nDone.", &["call_1", &long]);
    check(
        &Responses,
        OPENAI,
        "gpt-5.6",
        &request,
        expect![[r#"
        include: ["reasoning.encrypted_content"]
        {"content":[{"text":"Time?","type":"input_text"}],"role":"user","type":"message"}
        {"encrypted_content":"A","id":"rs_1","summary":[],"type":"reasoning"}
        {"content":"One.","phase":"commentary","role":"assistant","type":"message"}
        {"encrypted_content":"B","id":"rs_2","summary":[{"text":"Hm.","type":"summary_text"}],"type":"reasoning"}
        {"arguments":"{}","call_id":"call_1","name":"clock","type":"function_call"}
        {"arguments":"{}","call_id":"call_Z5wS96sd2eAwzt8lg3g0zu44","name":"clock","type":"function_call"}
        {"id":"ws_1","status":"completed","type":"web_search_call"}
        {"content":"Done.","phase":"final_answer","role":"assistant","type":"message"}
        {"call_id":"call_1","output":"12:00","type":"function_call_output"}
        {"call_id":"call_Z5wS96sd2eAwzt8lg3g0zu44","output":"12:00","type":"function_call_output"}
        {"content":[{"text":"And now?","type":"input_text"}],"role":"user","type":"message"}
        reasoning: {"summary":"auto"}"#]],
    );
    // Another model, a changed text, and a provider that refused the proofs get text and calls alone.
    let plain = written(&Responses, OPENAI, "gpt-5.5", &request, false);
    check(
        &Responses,
        OPENAI,
        "gpt-5.5",
        &request,
        expect![[r#"
        include: ["reasoning.encrypted_content"]
        {"content":[{"text":"Time?","type":"input_text"}],"role":"user","type":"message"}
        {"content":"One.\n\nDone.","role":"assistant","type":"message"}
        {"arguments":"{}","call_id":"call_1","name":"clock","type":"function_call"}
        {"arguments":"{}","call_id":"call_Z5wS96sd2eAwzt8lg3g0zu44","name":"clock","type":"function_call"}
        {"call_id":"call_1","output":"12:00","type":"function_call_output"}
        {"call_id":"call_Z5wS96sd2eAwzt8lg3g0zu44","output":"12:00","type":"function_call_output"}
        {"content":[{"text":"And now?","type":"input_text"}],"role":"user","type":"message"}
        reasoning: {"summary":"auto"}"#]],
    );
    assert_eq!(written(&Responses, OPENAI, "gpt-5.6", &request, true), plain);
    let changed = conversation(record, "Hm.", "One.\n\nDone.!", &["call_1", &long]);
    assert!(!written(&Responses, OPENAI, "gpt-5.6", &changed, false).join("").contains("rs_1"));
}

/// A PDF file and a text from a user, then an image from a tool.
fn media() -> ModelRequest {
    let id = DocumentId::mint();
    let document = DocumentContent {
        name: "a.pdf".into(),
        media_type: "application/pdf".into(),
        text: "a.pdf: Hello.".into(),
        base64: Some("JVBE".into()),
    };
    let blocks = vec![Block::Document { id: id.clone(), name: "a.pdf".into() }, Block::Text("Read.".into())];
    let photo = vec![
        Block::Text("A photo.".into()),
        Block::Image { url: "data:image/png;base64,iVBO".into() },
        Block::Image { url: "data:image/svg+xml,<svg/>".into() },
    ];
    let messages = [
        Message::User { content: Content::Blocks(blocks) },
        Message::Assistant { content: Content::answer(String::new(), None, String::new(), vec![call("call_1")]) },
        Message::Tool { call_id: CallId::new("call_1"), content: Content::Blocks(photo), is_error: false },
    ];
    let documents = Arc::new(HashMap::from([(id, document)]));
    ModelRequest { messages: messages.into(), documents, ..ModelRequest::default() }
}

#[test]
fn documents_and_images() {
    check(
        &Responses,
        OPENAI,
        "gpt-4.1",
        &media(),
        expect![[r#"
        {"content":[{"file_data":"data:application/pdf;base64,JVBE","filename":"a.pdf","type":"input_file"},{"text":"Read.","type":"input_text"}],"role":"user","type":"message"}
        {"arguments":"{}","call_id":"call_1","name":"clock","type":"function_call"}
        {"call_id":"call_1","output":[{"text":"A photo.","type":"input_text"},{"detail":"auto","image_url":"data:image/png;base64,iVBO","type":"input_image"},{"text":"[An image was left out here: its data URL is not base64.]","type":"input_text"}],"type":"function_call_output"}"#]],
    );
    check(
        &Chat,
        OPENAI,
        "gpt-4.1",
        &media(),
        expect![[r#"
        {"content":[{"file":{"file_data":"data:application/pdf;base64,JVBE","filename":"a.pdf"},"type":"file"},{"text":"Read.","type":"text"}],"role":"user"}
        {"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"}]}
        {"content":"A photo.","role":"tool","tool_call_id":"call_1"}
        {"content":[{"text":"The images of the tool results above:","type":"text"},{"image_url":{"url":"data:image/png;base64,iVBO"},"type":"image_url"},{"text":"[An image was left out here: its data URL is not base64.]","type":"text"}],"role":"user"}"#]],
    );
    check(
        &Chat,
        "api.mistral.ai",
        "mistral-large-latest",
        &media(),
        expect![[r#"
        {"content":"a.pdf: Hello.\n\nRead.","role":"user"}
        {"content":"","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"DVQBKJeG6","type":"function"}]}
        {"content":"A photo.","role":"tool","tool_call_id":"DVQBKJeG6"}
        {"content":"I have read the results.","role":"assistant"}
        {"content":[{"text":"The images of the tool results above:","type":"text"},{"image_url":{"url":"data:image/png;base64,iVBO"},"type":"image_url"},{"text":"[An image was left out here: its data URL is not base64.]","type":"text"}],"role":"user"}"#]],
    );
}

#[test]
fn chat_thinking_options_by_server() {
    let models = [
        ("api.deepseek.com", "deepseek-flash"),
        ("api.moonshot.ai", "kimi-k3"),
        ("api.moonshot.ai", "kimi-k2.6"),
        ("openrouter.ai", "anthropic/claude-sonnet-5"),
        ("api.mistral.ai", "mistral-medium-latest"),
        ("api.mistral.ai", "mistral-large-latest"),
        ("api.groq.com", "openai/gpt-oss-120b"),
        ("api.groq.com", "qwen/qwen3-32b"),
        ("api.x.ai", "grok-4.6"),
        ("api.x.ai", "grok-4"),
        ("api.cerebras.ai", "gpt-oss-120b"),
        ("dashscope-intl.aliyuncs.com", "qwen3-max"),
        ("api.z.ai", "glm-5.3"),
        ("api.z.ai", "glm-4.6"),
        ("api.minimax.io", "MiniMax-M2"),
        ("generativelanguage.googleapis.com", "gemini-3-pro"),
        ("127.0.0.1", "qwen3"),
    ];
    let off = ModelOptions { thinking: Some(Thinking::Off), ..ModelOptions::default() };
    check_options(
        &Chat,
        &models,
        &hello(off),
        expect![[r###"
        ## deepseek-flash
        thinking: {"type":"disabled"}
        ## kimi-k3
        reasoning_effort: "low"
        notice: thinking cannot be turned off: kimi-k3 thinks at least at effort low
        ## kimi-k2.6
        thinking: {"type":"disabled"}
        ## anthropic/claude-sonnet-5
        reasoning: {"effort":"none"}
        ## mistral-medium-latest
        reasoning_effort: "none"
        ## mistral-large-latest
        notice: thinking is not turned off: mistral-large-latest has no such option
        ## openai/gpt-oss-120b
        reasoning_effort: "low"
        notice: thinking cannot be turned off: openai/gpt-oss-120b thinks at least at effort low
        ## qwen/qwen3-32b
        reasoning_effort: "none"
        reasoning_format: "parsed"
        ## grok-4.6
        reasoning_effort: "low"
        notice: thinking cannot be turned off: grok-4.6 thinks at least at effort low
        ## grok-4
        notice: thinking is not turned off: grok-4 has no such option
        ## gpt-oss-120b
        reasoning_effort: "low"
        notice: thinking cannot be turned off: gpt-oss-120b thinks at least at effort low
        ## qwen3-max
        enable_thinking: false
        ## glm-5.3
        thinking: {"clear_thinking":false,"type":"enabled"}
        notice: thinking cannot be turned off: glm-5.3 always thinks
        ## glm-4.6
        thinking: {"type":"disabled"}
        ## MiniMax-M2
        notice: thinking cannot be turned off: MiniMax-M2 always thinks
        ## gemini-3-pro
        reasoning_effort: "low"
        notice: thinking cannot be turned off: gemini-3-pro thinks at least at effort low
        ## qwen3
        chat_template_kwargs: {"enable_thinking":false,"thinking":false}
    "###]],
    );
    let medium = ModelOptions { effort: Some(Effort::Medium), thinking: Some(Thinking::On), ..ModelOptions::default() };
    check_options(
        &Chat,
        &models,
        &hello(medium),
        expect![[r###"
        ## deepseek-flash
        reasoning_effort: "high"
        thinking: {"type":"enabled"}
        notice: effort is high: deepseek-flash has no effort medium
        ## kimi-k3
        reasoning_effort: "high"
        notice: effort is high: kimi-k3 has no effort medium
        ## kimi-k2.6
        thinking: {"type":"enabled"}
        notice: effort is not sent: kimi-k2.6 takes none
        ## anthropic/claude-sonnet-5
        reasoning: {"effort":"medium"}
        ## mistral-medium-latest
        reasoning_effort: "high"
        notice: effort is high: mistral-medium-latest has no effort medium
        ## mistral-large-latest
        notice: effort is not sent: mistral-large-latest takes none
        ## openai/gpt-oss-120b
        reasoning_effort: "medium"
        ## qwen/qwen3-32b
        reasoning_effort: "default"
        reasoning_format: "parsed"
        notice: effort is not sent: qwen/qwen3-32b takes none
        ## grok-4.6
        reasoning_effort: "medium"
        ## grok-4
        notice: effort is not sent: grok-4 takes none
        ## gpt-oss-120b
        reasoning_effort: "medium"
        ## qwen3-max
        enable_thinking: true
        notice: effort is not sent: qwen3-max takes none
        ## glm-5.3
        reasoning_effort: "high"
        thinking: {"clear_thinking":false,"type":"enabled"}
        notice: effort is high: glm-5.3 has no effort medium
        ## glm-4.6
        thinking: {"type":"enabled"}
        notice: effort is not sent: glm-4.6 takes none
        ## MiniMax-M2
        notice: effort is not sent: MiniMax-M2 takes none
        ## gemini-3-pro
        reasoning_effort: "medium"
        ## qwen3
        chat_template_kwargs: {"enable_thinking":true,"thinking":true}
        reasoning_effort: "medium"
    "###]],
    );
}

#[test]
fn chat_options_by_server() {
    let options = ModelOptions {
        max_output_tokens: Some(500),
        temperature: Some(0),
        top_p: Some(900),
        frequency_penalty: Some(-500),
        seed: Some(7),
        stop: vec!["END".into()],
        tool_choice: Some(ToolChoice::Required),
        parallel_tool_calls: Some(false),
        output: Some(OutputFormat::JsonSchema {
            name: "time".into(),
            description: Some("A time.".into()),
            schema: Json::parse(r#"{"type":"object"}"#).unwrap(),
            strict: true,
        }),
        ..ModelOptions::default()
    };
    let request = ModelRequest { cache_key: Some("session".into()), ..with_tool(hello(options)) };
    let models = [
        ("127.0.0.1", "qwen3"),
        ("api.deepseek.com", "deepseek-flash"),
        ("api.moonshot.ai", "kimi-k2.6"),
        ("api.mistral.ai", "mistral-large-latest"),
        ("api.groq.com", "openai/gpt-oss-120b"),
        ("api.cerebras.ai", "gpt-oss-120b"),
        ("api.minimax.io", "MiniMax-M2"),
        ("api.x.ai", "grok-4.6"),
    ];
    check_options(
        &Chat,
        &models,
        &request,
        expect![[r###"
            ## qwen3
            frequency_penalty: -0.5
            max_tokens: 500
            parallel_tool_calls: false
            response_format: {"json_schema":{"description":"A time.","name":"time","schema":{"type":"object"},"strict":true},"type":"json_schema"}
            seed: 7
            stop: ["END"]
            temperature: 0.0
            tool_choice: "required"
            tools: 1
            top_p: 0.9
            ## deepseek-flash
            frequency_penalty: -0.5
            max_tokens: 500
            parallel_tool_calls: false
            response_format: {"type":"json_object"}
            seed: 7
            stop: ["END"]
            tools: 1
            notice: no tool call is forced: deepseek-flash refuses that while it thinks
            notice: the answer's schema is asked for in words: deepseek-flash cannot be held to it
            notice: temperature is not sent: deepseek-flash does not take it
            notice: top_p is not sent: deepseek-flash does not take it
            ## kimi-k2.6
            max_completion_tokens: 500
            parallel_tool_calls: false
            response_format: {"json_schema":{"description":"A time.","name":"time","schema":{"type":"object"},"strict":true},"type":"json_schema"}
            seed: 7
            stop: ["END"]
            tools: 1
            notice: no tool call is forced: kimi-k2.6 refuses that while it thinks
            notice: frequency_penalty is not sent: kimi-k2.6 does not take it
            notice: temperature is not sent: kimi-k2.6 does not take it
            notice: top_p is not sent: kimi-k2.6 does not take it
            ## mistral-large-latest
            frequency_penalty: -0.5
            max_tokens: 500
            parallel_tool_calls: false
            prompt_cache_key: "session"
            random_seed: 7
            response_format: {"json_schema":{"description":"A time.","name":"time","schema":{"type":"object"},"strict":true},"type":"json_schema"}
            stop: ["END"]
            temperature: 0.0
            tool_choice: "required"
            tools: 1
            top_p: 0.9
            ## openai/gpt-oss-120b
            frequency_penalty: -0.5
            max_completion_tokens: 500
            parallel_tool_calls: false
            seed: 7
            stop: ["END"]
            temperature: 0.0
            tool_choice: "required"
            tools: 1
            top_p: 0.9
            notice: the answer's schema is asked for in words: openai/gpt-oss-120b cannot be held to it
            ## gpt-oss-120b
            max_completion_tokens: 500
            prompt_cache_key: "session"
            seed: 7
            stop: ["END"]
            temperature: 0.0
            tool_choice: "required"
            tools: 1
            top_p: 0.9
            notice: the answer's schema is asked for in words: gpt-oss-120b cannot be held to it
            notice: frequency_penalty is not sent: gpt-oss-120b does not take it
            notice: parallel_tool_calls is not sent: gpt-oss-120b does not take it
            ## MiniMax-M2
            frequency_penalty: -0.5
            max_completion_tokens: 500
            seed: 7
            stop: ["END"]
            temperature: 0.01
            tools: 1
            top_p: 0.9
            notice: no tool call is forced: MiniMax-M2 refuses that while it thinks
            notice: the answer's schema is asked for in words: MiniMax-M2 cannot be held to it
            notice: parallel_tool_calls is not sent: MiniMax-M2 does not take it
            ## grok-4.6
            max_completion_tokens: 500
            parallel_tool_calls: false
            prompt_cache_key: "session"
            response_format: {"json_schema":{"description":"A time.","name":"time","schema":{"type":"object"},"strict":true},"type":"json_schema"}
            seed: 7
            temperature: 0.0
            tool_choice: "required"
            tools: 1
            top_p: 0.9
            notice: frequency_penalty is not sent: grok-4.6 does not take it
            notice: stop is not sent: grok-4.6 does not take it
        "###]],
    );
    // The schema, and the word that some servers want, become instructions.
    check(
        &Chat,
        "api.deepseek.com",
        "deepseek-flash",
        &request,
        expect![[r#"
            frequency_penalty: -0.5
            max_tokens: 500
            {"content":"Answer with JSON that fits this schema, and with nothing else:\n{\"type\":\"object\"}","role":"system"}
            {"content":"hello","role":"user"}
            parallel_tool_calls: false
            response_format: {"type":"json_object"}
            seed: 7
            stop: ["END"]
            tools: 1
            notice: no tool call is forced: deepseek-flash refuses that while it thinks
            notice: the answer's schema is asked for in words: deepseek-flash cannot be held to it
            notice: temperature is not sent: deepseek-flash does not take it
            notice: top_p is not sent: deepseek-flash does not take it"#]],
    );
    let json = ModelOptions { output: Some(OutputFormat::JsonObject), ..ModelOptions::default() };
    check(
        &Chat,
        "127.0.0.1",
        "qwen3",
        &ModelRequest { system: "Be brief.".into(), ..hello(json) },
        expect![[r#"
        {"content":"Be brief.\n\nAnswer with a JSON object, and with nothing else.","role":"system"}
        {"content":"hello","role":"user"}
        response_format: {"type":"json_object"}"#]],
    );
}

#[test]
fn chat_tools_of_openai_models() {
    let models = [
        (OPENAI, "gpt-6-astra"),
        (OPENAI, "gpt-5.6"),
        (OPENAI, "gpt-5.4"),
        (OPENAI, "gpt-5"),
        ("res.openai.azure.com", "my-deployment"),
        ("openrouter.ai", "openai/gpt-5.6"),
    ];
    let options = ModelOptions { effort: Some(Effort::Max), temperature: Some(500), ..ModelOptions::default() };
    check_options(
        &Chat,
        &models,
        &with_tool(hello(options.clone())),
        expect![[r###"
            ## gpt-6-astra
            reasoning_effort: "xhigh"
            notice: tools are left out: gpt-6-astra takes none on chat completions; set wire = "responses"
            notice: effort is xhigh: gpt-6-astra has no effort max on chat completions
            notice: temperature is not sent: gpt-6-astra does not take it
            ## gpt-5.6
            reasoning_effort: "none"
            temperature: 0.5
            tools: 1
            notice: effort is none: gpt-5.6 takes no tools while it thinks on chat completions; set wire = "responses"
            ## gpt-5.4
            temperature: 0.5
            tools: 1
            notice: effort is none: gpt-5.4 takes no tools while it thinks on chat completions; set wire = "responses"
            ## gpt-5
            reasoning_effort: "high"
            tools: 1
            notice: effort is high: gpt-5 has no effort max
            notice: temperature is not sent: gpt-5 does not take it
            ## my-deployment
            reasoning_effort: "xhigh"
            temperature: 0.5
            tools: 1
            notice: effort is xhigh: my-deployment has no effort max on chat completions
            ## openai/gpt-5.6
            reasoning: {"effort":"xhigh"}
            temperature: 0.5
            tools: 1
            notice: effort is xhigh: openai/gpt-5.6 has no effort max
        "###]],
    );
    check_options(
        &Chat,
        &models[..2],
        &hello(options),
        expect![[r###"
            ## gpt-6-astra
            reasoning_effort: "xhigh"
            notice: effort is xhigh: gpt-6-astra has no effort max on chat completions
            notice: temperature is not sent: gpt-6-astra does not take it
            ## gpt-5.6
            reasoning_effort: "xhigh"
            notice: effort is xhigh: gpt-5.6 has no effort max on chat completions
            notice: temperature is not sent: gpt-5.6 does not take it
        "###]],
    );
}

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

/// The next request of a conversation begins with all that the one before said.
#[test]
fn requests_only_grow() {
    let record = r#"responses:{"from":"p/gpt-5.6","pieces":[{"own":{"reasoning":{"id":"rs_1","summary":[],"encrypted_content":"A"}}},{"text":6},"call"]}"#;
    let whole = conversation(record, "Hm.", "A sec.", &["seed:1"]);
    let wires: [(&dyn Wire, &str, &str); 3] = [
        (&Responses, OPENAI, "gpt-5.6"),
        (&Chat, "api.mistral.ai", "mistral-large-latest"),
        (&Chat, "api.deepseek.com", "deepseek-flash"),
    ];
    for (wire, host, model) in wires {
        let items = |request: &ModelRequest| {
            let lines = written(wire, host, model, request, false);
            lines.into_iter().filter(|line| line.starts_with('{')).collect::<Vec<_>>()
        };
        let all = items(&whole);
        for length in 1..whole.messages.len() {
            let part = items(&ModelRequest { messages: whole.messages[..length].into(), ..whole.clone() });
            assert!(all.starts_with(&part), "{model} with {length} messages: {part:?}");
        }
    }
}
