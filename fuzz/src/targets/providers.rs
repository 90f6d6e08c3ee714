//! Answers of providers, by HTTP: a model is called, and a server on this machine answers with the input.
//!
//! An input may begin with a line such as `HTTP 429 application/json`; otherwise it is the body of a stream that begins well.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, bail};
use everturn_core::Message;
use everturn_models::{Model, ModelEvent, ModelRequest, OpenAiWire, Provider, ProviderConfig, ProviderKind};
use futures_util::StreamExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};

use super::Reading;
use crate::corpus;

/// Inputs after which a new provider begins. It keeps what it learns of its models.
const INPUTS_OF_A_PROVIDER: u32 = 500;
/// How long one call may take.
const PATIENCE: Duration = Duration::from_secs(8);

pub(super) fn chat() -> anyhow::Result<Reading> {
    start("chat", ProviderKind::OpenAi, Some(OpenAiWire::Chat))
}

pub(super) fn responses() -> anyhow::Result<Reading> {
    start("responses", ProviderKind::OpenAi, Some(OpenAiWire::Responses))
}

pub(super) fn anthropic() -> anyhow::Result<Reading> {
    start("anthropic", ProviderKind::Anthropic, None)
}

pub(super) fn gemini() -> anyhow::Result<Reading> {
    start("gemini", ProviderKind::Gemini, None)
}

pub(super) fn ollama() -> anyhow::Result<Reading> {
    start("ollama", ProviderKind::Ollama, None)
}

fn start(name: &str, kind: ProviderKind, wire: Option<OpenAiWire>) -> anyhow::Result<Reading> {
    // Fails only if there is one already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = Arc::new(Mutex::new(Vec::new()));
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    runtime.spawn(serve(listener, Arc::clone(&answer)));
    let base_url = Some(format!("http://{address}/v1"));
    let api_key = Some("sk-fuzz".into());
    let config = ProviderConfig { base_url, api_key, wire, ..ProviderConfig::new(kind) };
    let mut provider = Provider::new("fuzz", config.clone())?;
    let mut calls = 0_u32;
    let mut read = move |input: &[u8]| {
        *answer.lock().unwrap_or_else(PoisonError::into_inner) = written(input, kind);
        if calls.is_multiple_of(INPUTS_OF_A_PROVIDER) {
            provider = Provider::new("fuzz", config.clone()).map_err(|error| error.to_string())?;
        }
        calls += 1;
        // What is learned of a model must not change what the next input meets.
        call(&runtime, &*provider.model(&format!("model-{calls}")))
    };
    // What is right must be read to its end, or nothing that is made of it is read.
    let sample = corpus::folder(name).join("sample");
    if !read(&std::fs::read(&sample)?).is_ok_and(|is_finished| is_finished) {
        bail!("the answer {} is not read to its end", sample.display());
    }
    Ok(Box::new(move |input| read(input).map(drop)))
}

/// The answer that an input stands for.
fn written(input: &[u8], kind: ProviderKind) -> Vec<u8> {
    let usual = if kind == ProviderKind::Ollama { "application/x-ndjson" } else { "text/event-stream" };
    let head = input.strip_prefix(b"HTTP ").and_then(|rest| {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let (status, media_type) = std::str::from_utf8(&rest[..end]).ok()?.split_once(' ')?;
        let status: u16 = status.parse().ok().filter(|status| (200..600).contains(status))?;
        let is_value = media_type.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        is_value.then(|| (status, media_type.to_owned(), &rest[end + 1..]))
    });
    let (status, media_type, body) = head.unwrap_or((200, usual.to_owned(), input));
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

async fn serve(listener: TcpListener, answer: Arc<Mutex<Vec<u8>>>) {
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(answer_all(socket, Arc::clone(&answer)));
    }
}

/// Answers every request of a connection. Ends with the connection.
async fn answer_all(mut socket: TcpStream, answer: Arc<Mutex<Vec<u8>>>) {
    let mut received = Vec::new();
    loop {
        let whole = loop {
            if let Some(length) = request_length(&received).filter(|length| received.len() >= *length) {
                break length;
            }
            let mut buffer = [0; 8192];
            match socket.read(&mut buffer).await {
                Ok(length) if length > 0 => received.extend_from_slice(&buffer[..length]),
                Ok(_) | Err(_) => return,
            }
        };
        received.drain(..whole);
        let bytes = answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if socket.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// How long the request is that these bytes begin with, once its head is there.
fn request_length(received: &[u8]) -> Option<usize> {
    let head = received.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&received[..head]).to_ascii_lowercase();
    let length = text.split("content-length:").nth(1).and_then(|rest| rest.lines().next()?.trim().parse().ok());
    Some(head + length.unwrap_or(0))
}

/// Calls the model, and checks what every answer must be. Says whether it came to its end.
fn call(runtime: &Runtime, model: &dyn Model) -> Result<bool, String> {
    let request = ModelRequest { messages: [Message::user("hello")].into(), ..ModelRequest::default() };
    runtime.block_on(async {
        let answer = async {
            let Ok(mut stream) = model.stream(request).await else { return Ok(false) };
            let mut is_finished = false;
            while let Some(event) = stream.next().await {
                let Ok(event) = event else { return Ok(false) };
                if is_finished {
                    return Err(format!("{event:?} comes after the end"));
                }
                match &event {
                    ModelEvent::Text(text) | ModelEvent::Thinking(text) if text.is_empty() => {
                        return Err(format!("{event:?} is empty"));
                    }
                    ModelEvent::ToolCall { input, .. } if !input.as_str().trim_start().starts_with('{') => {
                        return Err(format!("{event:?}: the input is no object"));
                    }
                    ModelEvent::Finished { .. } => is_finished = true,
                    _ => {}
                }
            }
            if is_finished { Ok(true) } else { Err("the answer has neither an end nor an error".to_owned()) }
        };
        let answered = tokio::time::timeout(PATIENCE, answer).await.context("it takes too long");
        answered.map_err(|error| error.to_string())?
    })
}
