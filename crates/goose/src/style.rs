//! The two forms of the protocol.

/// How things are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// As the protocol's text describes it.
    Described,
    /// As the releases of Goose wrote it.
    Released,
}
