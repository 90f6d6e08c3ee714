//! What the tests are written with: a scripted model, test tools, an engine over the simulated store, transcripts.

mod crash_store;
mod frames;
mod gate;
mod invariants;
mod model;
mod records;
mod session;
mod setup;
mod standing;
mod tools;
mod transcript;
mod world;

pub(crate) use crash_store::{Asked, CrashStore, Death};
pub(crate) use frames::{ASKING, FRAMES, Frame, PATIENT, PAUSING, all_frames, parse_frames, read_all, read_some};
pub(crate) use gate::{Gate, in_time, until};
pub(crate) use invariants::{History, check_history, check_session, complaint, stored_log};
pub(crate) use model::{
    Beat, Script, ScriptedModel, bad_call, call, call_begins, call_ends, fail, fail_after, finish, input, say, sign,
    stop, think, told,
};
pub(crate) use setup::Setup;
pub(crate) use standing::{SESSION_WIDE, STANDING, Shown, shown_frames, shown_in_log};
pub(crate) use tools::{Behaviour, Ledger, server_tool, spec, tool, tool_set};
pub(crate) use transcript::Names;
pub(crate) use world::{Act, World, check, deny, grant, leg_of, result};
