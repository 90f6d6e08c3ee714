//! What is fed: everything that reads bytes of strangers.

mod mcp;
mod providers;
mod pure;
mod requests;

pub use mcp::{PROGRAM, serve as serve_mcp};
pub use requests::statuses;

/// Reads one input; says what is wrong with how it was read.
pub type Reading = Box<dyn FnMut(&[u8]) -> Result<(), String>>;

/// Something that reads bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, which is that of its corpus.
    pub name: &'static str,
    /// What it reads.
    pub reads: &'static str,
    /// Sets it up.
    pub start: fn() -> anyhow::Result<Reading>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All there are.
pub const ALL: [Target; 13] = [
    Target { name: "requests", reads: "whole HTTP requests to all dialects, in sequences", start: requests::start },
    Target { name: "cursors", reads: "cursors of turns and sessions", start: pure::cursors },
    Target { name: "config", reads: "configuration files", start: pure::config },
    Target { name: "recipes", reads: "recipes, as YAML and JSON, and their templates", start: pure::recipes },
    Target { name: "events", reads: "stored events", start: pure::events },
    Target { name: "pdf", reads: "PDFs", start: pure::documents },
    Target { name: "documents", reads: "all other documents", start: pure::documents },
    Target { name: "chat", reads: "answers of providers: chat completions", start: providers::chat },
    Target { name: "responses", reads: "answers of providers: OpenAI's responses", start: providers::responses },
    Target { name: "anthropic", reads: "answers of providers: Anthropic", start: providers::anthropic },
    Target { name: "gemini", reads: "answers of providers: Gemini", start: providers::gemini },
    Target { name: "ollama", reads: "answers of providers: Ollama", start: providers::ollama },
    Target { name: "mcp", reads: "lines of MCP servers, during a call", start: mcp::start },
];
