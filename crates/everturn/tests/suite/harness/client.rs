//! A client: one connection for each request, answers whole or frame by frame.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::{block_on, contract, runtime};

/// Somebody who calls a server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) key: Option<String>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// As text; what is none is replaced.
    pub(crate) body: String,
    /// As it is.
    pub(crate) bytes: Bytes,
}

impl Answer {
    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The first value of a header, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// What the server says is wrong. Every refusal has this shape and no other.
    #[track_caller]
    pub(crate) fn error(&self) -> String {
        let json = self.json();
        let object = json.as_object().unwrap_or_else(|| panic!("not an error: {self:?}"));
        assert_eq!(object.len(), 1, "an error says one thing: {self:?}");
        assert_eq!(self.header("content-type"), "application/json", "{self:?}");
        let text = object["error"].as_str().unwrap_or_else(|| panic!("not an error: {self:?}"));
        assert!(!text.is_empty(), "{self:?}");
        text.to_owned()
    }
}

impl Client {
    /// The same server, called with this key.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self { address: self.address, key: Some(key.to_owned()) }
    }

    /// Sends a request whose body, if there is one, is JSON.
    #[track_caller]
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        let headers: &[_] = if body.is_empty() { &[] } else { &[("content-type", "application/json")] };
        self.send_with(method, path, headers, body.to_owned())
    }

    /// Sends a request with these headers.
    #[track_caller]
    pub(crate) fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let body = body.into();
        let answer = self.exchange(method, path, headers, body.clone());
        contract::check(method, path, &body, &answer);
        answer
    }

    /// Sends a request, whatever the document says of its answer.
    #[track_caller]
    pub(super) fn exchange(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let request = self.request(method, path, headers, body);
        block_on(async {
            let (_sender, response) = exchange(self.address, request).await.unwrap();
            let (parts, body) = response.into_parts();
            let bytes = body.collect().await.expect("the answer breaks off").to_bytes();
            let body = String::from_utf8_lossy(&bytes).into_owned();
            Answer { status: parts.status.as_u16(), headers: parts.headers, body, bytes }
        })
    }

    /// Sends JSON and gives the answer as it comes.
    #[track_caller]
    pub(crate) fn open(&self, method: &str, path: &str, body: &str) -> Streaming {
        self.open_with(method, path, &[("content-type", "application/json")], body.to_owned())
    }

    /// As [`Self::open`], with these headers.
    #[track_caller]
    pub(crate) fn open_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Streaming {
        let request = self.request(method, path, headers, body);
        let (sender, response) = block_on(exchange(self.address, request)).unwrap();
        Streaming { _sender: sender, response, pending: String::new() }
    }

    /// Sends the same request many times at once and gives the whole answers.
    pub(crate) fn get_at_once(&self, path: &str, times: usize) -> Vec<String> {
        let read = |request| {
            let address = self.address;
            runtime().spawn(async move {
                let (_sender, response) = exchange(address, request).await.unwrap();
                let body = response.into_body().collect().await.expect("the answer breaks off").to_bytes();
                String::from_utf8(body.into()).unwrap()
            })
        };
        let reads: Vec<_> = (0..times).map(|_| read(self.request("GET", path, &[], ""))).collect();
        block_on(async { futures_util::future::join_all(reads).await.into_iter().map(Result::unwrap).collect() })
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = Method::from_bytes(method.as_bytes()).unwrap();
        *request.uri_mut() = path.parse().unwrap();
        let mut add = |name: &str, value: &str| {
            request.headers_mut().append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        };
        add("host", &self.address.to_string());
        headers.iter().for_each(|(name, value)| add(name, value));
        if let Some(key) = &self.key {
            add("authorization", &format!("Bearer {key}"));
        }
        request
    }
}

async fn exchange(
    address: SocketAddr,
    request: Request<Full<Bytes>>,
) -> Result<(SendRequest<Full<Bytes>>, Response<Incoming>), hyper::Error> {
    let socket = TcpStream::connect(address).await.expect("the server listens");
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    runtime().spawn(connection);
    let response = sender.send_request(request).await?;
    Ok((sender, response))
}

/// An answer that is under way. Dropping it closes the connection.
pub(crate) struct Streaming {
    _sender: SendRequest<Full<Bytes>>,
    response: Response<Incoming>,
    pending: String,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The server said that this is all.
    Cleanly,
    /// The connection broke.
    Broken,
}

impl Streaming {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The answer, once all of it is there.
    #[track_caller]
    pub(crate) fn into_answer(self) -> Answer {
        let (parts, body) = self.response.into_parts();
        let rest = block_on(body.collect()).expect("the answer breaks off").to_bytes();
        let bytes = Bytes::from([self.pending.as_bytes(), &rest].concat());
        let body = String::from_utf8_lossy(&bytes).into_owned();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body, bytes }
    }

    /// The next frame, without its blank line, or the next comment, which has none.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Result<String, Ended> {
        block_on(async {
            loop {
                let end = if self.pending.starts_with(':') { "\n" } else { "\n\n" };
                if let Some((frame, rest)) = self.pending.split_once(end) {
                    assert!(!frame.is_empty() && !rest.starts_with('\n'), "a blank line that ends no frame: {frame:?}");
                    let (frame, rest) = (frame.to_owned(), rest.to_owned());
                    self.pending = rest;
                    return Ok(frame);
                }
                match self.response.body_mut().frame().await {
                    // How soon to come back is said before the first event, which may not come.
                    None if ["", "retry: 1000\n"].contains(&&*self.pending) => return Err(Ended::Cleanly),
                    None => panic!("the stream ends within a frame: {:?}", self.pending),
                    Some(Err(_)) => return Err(Ended::Broken),
                    Some(Ok(frame)) => {
                        let data = frame.into_data().unwrap_or_default();
                        self.pending.push_str(std::str::from_utf8(&data).unwrap());
                    }
                }
            }
        })
    }

    /// All bytes that are left, as text.
    #[track_caller]
    pub(crate) fn whole(&mut self) -> String {
        block_on(async {
            let mut all = std::mem::take(&mut self.pending);
            while let Some(frame) = self.response.body_mut().frame().await {
                let data = frame.expect("the answer breaks off").into_data().unwrap_or_default();
                all.push_str(&String::from_utf8_lossy(&data));
            }
            all
        })
    }

    /// Reads until a frame has this in it.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str) -> String {
        loop {
            match self.next() {
                Ok(frame) if frame.contains(what) => return frame,
                Ok(_) => {}
                Err(ended) => panic!("the stream ended ({ended:?}) before {what:?}"),
            }
        }
    }

    /// All frames that are left, and how the stream ended.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> (Vec<String>, Ended) {
        let mut frames = Vec::new();
        loop {
            match self.next() {
                Ok(frame) => frames.push(frame),
                Err(ended) => return (frames, ended),
            }
        }
    }
}
