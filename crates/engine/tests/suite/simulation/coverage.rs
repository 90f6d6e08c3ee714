//! What the simulated histories went through, so that a simulation which never meets trouble is found out.

use std::collections::BTreeMap;

use everturn_core::{Event, Outcome};

/// How often each kind of trouble was met.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    events: BTreeMap<&'static str, usize>,
    /// Effects that were begun more than once.
    pub(super) repeated: usize,
}

impl Coverage {
    pub(super) fn see(&mut self, log: &[(u64, Event)]) {
        for (_, event) in log {
            let name = match event {
                Event::StepRestarted { reason, .. } if reason.contains("the server stopped") => "step lost in a crash",
                Event::StepRestarted { .. } => "step restarted",
                Event::ModelChanged { .. } => "model changed",
                Event::ToolFinished { content, .. } if content.text().contains("is unknown") => "outcome unknown",
                Event::Waiting(_) => "waiting",
                Event::Resumed { .. } => "resumed",
                Event::HistoryCompacted(_) => "compacted",
                Event::TurnEnded(ended) => match ended.outcome {
                    Outcome::Completed => "completed",
                    Outcome::MaxTokens => "max tokens",
                    Outcome::Refused => "refused",
                    Outcome::Failed { .. } => "failed",
                    Outcome::Cancelled { .. } => "cancelled",
                },
                _ => continue,
            };
            *self.events.entry(name).or_default() += 1;
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        other.events.iter().for_each(|(name, count)| *self.events.entry(name).or_default() += count);
        self.repeated += other.repeated;
    }

    /// All kinds of trouble were met, again and again.
    pub(super) fn check(&self) {
        let kinds = [
            "step lost in a crash",
            "step restarted",
            "model changed",
            "outcome unknown",
            "waiting",
            "resumed",
            "compacted",
            "completed",
            "max tokens",
            "refused",
            "failed",
            "cancelled",
        ];
        for kind in kinds {
            let count = self.events.get(kind).copied().unwrap_or_default();
            assert!(count >= 5, "{kind} was met {count} times only: {self:?}");
        }
        assert!(self.repeated >= 1, "no tool was run again after a crash: {self:?}");
    }
}
