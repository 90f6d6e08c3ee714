//! Agents that are found at start.

use std::net::SocketAddr;

use everturn::config::{Agent, Environment, Found, Source, find_agents, parse};
use expect_test::expect;
use secrecy::ExposeSecret as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// An address that nobody listens on.
async fn nobody() -> SocketAddr {
    listener().await.1
}

/// An Ollama that gives this answer to one request and then holds the connection open.
async fn answering(answer: String) -> SocketAddr {
    answering_at("/api/tags", answer).await
}

/// A server that gives this answer to one request for a path.
async fn answering_at(path: &'static str, answer: String) -> SocketAddr {
    let (listener, address) = listener().await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap();
        let request = String::from_utf8_lossy(&request[..length]).into_owned();
        assert!(request.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{request}");
        stream.write_all(answer.as_bytes()).await.unwrap();
        let _ = stream.read(&mut [0]).await;
    });
    address
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn agents(found: &Found) -> Vec<String> {
    found.agents.iter().map(|agent| format!("{} = {}", agent.name, agent.model)).collect()
}

async fn agents_with_ollama(answer: String) -> Vec<String> {
    agents(&find_agents(&Environment::default(), answering(answer).await).await)
}

const DEMO: &str = "demo = demo/assistant";

#[tokio::test]
async fn there_is_always_the_demo() {
    let found = find_agents(&Environment::default(), nobody().await).await;
    assert_eq!(agents(&found), [DEMO]);
    assert_eq!(found.agents[0].options.len(), 3);
}

#[tokio::test]
async fn keys_in_the_environment_add_agents() {
    let environment = Environment::from([("OPENAI_API_KEY", "a"), ("ANTHROPIC_API_KEY", "b"), ("GEMINI_API_KEY", "")]);
    let found = find_agents(&environment, nobody().await).await;
    assert_eq!(
        agents(&found),
        ["gpt-6-sol = openai/gpt-6-sol", "claude-sonnet-5-5 = anthropic/claude-sonnet-5-5", DEMO]
    );
    assert_eq!(found.providers.keys().collect::<Vec<_>>(), ["anthropic", "demo", "openai"]);
    assert!(found.providers.values().all(|provider| provider.base_url.is_none()));
}

