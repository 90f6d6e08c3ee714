//! What a view of a turn may want to know of the events before the one that it shows.

use std::sync::Arc;

use crate::{CorruptSegment, Event, Kind, RawEvent, Timestamp, Usage};

/// Where a turn stands after some of its events: the little that views need, cheap to keep up with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The client's name for the turn, where it gave one.
    pub request: Option<Arc<str>>,
    /// What the session had used before the turn.
    pub used_before: Usage,
    /// What the turn has used.
    pub used: Usage,
    /// When it began.
    pub started_at: Timestamp,
    /// Which step it is in, from 1; zero before the first.
    pub step: u32,
    /// When that step began.
    pub step_at: Timestamp,
}

impl Standing {
    /// What the session has used.
    pub fn used_by_session(&self) -> Usage {
        let mut used = self.used_before;
        used += self.used;
        used
    }

    /// Takes the next event into account. Deltas, which are most of all, cost nothing.
    pub fn apply(&mut self, raw: &RawEvent<'_>) -> Result<(), CorruptSegment> {
        match raw.kind {
            Kind::TURN_STARTED
            | Kind::STEP_STARTED
            | Kind::STEP_FINISHED
            | Kind::STEP_RESTARTED
            | Kind::HISTORY_COMPACTED
            | Kind::TURN_ENDED => self.take(raw.at, &raw.decode()?),
            _ => {}
        }
        Ok(())
    }

    fn take(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::TurnStarted(started) => {
                self.request = started.request.as_deref().map(Arc::from);
                self.used_before = started.used_before;
                self.started_at = at;
            }
            Event::StepStarted { step, .. } => {
                self.step = *step;
                self.step_at = at;
            }
            Event::StepFinished(finished) => {
                self.used += finished.usage;
                if finished.step > 0 {
                    (self.step, self.step_at) = (finished.step, at);
                }
            }
            Event::StepRestarted { usage, .. } => self.used += *usage,
            Event::HistoryCompacted(compaction) => self.used += compaction.usage,
            Event::TurnEnded(ended) => self.used = ended.usage,
            _ => {}
        }
    }
}
