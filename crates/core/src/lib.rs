//! The domain of Everturn, without I/O.
//!
//! A turn is an append-only log of [`Event`]s. [`TurnState`] is what the log folds to, [`submission`] says which
//! commands a session takes, and [`context`] builds the history that a model is given. Nothing here reads a clock, a
//! socket or a file, so all of it can be tested by itself.

mod agent;
mod answer;
mod artifact;
mod call;
pub mod compaction;
pub mod context;
mod event;
mod fold;
mod form;
mod id;
mod json;
mod message;
mod messages;
mod model_notice;
mod model_options;
mod plan;
mod price;
mod quota;
mod said;
mod segment;
mod shared_text;
mod shortening;
mod standing;
pub mod submission;
mod time;
mod tokens;
mod usage;

pub use agent::{OptionSpec, OptionValue, Overlay, SessionConfig, ToolRef, ToolSpec};
pub use answer::Answer;
pub use artifact::{ArtifactDelta, ArtifactRef, ArtifactStarted};
pub use call::{CallRoute, EffectClass, ToolUse, Wait, WaitingCall, WaitingFor, Wake};
pub use compaction::Compaction;
pub use event::{CancelReason, Event, FailureCode, Finish, Outcome, StepFinished, TurnEnded, TurnStarted};
pub use fold::{CallState, Phase, StepState, Timer, TurnState};
pub use form::{FormKind, FormOpened};
pub use id::{
    ArtifactId, CallId, CommandId, DocumentId, EffectId, FormId, IdError, KeyId, SessionId, TenantId, TurnId,
};
pub use json::Json;
pub use message::{Block, Content, Message, Role};
pub use messages::{Messages, Piece, Pieces, Size};
pub use model_options::{Effort, ModelOptions, OutputFormat, Thinking, ToolChoice};
pub use plan::{Next, Resolution, next};
pub use price::{Cost, Price, Prices, Rate};
pub use quota::Quota;
pub use said::{MessagePlace, MessageRef, MessageRefError, Said};
pub use segment::{ArtifactPiece, CorruptSegment, Kind, Place, RawEvent, Segment, SegmentBuilder};
pub use shared_text::SharedText;
pub use standing::Standing;
pub use time::{Day, Timestamp};
pub use usage::Usage;
