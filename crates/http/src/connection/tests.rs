use std::convert::Infallible;

use axum::{Extension, routing::get};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2;
use rcgen::generate_simple_self_signed;
use tokio::net::TcpListener;

use super::*;
use crate::{ClientAddress, Connections, TlsFiles, serve};

/// A server whose `/drip` sends a word whenever it is asked for one, and which `/who` tells who asks.
async fn start(tls: Option<Tls>) -> SocketAddr {
    start_until(tls, CancellationToken::new()).await.0
}

async fn start_until(tls: Option<Tls>, stop: CancellationToken) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let words = || stream::iter(0..3).then(async |n| Ok::<_, Infallible>(format!("word {n}\n")));
    let app = Router::new()
        .route("/", get(async || "hello"))
        .route("/who", get(async |Extension(client): Extension<ClientAddress>| client.ip.to_string()))
        .route("/drip", get(async move || Body::from_stream(words())))
        .route("/never", get(async || Body::from_stream(stream::pending::<Result<Bytes, Infallible>>())));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Connections { limit: 10, tls, proxies: Proxies::default() };
    (address, tokio::spawn(serve(listener, app, connections, stop)))
}

/// What the server says to these bytes before it closes, which it does in time that does not pass.
async fn said(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let closed = timeout(Duration::from_secs(600), socket.read_to_end(&mut answer)).await;
    let _ = closed.expect("the server closes the connection");
    answer
}

type Sender = http2::SendRequest<Empty<Bytes>>;

async fn connect(address: SocketAddr) -> (Sender, tokio::task::JoinHandle<hyper::Result<()>>) {
    let socket = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
    (sender, tokio::spawn(connection))
}

fn request(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://localhost{path}")).body(Empty::new()).unwrap()
}

