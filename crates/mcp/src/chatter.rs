//! What a server says beside its answers: lines on its standard error and messages for our log, as much as we care to
//! keep.
#![expect(deprecated, reason = "what newer versions of MCP do without is what the servers of today have")]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use everturn_core::Json;
use rmcp::model::LoggingLevel;
use tokio::io::{AsyncRead, BufReader};

use crate::{
    lines::{Line, Lines},
    words::{Secrets, one_line},
};

/// Longest line that is logged, in bytes.
const LINE_BYTES: usize = 2000;
/// Longest line that is read; of a longer one we only say how long it was.
const READ_BYTES: usize = 64 * 1024;
/// Lines that are kept to explain why a server ended.
const KEPT_LINES: usize = 10;
/// Longest of them, in bytes.
const KEPT_BYTES: usize = 300;
/// Lines that may come at once.
const BURST: f64 = 100.0;
/// Lines each second after that.
const PER_SECOND: f64 = 10.0;

/// One server's chatter. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Chatter {
    server: Arc<str>,
    secrets: Secrets,
    /// Hidden in what is shown to those who watch.
    shown: Secrets,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    last: VecDeque<String>,
    allowance: f64,
    since: Instant,
    left_out: u64,
}

impl Chatter {
    /// That of a server.
    pub(crate) fn new(server: &str, secrets: Secrets, shown: Secrets) -> Self {
        let state = State { last: VecDeque::new(), allowance: BURST, since: Instant::now(), left_out: 0 };
        Self { server: server.into(), secrets, shown, state: Arc::new(Mutex::new(state)) }
    }

    /// Reads a standard error to its end.
    pub(crate) async fn read(self, from: impl AsyncRead + Unpin) {
        let mut lines = Lines::new(BufReader::new(from), READ_BYTES);
        while let Ok(Some(line)) = lines.next().await {
            let text = match line {
                Line::Whole(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Line::TooLong(_, length) => format!("(a line of {length} bytes)"),
            };
            self.stderr(text);
        }
    }

    fn stderr(&self, line: String) {
        let line = one_line(&self.secrets.hide(line), LINE_BYTES);
        if line.is_empty() {
            return;
        }
        self.with(|state| {
            if state.last.len() == KEPT_LINES {
                state.last.pop_front();
            }
            state.last.push_back(one_line(&line, KEPT_BYTES));
        });
        if self.may_log() {
            tracing::info!(target: "everturn::mcp", server = &*self.server, "{line}");
        }
    }

    /// A message that the server wants logged.
    pub(crate) fn log(&self, level: LoggingLevel, logger: Option<&str>, data: &serde_json::Value) {
        if !self.may_log() {
            return;
        }
        let text = match data {
            serde_json::Value::String(text) => text.clone(),
            data => data.to_string(),
        };
        let line = one_line(&self.secrets.hide(text), LINE_BYTES);
        let server = &*self.server;
        let logger = logger.map(|logger| one_line(logger, KEPT_BYTES));
        match level {
            LoggingLevel::Debug => tracing::debug!(target: "everturn::mcp", server, logger, "{line}"),
            LoggingLevel::Info | LoggingLevel::Notice => {
                tracing::info!(target: "everturn::mcp", server, logger, "{line}");
            }
            LoggingLevel::Warning => tracing::warn!(target: "everturn::mcp", server, logger, "{line}"),
            _ => tracing::error!(target: "everturn::mcp", server, logger, "{line}"),
        }
    }

    /// Something of ours about the server, as often as there is room for it.
    pub(crate) fn remark(&self, text: &str) {
        if self.may_log() {
            tracing::warn!(target: "everturn::mcp", server = &*self.server, "{text}");
        }
    }

    /// News for those who watch, without our secrets.
    pub(crate) fn news(&self, news: &serde_json::Value) -> Option<Json> {
        Json::of(news).ok().map(|news| self.shown.hide_in_json(news))
    }

    /// A text of the server's without our secrets, on one line.
    pub(crate) fn clean(&self, text: &str, most: usize) -> String {
        one_line(&self.secrets.hide(text.to_owned()), most)
    }

    /// The last lines of its standard error, oldest first; forgets them.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.with(|state| std::mem::take(&mut state.last).into())
    }

    fn may_log(&self) -> bool {
        let (allowed, left_out) = self.with(|state| {
            let now = Instant::now();
            let earned = now.duration_since(state.since).as_secs_f64() * PER_SECOND;
            state.since = now;
            state.allowance = (state.allowance + earned).min(BURST);
            if state.allowance < 1.0 {
                state.left_out += 1;
                return (false, 0);
            }
            state.allowance -= 1.0;
            (true, std::mem::take(&mut state.left_out))
        });
        if left_out > 0 {
            let told = "left out lines of a server that says too much";
            tracing::warn!(target: "everturn::mcp", server = &*self.server, lines = left_out, "{told}");
        }
        allowed
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_lines_are_kept_short() {
        let chatter = Chatter::new("a", Secrets::default(), Secrets::default());
        let text = (0..20).map(|n| format!("line {n}\n\n")).collect::<String>() + &"x".repeat(100_000);
        chatter.clone().read(text.as_bytes()).await;
        let last = chatter.last_lines();
        assert_eq!(last.len(), KEPT_LINES);
        assert_eq!(last[0], "line 11");
        assert_eq!(last[9], "(a line of 100000 bytes)");
        assert_eq!(chatter.last_lines(), [""; 0]);
    }

    #[test]
    fn a_flood_is_left_out() {
        let chatter = Chatter::new("a", Secrets::default(), Secrets::default());
        let logged = (0..10_000).filter(|_| chatter.may_log()).count();
        assert!((100..150).contains(&logged), "{logged}");
        assert!(chatter.with(|state| state.left_out) > 9000);
    }
}
