//! What a turn does next, from its state alone. So a turn that a crash interrupted goes on like one that was not.

use crate::{
    CallId, CallRoute, CallState, EffectClass, EffectId, FailureCode, Finish, Outcome, Phase, TurnState, Wait,
    WaitingCall, WaitingFor,
};

/// What a turn does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it waits or is over.
    Rest,
    /// A model call.
    Step,
    /// A model call that a crash interrupted, once more.
    RestartStep,
    /// A model call that the turn has paused before, once more.
    RetryStep,
    /// Compact history.
    Compact,
    /// Resolve these calls, all at once.
    Resolve(Vec<Resolution>),
    /// Ask a person, for each of these calls.
    OpenForms(Vec<CallId>),
    /// Rest.
    Wait(Wait),
    /// End like this.
    End(Outcome),
}

/// How the server resolves a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Run the tool.
    Run {
        /// Which call.
        call_id: CallId,
        /// Set if an earlier attempt was begun: run it with the same effect id.
        repeat: Option<EffectId>,
        /// Whether a person allowed it, as opposed to the session's settings.
        permitted: bool,
    },
    /// A timer's time has come: tell the model.
    Elapsed {
        /// Which call.
        call_id: CallId,
    },
    /// Tell the model this; nothing runs.
    Tell {
        /// Which call.
        call_id: CallId,
        /// What it is told.
        text: String,
    },
}

/// What the turn does next, if it may make this many model calls.
pub fn next(state: &TurnState, max_steps: u32) -> Next {
    match state.phase {
        Phase::New | Phase::Waiting(_) | Phase::Ended(_) => return Next::Rest,
        Phase::Running => {}
    }
    if state.compacts {
        return if state.compaction.is_some() { Next::End(Outcome::Completed) } else { Next::Compact };
    }
    if let Some(step) = &state.step {
        return if step.paused { Next::RetryStep } else { Next::RestartStep };
    }
    let cut_short = match state.finish {
        Some(Finish::MaxTokens) => Some(Outcome::MaxTokens),
        Some(Finish::Refusal) => Some(Outcome::Refused),
        Some(Finish::Aborted) => Some(Outcome::Failed {
            code: FailureCode::Internal,
            message: "the turn was interrupted while it was being ended".to_owned(),
            retryable: true,
        }),
        Some(Finish::Stop | Finish::ToolUse) | None => None,
    };
    let resolutions: Vec<_> = state.open_calls().filter_map(|call| resolution(call, cut_short.is_some())).collect();
    if !resolutions.is_empty() {
        return Next::Resolve(resolutions);
    }
    if let Some(outcome) = cut_short {
        return Next::End(outcome);
    }
    let waiting: Vec<_> = state.open_calls().filter_map(waiting_call).collect();
    let unasked: Vec<_> = state.open_calls().filter(|call| wants_form(call)).map(|call| call.call.id.clone()).collect();
    if !unasked.is_empty() {
        return Next::OpenForms(unasked);
    }
    if !waiting.is_empty() {
        return Next::Wait(Wait::of(waiting));
    }
    if state.finish.is_some() && state.calls.is_empty() {
        return Next::End(Outcome::Completed);
    }
    if state.steps >= max_steps {
        return Next::End(Outcome::Failed {
            code: FailureCode::StepLimit,
            message: format!(
                "the turn made {max_steps} model calls, which is its limit (the agent's max_steps); send a message to go on"
            ),
            retryable: false,
        });
    }
    Next::Step
}

/// What the model is told when an application has a form allowed, as if it were a tool, and cannot show it.
const CANNOT_ASK: &str = "The user allowed the question, but the application cannot show forms: ask it in your answer";

fn resolution(state: &CallState, cut_short: bool) -> Option<Resolution> {
    let call_id = state.call.id.clone();
    if cut_short {
        return Some(Resolution::Tell { call_id, text: "Tool call not run: the answer was cut short".to_owned() });
    }
    if let Some(timer) = &state.timer {
        return timer.elapsed.then_some(Resolution::Elapsed { call_id });
    }
    let permitted = match (&state.route, state.granted) {
        (CallRoute::Inline, _) => false,
        (CallRoute::Permission, Some(true)) => true,
        (CallRoute::Permission | CallRoute::Form, Some(false)) => {
            // Applications send the field also where nobody has written into it.
            let text = match state.denial.as_deref().map(str::trim).filter(|reason| !reason.is_empty()) {
                Some(reason) => format!("Tool call denied: {reason}"),
                None => "Tool call denied".to_owned(),
            };
            return Some(Resolution::Tell { call_id, text });
        }
        (CallRoute::Refused { reason }, _) => {
            return Some(Resolution::Tell { call_id, text: reason.clone() });
        }
        (CallRoute::Form, Some(true)) => {
            return Some(Resolution::Tell { call_id, text: CANNOT_ASK.to_owned() });
        }
        (CallRoute::Permission | CallRoute::Form, None) | (CallRoute::Client, _) => return None,
    };
    Some(match &state.intent {
        None => Resolution::Run { call_id, repeat: None, permitted },
        Some((effect_id, EffectClass::ReadOnly | EffectClass::Idempotent)) => {
            Resolution::Run { call_id, repeat: Some(effect_id.clone()), permitted }
        }
        Some((_, EffectClass::Effectful)) => Resolution::Tell {
            call_id,
            text: "Tool call interrupted: the server stopped while it ran. Whether it had its effect is unknown; \
                   check before you call it again"
                .to_owned(),
        },
    })
}

/// Whether a person must be asked who was not asked yet.
fn wants_form(state: &CallState) -> bool {
    let asks = match state.route {
        CallRoute::Form => true,
        CallRoute::Permission => state.granted.is_none(),
        CallRoute::Client | CallRoute::Inline | CallRoute::Refused { .. } => false,
    };
    asks && state.form.is_none()
}

fn waiting_call(state: &CallState) -> Option<WaitingCall> {
    let expires_at = state.form.as_ref().and_then(|form| form.expires_at);
    let (waiting_for, until) = match (&state.route, &state.timer) {
        (_, Some(timer)) => (WaitingFor::Timer, Some(timer.wake_at)),
        (CallRoute::Client, None) => (WaitingFor::Result, None),
        (CallRoute::Permission, None) => (WaitingFor::Permission, expires_at),
        (CallRoute::Form, None) => (WaitingFor::Form, expires_at),
        (CallRoute::Inline | CallRoute::Refused { .. }, None) => return None,
    };
    Some(WaitingCall { id: state.call.id.clone(), name: state.call.name.clone(), waiting_for, until })
}
