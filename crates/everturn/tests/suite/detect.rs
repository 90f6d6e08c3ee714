//! Agents that are found at start.

use std::net::SocketAddr;

use everturn::config::{Environment, Found, find_agents};
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

/// A server that gives this answer to one request and then holds the connection open.
async fn answering(answer: String) -> SocketAddr {
    let (listener, address) = listener().await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap();
        let request = String::from_utf8_lossy(&request[..length]).into_owned();
        assert!(request.starts_with("GET /api/tags HTTP/1.1\r\n"), "{request}");
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
    assert_eq!(agents(&found), [DEMO, "gpt-5.6 = openai/gpt-5.6", "claude-sonnet-5-5 = anthropic/claude-sonnet-5-5"]);
    assert_eq!(found.providers.keys().collect::<Vec<_>>(), ["anthropic", "demo", "openai"]);
}

#[tokio::test]
async fn a_local_ollama_adds_its_newest_chat_model() {
    let list = r#"{"models":[{"name":"nomic-embed-text:latest"},{"name":"qwen3:8b","size":5},{"name":"llama3:8b"}]}"#;
    assert_eq!(agents_with_ollama(ok(list)).await, [DEMO, "qwen3-8b = ollama/qwen3:8b"]);
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
