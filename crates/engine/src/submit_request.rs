//! What a client submits, and what it gets when that was accepted.

use std::sync::Arc;

use everturn_core::{
    FormId, Json, ModelOptions, SessionId, TenantId, TurnId,
    submission::{OnBusy, Submission},
};

use crate::{Account, SessionUpdate, SubmissionKey, tail::Tail};

/// What a client submits.
#[derive(Clone, Debug)]
pub struct Submit {
    /// Who.
    pub tenant: TenantId,
    /// On whose account.
    pub account: Arc<Account>,
    /// To which session.
    pub target: Target,
    /// Settings to change first.
    pub update: SessionUpdate,
    /// What.
    pub submission: Submission,
    /// What it says to the form that the session waits for, if it does.
    pub reply: Option<Reply>,
    /// What becomes of a message that comes while a turn is under way.
    pub on_busy: OnBusy,
    /// Whether a turn that it begins begins history anew: what it says is all there is.
    pub begins_history: bool,
    /// The client's name for a turn that it begins, which views show. One that is queued forgets it.
    pub request: Option<String>,
    /// What a turn that it begins asks of the model, beyond what the agent does.
    pub options: ModelOptions,
    /// Whether `options` also take the place of the turn's where the submission answers calls.
    pub options_of_answers: bool,
    /// The client's name for it, so that it can be sent again without a second effect.
    pub key: Option<SubmissionKey>,
}

impl Submit {
    /// An answer to a form of a session.
    pub fn reply(
        tenant: TenantId,
        account: Arc<Account>,
        session: SessionId,
        reply: Reply,
        key: Option<SubmissionKey>,
    ) -> Self {
        let nothing = Submission::Begin(Vec::new());
        Self { reply: Some(reply), ..Self::to_existing(tenant, account, session, nothing, key) }
    }

    /// Has the history of a session compacted now.
    pub fn compact(tenant: TenantId, account: Arc<Account>, session: SessionId, key: Option<SubmissionKey>) -> Self {
        Self::to_existing(tenant, account, session, Submission::Compact, key)
    }

    fn to_existing(
        tenant: TenantId,
        account: Arc<Account>,
        session: SessionId,
        submission: Submission,
        key: Option<SubmissionKey>,
    ) -> Self {
        Self {
            tenant,
            account,
            target: Target::Existing(session),
            update: SessionUpdate::default(),
            submission,
            reply: None,
            on_busy: OnBusy::Reject,
            begins_history: false,
            request: None,
            options: ModelOptions::default(),
            options_of_answers: false,
            key,
        }
    }
}

/// The session of a submission.
#[derive(Clone, Debug)]
pub enum Target {
    /// A new one, with this agent.
    New {
        /// Name of the agent.
        agent: String,
    },
    /// A new one, with this agent, that begins with a conversation which ends in calls without a result: the application's
    /// are waited for, the others are over. No model is called yet.
    Seeded {
        /// Name of the agent.
        agent: String,
    },
    /// One that exists.
    Existing(SessionId),
    /// One of this name, which is made with this agent if it is not there.
    Named {
        /// Its name.
        session: SessionId,
        /// Name of the agent.
        agent: String,
    },
}

/// An answer to a form.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Which form; `None` for the first that the session waits for, if there is one.
    pub form: Option<FormId>,
    /// The answer. A JSON string is what a person said in plain words.
    pub value: Json,
}

/// A submission that was accepted.
#[derive(Clone, Debug)]
pub struct Started {
    pub(crate) tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// Seq of the leg's first event; zero if the turn is queued.
    pub leg_start: u64,
    /// None if the turn is not known to be live.
    pub(crate) tail: Option<Arc<Tail>>,
}

impl Started {
    /// Whether the turn waits for others to end.
    pub fn is_queued(&self) -> bool {
        self.leg_start == 0
    }

    /// Whether the turn was there before.
    pub fn is_resumed(&self) -> bool {
        self.leg_start > 1
    }
}
