//! What is left out, by the words of real refusals.

use std::sync::Arc;

use everturn_core::{Block, CallId, Content, DocumentId, Effort, Json, Message, ModelOptions, ToolSpec};

use super::*;
use crate::model::DocumentContent;

const FIRST: &str = "data:image/png;base64,AAAAAAAAAAAAFIRST";
const SECOND: &str = "data:image/png;base64,AAAAAAAAAAASECOND";
const PDF: &str = "JVBERi0xLjcKAAAAAAAA";

fn request() -> ModelRequest {
    let image = |url: &str| Block::Image { url: url.into() };
    let document: DocumentId = "doc_1".parse().unwrap();
    let answer = Content::answer("hm".into(), Some("chat:{}".into()), "ok".into(), vec![]);
    let content = DocumentContent {
        name: "a.pdf".into(),
        media_type: "application/pdf".into(),
        text: "[a.pdf]".into(),
        base64: Some(PDF.into()),
    };
    ModelRequest {
        messages: [
            Message::User { content: Content::Blocks(vec![Block::Text("look".into()), image(FIRST)]) },
            Message::Assistant { content: answer },
            Message::Tool {
                call_id: CallId::new("c"),
                content: Content::Blocks(vec![
                    image(SECOND),
                    Block::Document { id: document.clone(), name: "a".into() },
                ]),
                is_error: false,
            },
        ]
        .into(),
        documents: Arc::new([(document, content)].into()),
        tools: ["one", "two"].map(tool_spec).into(),
        options: ModelOptions { effort: Some(Effort::Low), ..ModelOptions::default() },
        ..ModelRequest::default()
    }
}

fn tool_spec(name: &str) -> ToolSpec {
    let input_schema = Json::empty_object();
    ToolSpec { name: name.to_owned(), title: None, description: String::new(), input_schema }
}

const BODY: &str = r#"{
    "model": "m", "max_tokens": 100000, "temperature": 0.2, "thinking": {"type": "adaptive", "block_binding": {}},
    "reasoning": {"effort": "high", "summary": "auto"}, "include": ["x"], "stream_options": {}, "think": true,
    "generationConfig": {"temperature": 1, "topP": 1},
    "tools": [{"name": "one"}, {"function": {"name": "two"}}],
    "messages": [
        {"content": [{"text": "look"}, {"type": "image", "source": {"data": "AAAAAAAAAAAAFIRST"}}]},
        {"content": [{"tool_result": 1, "content": [{"source": {"data": "AAAAAAAAAAASECOND"}}, {"source": {"data": "JVBERi0xLjcKAAAAAAAA"}}]}]}
    ]
}"#;

#[track_caller]
fn check(refusal: &str, expected: Option<Change>) {
    let report = Report::from_body(refusal.as_bytes());
    let change = change(&report, &request(), BODY.as_bytes(), &Learned::default(), &[]);
    assert_eq!(change, expected, "{refusal}");
}

fn proofs() -> Change {
    Change::Proofs(vec![MediaDigest::of("chat:{}")])
}

fn said(words: &str) -> String {
    serde_json::json!({"error": {"message": words}}).to_string()
}

fn field(name: &str) -> Option<Change> {
    Some(Change::Field(name.to_owned()))
}

#[test]
fn fields_are_found_by_name() {
    for (words, expected) in [
        ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
        ("`temperature` is deprecated for this model.", "temperature"),
        ("temperature: Extra inputs are not permitted", "temperature"),
        ("thinking.adaptive.block_binding: Extra inputs are not permitted", "thinking.block_binding"),
        (
            "Your organization must be verified to generate reasoning summaries: 'reasoning.summary'",
            "reasoning.summary",
        ),
        ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", "reasoning.effort"),
        (
            "Unknown name \"thinkingConfig\" or \"topP\" at 'generation_config': Cannot find field.",
            "generationConfig.topP",
        ),
        ("Unrecognized request argument supplied: stream_options", "stream_options"),
        ("\"m\" does not support thinking", "think"),
        ("registry.ollama.ai/library/m does not support tools", "tools"),
        ("\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set", "tools"),
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "max_tokens",
        ),
        ("Model m does not support parameter reasoningEffort.", "reasoning.effort"),
        ("Unsupported argument: streamOptions", "stream_options"),
        ("Encrypted content is not supported with this model: 'include'", "include"),
    ] {
        check(&said(words), field(expected));
    }
    let by_param =
        r#"{"error":{"message":"Unsupported value.","param":"reasoning.summary","code":"unsupported_value"}}"#;
    check(by_param, field("reasoning.summary"));
    check(r#"{"error":{"message":"Bad.","param":"reasoningEffort"}}"#, field("reasoning.effort"));
    // Neither a word of a sentence nor a field that was not sent.
    check(&said("Please include a valid think piece"), None);
    check(&said("Unsupported parameter: 'top_p'"), field("generationConfig.topP"));
    check(&said("The model is not available in your region"), None);
}

