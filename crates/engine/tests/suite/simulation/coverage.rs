//! What the simulated histories went through, so that a simulation which never meets trouble is found out.

use std::collections::BTreeMap;

use everturn_core::{Answer, CancelReason, Event, Outcome};

use crate::suite::harness::Asked;

const KINDS: [&str; 32] = [
    "step lost in a crash",
    "step restarted",
    "tokens told",
    "model changed",
    "outcome unknown",
    "waiting",
    "paused for the provider",
    "resumed",
    "form answered",
    "permission given",
    "form expired",
    "timer elapsed",
    "answered in part",
    "artifact kept",
    "artifact changed",
    "compacted",
    "completed",
    "max tokens",
    "refused",
    "failed",
    "stopped",
    "superseded",
    "out of time",
    "ended in the queue",
    "news",
    "question answered",
    "question left",
    "turn cut",
    "history begun anew",
    "begun with the end of another",
    "died with the end of another",
    "failed with the end of another",
];

/// What an event is called here.
fn names(seq: u64, event: &Event) -> Vec<&'static str> {
    match event {
        Event::StepRestarted { reason, .. } if reason.contains("the server stopped") => vec!["step lost in a crash"],
        Event::StepRestarted { .. } => vec!["step restarted"],
        Event::TurnStarted(started) if started.begins_history => vec!["history begun anew"],
        Event::Notified { .. } => vec!["news"],
        Event::FormClosed { answer: Some(_), .. } => vec!["question answered"],
        Event::FormClosed { answer: None, .. } => vec!["question left"],
        Event::StepUsed(_) => vec!["tokens told"],
        Event::ModelChanged { .. } => vec!["model changed"],
        Event::ToolFinished { content, .. } if content.text().contains("is unknown") => vec!["outcome unknown"],
        Event::Waiting(wait) if wait.calls.is_empty() => vec!["paused for the provider"],
        Event::Waiting(_) => vec!["waiting"],
        Event::Resumed { answers, .. } => {
            let named = answers.iter().filter_map(|answer| match answer {
                Answer::Form { .. } => Some("form answered"),
                Answer::Permission { .. } => Some("permission given"),
                Answer::Expired { .. } => Some("form expired"),
                Answer::Elapsed { .. } => Some("timer elapsed"),
                Answer::Result { .. } => None,
            });
            named.chain(["resumed"]).chain((answers.len() == 1).then_some("answered in part")).collect()
        }
        Event::ArtifactFinished(kept) if kept.version > 1 => vec!["artifact changed"],
        Event::ArtifactFinished(_) => vec!["artifact kept"],
        Event::HistoryCompacted(_) => vec!["compacted"],
        Event::TurnEnded(_) if seq == 1 => vec!["ended in the queue"],
        Event::TurnEnded(ended) if seq == 2 && ended.outcome == Outcome::Completed => vec!["turn cut"],
        Event::TurnEnded(ended) => vec![match ended.outcome {
            Outcome::Completed => "completed",
            Outcome::MaxTokens => "max tokens",
            Outcome::Refused => "refused",
            Outcome::Failed { .. } => "failed",
            Outcome::Cancelled { reason: CancelReason::UserStop } => "stopped",
            Outcome::Cancelled { reason: CancelReason::Superseded } => "superseded",
            Outcome::Cancelled { reason: CancelReason::Timeout } => "out of time",
            Outcome::Cancelled { reason: CancelReason::SessionDeleted } => "deleted",
        }],
        _ => Vec::new(),
    }
}

/// How often each kind of trouble was met.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    events: BTreeMap<&'static str, usize>,
    /// Effects that were begun more than once.
    pub(super) repeated: usize,
}

impl Coverage {
    pub(super) fn see(&mut self, log: &[(u64, Event)]) {
        for (seq, event) in log {
            for name in names(*seq, event) {
                *self.events.entry(name).or_default() += 1;
            }
        }
    }

    pub(super) fn see_store(&mut self, asked: &Asked) {
        let counts = [asked.begun_with_ends, asked.died_with_ends, asked.failed_with_ends];
        for (name, count) in KINDS[29..].iter().zip(counts) {
            *self.events.entry(name).or_default() += count;
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        other.events.iter().for_each(|(name, count)| *self.events.entry(name).or_default() += count);
        self.repeated += other.repeated;
    }

    /// All kinds of trouble were met, again and again.
    pub(super) fn check(&self) {
        for kind in KINDS {
            let count = self.events.get(kind).copied().unwrap_or_default();
            assert!(count >= 5, "{kind} was met {count} times only: {self:?}");
        }
        assert!(self.repeated >= 1, "no tool was run again after a crash: {self:?}");
    }
}
