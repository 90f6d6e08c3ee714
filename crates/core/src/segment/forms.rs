//! The payload of each kind of event. Fields are only ever added, with a default.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{CorruptSegment, Kind, RawEvent, SegmentBuilder};
use crate::{
    Answer, ArtifactDelta, CallId, CallRoute, Content, EffectClass, EffectId, Event, FormId, Json, ModelOptions,
    Timestamp, ToolUse, Usage,
};

impl RawEvent<'_> {
    /// The event, as a value of its own.
    pub fn decode(&self) -> Result<Event, CorruptSegment> {
        Ok(match self.kind {
            Kind::TURN_STARTED => Event::TurnStarted(self.json()?),
            Kind::STEP_STARTED => {
                let StepStartedForm { step, model } = self.json()?;
                Event::StepStarted { step, model }
            }
            Kind::TEXT_DELTA => Event::TextDelta(self.text()?.to_owned()),
            Kind::THINKING_DELTA => Event::ThinkingDelta(self.text()?.to_owned()),
            Kind::TOOL_CALLED => {
                let ToolCalledForm { call, route } = self.json()?;
                Event::ToolCalled { call, route }
            }
            Kind::STEP_USED => Event::StepUsed(self.json()?),
            Kind::STEP_FINISHED => Event::StepFinished(self.json()?),
            Kind::STEP_RESTARTED => {
                let StepRestartedForm { reason, attempt, usage } = self.json()?;
                Event::StepRestarted { reason, attempt, usage }
            }
            Kind::MODEL_CHANGED => {
                let ModelChangedForm { model, reason } = self.json()?;
                Event::ModelChanged { model, reason }
            }
            Kind::TOOL_INTENDED => {
                let ToolIntendedForm { call_id, effect_id, effect, tool, label, step } = self.json()?;
                Event::ToolIntended { call_id, effect_id, effect, tool, label, step }
            }
            Kind::TOOL_FINISHED => {
                let form: ToolFinishedForm = self.json()?;
                let ToolFinishedForm { call_id, tool, content, is_error, duration_ms, never_began, application } = form;
                Event::ToolFinished { call_id, tool, content, is_error, duration_ms, never_began, application }
            }
            Kind::WAITING => Event::Waiting(self.json()?),
            Kind::RESUMED => {
                if self.payload.starts_with(b"[") {
                    return Ok(Event::Resumed { answers: self.json()?, options: None });
                }
                let ResumedForm { answers, options } = self.json()?;
                Event::Resumed { answers, options: Some(options) }
            }
            Kind::HISTORY_COMPACTED => Event::HistoryCompacted(self.json()?),
            Kind::TURN_ENDED => Event::TurnEnded(self.json()?),
            Kind::TIMER_SET => {
                let TimerSetForm { call_id, from, wake_at } = self.json()?;
                Event::TimerSet { call_id, from, wake_at }
            }
            Kind::FORM_OPENED => Event::FormOpened(self.json()?),
            Kind::FORM_CLOSED => {
                let FormClosedForm { form_id, call_id, answer } = self.json()?;
                Event::FormClosed { form_id, call_id, answer }
            }
            Kind::NOTIFIED => {
                let NotifiedForm { call_id, method, params } = self.json()?;
                Event::Notified { call_id, method, params }
            }
            Kind::ARTIFACT_STARTED => Event::ArtifactStarted(self.json()?),
            Kind::ARTIFACT_DELTA => Event::ArtifactDelta(self.json()?),
            Kind::ARTIFACT_FINISHED => Event::ArtifactFinished(self.json()?),
            Kind::DROPPED => {
                let DroppedForm { count } = self.json()?;
                Event::Dropped { count }
            }
            Kind(kind) => Event::Unknown { kind, payload: Bytes::copy_from_slice(self.payload) },
        })
    }
}

