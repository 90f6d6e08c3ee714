//! What receivers are told. Ids and nothing that anybody said.

use everturn_core::{FormId, SessionId, TenantId, TurnId};
use everturn_engine::{Notice, NoticeKind};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// A message, as it goes over the wire.
#[derive(Debug, Serialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    /// When it happened.
    timestamp: String,
    data: Data<'a>,
}

#[derive(Debug, Serialize)]
struct Data<'a> {
    session_id: &'a SessionId,
    message_id: &'a TurnId,
    /// `completed`, `failed`, `cancelled` or `waiting`.
    status: &'static str,
    /// How it ended, more exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
    /// Why, if it failed or was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    /// The forms that a person is asked to answer.
    #[serde(skip_serializing_if = "<[FormId]>::is_empty")]
    form_ids: &'a [FormId],
}

/// The body; the same at every attempt.
pub(crate) fn body(session: &SessionId, turn: &TurnId, notice: &Notice) -> Result<Vec<u8>, serde_json::Error> {
    let timestamp = jiff::Timestamp::from_millisecond(notice.at.millis()).unwrap_or_default();
    let status = match notice.kind {
        NoticeKind::Completed => "completed",
        NoticeKind::Failed => "failed",
        NoticeKind::Cancelled => "cancelled",
        NoticeKind::Waiting => "waiting",
    };
    serde_json::to_vec(&Message {
        kind: notice.kind.as_str(),
        timestamp: format!("{timestamp:.3}"),
        data: Data {
            session_id: session,
            message_id: turn,
            status,
            outcome: notice.outcome.as_deref(),
            code: notice.code.as_deref(),
            form_ids: &notice.forms,
        },
    })
}

/// The name by which a receiver knows a message that it has had before. Made of letters and digits only: a dot would
/// make what is signed ambiguous.
pub(crate) fn id(tenant: &TenantId, notice: &str) -> String {
    let digest = Sha256::digest(format!("{tenant}/{notice}"));
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("msg_{hex}")
}

#[cfg(test)]
mod tests {
    use everturn_core::Timestamp;

    use super::*;

    fn notice(kind: NoticeKind) -> Notice {
        let at = Timestamp(1_767_225_600_120);
        let (outcome, code, forms) = (None, None, Vec::new());
        Notice { kind, at, outcome, code, forms, attempts: 3, next_at: Timestamp(5) }
    }

    fn text(notice: &Notice) -> String {
        let (session, turn) = ("s1".parse().unwrap(), "t1".parse().unwrap());
        String::from_utf8(body(&session, &turn, notice).unwrap()).unwrap()
    }

    #[test]
    fn bodies() {
        assert_eq!(
            text(&Notice { outcome: Some("max_tokens".to_owned()), ..notice(NoticeKind::Failed) }),
            r#"{"type":"turn.failed","timestamp":"2026-01-01T00:00:00.120Z","data":{"session_id":"s1","message_id":"t1","status":"failed","outcome":"max_tokens"}}"#
        );
        let code = Some("LLM_PROVIDER_ERROR".to_owned());
        assert_eq!(
            text(&Notice { outcome: Some("failed".to_owned()), code, ..notice(NoticeKind::Failed) }),
            r#"{"type":"turn.failed","timestamp":"2026-01-01T00:00:00.120Z","data":{"session_id":"s1","message_id":"t1","status":"failed","outcome":"failed","code":"LLM_PROVIDER_ERROR"}}"#
        );
        assert_eq!(
            text(&Notice { forms: vec!["f1".parse().unwrap()], ..notice(NoticeKind::Waiting) }),
            r#"{"type":"turn.waiting","timestamp":"2026-01-01T00:00:00.120Z","data":{"session_id":"s1","message_id":"t1","status":"waiting","form_ids":["f1"]}}"#
        );
    }

    #[test]
    fn ids_are_stable_and_have_no_dot() {
        let tenant: TenantId = "acme".parse().unwrap();
        assert_eq!(id(&tenant, "turn_1.17"), id(&tenant, "turn_1.17"));
        assert_ne!(id(&tenant, "turn_1.17"), id(&tenant, "turn_1.18"));
        assert!(id(&tenant, "turn_1.17").bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
    }
}
