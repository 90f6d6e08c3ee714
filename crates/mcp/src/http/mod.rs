//! A server that listens elsewhere, by streamable HTTP.
//!
//! The SDK keeps the session; the requests are made here, so that bodies are bounded, redirects stay with the server, and
//! nothing that we send is ever part of a message.

mod events;

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::BoxStream};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::{RequestBuilder, Response, redirect};
use rmcp::{
    model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::{
        StreamableHttpClientTransport,
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
            StreamableHttpPostResponse,
        },
    },
};
use secrecy::ExposeSecret as _;
use sse_stream::Sse;

use crate::{
    Endpoint, ServerConfig,
    stdio::{failed_answer, has_too_many_values, too_large, too_many_values},
    tap::Ears,
    words::one_line,
};

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the network is asked whether the other side is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Redirects that are followed, all of them at the same server.
const REDIRECTS: usize = 5;
/// Requests that wait for their answer at once.
const REQUESTS: usize = 256;
/// How much of the body of a refusal is read.
const REFUSAL_BYTES: usize = 64 * 1024;
/// How much of it is told.
const TOLD_BYTES: usize = 300;

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct HttpError(String);

type Failure = StreamableHttpError<HttpError>;

fn failure(message: impl Into<String>) -> Failure {
    StreamableHttpError::Client(HttpError(message.into()))
}

/// Makes the requests of one connection.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient {
    client: reqwest::Client,
    most: usize,
    ears: Ears,
}

/// The way to a server; nothing is sent yet.
pub(crate) fn connect(config: &ServerConfig, ears: &Ears) -> Result<StreamableHttpClientTransport<HttpClient>, String> {
    let Endpoint::Http { url, headers } = &config.endpoint else { return Err("it has no address".to_owned()) };
    let client = reqwest::Client::builder()
        .user_agent(concat!("everturn/", env!("CARGO_PKG_VERSION")))
        .default_headers(sensitive(headers)?)
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(KEEPALIVE)
        .redirect(redirect::Policy::custom(stay))
        .build()
        .map_err(|error| format!("no client can be made for it: {error}"))?;
    let client = HttpClient { client, most: config.max_message, ears: ears.clone() };
    let mut settings = StreamableHttpClientTransportConfig::with_uri(url.as_str()).max_concurrent_requests(REQUESTS);
    // A forgotten session is a restart, so that tools are listed anew and nothing is sent twice.
    settings.reinit_on_expired_session = false;
    Ok(StreamableHttpClientTransport::with_client(client, settings))
}

fn sensitive(headers: &std::collections::BTreeMap<String, secrecy::SecretString>) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let unfit = || format!("the header {name:?} cannot be sent");
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit())?;
        let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| unfit())?;
        value.set_sensitive(true);
        map.insert(key, value);
    }
    Ok(map)
}

/// A redirect to elsewhere would take our headers there.
fn stay(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps_method = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let same = attempt.previous().last().is_some_and(|before| before.origin() == attempt.url().origin());
    if same && keeps_method && attempt.previous().len() <= REDIRECTS { attempt.follow() } else { attempt.stop() }
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let request = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            JsonRpcMessage::Response(_) | JsonRpcMessage::Notification(_) | JsonRpcMessage::Error(_) => None,
        };
        let has_session = session.is_some();
        let builder = self.client.post(&*uri).header(header::ACCEPT, format!("{EVENTS}, {JSON}")).json(&message);
        let response = self.send(with_headers(builder, session.as_deref(), headers)).await?;
        self.read_answer(response, request, has_session).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        // Whether it takes notice or not: we do not come back.
        let _ = with_headers(self.client.delete(&*uri), Some(&session), headers).send().await;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let mut builder = self.client.get(&*uri).header(header::ACCEPT, EVENTS);
        if let Some(last_event) = last_event {
            builder = builder.header(LAST_EVENT, last_event);
        }
        let response = self.send(with_headers(builder, session.as_deref(), headers)).await?;
        match response.status() {
            StatusCode::NOT_FOUND if session.is_some() => Err(self.session_is_gone()),
            status if status.is_success() && kind(&response) == Some(EVENTS) => Ok(self.events(response, None)),
            // It has nothing to say unasked, in whatever words it says so.
            status if status.is_success() || status.is_client_error() => {
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            status => Err(failure(format!("it answered HTTP {}", status.as_u16()))),
        }
    }
}