#[tokio::test]
async fn a_compatible_server_is_asked_for_a_model_that_it_has() {
    for (list, agent) in [
        (r#"{"data":[{"id":"text-embed"},{"id":"qwen"}]}"#, "qwen = openai/qwen"),
        (r#"{"data":[{"id":"qwen"},{"id":"gpt-6-sol"}]}"#, "gpt-6-sol = openai/gpt-6-sol"),
        ("rubbish", "gpt-6-sol = openai/gpt-6-sol"),
    ] {
        let address = answering_at("/v1/models", ok(list)).await;
        let base_url = format!("http://{address}/v1");
        let variables = [("OPENAI_API_KEY".into(), "a".into()), ("OPENAI_BASE_URL".into(), base_url.into())];
        let found = find_agents(&Environment::new(variables), nobody().await).await;
        assert_eq!(agents(&found), [agent, DEMO], "{list}");
    }
}

#[tokio::test]
async fn an_ollama_may_have_a_path() {
    let address = answering_at("/ol/api/tags", ok(r#"{"models":[{"name":"llama"}]}"#)).await;
    let host = format!("http://{address}/ol/");
    let found = find_agents(&Environment::new([("OLLAMA_HOST".into(), host.into())]), nobody().await).await;
    assert_eq!(agents(&found), ["llama = ollama/llama", DEMO]);
    assert_eq!(found.providers["ollama"].base_url, Some(format!("http://{address}/ol")));
}

#[tokio::test]
async fn compatible_providers_have_their_addresses() {
    let keys = ["OPENROUTER", "DEEPSEEK", "MISTRAL", "XAI", "GROQ"].map(|name| format!("{name}_API_KEY"));
    let environment = Environment::new(keys.map(|key| (key.into(), "k".into())));
    let found = find_agents(&environment, nobody().await).await;
    let address = |agent: &Agent| found.providers[&agent.model.provider].base_url.clone().unwrap_or_default();
    let shown: String = found.agents[..5]
        .iter()
        .map(|agent| format!("{} = {} at {}\n", agent.name, agent.model, address(agent)))
        .collect();
    expect![[r#"
        openrouter-auto = openrouter/openrouter/auto at https://openrouter.ai/api/v1
        deepseek-flash = deepseek/deepseek-flash at https://api.deepseek.com/v1
        mistral-medium-latest = mistral/mistral-medium-latest at https://api.mistral.ai/v1
        grok-4.5 = xai/grok-4.5 at https://api.x.ai/v1
        openai-gpt-oss-120b = groq/openai/gpt-oss-120b at https://api.groq.com/openai/v1
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn googles_own_variable_wins() {
    for (variables, expected) in [
        ([("GOOGLE_API_KEY", "google"), ("GEMINI_API_KEY", "gemini")], "google"),
        ([("GOOGLE_API_KEY", ""), ("GEMINI_API_KEY", "gemini")], "gemini"),
    ] {
        let found = find_agents(&Environment::from(variables), nobody().await).await;
        assert_eq!(agents(&found)[0], "gemini-3.8-flash = gemini/gemini-3.8-flash");
        assert_eq!(found.providers["gemini"].api_key.as_ref().unwrap().expose_secret(), expected);
    }
}

#[tokio::test]
async fn addresses_in_the_environment_are_honoured() {
    for (openai, anthropic, expected) in [
        ("https://gate/v1/", "https://gate/anthropic", [Some("https://gate/v1"), Some("https://gate/anthropic/v1")]),
        ("https://api.openai.com/v1", "https://api.anthropic.com/", [None, None]),
        ("https://gate", "https://gate/v1", [Some("https://gate"), Some("https://gate/v1")]),
    ] {
        let environment = Environment::from([
            ("OPENAI_API_KEY", "a"),
            ("OPENAI_BASE_URL", openai),
            ("ANTHROPIC_API_KEY", "b"),
            ("ANTHROPIC_BASE_URL", anthropic),
        ]);
        let found = find_agents(&environment, nobody().await).await;
        let bases = ["openai", "anthropic"].map(|name| found.providers[name].base_url.as_deref());
        assert_eq!(bases, expected);
    }
}

#[tokio::test]
async fn azure_needs_its_three_variables() {
    let (key, endpoint) = (("AZURE_OPENAI_API_KEY", "a"), ("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com/"));
    let found = find_agents(&Environment::from([key, endpoint]), nobody().await).await;
    assert_eq!(agents(&found), [DEMO]);
    // A deployment that is named as another provider's model.
    let openai = ("OPENAI_API_KEY", "b");
    let deployment = ("AZURE_OPENAI_DEPLOYMENT", "gpt-6-sol");
    let found = find_agents(&Environment::from([key, endpoint, deployment, openai]), nobody().await).await;
    assert_eq!(agents(&found), ["gpt-6-sol = openai/gpt-6-sol", "azure-gpt-6-sol = azure/gpt-6-sol", DEMO]);
    let azure = &found.providers["azure"];
    assert_eq!(azure.base_url.as_deref(), Some("https://me.openai.azure.com/openai/v1"));
    assert_eq!((azure.headers[0].0.as_str(), azure.headers[0].1.expose_secret()), ("api-key", "a"));
}

#[tokio::test]
async fn ollama_is_found_where_its_variable_says() {
    let list = r#"{"models":[{"name":"qwen3:8b"}]}"#;
    for form in ["127.0.0.1:PORT", "http://127.0.0.1:PORT/", "0.0.0.0:PORT", ":PORT"] {
        let address = answering(ok(list)).await;
        let host = form.replace("PORT", &address.port().to_string());
        let found = find_agents(&Environment::from([("OLLAMA_HOST", host.as_str())]), nobody().await).await;
        assert_eq!(agents(&found), ["qwen3-8b = ollama/qwen3:8b", DEMO], "{host}");
        assert_eq!(found.providers["ollama"].base_url, Some(format!("http://{address}")), "{host}");
    }
    for host in ["https://ollama.example.org", "127.0.0.1:port", "nobody.invalid"] {
        let found = find_agents(&Environment::from([("OLLAMA_HOST", host)]), answering(ok(list)).await).await;
        assert_eq!(agents(&found), [DEMO], "{host}");
    }
}

#[tokio::test]
async fn a_local_ollama_adds_its_chat_models() {
    let list = r#"{"models":[{"name":"nomic-embed-text:latest"},{"name":"qwen3:8b","size":5},{"name":"llama3:8b"}]}"#;
    let expected = ["qwen3-8b = ollama/qwen3:8b", "llama3-8b = ollama/llama3:8b", DEMO];
    assert_eq!(agents_with_ollama(ok(list)).await, expected);
}

#[tokio::test]
async fn models_of_ollama_go_by_their_own_names_in_chat_completions() {
    let list = r#"{"models":[{"name":"qwen3:8b"},{"name":"llama3.2:latest"}]}"#;
    let found = find_agents(&Environment::default(), answering(ok(list)).await).await;
    let (overrides, tools) = (Default::default(), Default::default());
    let mapped = b"[openai.models]\n'qwen3:8b' = 'demo'\n";
    for (file, qwen) in [(&b""[..], "qwen3-8b"), (mapped, "demo")] {
        let config = parse(Source::Defaults, file, &overrides, &Environment::default(), &tools, found.clone()).unwrap();
        let models: Vec<_> = config.openai.models.iter().map(|(name, agent)| format!("{name} = {agent}")).collect();
        let latest = ["llama3.2 = llama3.2-latest", "llama3.2:latest = llama3.2-latest"];
        assert_eq!(models, [latest[0], latest[1], &format!("qwen3:8b = {qwen}")]);
    }
}

#[tokio::test]
async fn what_is_no_ollama_adds_nothing() {
    for answer in [
        ok(r#"{"models":[]}"#),
        ok("<html>"),
        "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "SSH-2.0-OpenSSH_9.2\r\n".to_owned(),
        // Never complete: the budget of the probe ends it.
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_owned(),
    ] {
        assert_eq!(agents_with_ollama(answer.clone()).await, [DEMO], "{answer}");
    }
}
