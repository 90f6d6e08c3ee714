//! Gemini's rules, request by request: what is sent, and what is said of the things that are not.

use std::{collections::BTreeMap, sync::Arc};

use everturn_core::{
    Block, CallId, Content, DocumentId, Effort, Json, Message, ModelOptions, OutputFormat, Thinking, ToolChoice,
    ToolSpec, ToolUse,
};
use everturn_models::{DocumentContent, ModelRequest, Provider, ProviderConfig, ProviderKind};
use expect_test::{Expect, expect};
use serde_json::value::RawValue;

use super::{scripted::scripted, transcript::answer};

const OK: &str = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"ok\"}]},\"finishReason\":\"STOP\"}]}\n\n";

fn config() -> ProviderConfig {
    ProviderConfig { api_key: Some("key".into()), ..ProviderConfig::new(ProviderKind::Gemini) }
}

/// The body that a request becomes, and the notices.
async fn exchange(model: &str, config: ProviderConfig, request: ModelRequest) -> (String, Vec<String>) {
    let server = scripted(vec![("streamGenerateContent", "200 OK", OK.to_owned())]).await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..config };
    let model = Provider::new("gemini", config).unwrap().model(model);
    let answer = answer(&*model, request).await;
    assert!(answer.contains("text: ok"), "{answer}");
    let notices = answer.lines().filter_map(|line| line.strip_prefix("notice: "));
    (server.last_body(), notices.flat_map(|line| line.split('|')).map(str::to_owned).collect())
}

fn tool(name: &str, schema: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        title: None,
        description: "A tool.".into(),
        input_schema: Json::parse(schema).unwrap(),
    }
}

/// Everything that options become, a line for each model, with the notices.
pub(super) async fn check_options(models: &[&str], options: ModelOptions, tools: Vec<ToolSpec>, expect: Expect) {
    let mut lines = Vec::new();
    for model in models {
        let request = ModelRequest {
            messages: [Message::user("hello")].into(),
            tools: tools.clone().into(),
            options: options.clone(),
            ..ModelRequest::default()
        };
        let (body, notices) = exchange(model, config(), request).await;
        let mut fields: BTreeMap<&str, &RawValue> = serde_json::from_str(&body).unwrap();
        fields.remove("contents");
        lines.push(format!("## {model}"));
        lines.extend(fields.iter().map(|(name, value)| format!("{name}: {value}")));
        lines.extend(notices.iter().map(|notice| format!("- {notice}")));
    }
    expect.assert_eq(&lines.join("\n"));
}

const GENERATIONS: [&str; 4] = ["gemini-2.5-flash", "gemini-3.5-flash", "gemini-4-argon", "gemma-3-27b-it"];