fn with_headers(
    mut builder: RequestBuilder,
    session: Option<&str>,
    headers: HashMap<HeaderName, HeaderValue>,
) -> RequestBuilder {
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    match session {
        Some(session) => builder.header(SESSION, session),
        None => builder,
    }
}

/// The kind of content, as far as it matters.
fn kind(response: &Response) -> Option<&'static str> {
    let kind = response.headers().get(header::CONTENT_TYPE)?.to_str().ok()?.trim_start().to_ascii_lowercase();
    [EVENTS, JSON].into_iter().find(|known| kind.starts_with(known))
}

impl HttpClient {
    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        request.send().await.map_err(|error| {
            let could_not_connect = error.is_connect();
            let message = words(error);
            if could_not_connect {
                self.ears.link.cut(message.clone());
            }
            failure(message)
        })
    }

    fn events(&self, response: Response, request: Option<RequestId>) -> BoxStream<'static, Result<Sse, SseError>> {
        let peeked = self.ears.peeked.clone();
        let events = events::events(response.bytes_stream(), self.most, request, self.ears.link.clone());
        let look = move |event: &Result<Sse, SseError>| {
            if let Ok(Sse { data: Some(data), .. }) = event {
                peeked.look(data.as_bytes());
            }
        };
        events.inspect(look).boxed()
    }

    fn session_is_gone(&self) -> Failure {
        self.ears.link.cut("it has forgotten our session");
        StreamableHttpError::SessionExpired
    }

    async fn read_answer(
        &self,
        response: Response,
        request: Option<RequestId>,
        has_session: bool,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let status = response.status();
        if status == StatusCode::NOT_FOUND && has_session {
            return Err(self.session_is_gone());
        }
        if !status.is_success() {
            return self.read_refusal(response, request).await;
        }
        let session = response.headers().get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let Some(id) = request else { return Ok(StreamableHttpPostResponse::Accepted) };
        if status == StatusCode::ACCEPTED {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        match kind(&response) {
            Some(EVENTS) => Ok(StreamableHttpPostResponse::Sse(self.events(response, Some(id)), session)),
            Some(_) => {
                let message = match read_body(response, self.most).await? {
                    None => failed_answer(id, &too_large(self.most)),
                    Some(body) if has_too_many_values(&body).is_some() => failed_answer(id, &too_many_values()),
                    Some(body) => {
                        self.ears.peeked.look(&body);
                        serde_json::from_slice(&body).unwrap_or_else(|error| {
                            failed_answer(id, &format!("the server's answer cannot be read: {error}"))
                        })
                    }
                };
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            None => {
                Err(failure("its answer is neither JSON nor a stream of events; is this the address of an MCP server?"))
            }
        }
    }

    /// A refusal may still be an answer in the words of MCP.
    async fn read_refusal(
        &self,
        response: Response,
        request: Option<RequestId>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let status = response.status();
        let advice = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "; check the headers that it is sent",
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => "; is this the address of an MCP server?",
            status if status.is_redirection() => "; redirects to elsewhere are not followed",
            _ => "",
        };
        let is_json = kind(&response) == Some(JSON);
        let body = read_body(response, REFUSAL_BYTES).await.ok().flatten().unwrap_or_default();
        if let Some(id) = request
            && is_json
            && !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
            && let Ok(ServerJsonRpcMessage::Error(mut error)) = serde_json::from_slice(&body)
        {
            error.id = Some(id);
            return Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), None));
        }
        let said = self.ears.chatter.clean(&String::from_utf8_lossy(&body), TOLD_BYTES);
        let said = if said.is_empty() { said } else { format!(": {said}") };
        Err(failure(format!("it answered HTTP {}{advice}{said}", status.as_u16())))
    }
}

/// The body, if it is no longer than allowed.
async fn read_body(response: Response, most: usize) -> Result<Option<Vec<u8>>, Failure> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| failure(words(error)))?;
        if body.len() + chunk.len() > most {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// Begins what is told of a request that has not been sent.
pub(crate) const NOT_CONNECTED: &str = "cannot connect";

/// What went wrong, down to its cause and without the address, which may have a secret in its query.
fn words(error: reqwest::Error) -> String {
    let what = if error.is_connect() {
        NOT_CONNECTED
    } else if error.is_timeout() {
        "it did not answer in time"
    } else {
        "the connection broke"
    };
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    one_line(&format!("{what}: {cause}"), TOLD_BYTES)
}
