//! The versions of the protocol, and the words in which their doors differ.

use everturn_core::SessionId;

/// A version of the protocol. Turns, events, checks and errors are the same in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V3,
}

impl Version {
    /// As `GET /meta` tells it.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V3 => 3,
        }
    }

    /// Names the request that makes a session, for those who send it again.
    pub(crate) fn creation(self) -> &'static str {
        match self {
            Self::V1 => "PUT /session",
            Self::V3 => "POST /aap/v3/sessions",
        }
    }

    /// Names the request that runs a turn.
    pub(crate) fn turn(self, session: &SessionId) -> String {
        match self {
            Self::V1 => format!("POST /session/{session}"),
            Self::V3 => format!("POST /aap/v3/sessions/{session}/turns"),
        }
    }

    /// Names the request that deletes a session.
    pub(crate) fn deletion(self, session: &SessionId) -> String {
        match self {
            Self::V1 => format!("DELETE /session/{session}"),
            Self::V3 => format!("DELETE /aap/v3/sessions/{session}"),
        }
    }

    /// Where a session's history is read.
    pub(crate) fn history(self, session: &SessionId) -> String {
        match self {
            Self::V1 => format!("GET /session/{session}"),
            Self::V3 => format!("GET /sessions/{session}/history?type=full"),
        }
    }
}
