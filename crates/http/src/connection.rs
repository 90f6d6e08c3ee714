//! One connection, from its first byte to its last.

use std::{convert::Infallible, future::Future, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use axum::{Json, Router, body::Body, response::IntoResponse as _};
use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use hyper::{body::Incoming, service::Service};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::{
    activity::{Activity, Tracked},
    crowd::Place,
    host::{self, HostError},
    proxies::Proxies,
    tls::Tls,
};

/// How long a client may take to send its request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection may be without its first request. HTTP/1 has the bound above; for HTTP/2 there is only this.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(40);
/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection that had requests may have none. HTTP/1 has the first bound for this too.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a client that has no answer to wait for may take to see that its connection is being closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The same where another client waits for the place.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(100);
/// How much of a request's head, and of an answer that the client does not take, is kept in memory.
const BUFFER: usize = 32 * 1024;
/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 100;
/// How much of the bodies of requests may be on its way: of one, and of all on a connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 512 * 1024;
/// How often the other side of an HTTP/2 connection is asked whether it is still there, and how long it has to answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Requests that a client may take back before we have looked at them; more end its connection.
const EARLY_RESETS: usize = 20;
/// Faults of a client that cost one stream each; more end its connection.
const STREAM_FAULTS: usize = 256;

/// What is answered on connections beyond the limit.
const OPERATORS_PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// What every connection shares.
pub(crate) struct Door {
    builder: auto::Builder<TokioExecutor>,
    app: Router,
    tls: Option<Tls>,
    proxies: Proxies,
    stop: CancellationToken,
}

impl Door {
    pub(crate) fn new(app: Router, tls: Option<Tls>, proxies: Proxies, stop: CancellationToken) -> Arc<Self> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(BUFFER);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(BUFFER as u32)
            .max_send_buf_size(BUFFER)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_pending_accept_reset_streams(EARLY_RESETS)
            .max_local_error_reset_streams(STREAM_FAULTS);
        Arc::new(Self { builder, app, tls, proxies, stop })
    }

    /// Serves a connection to its end.
    pub(crate) async fn serve(self: Arc<Self>, socket: TcpStream, peer: SocketAddr, place: Place) {
        // A client that connects and says nothing must not keep its place.
        let spoke = tokio::select! {
            readable = timeout(HEAD_TIMEOUT, socket.readable()) => readable.is_ok(),
            () = self.stop.cancelled() => false,
            () = place.asked_to_leave.cancelled() => false,
        };
        if !spoke {
            return;
        }
        match self.tls.clone() {
            None => self.converse(socket, peer, false, place).await,
            // In a box, so that connections without it are no larger.
            Some(tls) => Box::pin(self.shake_hands(tls, socket, peer, place)).await,
        }
    }

    async fn shake_hands(self: Arc<Self>, tls: Tls, socket: TcpStream, peer: SocketAddr, place: Place) {
        let shaken = async {
            let mut first = [0];
            match socket.peek(&mut first).await {
                // No TLS begins with a letter, and every HTTP does.
                Ok(1) if first[0].is_ascii_alphabetic() => {
                    say_https(socket).await;
                    None
                }
                Ok(_) | Err(_) => Some(tls.accept(socket).await),
            }
        };
        let shaken = tokio::select! {
            shaken = timeout(HANDSHAKE_TIMEOUT, shaken) => shaken,
            () = self.stop.cancelled() => return,
            () = place.asked_to_leave.cancelled() => return,
        };
        let client = peer.ip();
        match shaken {
            Ok(Some(Ok(stream))) => self.converse(stream, peer, true, place).await,
            Ok(Some(Err(error))) => tracing::debug!(%client, %error, "a TLS handshake failed"),
            Ok(None) => tracing::debug!(%client, "a client speaks http where https is spoken"),
            Err(_) => tracing::debug!(%client, seconds = HANDSHAKE_TIMEOUT.as_secs(), "a TLS handshake took too long"),
        }
    }

    async fn converse(self: Arc<Self>, stream: impl Stream, peer: SocketAddr, secure: bool, place: Place) {
        let activity = Arc::clone(&place.activity);
        let is_reserved = place.is_reserved;
        let service = Serving { door: Arc::clone(&self), activity: Arc::clone(&activity), peer, secure, is_reserved };
        let mut connection = Box::pin(self.builder.serve_connection(TokioIo::new(stream), service));
        let served = tokio::select! {
            served = connection.as_mut() => Some(served),
            () = self.stop.cancelled() => None,
            () = place.asked_to_leave.cancelled() => None,
            () = activity.idle(FIRST_REQUEST_TIMEOUT, IDLE_TIMEOUT) => None,
        };
        let served = match served {
            Some(served) => served,
            None => {
                connection.as_mut().graceful_shutdown();
                // Answers may be finished, but half a request holds nobody up.
                let patience = if place.asked_to_leave.is_cancelled() { LEAVE_TIMEOUT } else { CLOSE_TIMEOUT };
                let quiet = async {
                    tokio::time::sleep(patience).await;
                    activity.idle(patience, patience).await;
                };
                tokio::select! {
                    served = connection => served,
                    () = quiet => Ok(()),
                }
            }
        };
        if let Err(error) = served {
            tracing::debug!(client = %peer.ip(), error, "a connection ended early");
        }
    }
}