#[tokio::test]
async fn thinking_has_a_level_or_a_budget() {
    let models = [
        "gemini-4-argon",
        "gemini-3.5-flash-lite",
        "gemini-3-pro-preview",
        "gemini-2.5-pro",
        "gemini-2.5-flash",
        "gemini-2.5-flash-lite",
        "gemini-3-pro-image",
        "gemini-2.0-flash",
    ];
    let options = |effort, thinking| ModelOptions { effort, thinking, ..ModelOptions::default() };
    check_options(
        &models,
        options(None, None),
        vec![],
        expect![[r###"
            ## gemini-4-argon
            generationConfig: {"thinkingConfig":{"includeThoughts":true}}
            ## gemini-3.5-flash-lite
            generationConfig: {"thinkingConfig":{"includeThoughts":true}}
            ## gemini-3-pro-preview
            generationConfig: {"thinkingConfig":{"includeThoughts":true}}
            ## gemini-2.5-pro
            generationConfig: {"thinkingConfig":{"includeThoughts":true}}
            ## gemini-2.5-flash
            generationConfig: {"thinkingConfig":{"includeThoughts":true}}
            ## gemini-2.5-flash-lite
            ## gemini-3-pro-image
            ## gemini-2.0-flash"###]],
    )
    .await;
    check_options(
        &models,
        options(None, Some(Thinking::Off)),
        vec![],
        expect![[r###"
        ## gemini-4-argon
        generationConfig: {"thinkingConfig":{"thinkingLevel":"LOW"}}
        - thinking cannot be off: gemini-4-argon is asked for its lowest effort, low
        ## gemini-3.5-flash-lite
        generationConfig: {"thinkingConfig":{"thinkingLevel":"MINIMAL"}}
        - thinking cannot be off: gemini-3.5-flash-lite is asked for its lowest effort, minimal
        ## gemini-3-pro-preview
        generationConfig: {"thinkingConfig":{"thinkingLevel":"LOW"}}
        - thinking cannot be off: gemini-3-pro-preview is asked for its lowest effort, low
        ## gemini-2.5-pro
        generationConfig: {"thinkingConfig":{"thinkingBudget":128}}
        - thinking cannot be off: gemini-2.5-pro thinks with at least 128 tokens
        ## gemini-2.5-flash
        generationConfig: {"thinkingConfig":{"thinkingBudget":0}}
        ## gemini-2.5-flash-lite
        generationConfig: {"thinkingConfig":{"thinkingBudget":0}}
        ## gemini-3-pro-image
        ## gemini-2.0-flash"###]],
    )
    .await;
    check_options(
        &models,
        options(None, Some(Thinking::On)),
        vec![],
        expect![[r###"
        ## gemini-4-argon
        ## gemini-3.5-flash-lite
        generationConfig: {"thinkingConfig":{"thinkingLevel":"MEDIUM"}}
        ## gemini-3-pro-preview
        ## gemini-2.5-pro
        ## gemini-2.5-flash
        ## gemini-2.5-flash-lite
        generationConfig: {"thinkingConfig":{"thinkingBudget":-1}}
        ## gemini-3-pro-image
        - thinking is not sent: gemini-3-pro-image cannot be told to think
        ## gemini-2.0-flash
        - thinking is not sent: gemini-2.0-flash cannot be told to think"###]],
    )
    .await;
    check_options(
        &models,
        options(Some(Effort::Minimal), Some(Thinking::Summary)),
        vec![],
        expect![[r###"
        ## gemini-4-argon
        generationConfig: {"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"LOW"}}
        - effort is low instead of minimal, which gemini-4-argon does not have
        ## gemini-3.5-flash-lite
        generationConfig: {"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"MINIMAL"}}
        ## gemini-3-pro-preview
        generationConfig: {"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"LOW"}}
        - effort is low instead of minimal, which gemini-3-pro-preview does not have
        ## gemini-2.5-pro
        generationConfig: {"thinkingConfig":{"includeThoughts":true,"thinkingBudget":128}}
        ## gemini-2.5-flash
        generationConfig: {"thinkingConfig":{"includeThoughts":true,"thinkingBudget":128}}
        ## gemini-2.5-flash-lite
        generationConfig: {"thinkingConfig":{"includeThoughts":true,"thinkingBudget":512}}
        ## gemini-3-pro-image
        - effort is not sent: gemini-3-pro-image takes none
        - thinking is not sent: gemini-3-pro-image cannot be told to think
        ## gemini-2.0-flash
        - effort is not sent: gemini-2.0-flash takes none
        - thinking is not sent: gemini-2.0-flash cannot be told to think"###]],
    )
    .await;
    check_options(
        &models,
        options(Some(Effort::Medium), None),
        vec![],
        expect![[r###"
        ## gemini-4-argon
        generationConfig: {"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"MEDIUM"}}
        ## gemini-3.5-flash-lite
        generationConfig: {"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"MEDIUM"}}
        ## gemini-3-pro-preview
        generationConfig: {"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"LOW"}}
        - effort is low instead of medium, which gemini-3-pro-preview does not have
        ## gemini-2.5-pro
        generationConfig: {"thinkingConfig":{"includeThoughts":true,"thinkingBudget":8192}}
        ## gemini-2.5-flash
        generationConfig: {"thinkingConfig":{"includeThoughts":true,"thinkingBudget":8192}}
        ## gemini-2.5-flash-lite
        generationConfig: {"thinkingConfig":{"includeThoughts":true,"thinkingBudget":8192}}
        ## gemini-3-pro-image
        - effort is not sent: gemini-3-pro-image takes none
        ## gemini-2.0-flash
        - effort is not sent: gemini-2.0-flash takes none"###]],
    )
    .await;
    check_options(
        &models,
        options(Some(Effort::Max), Some(Thinking::On)),
        vec![],
        expect![[r###"
        ## gemini-4-argon
        generationConfig: {"thinkingConfig":{"thinkingLevel":"HIGH"}}
        - effort is high instead of max, which gemini-4-argon does not have
        ## gemini-3.5-flash-lite
        generationConfig: {"thinkingConfig":{"thinkingLevel":"HIGH"}}
        - effort is high instead of max, which gemini-3.5-flash-lite does not have
        ## gemini-3-pro-preview
        generationConfig: {"thinkingConfig":{"thinkingLevel":"HIGH"}}
        - effort is high instead of max, which gemini-3-pro-preview does not have
        ## gemini-2.5-pro
        generationConfig: {"thinkingConfig":{"thinkingBudget":32768}}
        ## gemini-2.5-flash
        generationConfig: {"thinkingConfig":{"thinkingBudget":24576}}
        ## gemini-2.5-flash-lite
        generationConfig: {"thinkingConfig":{"thinkingBudget":24576}}
        ## gemini-3-pro-image
        - effort is not sent: gemini-3-pro-image takes none
        - thinking is not sent: gemini-3-pro-image cannot be told to think
        ## gemini-2.0-flash
        - effort is not sent: gemini-2.0-flash takes none
        - thinking is not sent: gemini-2.0-flash cannot be told to think"###]],
    )
    .await;
    check_options(
        &models[..1],
        options(Some(Effort::High), Some(Thinking::Off)),
        vec![],
        expect![[r###"
        ## gemini-4-argon
        generationConfig: {"thinkingConfig":{"thinkingLevel":"LOW"}}
        - effort is not sent: thinking is off
        - thinking cannot be off: gemini-4-argon is asked for its lowest effort, low"###]],
    )
    .await;
}

#[tokio::test]
async fn a_configured_budget_counts_where_models_take_one() {
    let mut lines = Vec::new();
    for model in ["gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-4-argon"] {
        for budget in [0, 100, 1_000_000] {
            let config = ProviderConfig { thinking_budget: Some(budget), ..config() };
            let request = ModelRequest { messages: [Message::user("hello")].into(), ..ModelRequest::default() };
            let (body, notices) = exchange(model, config, request).await;
            let (_, thinking) = body.split_once("\"generationConfig\":").unwrap();
            lines.push(format!("{model} {budget}: {thinking} {notices:?}"));
        }
    }
    expect![[r#"
        gemini-2.5-pro 0: {"thinkingConfig":{"includeThoughts":true,"thinkingBudget":128}}} []
        gemini-2.5-pro 100: {"thinkingConfig":{"includeThoughts":true,"thinkingBudget":128}}} []
        gemini-2.5-pro 1000000: {"thinkingConfig":{"includeThoughts":true,"thinkingBudget":32768}}} []
        gemini-2.5-flash 0: {"thinkingConfig":{"thinkingBudget":0}}} []
        gemini-2.5-flash 100: {"thinkingConfig":{"includeThoughts":true,"thinkingBudget":128}}} []
        gemini-2.5-flash 1000000: {"thinkingConfig":{"includeThoughts":true,"thinkingBudget":24576}}} []
        gemini-2.5-flash-lite 0: {"thinkingConfig":{"thinkingBudget":0}}} []
        gemini-2.5-flash-lite 100: {"thinkingConfig":{"includeThoughts":true,"thinkingBudget":512}}} []
        gemini-2.5-flash-lite 1000000: {"thinkingConfig":{"includeThoughts":true,"thinkingBudget":24576}}} []
        gemini-4-argon 0: {"thinkingConfig":{"includeThoughts":true}}} []
        gemini-4-argon 100: {"thinkingConfig":{"includeThoughts":true}}} []
        gemini-4-argon 1000000: {"thinkingConfig":{"includeThoughts":true}}} []"#]]
    .assert_eq(&lines.join("\n"));
}

#[tokio::test]
async fn sampling_is_sent_where_it_counts() {
    let options = ModelOptions {
        temperature: Some(700),
        top_p: Some(900),
        frequency_penalty: Some(500),
        presence_penalty: Some(0),
        seed: Some(7),
        stop: ["a", "b", "", "c", "d", "e", "f"].map(str::to_owned).into(),
        max_output_tokens: Some(100_000),
        thinking: Some(Thinking::On),
        ..ModelOptions::default()
    };
    check_options(&GENERATIONS, options, vec![], expect![[r###"
        ## gemini-2.5-flash
        generationConfig: {"temperature":0.7,"topP":0.9,"seed":7,"stopSequences":["a","b","c","d","e"],"maxOutputTokens":65536}
        - frequency_penalty is not sent: Gemini models take none
        - the answer has at most 65536 tokens, not 100000: gemini-2.5-flash writes no more
        ## gemini-3.5-flash
        generationConfig: {"temperature":0.7,"topP":0.9,"seed":7,"stopSequences":["a","b","c","d","e"],"maxOutputTokens":65536}
        - frequency_penalty is not sent: Gemini models take none
        - the answer has at most 65536 tokens, not 100000: gemini-3.5-flash writes no more
        ## gemini-4-argon
        generationConfig: {"seed":7,"stopSequences":["a","b","c","d","e"],"maxOutputTokens":65536}
        - temperature is not sent: gemini-4-argon takes none
        - top_p is not sent: gemini-4-argon takes none
        - frequency_penalty is not sent: Gemini models take none
        - the answer has at most 65536 tokens, not 100000: gemini-4-argon writes no more
        ## gemma-3-27b-it
        generationConfig: {"temperature":0.7,"topP":0.9,"seed":7,"stopSequences":["a","b","c","d","e"],"maxOutputTokens":100000}
        - thinking is not sent: gemma-3-27b-it cannot be told to think
        - frequency_penalty is not sent: Gemini models take none"###]]).await;
    let options = ModelOptions { seed: Some(1 << 40), thinking: Some(Thinking::On), ..ModelOptions::default() };
    check_options(
        &GENERATIONS[..1],
        options,
        vec![],
        expect![[r#"
        ## gemini-2.5-flash
        - seed is not sent: Gemini takes numbers of 32 bits, and 1099511627776 has more"#]],
    )
    .await;
}

#[tokio::test]
async fn tools_and_forced_calls() {
    let tools = || {
        vec![
            tool("clock", r#"{"type":"object","properties":{}}"#),
            tool("files.read:v2", r#"{"type":"object","properties":{"path":{"type":"string"}}}"#),
            tool("2fast", "{}"),
        ]
    };
    let options = |tool_choice| ModelOptions {
        tool_choice,
        parallel_tool_calls: Some(false),
        thinking: Some(Thinking::On),
        ..ModelOptions::default()
    };
    let one = &GENERATIONS[2..3];
    check_options(one, options(None), tools(), expect![[r###"
        ## gemini-4-argon
        tools: [{"functionDeclarations":[{"name":"clock","description":"A tool."},{"name":"files.read:v2","description":"A tool.","parametersJsonSchema":{"type":"object","properties":{"path":{"type":"string"}}}}]}]
        - the tool 2fast is left out: Gemini takes names of at most 128 characters, a letter or underscore, then letters, digits and _.:-"###]]).await;
    check_options(one, options(Some(ToolChoice::Auto)), tools(), expect![[r###"
        ## gemini-4-argon
        toolConfig: {"functionCallingConfig":{"mode":"AUTO"}}
        tools: [{"functionDeclarations":[{"name":"clock","description":"A tool."},{"name":"files.read:v2","description":"A tool.","parametersJsonSchema":{"type":"object","properties":{"path":{"type":"string"}}}}]}]
        - the tool 2fast is left out: Gemini takes names of at most 128 characters, a letter or underscore, then letters, digits and _.:-"###]]).await;
    check_options(one, options(Some(ToolChoice::None)), tools(), expect![[r###"
        ## gemini-4-argon
        toolConfig: {"functionCallingConfig":{"mode":"NONE"}}
        tools: [{"functionDeclarations":[{"name":"clock","description":"A tool."},{"name":"files.read:v2","description":"A tool.","parametersJsonSchema":{"type":"object","properties":{"path":{"type":"string"}}}}]}]
        - the tool 2fast is left out: Gemini takes names of at most 128 characters, a letter or underscore, then letters, digits and _.:-"###]]).await;
    check_options(one, options(Some(ToolChoice::Required)), tools(), expect![[r###"
        ## gemini-4-argon
        toolConfig: {"functionCallingConfig":{"mode":"ANY"}}
        tools: [{"functionDeclarations":[{"name":"clock","description":"A tool."},{"name":"files.read:v2","description":"A tool.","parametersJsonSchema":{"type":"object","properties":{"path":{"type":"string"}}}}]}]
        - the tool 2fast is left out: Gemini takes names of at most 128 characters, a letter or underscore, then letters, digits and _.:-"###]]).await;
    check_options(one, options(Some(ToolChoice::Named("clock".into()))), tools(), expect![[r###"
        ## gemini-4-argon
        toolConfig: {"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["clock"]}}
        tools: [{"functionDeclarations":[{"name":"clock","description":"A tool."},{"name":"files.read:v2","description":"A tool.","parametersJsonSchema":{"type":"object","properties":{"path":{"type":"string"}}}}]}]
        - the tool 2fast is left out: Gemini takes names of at most 128 characters, a letter or underscore, then letters, digits and _.:-"###]]).await;
    // A forced call of a tool that cannot be declared is an error.
    let refused = ModelRequest {
        messages: [Message::user("hello")].into(),
        tools: tools().into(),
        options: options(Some(ToolChoice::Named("2fast".into()))),
        ..ModelRequest::default()
    };
    let provider = Provider::new("gemini", config()).unwrap();
    let shown = answer(&*provider.model(one[0]), refused).await;
    let expected =
        "Rejected: a call of the tool 2fast was asked for, which gemini/gemini-4-argon cannot be given: Gemini takes";
    assert!(shown.starts_with(expected), "{shown}");
    check_options(
        one,
        options(Some(ToolChoice::Required)),
        vec![],
        expect![[r#"
        ## gemini-4-argon
        - tool_choice is not sent: there are no tools"#]],
    )
    .await;
    check_options(one, options(Some(ToolChoice::None)), vec![], expect!["## gemini-4-argon"]).await;
}

#[tokio::test]
async fn answers_have_a_shape() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let output = OutputFormat::JsonSchema {
        name: "number".into(),
        description: None,
        schema: Json::parse(schema).unwrap(),
        strict: true,
    };
    let options =
        |output| ModelOptions { output: Some(output), thinking: Some(Thinking::On), ..ModelOptions::default() };
    let clock = || vec![tool("clock", "{}")];
    check_options(&GENERATIONS[..2], options(output.clone()), vec![], expect![[r###"
        ## gemini-2.5-flash
        generationConfig: {"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}
        ## gemini-3.5-flash
        generationConfig: {"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}"###]]).await;
    check_options(&GENERATIONS[..2], options(output), clock(), expect![[r###"
        ## gemini-2.5-flash
        systemInstruction: {"parts":[{"text":"When you give your final answer, answer with JSON that fits this schema and nothing else:\n{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}"}]}
        tools: [{"functionDeclarations":[{"name":"clock","description":"A tool."}]}]
        - the output format is asked for in words only: gemini-2.5-flash takes no output format together with tools
        ## gemini-3.5-flash
        generationConfig: {"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}
        tools: [{"functionDeclarations":[{"name":"clock","description":"A tool."}]}]"###]]).await;
    check_options(
        &GENERATIONS[..2],
        options(OutputFormat::JsonObject),
        vec![],
        expect![[r###"
        ## gemini-2.5-flash
        generationConfig: {"responseMimeType":"application/json"}
        ## gemini-3.5-flash
        generationConfig: {"responseMimeType":"application/json"}"###]],
    )
    .await;
    check_options(&GENERATIONS[..1], options(OutputFormat::JsonObject), clock(), expect![[r###"
        ## gemini-2.5-flash
        systemInstruction: {"parts":[{"text":"Answer with a single JSON object and nothing else."}]}
        tools: [{"functionDeclarations":[{"name":"clock","description":"A tool."}]}]
        - the output format is asked for in words only: gemini-2.5-flash takes no output format together with tools"###]]).await;
    let list = Json::parse(r#"{"type":"array","items":{"type":"string"}}"#).unwrap();
    let list = OutputFormat::JsonSchema { name: "list".into(), description: None, schema: list, strict: false };
    check_options(&GENERATIONS[2..3], options(list), vec![], expect![[r###"
        ## gemini-4-argon
        generationConfig: {"responseMimeType":"application/json","responseJsonSchema":{"type":"array","items":{"type":"string"}}}"###]]).await;
}

/// The contents of a request's body, one a line.
async fn check_contents(model: &str, config: ProviderConfig, request: ModelRequest, expect: Expect) {
    let (body, _) = exchange(model, config, request).await;
    let mut fields: BTreeMap<&str, &RawValue> = serde_json::from_str(&body).unwrap();
    let contents: Vec<&RawValue> = serde_json::from_str(fields.remove("contents").unwrap().get()).unwrap();
    expect.assert_eq(&contents.into_iter().map(RawValue::get).collect::<Vec<_>>().join("\n"));
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest { messages: messages.into(), ..ModelRequest::default() }
}

fn image(url: &str) -> Block {
    Block::Image { url: url.into() }
}

fn call(id: &str) -> ToolUse {
    ToolUse { id: CallId::new(id), name: "camera".into(), input: Json::empty_object() }
}

/// An answer as the wire remembers it: a text in two parts, then calls with the provider's ids.
fn remembered(from: &str) -> Message {
    let record = r#"gemini:{"from":"FROM","pieces":[{"own":{"next":{"signature":"TEXT"}}},{"text":3},{"own":{"next":{}}},{"text":3},{"own":{"next":{"signature":"CALL","id":"p1"}}},"call",{"own":{"next":{"id":"p2"}}},"call",{"own":{"empty":{"signature":"ENDS"}}}]}"#;
    let calls = vec![call("call_1"), call("call_2")];
    Message::Assistant {
        content: Content::answer("Hm.".into(), Some(record.replace("FROM", from)), "onetwo".into(), calls),
    }
}

fn step(from: &str) -> Vec<Message> {
    let images = vec![
        Block::Text("Photos.".into()),
        image("data:image/webp;base64,UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="),
        image("data:image/heic;base64,AAAAGGZ0eXBoZWljAAAAAG1pZjFoZWlj"),
        image("https://example.com/a.png"),
    ];
    vec![
        Message::user("Go."),
        remembered(from),
        Message::Tool { call_id: CallId::new("call_1"), content: Content::Blocks(images), is_error: false },
        Message::Tool { call_id: CallId::new("call_2"), content: Content::Text("no lens".into()), is_error: true },
    ]
}

#[tokio::test]
async fn a_step_goes_back_as_it_was() {
    let own = request(step("gemini/gemini-4-argon"));
    check_contents("gemini-4-argon", config(), own.clone(), expect![[r#"
        {"role":"user","parts":[{"text":"Go."}]}
        {"role":"model","parts":[{"text":"one","thoughtSignature":"TEXT"},{"text":"two"},{"functionCall":{"id":"p1","name":"camera","args":{}},"thoughtSignature":"CALL"},{"functionCall":{"id":"p2","name":"camera","args":{}}},{"text":"","thoughtSignature":"ENDS"}]}
        {"role":"user","parts":[{"functionResponse":{"id":"p1","name":"camera","response":{"output":"Photos."},"parts":[{"inlineData":{"mimeType":"image/webp","data":"UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="}}]}},{"functionResponse":{"id":"p2","name":"camera","response":{"error":"no lens"}}}]}
        {"role":"user","parts":[{"text":"The images of the tool results above:"},{"inlineData":{"mimeType":"image/heic","data":"AAAAGGZ0eXBoZWljAAAAAG1pZjFoZWlj"}},{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/a.png"}}]}"#]]).await;
    // Another model's answer, to a model that checks signatures and to one that does not.
    check_contents("gemini-3.8-flash", config(), own.clone(), expect![[r#"
        {"role":"user","parts":[{"text":"Go."}]}
        {"role":"model","parts":[{"text":"one"},{"text":"two"},{"functionCall":{"id":"p1","name":"camera","args":{}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"id":"p2","name":"camera","args":{}}}]}
        {"role":"user","parts":[{"functionResponse":{"id":"p1","name":"camera","response":{"output":"Photos."},"parts":[{"inlineData":{"mimeType":"image/webp","data":"UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="}}]}},{"functionResponse":{"id":"p2","name":"camera","response":{"error":"no lens"}}}]}
        {"role":"user","parts":[{"text":"The images of the tool results above:"},{"inlineData":{"mimeType":"image/heic","data":"AAAAGGZ0eXBoZWljAAAAAG1pZjFoZWlj"}},{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/a.png"}}]}"#]]).await;
    check_contents("gemini-2.5-flash", config(), own.clone(), expect![[r#"
        {"role":"user","parts":[{"text":"Go."}]}
        {"role":"model","parts":[{"text":"one"},{"text":"two"},{"functionCall":{"id":"p1","name":"camera","args":{}}},{"functionCall":{"id":"p2","name":"camera","args":{}}}]}
        {"role":"user","parts":[{"functionResponse":{"id":"p1","name":"camera","response":{"output":"Photos."}}},{"functionResponse":{"id":"p2","name":"camera","response":{"error":"no lens"}}}]}
        {"role":"user","parts":[{"text":"The images of the tool results above:"},{"inlineData":{"mimeType":"image/webp","data":"UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="}},{"inlineData":{"mimeType":"image/heic","data":"AAAAGGZ0eXBoZWljAAAAAG1pZjFoZWlj"}},{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/a.png"}}]}"#]]).await;
    // The user goes on after the results.
    let mut messages = step("gemini/gemini-4-argon");
    messages.push(Message::user("And?"));
    check_contents("gemini-4-argon", config(), request(messages), expect![[r#"
        {"role":"user","parts":[{"text":"Go."}]}
        {"role":"model","parts":[{"text":"one","thoughtSignature":"TEXT"},{"text":"two"},{"functionCall":{"id":"p1","name":"camera","args":{}},"thoughtSignature":"CALL"},{"functionCall":{"id":"p2","name":"camera","args":{}}},{"text":"","thoughtSignature":"ENDS"}]}
        {"role":"user","parts":[{"functionResponse":{"id":"p1","name":"camera","response":{"output":"Photos."},"parts":[{"inlineData":{"mimeType":"image/webp","data":"UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="}}]}},{"functionResponse":{"id":"p2","name":"camera","response":{"error":"no lens"}}}]}
        {"role":"user","parts":[{"text":"The images of the tool results above:"},{"inlineData":{"mimeType":"image/heic","data":"AAAAGGZ0eXBoZWljAAAAAG1pZjFoZWlj"}},{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/a.png"}},{"text":"And?"}]}"#]]).await;
}

#[tokio::test]
async fn a_request_ends_with_the_user() {
    let messages = vec![Message::user("Go."), Message::assistant("Going.")];
    check_contents(
        "gemini-4-argon",
        config(),
        request(messages),
        expect![[r#"
        {"role":"user","parts":[{"text":"Go."}]}
        {"role":"model","parts":[{"text":"Going."}]}
        {"role":"user","parts":[{"text":"Continue."}]}"#]],
    )
    .await;
}

#[tokio::test]
async fn documents_and_images_of_users() {
    let document = |base64: Option<&str>| DocumentContent {
        name: "report.pdf".into(),
        media_type: "application/pdf".into(),
        text: "# report.pdf\nProfit.".into(),
        base64: base64.map(Into::into),
    };
    let (given, text_only) = (DocumentId::mint(), DocumentId::mint());
    let blocks = vec![
        Block::Text("Compare.".into()),
        Block::Document { id: given.clone(), name: "report.pdf".into() },
        Block::Document { id: text_only.clone(), name: "report.pdf".into() },
        image("http://example.com/a.png"),
    ];
    let documents = [(given, document(Some("JVBE"))), (text_only, document(None))];
    let request = ModelRequest {
        messages: [Message::User { content: Content::Blocks(blocks) }].into(),
        documents: Arc::new(documents.into_iter().collect()),
        ..ModelRequest::default()
    };
    check_contents("gemini-2.5-flash", config(), request, expect![[r##"{"role":"user","parts":[{"text":"Compare."},{"text":"[Document: report.pdf]"},{"inlineData":{"mimeType":"application/pdf","data":"JVBE"}},{"text":"# report.pdf\nProfit."},{"text":"[An image was left out here: http://example.com/a.png is no https address.]"}]}"##]]).await;
}

#[tokio::test]
async fn models_are_listed_with_their_limits() {
    let list = r#"{"models":[{"name":"models/gemini-4-argon","inputTokenLimit":1048576,"outputTokenLimit":65536,"supportedGenerationMethods":["generateContent","countTokens"]},{"name":"models/embedding-1","inputTokenLimit":2048,"supportedGenerationMethods":["embedContent"]}]}"#;
    let server = scripted(vec![("/models", "200 OK", list.to_owned())]).await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..config() };
    let models = Provider::new("gemini", config).unwrap().models().await.unwrap();
    let shown: Vec<_> = models.into_iter().map(|model| (model.id, model.context_window, model.max_output)).collect();
    assert_eq!(shown, [("gemini-4-argon".to_owned(), Some(1_048_576), Some(65_536))]);
    assert_eq!(server.seen()[0].line, "GET /v1beta/models?pageSize=1000");
}

#[tokio::test]
async fn addresses_and_keys_of_gateways_are_kept() {
    let server = scripted(vec![("streamGenerateContent", "200 OK", OK.to_owned())]).await;
    for (path, headers) in [
        ("/v1/publishers/google", vec![]),
        ("/v1/projects/p/locations/l/publishers/google?tenant=a", vec![("Authorization", "Bearer t")]),
    ] {
        let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let config = ProviderConfig { base_url: Some(format!("{}{path}", server.url)), headers, ..config() };
        let model = Provider::new("vertex", config).unwrap().model("models/gemini-2.5-flash");
        assert!(answer(&*model, request(vec![Message::user("hello")])).await.contains("text: ok"));
    }
    let seen: Vec<String> = server
        .seen()
        .iter()
        .map(|seen| {
            let keys = seen.head.lines().filter(|line| line.starts_with("x-goog") || line.starts_with("authorization"));
            format!("{} {:?}", seen.line, keys.collect::<Vec<_>>())
        })
        .collect();
    expect![[r#"
        POST /v1/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse ["x-goog-api-key: key"]
        POST /v1/projects/p/locations/l/publishers/google/models/gemini-2.5-flash:streamGenerateContent?tenant=a&alt=sse ["x-goog-api-key: key", "authorization: bearer t"]"#]].assert_eq(&seen.join("\n"));
}
