//! News of turns for servers outside: kept in the same commit as the events that they tell of, delivered by somebody
//! else. Each names the turn; what was said in it is not in there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use everturn_core::{
    CancelReason, FormId, Json, Outcome, Phase, SessionId, TenantId, Timestamp, TurnId, TurnState, WaitingFor,
};
use everturn_store::{Record, RecordKind, Write};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// How a turn ends whose session is deleted.
const DELETED: Outcome = Outcome::Cancelled { reason: CancelReason::SessionDeleted };

/// The state of a notice that is to be delivered.
pub const NOTICE_DUE: &str = "due";

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NoticeKind {
    /// A turn ended with its answer.
    #[serde(rename = "turn.completed")]
    Completed,
    /// A turn ended without its answer, or with a part of it.
    #[serde(rename = "turn.failed")]
    Failed,
    /// A turn was stopped.
    #[serde(rename = "turn.cancelled")]
    Cancelled,
    /// A turn waits for a person.
    #[serde(rename = "turn.waiting")]
    Waiting,
}

impl NoticeKind {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Completed, Self::Failed, Self::Cancelled, Self::Waiting];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "turn.completed",
            Self::Failed => "turn.failed",
            Self::Cancelled => "turn.cancelled",
            Self::Waiting => "turn.waiting",
        }
    }
}

/// The body of a record of kind [`RecordKind::Notice`]. Its session and turn are the record's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// What it is about.
    pub kind: NoticeKind,
    /// When it happened.
    pub at: Timestamp,
    /// How the turn ended: `completed`, `max_tokens`, `refused`, `failed` or `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Why, if it failed or was cancelled: a stable code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The forms that a person is asked to answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forms: Vec<FormId>,
    /// How often its delivery has failed.
    #[serde(default)]
    pub attempts: u32,
    /// When it is to be tried again.
    #[serde(default)]
    pub next_at: Timestamp,
}

impl Notice {
    fn new(kind: NoticeKind, at: Timestamp) -> Self {
        Self { kind, at, outcome: None, code: None, forms: Vec::new(), attempts: 0, next_at: Timestamp::default() }
    }
}

/// Whose turns are told of, and what of them.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    wanted: Arc<BTreeMap<TenantId, BTreeSet<NoticeKind>>>,
    written: Arc<Notify>,
}

impl Notices {
    /// Tells these.
    pub fn new(wanted: BTreeMap<TenantId, BTreeSet<NoticeKind>>) -> Self {
        Self { wanted: Arc::new(wanted), written: Arc::default() }
    }

    /// Notified when there may be new ones.
    pub fn written(&self) -> Arc<Notify> {
        Arc::clone(&self.written)
    }

    /// Says that there may be new ones.
    pub(crate) fn tell(&self) {
        if !self.wanted.is_empty() {
            self.written.notify_one();
        }
    }

    fn wants(&self, tenant: &TenantId, kind: NoticeKind) -> bool {
        self.wanted.get(tenant).is_some_and(|kinds| kinds.contains(&kind))
    }

    /// What is to be written of a turn that has come to rest, with the events that brought it there.
    pub(crate) fn of_rest(&self, place: Noticed<'_>, state: &TurnState) -> Option<Write> {
        if self.wanted.is_empty() {
            return None;
        }
        let at = Timestamp::now();
        let notice = match &state.phase {
            // Nothing is left of it that could be looked at.
            Phase::Ended(ended) if ended.outcome == DELETED => return None,
            Phase::Ended(ended) => {
                let (kind, outcome, code) = match &ended.outcome {
                    Outcome::Completed => (NoticeKind::Completed, "completed", None),
                    Outcome::MaxTokens => (NoticeKind::Failed, "max_tokens", Some("CONTEXT_OVERFLOW")),
                    Outcome::Refused => (NoticeKind::Failed, "refused", Some("REFUSED")),
                    Outcome::Failed { code, .. } => (NoticeKind::Failed, "failed", Some(code.as_str())),
                    Outcome::Cancelled { reason } => (NoticeKind::Cancelled, "cancelled", Some(reason.as_str())),
                };
                let code = code.map(str::to_owned);
                Notice { outcome: Some(outcome.to_owned()), code, ..Notice::new(kind, at) }
            }
            Phase::Waiting(wait) => {
                let asks = |call: &&everturn_core::WaitingCall| {
                    matches!(call.waiting_for, WaitingFor::Form | WaitingFor::Permission)
                };
                let forms: Vec<_> = wait.calls.iter().filter(asks).map(|call| FormId::of_call(&call.id)).collect();
                if forms.is_empty() {
                    return None;
                }
                Notice { forms, ..Notice::new(NoticeKind::Waiting, at) }
            }
            Phase::New | Phase::Running => return None,
        };
        self.write(place, state.head, notice)
    }

    /// What is to be written of a question that a tool asks while it runs.
    pub(crate) fn of_question(&self, place: Noticed<'_>, seq: u64, form: &FormId) -> Option<Write> {
        let forms = vec![form.clone()];
        self.write(place, seq, Notice { forms, ..Notice::new(NoticeKind::Waiting, Timestamp::now()) })
    }

    fn write(&self, place: Noticed<'_>, seq: u64, notice: Notice) -> Option<Write> {
        let Noticed { tenant, session, turn } = place;
        if !self.wants(tenant, notice.kind) {
            return None;
        }
        let body = match Json::of(&notice) {
            Ok(body) => body,
            Err(error) => {
                tracing::error!(%turn, %error, "cannot write a notice");
                return None;
            }
        };
        Some(Write::Record(Record {
            kind: RecordKind::Notice,
            id: format!("{turn}.{seq}"),
            session: Some(session.clone()),
            turn: Some(turn.clone()),
            state: NOTICE_DUE.to_owned(),
            body,
            outcome: None,
        }))
    }
}

/// The turn that a notice is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noticed<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) session: &'a SessionId,
    pub(crate) turn: &'a TurnId,
}
