//! A small blocking HTTP client that counts frames: cheap enough not to be what is measured.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use memchr::memmem;

/// A kept-alive connection.
pub(crate) struct Client {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
}

/// What an answer told.
pub(crate) struct Answer {
    pub(crate) frames: usize,
    /// From the request's last byte to the first frame.
    pub(crate) first: Duration,
    /// From the request's last byte to the answer's.
    pub(crate) whole: Duration,
    pub(crate) session: String,
    pub(crate) turn: String,
}

/// Names a turn.
#[derive(Clone)]
pub(crate) struct Turn {
    pub(crate) session: String,
    pub(crate) turn: String,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        Ok(Self { address, stream: BufReader::with_capacity(256 * 1024, stream) })
    }

    /// Creates a session and reads its first turn to the end.
    pub(crate) fn put(&mut self, text: &str) -> anyhow::Result<Answer> {
        self.put_and_tell(text, |_| ())
    }

    /// As [`Self::put`], and says which turn it is as soon as that is known.
    pub(crate) fn put_and_tell(&mut self, text: &str, tell: impl FnOnce(&Answer)) -> anyhow::Result<Answer> {
        let body = put_body(text);
        self.send("PUT", "/session", &body)?;
        self.answer(Instant::now(), tell)
    }

    /// Says something in a session that exists, and reads the turn to its end.
    pub(crate) fn post(&mut self, session: &str, text: &str) -> anyhow::Result<Answer> {
        let body = format!(r#"{{"stream":"delta","messages":[{{"role":"user","content":"{text}"}}]}}"#);
        self.request("POST", &format!("/session/{session}"), &body)
    }

    /// Begins a turn, or answers the form of one, without reading it. Gives the session and the turn.
    pub(crate) fn spawn(&mut self, body: &serde_json::Value) -> anyhow::Result<Turn> {
        let answer = self.request("POST", "/api/v1/sessions/stream", &body.to_string())?;
        Ok(Turn { session: answer.session, turn: answer.turn })
    }

    /// Reads a turn from its first event.
    pub(crate) fn replay(&mut self, session: &str, turn: &str) -> anyhow::Result<Answer> {
        self.request("GET", &view(session, turn), "")
    }

    pub(crate) fn request(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<Answer> {
        self.send(method, path, body)?;
        self.answer(Instant::now(), |_| ())
    }

    /// Sends without reading.
    pub(crate) fn send(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<()> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        Ok(())
    }

    fn answer(&mut self, begun: Instant, tell: impl FnOnce(&Answer)) -> anyhow::Result<Answer> {
        let mut answer = Answer {
            frames: 0,
            first: Duration::ZERO,
            whole: Duration::ZERO,
            session: String::new(),
            turn: String::new(),
        };
        let mut line = String::new();
        self.line(&mut line)?;
        if !line.starts_with("HTTP/1.1 2") {
            bail!("unexpected answer: {line}");
        }
        let mut length = None;
        loop {
            self.line(&mut line)?;
            match line.split_once(": ") {
                None => break,
                Some(("x-session-id", id)) => answer.session = id.to_owned(),
                Some(("x-message-id", id)) => answer.turn = id.to_owned(),
                Some(("content-length", bytes)) => length = Some(bytes.parse::<usize>()?),
                Some(_) => {}
            }
        }
        tell(&answer);
        if let Some(length) = length {
            self.skip(length, &mut answer, begun)?;
        } else {
            loop {
                self.line(&mut line)?;
                let size = usize::from_str_radix(&line, 16).with_context(|| format!("chunk size {line:?}"))?;
                self.skip(size, &mut answer, begun)?;
                self.line(&mut line)?;
                if size == 0 {
                    break;
                }
            }
        }
        answer.whole = begun.elapsed();
        Ok(answer)
    }

    fn line(&mut self, line: &mut String) -> anyhow::Result<()> {
        line.clear();
        if self.stream.read_line(line)? == 0 {
            bail!("the server closed the connection");
        }
        line.truncate(line.trim_end().len());
        Ok(())
    }

    /// Counts the frames in the next bytes. Frames never lie across chunks.
    fn skip(&mut self, mut bytes: usize, answer: &mut Answer, begun: Instant) -> anyhow::Result<()> {
        let mut last = 0;
        while bytes > 0 {
            let buffer = self.stream.fill_buf()?;
            if buffer.is_empty() {
                bail!("the server closed the connection within an answer");
            }
            if answer.frames == 0 && answer.first.is_zero() {
                answer.first = begun.elapsed();
            }
            let taken = buffer.len().min(bytes);
            let part = &buffer[..taken];
            // The end of a frame may lie across two reads.
            answer.frames += usize::from(last == b'\n' && part[0] == b'\n');
            answer.frames += memmem::find_iter(part, b"\n\n").count();
            last = part[taken - 1];
            self.stream.consume(taken);
            bytes -= taken;
        }
        Ok(())
    }

    /// Takes a few bytes a second until told to stop.
    pub(crate) fn dawdle(mut self, stop: &std::sync::atomic::AtomicBool) {
        let mut few = [0; 128];
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            let _ = self.stream.get_mut().read(&mut few);
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn put_body(text: &str) -> String {
    format!(r#"{{"agent":{{"name":"load"}},"stream":"delta","messages":[{{"role":"user","content":"{text}"}}]}}"#)
}

/// Where a turn can be read from its first event.
pub(crate) fn view(session: &str, turn: &str) -> String {
    format!("/api/v1/sessions/{session}/messages/{turn}/stream?as=aap-delta")
}
