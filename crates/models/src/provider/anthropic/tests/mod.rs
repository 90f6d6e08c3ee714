//! The wire as the API sees it: a conversation with a model whose answers are read from streams like the API's.

mod blocks;
mod options;
mod proofs;

use everturn_core::{CallId, Content, Json, Message, ToolSpec, ToolUse};
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};

use super::Anthropic;
use crate::{
    model::{ModelEvent, ModelRequest},
    provider::{
        call::{AnswerStream, Origin},
        catalog,
        failure::Failures,
        learned::Learned,
        wire::{Ask, Settings, Wire, Written},
    },
};

const OFFICIAL: &str = "api.anthropic.com";

/// One conversation with one model, as far as it got.
#[derive(Clone)]
struct Session {
    model: &'static str,
    host: &'static str,
    budget: Option<u64>,
    learned: Learned,
    without_proofs: bool,
    request: ModelRequest,
    messages: Vec<Message>,
}

impl Session {
    fn new(model: &'static str) -> Self {
        Self {
            model,
            host: OFFICIAL,
            budget: None,
            learned: Learned::default(),
            without_proofs: false,
            request: ModelRequest { system: "Be brief.".into(), ..ModelRequest::default() },
            messages: vec![Message::user("Go.")],
        }
    }

    fn write(&self) -> Written {
        let settings = Settings { host: self.host.to_owned(), thinking_budget: self.budget, ..Settings::default() };
        let request = ModelRequest { messages: self.messages.clone().into(), ..self.request.clone() };
        let ask = Ask {
            from: &format!("p/{}", self.model),
            model: self.model,
            settings: &settings,
            known: catalog::known(self.model),
            learned: &self.learned,
            request: &request,
            without_proofs: self.without_proofs,
            ends_with_wish: false,
        };
        Anthropic.write(&ask).unwrap()
    }

    fn body(&self) -> Value {
        serde_json::from_slice(&self.write().body).unwrap()
    }

    /// The messages as they are sent, without marks for the cache.
    fn sent(&self) -> Vec<Value> {
        let mut body = self.body();
        remove_marks(&mut body);
        body["messages"].as_array().unwrap().clone()
    }

    /// The thinking that is sent, as signatures and data.
    fn proofs(&self) -> Vec<String> {
        self.sent().iter().flat_map(|message| proofs_of(message["content"].as_array().unwrap())).collect()
    }

    /// The model answers with these blocks; its calls get results, else the user goes on.
    fn answer(&mut self, blocks: &[Value]) {
        let Written { prefix, .. } = self.write();
        let origin = Origin { wire: Anthropic.name(), from: format!("p/{}", self.model), prefix };
        let events = read(&sse(blocks), origin);
        let (mut thinking, mut text, mut calls, mut signature) = (String::new(), String::new(), Vec::new(), None);
        for event in events {
            match event {
                ModelEvent::Thinking(piece) => thinking.push_str(&piece),
                ModelEvent::Text(piece) => text.push_str(&piece),
                ModelEvent::ThinkingSignature(record) => signature = Some(record),
                ModelEvent::ToolCall { name, input, .. } => {
                    let id = CallId::new(format!("call_{}_{}", self.messages.len(), calls.len()));
                    calls.push(ToolUse { id, name, input });
                }
                _ => {}
            }
        }
        let ids: Vec<CallId> = calls.iter().map(|call| call.id.clone()).collect();
        self.messages.push(Message::Assistant { content: Content::answer(thinking, signature, text, calls) });
        match ids.is_empty() {
            true => self.messages.push(Message::user("And?")),
            false => self.messages.extend(ids.into_iter().map(|id| Message::tool(id, "done"))),
        }
    }
}

/// What a stream of these frames is read as.
fn read(frames: &str, origin: Origin) -> Vec<ModelEvent> {
    let body = stream::iter([Ok(frames.to_owned().into())]).boxed();
    let failures = Failures { provider: "p".into(), secrets: Vec::new() };
    let stream = AnswerStream::new(&Anthropic, body, failures, origin);
    let events: Vec<_> = stream.collect().now_or_never().unwrap();
    events.into_iter().map(Result::unwrap).collect()
}

/// The stream that gives these blocks.
fn sse(blocks: &[Value]) -> String {
    let mut frames = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let (mut start, mut deltas) = (block.clone(), Vec::new());
        match block["type"].as_str().unwrap() {
            "thinking" => {
                start["thinking"] = json!("");
                start["signature"] = json!("");
                if block["thinking"] != "" {
                    deltas.push(json!({"type": "thinking_delta", "thinking": block["thinking"]}));
                }
                deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
            }
            "text" => {
                start["text"] = json!("");
                deltas.push(json!({"type": "text_delta", "text": block["text"]}));
            }
            "tool_use" => {
                start["input"] = json!({});
                deltas.push(json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}));
            }
            _ => {}
        }
        frames.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        frames.extend(
            deltas.into_iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        frames.push(json!({"type": "content_block_stop", "index": index}));
    }
    frames.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}));
    frames.push(json!({"type": "message_stop"}));
    frames.iter().map(|frame| format!("data: {frame}\n\n")).collect()
}

fn remove_marks(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(remove_marks);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_marks),
        _ => {}
    }
}

fn thought(text: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": signature})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "clock", "input": {"zone": "UTC"}})
}

fn clock() -> ToolSpec {
    ToolSpec {
        name: "clock".into(),
        title: None,
        description: "Tells the time.".into(),
        input_schema: Json::parse(r#"{"type":"object","properties":{"zone":{"type":"string"}}}"#).unwrap(),
    }
}

/// The signatures and encrypted data in blocks.
fn proofs_of(blocks: &[Value]) -> Vec<String> {
    let proof = |block: &Value| ["signature", "data"].iter().find_map(|field| Some(block[field].as_str()?.to_owned()));
    blocks.iter().filter_map(proof).collect()
}
