//! Refusals within a stream that began well: learned from as if they had a status.

use everturn_core::{Message, ModelOptions};
use everturn_models::{ModelRequest, OpenAiWire, Provider, ProviderConfig, ProviderKind};
use serde_json::{Value, json};

use super::{
    scripted::{Seen, judged},
    transcript::answer,
};

const CHAT: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const MESSAGES: &str = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"ok\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
const RESPONSES: &str = "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"ok\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[]}}\n\n";
const GEMINI: &str =
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"ok\"}]},\"finishReason\":\"STOP\"}]}\n\n";

#[tokio::test]
async fn a_field_that_is_refused_within_a_stream_is_left_out() {
    let words = "Unsupported parameter: 'temperature' is not supported with this model.";
    let chat = |error: Value| (ProviderKind::OpenAi, OpenAiWire::Chat, CHAT, json!({ "error": error }));
    let responses = |event: Value| (ProviderKind::OpenAi, OpenAiWire::Responses, RESPONSES, event);
    let cases = [
        chat(json!({ "message": words, "type": "invalid_request_error" })),
        chat(json!({ "message": words, "type": "BadRequestError", "code": 400 })),
        chat(json!({ "message": words, "code": "400" })),
        chat(json!({ "message": words })),
        chat(json!({ "message": "Provider returned error", "code": 400, "metadata": { "raw": words } })),
        (
            ProviderKind::Anthropic,
            OpenAiWire::Chat,
            MESSAGES,
            json!({ "type": "error", "error": { "type": "invalid_request_error", "message": words } }),
        ),
        responses(
            json!({ "type": "error", "code": "unsupported_parameter", "message": words, "param": "temperature" }),
        ),
        responses(json!({
            "type": "response.failed",
            "response": { "status": "failed", "output": [], "error": { "code": "unsupported_value", "message": words } },
        })),
        (
            ProviderKind::Gemini,
            OpenAiWire::Chat,
            GEMINI,
            json!({ "error": { "code": 400, "status": "INVALID_ARGUMENT", "message": words } }),
        ),
    ];
    for (kind, wire, ok, error) in cases {
        let refusal = format!("data: {error}\n\n");
        let server = judged(move |seen: &Seen| {
            let is_refused = seen.body.contains("\"temperature\"");
            ("200 OK", if is_refused { refusal.clone() } else { ok.to_owned() })
        })
        .await;
        let config = ProviderConfig {
            base_url: Some(server.url.clone()),
            api_key: Some("key".into()),
            wire: (kind == ProviderKind::OpenAi).then_some(wire),
            ..ProviderConfig::new(kind)
        };
        let model = Provider::new("test", config).unwrap().model("m");
        let request = ModelRequest {
            messages: [Message::user("hello")].into(),
            options: ModelOptions { temperature: Some(500), ..ModelOptions::default() },
            ..ModelRequest::default()
        };
        for requests in [2, 3] {
            let shown = answer(&*model, request.clone()).await;
            assert!(shown.contains("temperature is not sent") && shown.contains("text: ok"), "{error}: {shown}");
            assert_eq!(server.seen().len(), requests, "{error}");
        }
    }
}
