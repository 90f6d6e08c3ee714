//! Reads a list of models in OpenAI's shape, with the fields that servers add to it under names of their own.
//!
//! Servers differ in it more than in anything else, so each entry is read by itself: an odd one does not cost the others.

use serde_json::Value;

use super::wire::ListedModel;

/// Where servers tell the window of a model.
const WINDOW: &[&str] = &[
    // OpenRouter, Together, Moonshot.
    "/context_length",
    // Groq.
    "/context_window",
    // vLLM.
    "/max_model_len",
    // Mistral, LM Studio.
    "/max_context_length",
    // Anthropic.
    "/max_input_tokens",
    // llama.cpp.
    "/meta/n_ctx",
    "/meta/n_ctx_train",
];

/// Where they tell the longest answer: Groq, Anthropic, OpenRouter.
const MAX_OUTPUT: &[&str] = &["/max_completion_tokens", "/max_tokens", "/top_provider/max_completion_tokens"];

/// The models of a list.
pub(super) fn read(body: &[u8]) -> Vec<ListedModel> {
    entries(body).iter().filter_map(model).collect()
}

/// The entries of a list: `{"data": […]}`, `{"models": […]}`, or the array itself.
pub(super) fn entries(body: &[u8]) -> Vec<Value> {
    let list = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let entries = ["data", "models"].iter().find_map(|field| list.get(field)?.as_array()).or(list.as_array());
    entries.cloned().unwrap_or_default()
}

/// The first of these places that has a number of tokens.
pub(super) fn count(entry: &Value, places: &[&str]) -> Option<u64> {
    let numbers = places.iter().filter_map(|place| number(entry.pointer(place)?));
    numbers.map(|number| number as u64).find(|count| *count > 0)
}

fn model(entry: &Value) -> Option<ListedModel> {
    let id = ["id", "name"].iter().find_map(|field| entry.get(field)?.as_str()).or(entry.as_str())?;
    // Per token. OpenRouter says -1 of models that stand for others.
    let price = |path: &str| Some(number(entry.pointer(path)?).filter(|price| *price >= 0.0)? * 1e6);
    Some(ListedModel {
        id: id.to_owned(),
        context_window: count(entry, WINDOW),
        max_output: count(entry, MAX_OUTPUT),
        input_price: price("/pricing/prompt"),
        output_price: price("/pricing/completion"),
        is_for_chat: can_chat(id)
            && ["type", "task"]
                .iter()
                .filter_map(|field| entry[field].as_str())
                .all(|kind| !NOT_FOR_CHAT_KINDS.contains(&kind)),
    })
}

/// What the names of models have in common that are not for conversations: of embeddings, of sound, of pictures, of old.
const NOT_FOR_CHAT: &[&str] = &[
    "embed",
    "bge-",
    "bge_",
    "gte-",
    "e5-large",
    "e5-base",
    "e5-small",
    "e5-mistral",
    "minilm",
    "rerank",
    "whisper",
    "tts",
    "transcribe",
    "speech",
    "audio",
    "realtime",
    "dall-e",
    "-image",
    "image-",
    "imagen",
    "sora",
    "veo-",
    "stable-diffusion",
    "sdxl",
    "flux",
    "moderation",
    "guard",
    "gpt-3.5-turbo-instruct",
    "babbage",
    "davinci",
    "ocr",
    "colbert",
    "clip-",
];

/// What servers call such models, where they say it: Together, LM Studio.
const NOT_FOR_CHAT_KINDS: &[&str] =
    &["embedding", "embeddings", "feature-extraction", "rerank", "image", "audio", "moderation", "transcribe"];

/// Whether a model can be talked with, by its name.
pub fn can_chat(id: &str) -> bool {
    let id = id.to_lowercase();
    !id.trim().is_empty() && !NOT_FOR_CHAT.iter().any(|part| id.contains(part))
}

/// A number, which some servers write as text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OpenRouter's `openrouter/auto` costs what the model behind it costs.
    #[test]
    fn a_negative_price_is_none() {
        let list = br#"{"data":[
            {"id":"openrouter/auto","pricing":{"prompt":"-1","completion":"-1"}},
            {"id":"free","pricing":{"prompt":"0","completion":"0.000002"}}
        ]}"#;
        let prices: Vec<_> = read(list).iter().map(|model| (model.input_price, model.output_price)).collect();
        assert_eq!(prices, [(None, None), (Some(0.0), Some(2.0))]);
    }

    #[test]
    fn an_odd_entry_does_not_cost_the_others() {
        let odd = r#"[
            {"id":null}, {"object":"model"}, 7, null, "bare",
            {"id":"text","context_length":"8192","max_tokens":null},
            {"id":"fraction","context_length":4096.0,"meta":"none","pricing":[]},
            {"name":"named","context_length":-1,"context_window":"many"}
        ]"#;
        for list in [odd.to_owned(), format!(r#"{{"data":{odd}}}"#), format!(r#"{{"object":"list","models":{odd}}}"#)] {
            let read: Vec<_> = read(list.as_bytes()).into_iter().map(|one| (one.id, one.context_window)).collect();
            let expected = [("bare", None), ("text", Some(8192)), ("fraction", Some(4096)), ("named", None)];
            assert_eq!(read, expected.map(|(id, window)| (id.to_owned(), window)));
        }
        assert_eq!(read(b"<html>"), []);
    }
}
