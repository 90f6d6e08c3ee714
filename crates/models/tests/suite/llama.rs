//! A real model behind a real server, once.

use everturn_core::{Message, ModelOptions, Usage};
use everturn_models::{ModelEvent, ModelFinish, ModelRequest, Provider, ProviderConfig, ProviderKind};
use futures_util::TryStreamExt;

use super::peers;

#[tokio::test]
async fn a_real_model_answers() {
    let server = peers::llama();
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("llama", config).unwrap().model("smollm2");
    let request = ModelRequest {
        system: "You are brief.".into(),
        messages: [Message::user("Say hello.")].into(),
        options: ModelOptions { max_output_tokens: Some(6), ..ModelOptions::default() },
        ..ModelRequest::default()
    };
    let mut events: Vec<ModelEvent> = model.stream(request).await.unwrap().try_collect().await.unwrap();
    let last = events.pop();
    let Some(ModelEvent::Finished { finish, usage: Some(Usage { input, output, .. }) }) = last else {
        panic!("the answer ended with {last:?}")
    };
    assert!(matches!(finish, ModelFinish::Stop | ModelFinish::MaxTokens));
    assert!(input > 0 && (1..=6).contains(&output), "{input} and {output} tokens");
    assert_eq!(events.pop(), Some(ModelEvent::Used(Usage::of(input, output))));
    assert!(!events.is_empty() && events.iter().all(|event| matches!(event, ModelEvent::Text(_))), "{events:?}");
}
