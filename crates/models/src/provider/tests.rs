//! Addresses, keys and names of providers.

use super::*;

fn provider(kind: ProviderKind, base_url: Option<&str>, key: Option<&str>) -> Result<Provider, ProviderError> {
    let base_url = base_url.map(str::to_owned);
    let api_key = key.map(SecretString::from);
    Provider::new("p", ProviderConfig { base_url, api_key, ..ProviderConfig::new(kind) })
}

#[test]
fn addresses_get_their_usual_path() {
    for (kind, base, expected) in [
        (ProviderKind::OpenAi, None, "https://api.openai.com/v1/responses"),
        (ProviderKind::OpenAi, Some("https://api.openai.com"), "https://api.openai.com/v1/responses"),
        (ProviderKind::OpenAi, Some("http://127.0.0.1:1"), "http://127.0.0.1:1/v1/chat/completions"),
        (ProviderKind::OpenAi, Some("http://127.0.0.1:1/api/v3/"), "http://127.0.0.1:1/api/v3/chat/completions"),
        (ProviderKind::Anthropic, None, "https://api.anthropic.com/v1/messages"),
        (ProviderKind::Anthropic, Some("http://127.0.0.1:1/v1"), "http://127.0.0.1:1/v1/messages"),
        (ProviderKind::Anthropic, Some("http://127.0.0.1:1"), "http://127.0.0.1:1/v1/messages"),
        (
            ProviderKind::Anthropic,
            Some("https://api.deepseek.com/anthropic"),
            "https://api.deepseek.com/anthropic/v1/messages",
        ),
        (ProviderKind::Anthropic, Some("http://a.b/api/anthropic/"), "http://a.b/api/anthropic/v1/messages"),
        (ProviderKind::Anthropic, Some("http://a.b/anthropic/v1/"), "http://a.b/anthropic/v1/messages"),
        (
            ProviderKind::Gemini,
            None,
            "https://generativelanguage.googleapis.com/v1beta/models/a%2Fb:streamGenerateContent?alt=sse",
        ),
        (ProviderKind::Ollama, None, "http://127.0.0.1:11434/api/chat"),
        (ProviderKind::Ollama, Some("http://127.0.0.1:1/"), "http://127.0.0.1:1/api/chat"),
    ] {
        let provider = provider(kind, base, Some("key")).unwrap();
        let wire = provider.wire_of("a/b").unwrap();
        assert_eq!(wire.url(&provider.caller.unwrap().base, "a/b").as_str(), expected);
    }
}

#[test]
fn azure_has_addresses_and_a_header_of_its_own() {
    for (base, expected) in [
        ("https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1/responses"),
        ("https://r.services.ai.azure.com/openai/v1/", "https://r.services.ai.azure.com/openai/v1/responses"),
        (
            "https://r.openai.azure.com/openai/v1?api-version=preview",
            "https://r.openai.azure.com/openai/v1/responses?api-version=preview",
        ),
        (
            "https://r.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
            "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
        ),
        (
            "https://r.cognitiveservices.azure.com/?api-version=2024-10-21",
            "https://r.cognitiveservices.azure.com/openai/deployments/a%2Fb/chat/completions?api-version=2024-10-21",
        ),
        (
            "https://gateway.example.com/llm?api-version=1",
            "https://gateway.example.com/llm/chat/completions?api-version=1",
        ),
    ] {
        let provider = provider(ProviderKind::OpenAi, Some(base), Some("hunter2")).unwrap();
        let wire = provider.wire_of("a/b").unwrap();
        let base = &provider.caller.unwrap().base;
        assert_eq!(wire.url(base, "a/b").as_str(), expected);
        let headers = wire.headers(Some(&"hunter2".into()), base).unwrap();
        let list = wire.list_url(base).unwrap();
        assert!(!list.path().contains("deployments") && list.query() == base.query(), "{list}");
        let name = if expected.contains("azure.com") { "api-key" } else { "authorization" };
        assert!(headers.len() == 1 && headers[name].is_sensitive(), "{expected}");
    }
}

#[test]
fn configuration_chooses_between_the_wires_of_openai() {
    for (base_url, wire, expected) in [
        (None, Some(OpenAiWire::Chat), "chat"),
        (Some("http://127.0.0.1:1".to_owned()), Some(OpenAiWire::Responses), "responses"),
        (Some("http://127.0.0.1:1".to_owned()), None, "chat"),
    ] {
        let api_key = Some("key".into());
        let config = ProviderConfig { base_url, api_key, wire, ..ProviderConfig::new(ProviderKind::OpenAi) };
        assert_eq!(Provider::new("p", config).unwrap().wire_of("m").unwrap().name(), expected);
    }
}

/// Azure's v1 address serves models of many vendors, of which OpenAI's have Responses.
#[test]
fn the_wire_follows_address_and_model() {
    let azure = Some("https://r.services.ai.azure.com/openai/v1");
    let deployments = Some("https://r.openai.azure.com/?api-version=2024-10-21");
    for (base, model, expected) in [
        (None, "gpt-6-sol", "responses"),
        (None, "a-new-model", "responses"),
        (azure, "gpt-6-sol", "responses"),
        (azure, "o4-mini", "responses"),
        (azure, "codex-mini", "responses"),
        (azure, "my-deployment", "responses"),
        (azure, "DeepSeek-V3.2", "chat"),
        (azure, "deepseek-r1-0528", "chat"),
        (azure, "Llama-4-Maverick-17B-128E-Instruct-FP8", "chat"),
        (azure, "Meta-Llama-3.1-405B-Instruct", "chat"),
        (azure, "Mistral-Large-3", "chat"),
        (azure, "Codestral-2501", "chat"),
        (azure, "grok-4-fast-reasoning", "chat"),
        (azure, "claude-sonnet-4-5", "chat"),
        (azure, "Kimi-K2-Thinking", "chat"),
        (azure, "Phi-4", "chat"),
        (azure, "cohere-command-a", "chat"),
        (azure, "qwen3-32b", "chat"),
        (azure, "MAI-DS-R1", "chat"),
        (azure, "gpt-oss-120b", "chat"),
        (deployments, "gpt-6-sol", "chat"),
        (Some("https://openrouter.ai/api/v1"), "openai/gpt-6-sol", "chat"),
        (Some("http://127.0.0.1:1"), "gpt-6-sol", "chat"),
    ] {
        let provider = provider(ProviderKind::OpenAi, base, Some("key")).unwrap();
        assert_eq!(provider.wire_of(model).unwrap().name(), expected, "{model} at {base:?}");
    }
}

