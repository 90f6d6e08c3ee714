//! A server that answers by path and remembers what it was asked.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// A server at work. It ends with the test's runtime.
pub(crate) struct Scripted {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Method, path and query.
    pub(crate) line: String,
    /// The header lines, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Scripted {
    /// The requests so far, in order.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The body of the last request.
    pub(crate) fn last_body(&self) -> String {
        self.seen().pop().unwrap().body
    }
}

/// Serves, for each request, the status and body of the first route whose word is in the request's path; 404 without one.
pub(crate) async fn scripted(routes: Vec<(&'static str, &'static str, String)>) -> Scripted {
    judged(move |seen| {
        let route = routes.iter().find(|(path, _, _)| seen.line.contains(path));
        route.map_or(("404 Not Found", String::new()), |(_, status, body)| (*status, body.clone()))
    })
    .await
}

/// Serves the status and body that `judge` finds fit for each request.
pub(crate) async fn judged(judge: impl Fn(&Seen) -> (&'static str, String) + Send + Sync + 'static) -> Scripted {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            answer(socket, &judge, &shared).await;
        }
    });
    Scripted { url, seen }
}

async fn answer(mut socket: TcpStream, judge: &impl Fn(&Seen) -> (&'static str, String), seen: &Mutex<Vec<Seen>>) {
    let mut bytes = Vec::new();
    let head = loop {
        if socket.read_buf(&mut bytes).await.unwrap() == 0 {
            return;
        }
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        break String::from_utf8(bytes.drain(..end + 4).collect()).unwrap();
    };
    let lower = head.to_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    while bytes.len() < length {
        socket.read_buf(&mut bytes).await.unwrap();
    }
    let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    let request = Seen { line, head: lower, body: String::from_utf8(bytes).unwrap() };
    let (status, body) = judge(&request);
    seen.lock().unwrap().push(request);
    let length = body.len();
    let response = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    // The other side may have had enough before all is written.
    let _ = socket.write_all(response.as_bytes()).await;
}
