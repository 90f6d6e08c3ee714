//! The agent's `body` in model calls beside the conversation: titles, summaries, and questions whether a provider is well.
//!
//! Fields for routing and privacy count for every call. Fields that change what such a call asks, or how its answer comes,
//! would break it.

use everturn_core::Json;
use serde_json::{Map, Value};

use crate::Agent;

/// Fields that a call beside the conversation sets itself, or cannot do with.
const LEFT_OUT: &[&str] = &[
    // What is asked.
    "contents",
    "input",
    "instructions",
    "messages",
    "system",
    "systemInstruction",
    // Calls, which nobody would answer.
    "function_call",
    "functions",
    "parallel_tool_calls",
    "toolConfig",
    "tool_choice",
    "tools",
    // The form of the answer.
    "format",
    "generationConfig.responseJsonSchema",
    "generationConfig.responseMimeType",
    "generationConfig.responseSchema",
    "output_config.format",
    "output_format",
    "grammar",
    "guided_choice",
    "guided_decoding_backend",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "guided_whitespace_pattern",
    "json_schema",
    "response_format",
    "structured_outputs",
    "text.format",
    // What the provider looks up by itself.
    "plugins",
    "search_parameters",
    "web_search_options",
    // Its length and end.
    "generationConfig.maxOutputTokens",
    "generationConfig.stopSequences",
    "max_completion_tokens",
    "max_output_tokens",
    "ignore_eos",
    "max_tokens",
    "min_tokens",
    "n_predict",
    "options.num_predict",
    "options.stop",
    "stop",
    "stop_sequences",
    // A budget for thinking is refused where the cap on the answer is smaller.
    "generationConfig.thinkingConfig",
    "reasoning.max_tokens",
    "thinking",
    "thinking_budget",
    // How the answer comes.
    "generationConfig.candidateCount",
    "n",
    "stream",
    "stream_options",
];

impl Agent {
    /// The fields that are merged into the body of its calls beside the conversation.
    pub(crate) fn side_body(&self) -> Option<Json> {
        self.body.as_ref().and_then(without_breaking_fields)
    }
}

fn without_breaking_fields(body: &Json) -> Option<Json> {
    let Value::Object(mut fields) = body.to_value() else { return None };
    LEFT_OUT.iter().for_each(|path| remove(&mut fields, path));
    if fields.is_empty() { None } else { Json::of(&fields).ok() }
}

/// Removes a field; a dot leads into an object, which goes too where nothing else is in it.
fn remove(fields: &mut Map<String, Value>, path: &str) {
    let Some((outer, inner)) = path.split_once('.') else {
        fields.remove(path);
        return;
    };
    if let Some(Value::Object(within)) = fields.get_mut(outer) {
        remove(within, inner);
        if within.is_empty() {
            fields.remove(outer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_breaks_such_a_call_is_left_out() {
        let side_body =
            |body: &str| without_breaking_fields(&Json::parse(body).unwrap()).map(|body| body.as_str().to_owned());
        for kept in [
            r#"{"provider":{"data_collection":"deny","order":["a"]}}"#,
            r#"{"chat_template_kwargs":{"enable_thinking":false}}"#,
            r#"{"options":{"num_ctx":1000}}"#,
            r#"{"metadata":{"team":"x"},"service_tier":"flex","store":false}"#,
        ] {
            assert_eq!(side_body(kept).as_deref(), Some(kept));
        }
        let mixed = r#"{"generationConfig":{"maxOutputTokens":1,"topK":2},"max_tokens":5,"provider":{"zdr":true},"response_format":{"type":"json_object"},"stream":false,"text":{"format":{}},"tools":[]}"#;
        assert_eq!(side_body(mixed).unwrap(), r#"{"generationConfig":{"topK":2},"provider":{"zdr":true}}"#);
        assert_eq!(side_body(r#"{"max_tokens":5,"options":{"stop":["x"]}}"#), None);
        let servers = r#"{"grammar":"root","guided_json":{},"json_schema":{},"min_tokens":9,"n_predict":9,"plugins":[],"structured_outputs":{},"seed":7}"#;
        assert_eq!(side_body(servers).unwrap(), r#"{"seed":7}"#);
    }
}
