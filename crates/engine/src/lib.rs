//! The engine: runs turns over the log.
//!
//! A turn is worked on by one task of the process that owns it ([`Engine::submit`] begins or takes it up). Everything
//! that happens is an event, durable before anybody sees it; readers ([`TurnReader`]) follow the durable log. Nobody's
//! disconnect ends a turn.

mod agent;
mod committer;
mod doubt;
mod engine;
mod error;
mod follower;
mod history;
mod live;
mod metrics;
mod missing_agent;
mod ownership;
mod prior;
mod projection;
mod reader;
mod repetition;
mod session_update;
mod settings;
mod step;
mod submit;
mod summary;
mod tail;
mod tool_run;
mod turn;
mod turn_log;

pub use agent::{Agent, Agents, Capabilities};
pub use engine::{Engine, History, Parts};
pub use error::{DeleteError, OpenError, SubmitError};
pub use metrics::Metrics;
pub use projection::{Cursor, CursorError, Flow, Frames, Projection, TurnView, write_json};
pub use reader::{EventReader, ReadError, TurnReader};
pub use repetition::SubmissionKey;
pub use session_update::{REDACTED, SessionUpdate, UpdateError};
pub use settings::Settings;
pub use submit::{Started, Submit, Target};