/// What connections go over.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// Tells a client that speaks HTTP what is spoken here.
async fn say_https(mut socket: TcpStream) {
    let text = "this server speaks https here; call it by https://\n";
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    if socket.write_all(answer.as_bytes()).await.is_ok() && socket.shutdown().await.is_ok() {
        // What is left unread would reset the connection before the client has read the answer.
        let _ = tokio::io::copy(&mut socket.take(BUFFER as u64), &mut tokio::io::sink()).await;
    }
}

/// Tells a client that its request calls no host, or several, in the words of every dialect: it may be for any.
fn refuse(error: HostError, version: Version) -> Response<Body> {
    let message = error.to_string();
    let detail = serde_json::json!({ "code": "HOST_INVALID", "message": message });
    let body = serde_json::json!({ "error": message, "message": message, "detail": detail });
    let mut answer = (StatusCode::BAD_REQUEST, Json(body)).into_response();
    if version < Version::HTTP_2 {
        // Whoever wrote two heads in one may have meant two requests.
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Tells a client that came when all connections were at work to come again.
fn refuse_crowded(version: Version) -> Response<Body> {
    let message = "as many connections as limits.connections allows are open, and all have requests under way";
    let detail = serde_json::json!({ "code": "OVERLOADED", "message": message });
    let body = serde_json::json!({ "error": message, "message": message, "detail": detail });
    let mut answer = (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response();
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
    if version < Version::HTTP_2 {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Answers the requests of one connection.
struct Serving {
    door: Arc<Door>,
    activity: Arc<Activity>,
    peer: SocketAddr,
    secure: bool,
    is_reserved: bool,
}

impl Service<Request<Incoming>> for Serving {
    type Response = Response<Tracked>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let under_way = self.activity.request();
        let (mut parts, body) = request.into_parts();
        if let Err(error) = host::settle(&mut parts) {
            tracing::debug!(client = %self.peer.ip(), %error, "a request calls no host");
            let answer = refuse(error, parts.version).map(|body| Tracked { body, _request: under_way });
            return Box::pin(std::future::ready(Ok(answer)));
        }
        if self.is_reserved && !OPERATORS_PATHS.contains(&parts.uri.path()) {
            let answer = refuse_crowded(parts.version).map(|body| Tracked { body, _request: under_way });
            return Box::pin(std::future::ready(Ok(answer)));
        }
        let client = self.door.proxies.admit(self.peer.ip(), self.secure, &mut parts);
        parts.extensions.insert(client);
        let answer = self.door.app.clone().oneshot(Request::from_parts(parts, Body::new(body)));
        Box::pin(async {
            let answer = answer.await?;
            Ok(answer.map(|body| Tracked { body, _request: under_way }))
        })
    }
}

#[cfg(test)]
mod tests;
