//! Whether an application's `trust` of a tool counts.

/// What becomes of a tool that the application says it trusts. Each is stricter than the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientTrust {
    /// It runs without asking.
    #[default]
    Any,
    /// It runs without asking if the agent trusts it, too: it is listed in `trusted`, or built in. Else it asks.
    Configured,
    /// It asks.
    Never,
}

impl ClientTrust {
    /// Whether a tool runs without asking that the application says it trusts.
    pub(crate) fn allows(self, agent_trusts: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Any => true,
            Self::Configured => agent_trusts(),
            Self::Never => false,
        }
    }
}
