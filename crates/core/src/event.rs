//! Events: the entries of a turn's log.
//!
//! A step is one model call. Its deltas are narrative; [`Event::StepFinished`] carries the whole answer and is what
//! history is made of. So a log without its deltas still folds to the same state.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    Answer, ArtifactDelta, ArtifactRef, ArtifactStarted, CallId, CallRoute, Compaction, Content, EffectClass, EffectId,
    FormId, FormOpened, Json, KeyId, Message, ModelOptions, Timestamp, ToolUse, Usage, Wait,
};

/// One entry of a turn's log. `segment.rs` gives each kind its stored number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The turn began. Always the first event.
    TurnStarted(TurnStarted),
    /// A model call begins.
    StepStarted {
        /// Counts from 1 within the turn.
        step: u32,
        /// `provider/model`.
        model: String,
    },
    /// A piece of the answer.
    TextDelta(String),
    /// A piece of the model's reasoning.
    ThinkingDelta(String),
    /// The model made a tool call; its input is complete.
    ToolCalled {
        /// The call.
        call: ToolUse,
        /// Who resolves it.
        route: CallRoute,
    },
    /// What the provider has told of the tokens of the model call so far: all of it, not what is new. Counts only where
    /// the call is not finished, so as not to be forgotten with the process.
    StepUsed(Usage),
    /// The model call is complete (or was cut short for good, see [`Finish::Aborted`]).
    StepFinished(StepFinished),
    /// The step begins again: everything since its [`Event::StepStarted`] is void.
    StepRestarted {
        /// Why: a crash, or what the provider said.
        reason: String,
        /// How many attempts were made before the one that follows.
        attempt: u32,
        /// What the void attempt used.
        usage: Usage,
    },
    /// The turn goes on with another model.
    ModelChanged {
        /// `provider/model`.
        model: String,
        /// Why the former one was left.
        reason: String,
    },
    /// A server-side tool is about to run. Durable before the call is made.
    ToolIntended {
        /// The call.
        call_id: CallId,
        /// The same on every attempt.
        effect_id: EffectId,
        /// Whether an attempt whose outcome is unknown may be repeated.
        effect: EffectClass,
        /// The tool.
        tool: String,
        /// A name of the tool for people.
        label: String,
        /// The step that made the call.
        step: u32,
    },
    /// A call was resolved by the server: it ran, failed, was denied, refused, skipped, or its outcome is unknown.
    ToolFinished {
        /// The call.
        call_id: CallId,
        /// The tool.
        tool: String,
        /// What the model is told.
        content: Content,
        /// Whether that is a failure.
        is_error: bool,
        /// How long the tool ran.
        duration_ms: u64,
        /// The step that made the call, if the tool never began: no [`Event::ToolIntended`] came before.
        never_began: Option<u32>,
        /// Whether the tool is the application's, which runs it and knows of its results by itself.
        application: bool,
    },
    /// A call of a timer tool was begun: it resolves when the time has come.
    TimerSet {
        /// The call.
        call_id: CallId,
        /// When it was set.
        from: Timestamp,
        /// When it elapses.
        wake_at: Timestamp,
    },
    /// A person is asked: for what a tool wants to know, or whether a tool may run.
    FormOpened(FormOpened),
    /// A form that a tool opened while it ran was answered, or nobody will; the tool goes on.
    FormClosed {
        /// The form.
        form_id: FormId,
        /// The call that asked.
        call_id: CallId,
        /// The answer, if there is one.
        answer: Option<Json>,
    },
    /// News of a tool that runs, or of the server that it comes from.
    Notified {
        /// The call that it is about, if it is about one.
        call_id: Option<CallId>,
        /// What kind, in MCP's words.
        method: String,
        /// The news; an object.
        params: Json,
    },
    /// The turn rests until somebody answers, or the time has come.
    Waiting(Wait),
    /// Waiting calls were answered, or a pause is over; the turn goes on. Begins a new leg.
    Resumed {
        /// The answers.
        answers: Vec<Answer>,
        /// The options of the model calls from here on, where the answers brought some.
        options: Option<Box<ModelOptions>>,
    },
    /// A model begins to write an artifact, or a new version of one.
    ArtifactStarted(ArtifactStarted),
    /// A piece of an artifact's content.
    ArtifactDelta(ArtifactDelta),
    /// A version of an artifact is complete, and kept.
    ArtifactFinished(ArtifactRef),
    /// Retention has taken events away that are of no importance to the outcome. Counts as that many events.
    Dropped {
        /// How many; never zero.
        count: u32,
    },
    /// What the model is given of history changed: a summary stands for older messages, or large ones are shortened.
    HistoryCompacted(Compaction),
    /// The turn is over. Always the last event.
    TurnEnded(TurnEnded),
    /// An event of a later version. Kept and passed on.
    Unknown {
        /// Its stored number.
        kind: u16,
        /// Its stored payload.
        payload: Bytes,
    },
}

