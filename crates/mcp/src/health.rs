//! How servers are.

use everturn_core::EffectClass;

use crate::Confined;

/// Whether a server can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// Not yet; this is its first start.
    Starting,
    /// Yes.
    Ready,
    /// No; it is started again and again.
    Failed,
}

impl ServerState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Failed => "failed",
        }
    }
}

/// How a server is, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerHealth {
    /// Its name.
    pub name: String,
    /// Whether it can be used.
    pub state: ServerState,
    /// How many tools it has.
    pub tools: usize,
    /// Why it cannot be used, if so. May hold what it wrote to its standard error.
    pub trouble: Option<String>,
    /// How often it was started again.
    pub restarts: u64,
}

/// All there is to say about a server.
#[derive(Clone, Debug)]
pub struct ServerReport {
    /// How it is.
    pub health: ServerHealth,
    /// What it calls itself: a name and a version.
    pub software: Option<(String, String)>,
    /// How it is confined, if it is a program that has been started.
    pub confined: Option<Confined>,
    /// Its tools.
    pub tools: Vec<ToolReport>,
    /// Those of its tools that cannot be used.
    pub left_out: Vec<LeftOut>,
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolReport {
    /// What it is called here.
    pub name: String,
    /// What its server calls it.
    pub tool: String,
    /// What a repetition would do.
    pub effect: EffectClass,
    /// A name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: String,
}

/// A tool that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// What its server calls it, as far as that can be shown.
    pub tool: String,
    /// Why.
    pub reason: String,
}
