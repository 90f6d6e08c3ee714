//! The engine: runs turns over the log.
//!
//! A turn is worked on by one task of the process that owns it ([`Engine::submit`] begins or takes it up). Everything
//! that happens is an event, durable before anybody sees it; readers ([`TurnReader`]) follow the durable log. Nobody's
//! disconnect ends a turn.

mod accept;
mod account;
mod agent;
mod artifacts;
mod committer;
mod conversation;
mod create;
mod cut;
mod document_context;
mod documents;
mod doubt;
mod draft;
mod engine;
mod error;
mod follower;
mod forms;
mod history;
mod live;
mod metrics;
mod missing_agent;
mod notes;
mod notices;
mod overlay;
mod ownership;
mod permissions;
mod prior;
mod profile_check;
mod profiles;
mod projection;
mod questions;
mod queue;
mod reader;
mod repetition;
mod retention;
mod running;
mod session_reader;
mod session_update;
mod settings;
mod spending;
mod step;
mod stop;
mod stream_token;
mod submit;
mod summary;
mod tail;
mod titles;
mod told;
mod tool_run;
mod turn;
mod turn_log;
mod waker;
mod watchdog;

pub use account::{Account, Accounts, QuotaExceeded, Unbounded, Whose};
pub use agent::{Agent, Agents, Capabilities};
pub use artifacts::{Artifact, ArtifactVersion};
pub use create::{ImportedTurn, NewConversation};
pub use cut::Cut;
pub use documents::{Document, UploadError};
pub use engine::{Engine, History, Parts};
pub use error::{CutError, DeleteError, OpenError, StopError, SubmitError};
pub use forms::{Form, FormState};
pub use metrics::Metrics;
pub use notices::{NOTICE_DUE, Notice, NoticeKind, Notices};
pub use permissions::{Permission, Verdict};
pub use profiles::{Models, Profile, ProfileError, StoredProfile};
pub use projection::{Cursor, CursorError, Flow, Frames, Projection, TurnView, write_cursor, write_json};
pub use reader::{EventReader, ReadError, TurnReader};
pub use repetition::SubmissionKey;
pub use session_reader::{SessionCursor, SessionReader};
pub use session_update::{REDACTED, SessionUpdate, UpdateError};
pub use settings::{Retention, Settings};
pub use submit::{Reply, Started, Submit, Target};
