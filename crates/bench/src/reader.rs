//! Readers of event streams that cost little: thousands fit into one thread.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, bail};
use bytes::{Buf as _, BytesMut};
use memchr::memmem;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    runtime::{Builder, Runtime},
};

use crate::client::Turn;

/// How many files a run has open at most: its readers, and some more.
const FILES: u64 = 12_000;
/// How much is read at once.
const READ: usize = 2048;

/// A runtime for many connections. One thread: the server needs the machine more than we do.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < FILES) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(FILES), maximum: limit.maximum })
            .with_context(|| format!("{FILES} open files are needed; raise ulimit -n"))?;
    }
    Ok(Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

/// Gives up on what should have been done long ago.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let done = tokio::time::timeout(limit, work).await;
    done.unwrap_or_else(|_| bail!("not done within {limit:?}: {what}"))
}

/// Reads a turn in the native view.
pub(crate) struct Reader {
    stream: TcpStream,
    buffer: BytesMut,
    /// How much of the buffer was given out.
    given: usize,
}

impl Reader {
    /// Opens a stream after an id, or from its beginning. Returns when the server has answered.
    pub(crate) async fn open(address: SocketAddr, turn: &Turn, after: Option<&str>) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut reader = Self { stream, buffer: BytesMut::new(), given: 0 };
        let Turn { session, turn } = turn;
        let resume = after.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        let request = format!(
            "GET /api/v1/sessions/{session}/messages/{turn}/stream HTTP/1.1\r\nHost: {address}\r\n{resume}\r\n"
        );
        reader.stream.write_all(request.as_bytes()).await?;
        let end = reader.find(b"\r\n\r\n").await?;
        let head = String::from_utf8_lossy(&reader.buffer[..end]);
        if !head.starts_with("HTTP/1.1 200") || !head.contains("transfer-encoding: chunked") {
            bail!("not an event stream: {head}");
        }
        reader.given = end + 4;
        Ok(reader)
    }

    /// The next chunk, which holds whole frames: the server sends none in two parts. `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<&[u8]>> {
        self.buffer.advance(std::mem::take(&mut self.given));
        let line = self.find(b"\r\n").await?;
        let digits = std::str::from_utf8(&self.buffer[..line])?;
        let size = usize::from_str_radix(digits, 16).with_context(|| format!("chunk size {digits:?}"))?;
        let begin = line + 2;
        while self.buffer.len() < begin + size + 2 {
            self.fill().await?;
        }
        self.given = begin + size + 2;
        Ok((size > 0).then(|| &self.buffer[begin..begin + size]))
    }

    async fn find(&mut self, end: &[u8]) -> anyhow::Result<usize> {
        loop {
            if let Some(found) = memmem::find(&self.buffer, end) {
                return Ok(found);
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        self.buffer.reserve(READ);
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("the server closed the connection within an answer");
        }
        Ok(())
    }
}

/// One server-sent event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) id: &'a str,
    pub(crate) data: &'a str,
}

impl Frame<'_> {
    /// What it is, by its `type`; empty for a frame without data.
    pub(crate) fn kind(&self) -> &str {
        let rest = self.data.strip_prefix("{\"type\":\"").unwrap_or_default();
        rest.split('"').next().unwrap_or_default()
    }
}

/// The frames of a chunk. One that tells of a failed turn is an error.
pub(crate) fn frames(chunk: &[u8]) -> anyhow::Result<impl Iterator<Item = Frame<'_>>> {
    let text = std::str::from_utf8(chunk)?;
    // A wish for the time between two connections, and comments, are lines of the frame that follows.
    let is_aside = |line: &str| line.starts_with("retry:") || line.starts_with(':');
    let text = match text.strip_suffix("\n\n") {
        Some(text) => text,
        None if text.lines().all(is_aside) => "",
        None => bail!("a chunk that is no whole frames: {text:?}"),
    };
    let frames = text.split("\n\n").map(|frame| {
        let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        Frame { id: field("id: "), data: field("data: ") }
    });
    if let Some(failed) = frames.clone().find(|frame| matches!(frame.kind(), "error" | "cancelled")) {
        bail!("a turn failed: {}", failed.data);
    }
    Ok(frames)
}
