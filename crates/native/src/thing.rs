//! What can be not there, and what is told then.

use crate::code::Code;

/// What can be not there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Thing {
    Session,
    Message,
    Agent,
    Document,
    Form,
    Artifact,
    Permission,
    Key,
}

impl Thing {
    /// How it is told: the code, the word for it, and what to do.
    pub(crate) fn told(self) -> (Code, &'static str, &'static str) {
        match self {
            Self::Session => (Code::SessionNotFound, "session", "GET /api/v1/sessions lists yours"),
            Self::Message => {
                (Code::MessageNotFound, "message", "GET /api/v1/sessions/{session_id}/messages lists a session's")
            }
            Self::Agent => (Code::AgentNotFound, "agent", "GET /api/v1/agents lists them"),
            Self::Document => (Code::DocumentNotFound, "document", "GET /api/v1/documents lists yours"),
            Self::Form => (Code::FormNotFound, "form", "GET /api/v1/forms lists yours"),
            Self::Artifact => (Code::ArtifactNotFound, "artifact", "GET /api/v1/artifacts lists yours"),
            Self::Key => (Code::KeyNotFound, "key", "GET /api/v1/keys lists yours"),
            Self::Permission => {
                (Code::PermissionNotFound, "permission for tool", "GET /api/v1/permissions lists yours")
            }
        }
    }
}
