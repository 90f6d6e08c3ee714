//! How long things are kept.

use everturn_engine::Retention;

use super::{check::duration, file, problem::Report};

/// What the file says, and for ever where it says nothing.
pub(super) fn check(report: &mut Report<'_>, file: &file::Retention) -> Retention {
    let default = Retention::default();
    let mut time = |name, text: &Option<file::Text>| duration(report, name, text.as_ref());
    Retention {
        deltas: time("deltas", &file.deltas),
        logs: time("logs", &file.logs),
        artifacts: time("artifacts", &file.artifacts),
        sessions: time("sessions", &file.sessions),
        deleted: time("deleted", &file.deleted),
        interval: time("interval", &file.interval).unwrap_or(default.interval),
        clock_grace: time("clock_grace", &file.clock_grace).unwrap_or(default.clock_grace),
    }
}
