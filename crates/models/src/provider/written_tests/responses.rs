//! OpenAI's own models on Responses.

use everturn_core::{Effort, Json, ModelOptions, OutputFormat, Thinking, ToolChoice};
use expect_test::expect;

use super::{OPENAI, check, check_options, conversation, hello, with_tool, written};
use crate::{model::ModelRequest, provider::responses::Responses};

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
            include: ["reasoning.encrypted_content"]
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
            include: ["reasoning.encrypted_content"]
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
            include: ["reasoning.encrypted_content"]
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
            include: ["reasoning.encrypted_content"]
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