impl Event {
    /// How many parts it has that views may show in frames of their own, at most; a cursor within it names one of them.
    /// They are numbered alike in all views.
    pub fn parts(&self) -> u32 {
        match self {
            // The session, then the turn.
            Self::TurnStarted(started) if started.opens_session => 2,
            // Its blocks.
            Self::StepFinished(finished) => u32::try_from(finished.content.blocks().len()).unwrap_or(u32::MAX),
            // A beginning that no event of its own has told, then the end.
            Self::ToolFinished { never_began: Some(_), .. } => 2,
            // What went wrong, then the end.
            Self::TurnEnded(_) => 2,
            _ => 1,
        }
    }
}

/// See [`Event::TurnStarted`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStarted {
    /// The agent that runs it.
    pub agent: String,
    /// Whether the session was created by the same command.
    #[serde(default)]
    pub opens_session: bool,
    /// What it adds to history before the model speaks: seed messages, then the user's.
    pub input: Vec<Message>,
    /// Whether history begins anew with its input: what was said before is no part of it any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begins_history: bool,
    /// The client's name for it, where it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Whether it compacts history and does nothing else: no model answers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compacts: bool,
    /// What the turns of the session had used before.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub used_before: Usage,
    /// What the last of them used that used anything.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub last_used: Usage,
    /// The key that it was submitted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<KeyId>,
    /// What it asks of the model beyond what the agent does.
    #[serde(default, skip_serializing_if = "ModelOptions::is_empty")]
    pub options: ModelOptions,
}

/// See [`Event::StepFinished`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepFinished {
    /// The whole answer: the step's deltas and calls, and reasoning that came after text.
    pub content: Content,
    /// Why the model stopped.
    pub finish: Finish,
    /// What the call used.
    pub usage: Usage,
    /// Whether retention has dropped the deltas, so that this is the only place that has the text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deltas_dropped: bool,
    /// Which step it was, where retention has dropped its beginning, too; else zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step: u32,
    /// Calls of the application's tools that the application never sees: nobody runs them, the server answers them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<CallId>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Why a model call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The answer is complete.
    Stop,
    /// The model waits for its tool calls.
    ToolUse,
    /// Out of tokens.
    MaxTokens,
    /// The model or its provider declined.
    Refusal,
    /// Cut short by a stop, a deadline or a failure; the content is what had arrived.
    Aborted,
}

/// See [`Event::TurnEnded`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnded {
    /// How it ended.
    pub outcome: Outcome,
    /// All that the turn used.
    pub usage: Usage,
    /// The text of the turn's last message: the answer, or what there was of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub response: String,
    /// The artifacts that it made or changed, each in its last version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactRef>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The agent finished normally.
    Completed,
    /// Out of tokens, in the answer or in the context window.
    MaxTokens,
    /// The model declined.
    Refused,
    /// It could not be finished.
    Failed {
        /// A stable code.
        code: FailureCode,
        /// What happened, for the developer. Holds no secrets.
        message: String,
        /// Whether the same turn may succeed later.
        retryable: bool,
    },
    /// Somebody stopped it.
    Cancelled {
        /// Who or what.
        reason: CancelReason,
    },
}

impl Outcome {
    /// Whether the provider refused the request for a reason that may lie in what was said. It may refuse every later request
    /// that repeats it.
    pub fn is_refused_request(&self) -> bool {
        matches!(self, Self::Failed { code: FailureCode::LlmRequestRefused, .. })
    }
}

/// Stable codes of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FailureCode {
    /// The provider cannot be reached, or says that it is down.
    LlmProviderUnavailable,
    /// The provider went silent.
    LlmRequestTimeout,
    /// The provider denied the call, or answered nonsense.
    LlmProviderError,
    /// The provider refused what it was sent. Readers are shown the same code as for [`Self::LlmProviderError`].
    LlmRequestRefused,
    /// The provider asked to slow down, for longer than the turn may wait.
    LlmRateLimited,
    /// The turn made as many model calls as it may.
    StepLimit,
    /// The tenant stores as much as it may.
    StorageQuota,
    /// A fault of ours.
    Internal,
}

impl FailureCode {
    /// The code as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LlmProviderUnavailable => "LLM_PROVIDER_UNAVAILABLE",
            Self::LlmRequestTimeout => "LLM_REQUEST_TIMEOUT",
            Self::LlmProviderError | Self::LlmRequestRefused => "LLM_PROVIDER_ERROR",
            Self::LlmRateLimited => "LLM_RATE_LIMITED",
            Self::StepLimit => "STEP_LIMIT",
            Self::StorageQuota => "STORAGE_QUOTA_EXCEEDED",
            Self::Internal => "INTERNAL",
        }
    }
}

/// Why a turn was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// Its owner said stop.
    UserStop,
    /// It ran longer than a turn may.
    Timeout,
    /// A new message took its place while it waited.
    Superseded,
    /// Its session was deleted.
    SessionDeleted,
}

impl CancelReason {
    /// The reason as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserStop => "user_stop",
            Self::Timeout => "timeout",
            Self::Superseded => "superseded",
            Self::SessionDeleted => "session_deleted",
        }
    }
}
