//! A server that takes one request and writes the bytes it was given: for what no proper server does.

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::Notify,
    task::JoinHandle,
};

/// A server at work.
pub(crate) struct RawServer {
    pub(crate) url: String,
    /// Told when the request has arrived.
    pub(crate) received: Arc<Notify>,
    /// Ends when the connection has. Gives the request's body.
    pub(crate) task: JoinHandle<String>,
}

/// What happens once the bytes are written.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Then {
    Close,
    /// Until the other side does.
    StayOpen,
}

/// Serves one request.
pub(crate) async fn serve(response: impl Into<Vec<u8>>, then: Then) -> RawServer {
    let response = response.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let received = Arc::new(Notify::new());
    let tell = Arc::clone(&received);
    let task = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut body = Vec::new();
        let length: usize = loop {
            socket.read_buf(&mut body).await.unwrap();
            let Some(end) = body.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
            let head = String::from_utf8(body.drain(..end + 4).collect()).unwrap().to_lowercase();
            break head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
        };
        while body.len() < length {
            socket.read_buf(&mut body).await.unwrap();
        }
        tell.notify_one();
        // The other side may have had enough before all is written.
        let _ = socket.write_all(&response).await;
        if then == Then::StayOpen {
            while socket.read_buf(&mut Vec::new()).await.is_ok_and(|count| count > 0) {}
        }
        String::from_utf8(body).unwrap()
    });
    RawServer { url, received, task }
}

/// A response with this status line, headers and body.
pub(crate) fn response(status: &str, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("HTTP/1.1 {status}\r\n{headers}\r\n{body}")
}