/// A server that answers chat completions and has no Responses; it remembers the paths that were asked for.
async fn chat_only() -> (String, Arc<std::sync::Mutex<Vec<String>>>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let paths = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = Vec::new();
            loop {
                let text = String::from_utf8_lossy(&request).to_lowercase();
                if let Some((head, body)) = text.split_once("\r\n\r\n") {
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                        break;
                    }
                }
                if socket.read_buf(&mut request).await.unwrap() == 0 {
                    break;
                }
            }
            let text = String::from_utf8_lossy(&request);
            let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
            let (status, body) = if path.ends_with("/chat/completions") {
                let chunk = r#"{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}"#;
                ("200 OK", format!("data: {chunk}\n\ndata: [DONE]\n\n"))
            } else {
                let words = "The responses operation does not work with the specified model, m.";
                let error = serde_json::json!({ "error": { "code": "OperationNotSupported", "message": words } });
                ("400 Bad Request", error.to_string())
            };
            paths.lock().unwrap().push(path);
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
            socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        }
    });
    (url, asked)
}

/// The first call finds out that the server has no Responses for the model; later ones do not ask again.
#[tokio::test]
async fn a_server_without_responses_is_called_through_chat_completions() {
    for (wire, expected) in [
        (None, &["/v1/responses", "/v1/chat/completions", "/v1/chat/completions"][..]),
        (Some(OpenAiWire::Responses), &["/v1/responses", "/v1/responses"][..]),
    ] {
        let (url, asked) = chat_only().await;
        let config = ProviderConfig { base_url: Some(url), wire, ..ProviderConfig::new(ProviderKind::OpenAi) };
        let caller = Arc::new(caller("p", &chat::Chat, config).unwrap());
        for _ in 0..2 {
            let (name, kind, caller) = ("p/m".to_owned(), ProviderKind::OpenAi, Arc::clone(&caller));
            let model = RemoteModel::new(name, "m", &responses::Responses, kind, caller);
            let messages = [everturn_core::Message::user("Hello")].into();
            let answer = model.stream(ModelRequest { messages, ..ModelRequest::default() }).await;
            assert_eq!(answer.is_ok(), wire.is_none(), "configuration decides");
            if let Ok(answer) = answer {
                assert!(answer.collect::<Vec<_>>().await.iter().all(Result::is_ok));
            }
        }
        assert_eq!(*asked.lock().unwrap(), expected);
    }
}

#[test]
fn what_cannot_work_is_refused_without_showing_secrets() {
    for (kind, base, key, expected) in [
        (
            ProviderKind::OpenAi,
            None,
            None,
            "provider \"p\" needs an api_key, or the base_url of a server that needs none",
        ),
        (
            ProviderKind::OpenAi,
            Some("ftp://x"),
            None,
            "base_url \"ftp://x\" of provider \"p\" cannot be used: it must begin with http:// or https://",
        ),
        (
            ProviderKind::Gemini,
            Some("http://u:hunter2@x/"),
            None,
            "base_url \"\" of provider \"p\" cannot be used: it must not hold a user name or password; use api_key",
        ),
        (
            ProviderKind::Anthropic,
            None,
            Some("hunter2\n"),
            "the api_key of provider \"p\" holds characters that no HTTP header can; check it for line breaks",
        ),
    ] {
        let error = provider(kind, base, key).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
    let shown = format!("{:?}", provider(ProviderKind::OpenAi, None, Some("hunter2")).unwrap());
    assert_eq!(shown, r#"Provider { name: "p", kind: OpenAi, base: Some("https://api.openai.com/v1") }"#);
    let config = ProviderConfig { api_key: Some("hunter2".into()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn models_are_named_and_know_their_window() {
    let openai = provider(ProviderKind::OpenAi, None, Some("key")).unwrap();
    assert_eq!(openai.model("gpt-4o").name(), "p/gpt-4o");
    assert_eq!(openai.model("gpt-4o").context_window(), Some(128_000));
    assert_eq!(openai.model("something").context_window(), None);
    let configured = ProviderConfig { context_window: Some(4096), ..ProviderConfig::new(ProviderKind::Ollama) };
    assert_eq!(Provider::new("o", configured).unwrap().model("qwen3").context_window(), Some(4096));
    let demo = provider(ProviderKind::Demo, None, None).unwrap();
    assert_eq!(demo.model("assistant").name(), "p/assistant");
    assert_eq!(demo.model("assistant").context_window(), Some(32_768));
    for kind in ProviderKind::ALL {
        assert_eq!(kind.as_str().parse(), Ok(kind));
        assert_eq!(serde_json::from_value::<ProviderKind>(kind.as_str().into()).unwrap(), kind);
    }
    assert!("openia".parse::<ProviderKind>().is_err());
}