impl SegmentBuilder {
    /// Adds an event. Times never go back within a segment, whatever the clock does.
    pub fn push(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::TextDelta(text) => self.push_payload(Kind::TEXT_DELTA, at, text.as_bytes()),
            Event::ThinkingDelta(text) => self.push_payload(Kind::THINKING_DELTA, at, text.as_bytes()),
            Event::Unknown { kind, payload } => self.push_payload(Kind(*kind), at, payload),
            Event::TurnStarted(form) => self.push_json(Kind::TURN_STARTED, at, form),
            Event::StepStarted { step, model } => {
                self.push_json(Kind::STEP_STARTED, at, &StepStartedForm { step: *step, model });
            }
            Event::ToolCalled { call, route } => self.push_json(Kind::TOOL_CALLED, at, &ToolCalledForm { call, route }),
            Event::StepUsed(form) => self.push_json(Kind::STEP_USED, at, form),
            Event::StepFinished(form) => self.push_json(Kind::STEP_FINISHED, at, form),
            Event::StepRestarted { reason, attempt, usage } => {
                let form = StepRestartedForm { reason, attempt: *attempt, usage: *usage };
                self.push_json(Kind::STEP_RESTARTED, at, &form);
            }
            Event::ModelChanged { model, reason } => {
                self.push_json(Kind::MODEL_CHANGED, at, &ModelChangedForm { model, reason });
            }
            Event::ToolIntended { call_id, effect_id, effect, tool, label, step } => {
                let form = ToolIntendedForm { call_id, effect_id, effect: *effect, tool, label, step: *step };
                self.push_json(Kind::TOOL_INTENDED, at, &form);
            }
            Event::ToolFinished { call_id, tool, content, is_error, duration_ms, never_began, application } => {
                let (is_error, duration_ms) = (*is_error, *duration_ms);
                let (never_began, application) = (*never_began, *application);
                let form = ToolFinishedForm { call_id, tool, content, is_error, duration_ms, never_began, application };
                self.push_json(Kind::TOOL_FINISHED, at, &form);
            }
            Event::Waiting(form) => self.push_json(Kind::WAITING, at, form),
            Event::Resumed { answers, options: None } => self.push_json::<[Answer]>(Kind::RESUMED, at, answers),
            Event::Resumed { answers, options: Some(options) } => {
                self.push_json(Kind::RESUMED, at, &ResumedForm { answers, options });
            }
            Event::HistoryCompacted(form) => self.push_json(Kind::HISTORY_COMPACTED, at, form),
            Event::TurnEnded(form) => self.push_json(Kind::TURN_ENDED, at, form),
            Event::TimerSet { call_id, from, wake_at } => {
                let form = TimerSetForm { call_id, from: *from, wake_at: *wake_at };
                self.push_json(Kind::TIMER_SET, at, &form);
            }
            Event::FormOpened(form) => self.push_json(Kind::FORM_OPENED, at, form),
            Event::FormClosed { form_id, call_id, answer } => {
                let answer = answer.as_ref();
                self.push_json(Kind::FORM_CLOSED, at, &FormClosedForm { form_id, call_id, answer });
            }
            Event::Notified { call_id, method, params } => {
                let call_id = call_id.as_ref();
                self.push_json(Kind::NOTIFIED, at, &NotifiedForm { call_id, method, params });
            }
            Event::ArtifactStarted(form) => self.push_json(Kind::ARTIFACT_STARTED, at, form),
            Event::ArtifactDelta(form) => self.push_json::<ArtifactDelta>(Kind::ARTIFACT_DELTA, at, form),
            Event::ArtifactFinished(form) => self.push_json(Kind::ARTIFACT_FINISHED, at, form),
            Event::Dropped { count } => {
                self.push_json(Kind::DROPPED, at, &DroppedForm { count: *count });
                self.count += count.saturating_sub(1);
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
struct StepStartedForm<S = String> {
    step: u32,
    model: S,
}

#[derive(Serialize, Deserialize)]
struct ToolCalledForm<C = ToolUse, R = CallRoute> {
    call: C,
    route: R,
}

#[derive(Serialize, Deserialize)]
struct StepRestartedForm<S = String> {
    reason: S,
    attempt: u32,
    usage: Usage,
}

#[derive(Serialize, Deserialize)]
struct ModelChangedForm<S = String> {
    model: S,
    reason: S,
}

#[derive(Serialize, Deserialize)]
struct ToolIntendedForm<I = CallId, E = EffectId, S = String> {
    call_id: I,
    effect_id: E,
    effect: EffectClass,
    tool: S,
    label: S,
    step: u32,
}

#[derive(Serialize, Deserialize)]
struct ToolFinishedForm<I = CallId, C = Content, S = String> {
    call_id: I,
    tool: S,
    content: C,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    duration_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    never_began: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    application: bool,
}

#[derive(Serialize, Deserialize)]
struct TimerSetForm<I = CallId> {
    call_id: I,
    from: Timestamp,
    wake_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct FormClosedForm<F = FormId, I = CallId, J = Json> {
    form_id: F,
    call_id: I,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    answer: Option<J>,
}

/// What brought options; without them the answers are written alone.
#[derive(Serialize, Deserialize)]
struct ResumedForm<A = Vec<Answer>, O = Box<ModelOptions>> {
    answers: A,
    options: O,
}

#[derive(Serialize, Deserialize)]
struct NotifiedForm<I = CallId, S = String, J = Json> {
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    call_id: Option<I>,
    method: S,
    params: J,
}

// The default of an option asks for one of what is in it, which there need not be.
fn none<T>() -> Option<T> {
    None
}

#[derive(Serialize, Deserialize)]
pub(super) struct DroppedForm {
    pub(super) count: u32,
}