fn tls() -> (tempfile::TempDir, Tls) {
    let folder = tempfile::tempdir().unwrap();
    let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    std::fs::write(&files.cert, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    (folder, Tls::open(files).unwrap())
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn clients_that_do_not_go_on_are_let_go() {
    let address = start(None).await;
    assert_eq!(said(address, b"").await, b"");
    assert_eq!(said(address, b"GET / HTTP/1.1\r\nhost: a").await, b"");
    assert_eq!(said(address, &PREFACE[..10]).await, b"");
    // Settings, and at the end a farewell.
    let answer = said(address, PREFACE).await;
    assert!(!answer.is_empty() && !answer.starts_with(b"HTTP/1"), "{answer:?}");
    // With settings of its own, and an answer to every ping that it does not send.
    let settings = [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    assert!(!said(address, &settings).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn handshakes_that_do_not_go_on_are_let_go() {
    let (_folder, tls) = tls();
    let address = start(Some(tls)).await;
    assert_eq!(said(address, b"").await, b"");
    assert_eq!(said(address, &[0x16]).await, b"");
    assert_eq!(said(address, &[0x16, 3, 1, 2, 0, 1, 0]).await, b"");
    let alert = said(address, &[0x16, 3, 1, 0, 4, 1, 0, 0, 0]).await;
    assert_eq!(alert.first(), Some(&0x15), "{alert:?}");
}

#[tokio::test]
async fn http_where_https_is_spoken() {
    let (_folder, tls) = tls();
    let address = start(Some(tls)).await;
    let answer = said(address, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("call it by https://\n"), "{answer}");
}

#[tokio::test]
async fn a_handler_is_told_who_asks() {
    let (mut sender, _connection) = connect(start(None).await).await;
    let request = Request::get("http://localhost/who").header("x-forwarded-for", "1.2.3.4");
    let answer = sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "127.0.0.1");
}

/// By RFC 9112 whoever calls two hosts, or none, or one that is none, is told so, and no handler sees the request.
#[tokio::test]
async fn a_request_calls_one_host() {
    let address = start(None).await;
    let ask = async |head: &str| {
        let answer = said(address, format!("{head}connection: close\r\n\r\n").as_bytes()).await;
        String::from_utf8(answer).unwrap()
    };
    for (head, problem) in [
        ("GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n", "the request has 2 Host headers"),
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n", "the request has 2 Host headers"),
        ("GET / HTTP/1.0\r\nhost: a\r\nhost: a\r\n", "the request has 2 Host headers"),
        ("GET / HTTP/1.1\r\n", "the request has no Host header"),
        ("GET / HTTP/1.1\r\nhost: a, b\r\n", "the Host header has no host in it"),
        ("GET http://localhost@evil.example/ HTTP/1.1\r\nhost: localhost\r\n", "has a user in it"),
    ] {
        let answer = ask(head).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") || answer.starts_with("HTTP/1.0 400 "), "{head}: {answer}");
        assert!(answer.contains(problem) && answer.contains("connection: close"), "{head}: {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert!(body["error"] == body["message"] && body["detail"]["code"] == "HOST_INVALID", "{body}");
    }
    for head in ["GET / HTTP/1.1\r\nhost: a\r\n", "GET / HTTP/1.0\r\n", "GET http://a/ HTTP/1.1\r\nhost: b\r\n"] {
        assert!(ask(head).await.ends_with("\r\n\r\nhello"), "{head}");
    }
    let (mut sender, _connection) = connect(address).await;
    let several = Request::get("http://localhost/").header("host", "a").header("host", "b").body(Empty::new()).unwrap();
    assert_eq!(sender.send_request(several).await.unwrap().status(), 400);
    assert_eq!(sender.send_request(request("/")).await.unwrap().status(), 200, "others of the connection are served");
}

#[tokio::test]
async fn many_requests_share_a_connection() {
    let (sender, _connection) = connect(start(None).await).await;
    let ask = |n: usize| {
        let mut sender = sender.clone();
        async move {
            let path = if n.is_multiple_of(2) { "/" } else { "/drip" };
            let answer = sender.send_request(request(path)).await.unwrap();
            answer.into_body().collect().await.unwrap().to_bytes()
        }
    };
    let answers = futures_util::future::join_all((0..500).map(ask)).await;
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, if n.is_multiple_of(2) { "hello" } else { "word 0\nword 1\nword 2\n" });
    }
}

#[tokio::test]
async fn one_more_than_a_connection_may_carry_waits() {
    let (sender, _connection) = connect(start(None).await).await;
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        open.push(sender.clone().send_request(request("/never")).await.unwrap());
    }
    let mut next = Box::pin(sender.clone().send_request(request("/")));
    let early = timeout(Duration::from_millis(200), next.as_mut()).await;
    assert!(early.is_err(), "{early:?}");
    open.pop();
    assert_eq!(next.await.unwrap().into_body().collect().await.unwrap().to_bytes(), "hello");
}

/// Who asks for many things and wants none of them: as in the attack of 2023.
#[tokio::test]
async fn a_flood_of_resets_ends_the_connection() {
    let address = start(None).await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    let mut flood = [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    // GET http / with :authority a, by the static table, and RST_STREAM with CANCEL.
    let head = [0x82, 0x86, 0x84, 0x41, 1, b'a'];
    for stream in (1..4000_u32).step_by(2) {
        flood.extend([0, 0, head.len() as u8, 1, 5]);
        flood.extend(stream.to_be_bytes());
        flood.extend(head);
        flood.extend([0, 0, 4, 3, 0]);
        flood.extend(stream.to_be_bytes());
        flood.extend([0, 0, 0, 8]);
    }
    let _ = socket.write_all(&flood).await;
    let mut answer = Vec::new();
    let _ = timeout(Duration::from_secs(20), socket.read_to_end(&mut answer)).await.expect("it is ended");
    // GOAWAY, with ENHANCE_YOUR_CALM, unless the connection was reset before it came through.
    let calm = answer.windows(9).any(|frame| frame[3] == 7);
    assert!(calm || answer.is_empty(), "{answer:?}");
    let (mut sender, _connection) = connect(address).await;
    assert_eq!(sender.send_request(request("/")).await.unwrap().status(), 200, "others are served");
}

#[tokio::test(start_paused = true)]
async fn an_open_answer_keeps_its_connection_and_an_idle_one_goes() {
    let (mut sender, connection) = connect(start(None).await).await;
    let answer = sender.send_request(request("/never")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!connection.is_finished());
    drop(answer);
    timeout(Duration::from_secs(600), connection).await.expect("it is closed").unwrap().unwrap();
}

/// Of connections that have begun in every way there is, none holds up the end.
#[tokio::test]
async fn a_stop_is_not_held_up_by_those_who_ask_nothing() {
    let (_folder, tls) = tls();
    for tls in [None, Some(tls)] {
        let stop = CancellationToken::new();
        let (address, served) = start_until(tls.clone(), stop.clone()).await;
        let mut open = Vec::new();
        for begun in [&b""[..], &[0x16, 3, 1, 2, 0], &PREFACE[..10], b"GET / HTTP/1.1\r\nhost"] {
            let mut socket = TcpStream::connect(address).await.unwrap();
            socket.write_all(begun).await.unwrap();
            open.push(socket);
        }
        if tls.is_none() {
            let (mut sender, connection) = connect(address).await;
            assert_eq!(sender.send_request(request("/")).await.unwrap().status(), 200);
            stop.cancel();
            timeout(Duration::from_secs(10), connection).await.expect("it is closed").unwrap().unwrap();
        }
        stop.cancel();
        timeout(Duration::from_secs(10), served).await.expect("it ends").unwrap();
    }
}
