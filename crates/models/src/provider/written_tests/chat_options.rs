//! What is asked for beside the conversation, on chat completions.

use everturn_core::{Effort, Json, ModelOptions, OutputFormat, Thinking, ToolChoice};
use expect_test::expect;

use super::{OPENAI, check, check_options, hello, with_tool};
use crate::{model::ModelRequest, provider::chat::Chat};

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
        ("api.example.com", "qwen3"),
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
            reasoning_effort: "low"
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
            ## qwen3
            reasoning_effort: "none"
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
            ## qwen3
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
            notice: the tool call is asked for in words: deepseek-flash cannot be forced while it thinks
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
            notice: the tool call is asked for in words: kimi-k2.6 cannot be forced while it thinks
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
            ## MiniMax-M2
            frequency_penalty: -0.5
            max_completion_tokens: 500
            seed: 7
            stop: ["END"]
            temperature: 0.01
            tools: 1
            top_p: 0.9
            notice: the tool call is asked for in words: MiniMax-M2 cannot be forced while it thinks
            notice: the answer's schema is asked for in words: MiniMax-M2 cannot be held to it
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
            notice: the tool call is asked for in words: deepseek-flash cannot be forced while it thinks
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
            reasoning: {"effort":"max"}
            temperature: 0.5
            tools: 1
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

/// Claude is known by its name, whoever serves it.
#[test]
fn chat_claude_behind_openrouter() {
    let models = [
        ("openrouter.ai", "anthropic/claude-opus-5.5"),
        ("openrouter.ai", "anthropic/claude-sonnet-5.5"),
        ("openrouter.ai", "anthropic/claude-sonnet-4.6"),
    ];
    let most = ModelOptions { effort: Some(Effort::Max), ..ModelOptions::default() };
    let off = ModelOptions { thinking: Some(Thinking::Off), ..most.clone() };
    let forced = ModelOptions { tool_choice: Some(ToolChoice::Required), ..ModelOptions::default() };
    check_options(
        &Chat,
        &models,
        &hello(most),
        expect![[r###"
        ## anthropic/claude-opus-5.5
        reasoning: {"effort":"max"}
        ## anthropic/claude-sonnet-5.5
        reasoning: {"effort":"max"}
        ## anthropic/claude-sonnet-4.6
        reasoning: {"effort":"max"}
    "###]],
    );
    check_options(
        &Chat,
        &models,
        &hello(off),
        expect![[r###"
        ## anthropic/claude-opus-5.5
        reasoning: {"effort":"none"}
        notice: effort max is not sent: thinking is off
        notice: thinking may not be turned off: anthropic/claude-opus-5.5 always thinks where Anthropic serves it
        ## anthropic/claude-sonnet-5.5
        reasoning: {"effort":"none"}
        notice: effort max is not sent: thinking is off
        notice: thinking may not be turned off entirely: anthropic/claude-sonnet-5.5 still thinks between tool calls
        ## anthropic/claude-sonnet-4.6
        reasoning: {"effort":"none"}
        notice: effort max is not sent: thinking is off
    "###]],
    );
    check_options(
        &Chat,
        &models,
        &with_tool(hello(forced)),
        expect![[r###"
        ## anthropic/claude-opus-5.5
        tools: 1
        notice: the tool call is asked for in words: anthropic/claude-opus-5.5 cannot be forced while it thinks
        ## anthropic/claude-sonnet-5.5
        tools: 1
        notice: the tool call is asked for in words: anthropic/claude-sonnet-5.5 cannot be forced while it thinks
        ## anthropic/claude-sonnet-4.6
        tool_choice: "required"
        tools: 1
    "###]],
    );
}