#[test]
fn caps_are_read() {
    for (words, expected) in [
        ("max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens for m", 32_000),
        ("max_tokens is too large: 100000. This model supports at most 16384 completion tokens", 16_384),
        ("max_output_tokens: the supported range is from 1 (inclusive) to 65537 (exclusive)", 65_536),
    ] {
        check(&said(words), Some(Change::MaxOutput(expected)));
    }
}

/// DeepSeek, Qwen, Groq, Bedrock. Groq names the window as well, which is no overflow.
#[test]
fn caps_of_many_vendors_are_read() {
    for words in [
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]",
        "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the \
         `context_window` for this model",
        "The maximum tokens you requested exceeds the model limit of 8192. Try again with a maximum tokens value that is \
         lower than 8192.",
        "max_tokens must be between 1 and 8192",
        "max_tokens=100000 cannot be greater than max_model_len=max_total_tokens=8192. Please request fewer output tokens. \
         (parameter=max_tokens, value=100000)",
    ] {
        check(&said(words), Some(Change::MaxOutput(8192)));
    }
    check(&said("max_tokens must be less than 8193"), Some(Change::MaxOutput(8192)));
}

/// A cap that is refused without a number is lowered step by step where that can help; it is left out only where the API
/// takes a request without one.
#[test]
fn caps_without_a_number_are_lowered() {
    let change = |words: &str, sent: u64, required: &[&str]| {
        let body = format!(r#"{{"model":"m","max_tokens":{sent}}}"#);
        let report = Report::from_body(said(words).as_bytes());
        change(&report, &request(), body.as_bytes(), &Learned::default(), required)
    };
    for (sent, lower) in [(100_000, 32_000), (32_000, 8192), (8192, 4096), (5000, 4096), (4096, 1024)] {
        assert_eq!(change("max_tokens is too large", sent, &[]), Some(Change::LowerOutput(lower)));
        assert_eq!(change("max_tokens: invalid", sent, &["max_tokens"]), Some(Change::LowerOutput(lower)));
    }
    assert_eq!(change("max_tokens: invalid", 1024, &["max_tokens"]), None);
    assert_eq!(change("max_tokens: Field required", 9000, &["max_tokens"]), None);
    assert_eq!(change("Unsupported parameter: 'max_tokens'", 9000, &[]), field("max_tokens"));
    assert_eq!(change("`max_tokens` must be greater than `thinking.budget_tokens`", 9000, &["max_tokens"]), None);
    // A number that is higher than what was sent is another one.
    assert_eq!(change("max_tokens must be at most 9000", 8000, &[]), Some(Change::LowerOutput(4096)));
}

#[test]
fn tools_are_found_by_place_and_by_name() {
    let tool = |name: &str| {
        let tools = request().tools;
        let tool = tools.iter().find(|tool| tool.name == name).unwrap();
        Some(Change::Tool { name: name.to_owned(), declaration: declaration(tool) })
    };
    for (words, expected) in [
        ("tools.1.custom.input_schema: input_schema does not support oneOf at the top level", "two"),
        ("Invalid schema for function 'one': In context=('properties',), array schema missing items.", "one"),
        ("GenerateContentRequest.tools[0].function_declarations[1].parameters.properties: missing field.", "two"),
        ("tools.0.custom.input_schema.properties: Property keys should match pattern", "one"),
    ] {
        check(&said(words), tool(expected));
    }
    check(r#"{"error":{"message":"bad","param":"tools[1].parameters"}}"#, tool("two"));
    check(r#"{"error":{"message":"bad","param":"tools[7].parameters"}}"#, None);
}

#[test]
fn media_are_found_by_place_and_else_the_newest_are_meant() {
    let media = |contents: &[&str]| Some(Change::Media(contents.iter().map(|one| MediaDigest::of(one)).collect()));
    check(&said("messages.0.content.1.image.source.base64.data: Could not process image"), media(&[FIRST]));
    check(&said("messages.1.content.0.content.1: The PDF specified was not valid."), media(&[PDF]));
    check(&said("Unable to process input image. Please retry"), media(&[SECOND]));
    // One of the two may be fine.
    let both = [SECOND, PDF].map(MediaDigest::of).to_vec();
    check(&said("The document could not be read"), Some(Change::MediaOfCall(both)));
    check(&said("No endpoints found that support image input"), Some(Change::AllImages));
}

#[test]
fn proofs_are_left_out_when_they_are_refused() {
    for words in [
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
        "The encrypted content gAAA...DQ== could not be verified.",
        "Function call is missing a thought_signature in functionCall parts.",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    ] {
        check(&said(words), Some(proofs()));
    }
    let report = Report::from_body(said("Invalid `signature` in `thinking` block").as_bytes());
    let plain = ModelRequest { messages: [Message::user("hi")].into(), ..ModelRequest::default() };
    assert_eq!(change(&report, &plain, b"{}", &Learned::default(), &[]), None);
}

/// A number of images says nothing about one of them.
#[test]
fn counts_of_images_are_read() {
    check(&said("At most 1 image(s) may be provided in one prompt."), Some(Change::MaxImages(1)));
    check(&said("Too many images in request. Expected at most 1, got 2."), Some(Change::MaxImages(1)));
    check(&said("At most 0 image(s) may be provided in one prompt."), Some(Change::AllImages));
    // There are but two.
    check(
        &said("At most 2 image(s) may be provided in one prompt."),
        Some(Change::Media(vec![MediaDigest::of(SECOND)])),
    );
    let report = Report::from_body(said("At most 1 image(s) may be provided in one prompt.").as_bytes());
    let quoted = BODY.replace("look", "at most 1 image(s) may be");
    let change = change(&report, &request(), quoted.as_bytes(), &Learned::default(), &[]);
    assert_eq!(change, Some(Change::Media(vec![MediaDigest::of(SECOND)])));
}

#[test]
fn counts_of_tools_are_read() {
    let words = "Invalid 'tools': array too long. Expected an array with maximum length 1, but got an array with length 2 instead.";
    check(&said(words), Some(Change::MaxTools(1)));
    check(&said("'tools' : maximum number of items is 1"), Some(Change::MaxTools(1)));
    check(&said("'tools' : maximum number of items is 2"), None);
    check(&said("'metadata' : maximum number of items is 1"), None);
}

#[test]
fn an_effort_becomes_the_nearest_one_that_is_known() {
    let words = "Unsupported value: 'low' is not supported with this model. Supported values are: 'medium' and 'high'.";
    check(&said(words), Some(Change::Effort { asked: Effort::Low, nearest: Effort::Medium }));
}

#[test]
fn reasoning_is_given_back_to_those_who_want_it() {
    check(&said("The reasoning_content in the thinking mode must be passed back to the API."), Some(Change::Reasoning));
    check(&said("reasoning_content: Extra inputs are not permitted"), Some(proofs()));
}

/// Words that stand in the conversation are the user's, not the provider's.
#[test]
fn what_a_provider_only_repeats_is_not_believed() {
    let phrase = "\"auto\" tool choice requires --enable-auto-tool-choice";
    let report = Report::from_body(said(&format!("Invalid prompt: {phrase}")).as_bytes());
    let request = ModelRequest { messages: [Message::user(phrase)].into(), ..ModelRequest::default() };
    let body = serde_json::json!({ "tools": [], "messages": [{ "content": phrase }] }).to_string();
    assert_eq!(change(&report, &request, body.as_bytes(), &Learned::default(), &[]), None);
    // White space is changed on the way.
    let spread = phrase.replace(' ', "\n\u{200b}");
    let body = serde_json::json!({ "tools": [], "messages": [{ "content": spread }] }).to_string();
    assert_eq!(change(&report, &request, body.as_bytes(), &Learned::default(), &[]), None);
    let phrase = "Invalid schema for function 'one': x";
    let report = Report::from_body(said(&format!("Failed on data {phrase}")).as_bytes());
    let body = serde_json::json!({ "tools": [{ "name": "one" }], "messages": [{ "content": phrase }] }).to_string();
    assert_eq!(change(&report, &request, body.as_bytes(), &Learned::default(), &[]), None);
}

/// A value that is refused says nothing about the field.
#[test]
fn values_are_not_fields() {
    let words = "Invalid 'temperature': decimal above maximum value. Expected a value <= 1, but got 1.5 instead.";
    check(&said(words), Some(Change::Value("temperature".to_owned())));
    let words = "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.";
    check(&said(words), field("temperature"));
}

/// An image that cannot be fetched, and whatever else a server does not explain.
#[test]
fn the_unexplained_is_tried_without_images_and_documents() {
    let all = media::all(&request(), &Learned::default());
    for words in ["str type expected", "Failed to apply Qwen2VLProcessor on data"] {
        assert!(all.is_some());
        let report = Report::from_body(said(words).as_bytes());
        let mut learned = Learned::default();
        assert_eq!(change(&report, &request(), BODY.as_bytes(), &learned, &[]), None, "{words}");
        let first = guess(&report, &request(), &learned).unwrap();
        assert_eq!(first, proofs(), "nobody sees that it is missing: {words}");
        Changes::default().apply(first, &mut learned);
        assert_eq!(guess(&report, &request(), &learned), all, "{words}");
    }
    let newest = Some(Change::Media(vec![MediaDigest::of(SECOND)]));
    check(&said("Error while downloading https://example.com/a.png. Upstream status code: 404."), newest);
}

#[test]
fn another_wire_is_spoken_where_the_provider_asks_for_it() {
    for words in [
        "Function tools with reasoning_effort are not supported for gpt-6-sol in /v1/chat/completions. To use function \
            tools, use /v1/responses or set reasoning_effort to 'none'.",
        "This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use \
            v1/completions?",
    ] {
        check(&said(words), Some(Change::Responses));
    }
}

#[test]
fn the_same_change_is_made_once() {
    let (mut learned, mut changes) = (Learned::default(), Changes::default());
    for (change, is_new) in [
        (Change::Field("seed".into()), true),
        (Change::Field("seed".into()), false),
        (Change::MaxOutput(100), true),
        (Change::MaxOutput(100), false),
        (Change::MaxOutput(50), true),
        (proofs(), true),
        (proofs(), false),
        (Change::Effort { asked: Effort::Low, nearest: Effort::Medium }, true),
        (Change::Effort { asked: Effort::Low, nearest: Effort::Medium }, false),
        (Change::Reasoning, true),
        (Change::Reasoning, true),
        (Change::Reasoning, false),
        (Change::AllImages, true),
        (Change::AllImages, false),
        (Change::Media(vec![MediaDigest::of("a")]), true),
        (Change::Media(vec![MediaDigest::of("a")]), false),
        (Change::Tool { name: "t".into(), declaration: "t#1".into() }, true),
        (Change::Tool { name: "t".into(), declaration: "t#1".into() }, false),
        (Change::MaxImages(8), true),
        (Change::MaxImages(8), false),
        (Change::MaxTools(128), true),
        (Change::MaxTools(128), false),
        (Change::MaxTools(64), true),
        (Change::Responses, true),
        (Change::Responses, false),
    ] {
        assert_eq!(changes.apply(change.clone(), &mut learned), is_new, "{change:?}");
    }
    assert_eq!((learned.max_output, learned.is_blind), (Some(50), true));
}
