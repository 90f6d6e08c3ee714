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
