//! The contract between the engine and a model.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use everturn_core::{DocumentId, Json, Messages, ModelOptions, SharedText, ToolSpec, Usage};
use futures_util::{future::BoxFuture, stream::BoxStream};

/// What a model call is asked.
#[derive(Clone, Debug, Default)]
pub struct ModelRequest {
    /// Standing instructions: the agent's, then the system messages that the conversation begins with.
    pub system: String,
    /// The conversation, valid for every provider: it begins with a user's message, every tool call is answered by exactly
    /// one tool message right after the assistant's message. Roles alternate, but for users' messages that follow each
    /// other where a turn ended without an answer. System messages that came later stand where they came.
    pub messages: Messages,
    /// The tools that the model may call.
    pub tools: Arc<[ToolSpec]>,
    /// The documents that the messages name.
    pub documents: Documents,
    /// How the model shall think, sample and answer.
    pub options: ModelOptions,
    /// The same for all calls of one conversation, so that a provider with several machines sends them to the one whose
    /// cache has its beginning. Says nothing about who speaks.
    pub cache_key: Option<String>,
    /// Fields that are merged into the request's body last, as they are.
    pub body: Option<Json>,
    /// Tokens of the window that the call is made with, where the agent has one of its own. Ollama loads the model with it;
    /// other providers have windows of their own.
    pub context_window: Option<u64>,
    /// How often this call was made before, and failed.
    pub attempt: u32,
}

/// Documents by id.
pub type Documents = Arc<HashMap<DocumentId, DocumentContent>>;

/// What a model can be given of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentContent {
    /// The document's name.
    pub name: String,
    /// The document's media type, such as `application/pdf`.
    pub media_type: String,
    /// The document's text with a heading that names it, or a sentence that says why there is none.
    pub text: String,
    /// The document itself in base64, where some provider may read it.
    pub base64: Option<SharedText>,
}

/// One piece of a model's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// The provider is at work but has nothing to show yet. Comes for pings, comments and the like.
    Alive,
    /// Something that was asked for is not done, or was changed: an option that the model does not take, a tool or an
    /// image that its provider refuses. For people.
    Notice(String),
    /// A piece of text. Never empty.
    Text(String),
    /// A piece of reasoning. Never empty.
    Thinking(String),
    /// The provider's proof of the reasoning so far, to be given back with it. Replaces an earlier one of the same
    /// answer; may come after text and calls, and without any reasoning. Means nothing to anybody but this crate.
    ThinkingSignature(String),
    /// A tool call begins. `part` tells the calls of one answer apart while their input streams.
    ToolCallStarted {
        /// Which call.
        part: u32,
        /// The tool.
        name: String,
    },
    /// A piece of a call's input, as JSON text.
    ToolInputDelta {
        /// Which call.
        part: u32,
        /// The piece.
        json: String,
    },
    /// A tool call is complete. Comes for every call, whether or not its input was streamed.
    ToolCall {
        /// Which call.
        part: u32,
        /// The tool.
        name: String,
        /// Its whole input: a JSON object.
        input: Json,
    },
    /// A tool call whose input cannot be used. The engine tells the model.
    BadToolCall {
        /// Which call.
        part: u32,
        /// The tool.
        name: String,
        /// What is wrong with the input, as the end of a sentence: "is not a JSON object: …".
        problem: String,
    },
    /// What the provider has told of the call's tokens so far: all of it, not what is new. Comes as often as that changes,
    /// with some providers never, so that a call which is not brought to its end can be counted.
    Used(Usage),
    /// The answer is complete. Always the last item of a stream that did not fail.
    Finished {
        /// Why the model stopped.
        finish: ModelFinish,
        /// Tokens used; `None` where the provider does not say.
        usage: Option<Usage>,
    },
}

/// Why a model stopped of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFinish {
    /// It was done, or waits for its tool calls.
    Stop,
    /// The cap on tokens.
    MaxTokens,
    /// It, or the provider's filter, declined.
    Refusal,
}

/// Why a model call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind of failure.
    pub kind: ModelErrorKind,
    /// What happened, with the provider's own words where it said something. Holds no key.
    pub message: String,
    /// How long the provider asked us to wait.
    pub retry_after: Option<Duration>,
    /// Whether the provider has refused the request without a word of why.
    pub says_nothing: bool,
    /// Whether the provider says that it has too much to do: nothing of the request is to blame then.
    pub is_busy: bool,
}

/// Kinds of failure, as far as they matter to what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// 429. Retry after a while.
    RateLimited,
    /// Not reachable, 5xx, overloaded, or a stream that was cut. Retry.
    Unavailable,
    /// Silent for too long. Retry.
    Timeout,
    /// The conversation does not fit into the context window. Compact, then retry.
    ContextOverflow,
    /// The request is refused for good: something in it is invalid. A retry does not help.
    Rejected,
    /// The caller is refused, or what it asks for is not there: bad key, no money, unknown model, wrong address. A retry
    /// does not help, and neither would another request.
    Denied,
}

impl ModelError {
    /// A failure without a wish to wait.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, says_nothing: false, is_busy: false }
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            ModelErrorKind::RateLimited | ModelErrorKind::Unavailable | ModelErrorKind::Timeout => true,
            ModelErrorKind::ContextOverflow | ModelErrorKind::Rejected | ModelErrorKind::Denied => false,
        }
    }
}

/// A model's answer as it arrives.
pub type EventStream = BoxStream<'static, Result<ModelEvent, ModelError>>;

/// One model of one provider.
pub trait Model: Send + Sync + fmt::Debug + 'static {
    /// `provider/model`, as configuration names it.
    fn name(&self) -> &str;

    /// How many tokens its context holds, input and answer together, as far as anybody knows by now. An answer that
    /// says otherwise corrects it.
    fn context_window(&self) -> Option<u64>;

    /// The window as refusals of too long conversations have told it: no setting makes it larger.
    fn refused_window(&self) -> Option<u64> {
        None
    }

    /// The window that fields of the request's body ask for, where its provider is told which window to use.
    fn window_of_body(&self, _body: &Json) -> Option<u64> {
        None
    }

    /// How many tokens its provider counts for a hundred of ours ([`everturn_core::context`]) in a conversation, by its
    /// [`ModelRequest::cache_key`]: as far as its answers have told, and never less than a hundred.
    fn density(&self, _conversation: Option<&str>) -> u64 {
        100
    }

    /// The longest answer that it gives, in tokens, as far as anybody knows by now.
    fn max_output(&self) -> Option<u64> {
        None
    }

    /// Whether it may think for minutes before it shows anything.
    fn thinks(&self) -> bool {
        false
    }

    /// Whether its provider reads PDF files as they are.
    fn reads_pdf(&self) -> bool {
        false
    }

    /// Whether the first sign of life may take longer than usual: a server that must load the model first.
    fn slow_start(&self) -> bool {
        false
    }

    /// Asks the provider what is not known of the model, once and within bounds, before a call of about so many tokens.
    /// Needs no success.
    fn prepare(&self, _tokens: u64) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Calls the model.
    ///
    /// The stream yields pieces in order and ends after [`ModelEvent::Finished`] or after an error; a stream that the
    /// provider cut yields an error, never a `Finished`. Dropping the future or the stream ends the call at the
    /// provider. It makes no retries of its own and sets no timeout on silence: both are the engine's.
    fn stream(&self, request: ModelRequest) -> BoxFuture<'static, Result<EventStream, ModelError>>;
}
