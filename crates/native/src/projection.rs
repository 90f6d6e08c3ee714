//! The API's view of the log.

use bytes::Bytes;
use everturn_core::{
    ArtifactRef, ArtifactStarted, CancelReason, Compaction, CorruptSegment, Event, FailureCode, FormOpened, Json, Kind,
    Outcome, RawEvent, TurnEnded, Wake,
};
use everturn_engine::{Cursor, Flow, Frames, Projection, TurnView, write_cursor, write_json};
use serde_json::Number;

use crate::{
    frame::{ArtifactOut, Frame, Payload},
    links::artifact_url,
    time::rfc3339,
};

static NATIVE: Native = Native;

/// The API's views of a turn.
pub fn projections() -> [&'static dyn Projection; 1] {
    [&NATIVE]
}

struct Native;

/// How much of a tool's result `tool_completed` shows, in bytes.
const SHOWN_RESULT: usize = 2000;

impl Projection for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn opening(&self) -> &'static [u8] {
        b"retry: 1000\n"
    }

    fn heartbeat(&self, cursor: Cursor) -> Bytes {
        let mut out = Vec::with_capacity(48);
        out.extend_from_slice(b"id: ");
        write_cursor(&mut out, cursor);
        out.extend_from_slice(b"\ndata: {\"type\":\"heartbeat\"}\n\n");
        out.into()
    }

    fn project(&self, view: &TurnView, event: &RawEvent<'_>, frames: &mut Frames<'_>) -> Result<Flow, CorruptSegment> {
        // The path of every delta: no more than escaping.
        match event.kind {
            Kind::TEXT_DELTA => text(frames, "delta", event.text()?),
            Kind::THINKING_DELTA => text(frames, "thinking", event.text()?),
            Kind::ARTIFACT_DELTA => {
                let piece = event.artifact_delta()?;
                let (artifact_id, content_chunk, chunk_index) = (&piece.id, &piece.text, piece.index);
                show(frames, &Frame::ArtifactDelta { artifact_id, content_chunk, chunk_index });
            }
            // Known from the step's end, or not shown at all.
            Kind::STEP_STARTED | Kind::TOOL_CALLED | Kind::MODEL_CHANGED | Kind::RESUMED | Kind::STEP_USED => {}
            _ => return decoded(view, &event.decode()?, frames),
        }
        Ok(Flow::Continue)
    }
}

/// Shows how far a tool is; what says nothing of it is passed over.
fn tool_progress(frames: &mut Frames<'_>, tool_call_id: &str, params: &Json) {
    #[derive(serde::Deserialize)]
    struct Progress {
        progress: Number,
        total: Option<Number>,
        message: Option<String>,
    }
    if let Ok(Progress { progress, total, message }) = serde_json::from_str(params.as_str()) {
        show(frames, &Frame::ToolProgress { tool_call_id, progress, total, message });
    }
}

/// What needs a look inside.
fn decoded(view: &TurnView, event: &Event, frames: &mut Frames<'_>) -> Result<Flow, CorruptSegment> {
    match event {
        Event::TurnStarted(started) => {
            let (session_id, message_id) = (view.session.as_str(), view.turn.as_str());
            show(frames, &Frame::Start { session_id, message_id, agent_id: &started.agent });
        }
        // Where retention has dropped the deltas, the answer is shown in one piece.
        Event::StepFinished(finished) if finished.deltas_dropped => {
            let answer = finished.content.text();
            if !answer.is_empty() {
                text(frames, "delta", &answer);
            }
        }
        Event::StepRestarted { reason, attempt, .. } => {
            show(frames, &Frame::RetryNotification { attempt: (*attempt).max(1), reason });
        }
        Event::ToolIntended { call_id, tool, label, step, .. } => {
            let tool_call_id = call_id.as_str();
            show(frames, &Frame::ToolStarted { tool_call_id, tool_name: tool, label, iteration: *step });
        }
        Event::ToolFinished { call_id, tool, content, is_error, duration_ms, never_began, .. } => {
            let (tool_call_id, result) = (call_id.as_str(), content.lines());
            if let Some(step) = never_began {
                frames.several();
                let iteration = (*step).max(1);
                show(frames, &Frame::ToolStarted { tool_call_id, tool_name: tool, label: tool, iteration });
            }
            let message = &result[..result.floor_char_boundary(SHOWN_RESULT)];
            let (success, duration_ms) = (!is_error, *duration_ms);
            show(frames, &Frame::ToolCompleted { tool_call_id, tool_name: tool, success, message, duration_ms });
        }
        Event::ArtifactStarted(started) => artifact_started(frames, started),
        Event::ArtifactFinished(ArtifactRef { id, version, content_type, .. }) => {
            let (artifact_id, version, download_url) = (id.as_str(), *version, artifact_url(id, *version));
            show(frames, &Frame::ArtifactComplete { artifact_id, version, content_type, download_url });
        }
        Event::FormOpened(form) => form_request(frames, form),
        Event::Waiting(wait) => {
            show(frames, &Frame::Paused { wake: wake(wait.wake()), wake_at: wait.wake_at.map(rfc3339) });
            return Ok(Flow::Pause);
        }
        Event::Notified { call_id: None, .. } => {
            if let Some(message) = event.as_model_notice() {
                show(frames, &Frame::Notice { message: &message });
            }
        }
        Event::Notified { call_id: Some(call), method, params } if method == "notifications/progress" => {
            tool_progress(frames, call.as_str(), params);
        }
        Event::HistoryCompacted(compaction) => history_compacted(frames, compaction),
        Event::Dropped { count } => show(frames, &Frame::Compacted { dropped_events: *count }),
        Event::TurnEnded(ended) => {
            turn_ended(view, frames, ended);
            return Ok(Flow::Close);
        }
        Event::TextDelta(_)
        | Event::ThinkingDelta(_)
        | Event::ArtifactDelta(_)
        | Event::StepStarted { .. }
        | Event::StepUsed(_)
        | Event::StepFinished(_)
        | Event::ToolCalled { .. }
        | Event::ModelChanged { .. }
        | Event::TimerSet { .. }
        | Event::FormClosed { .. }
        | Event::Notified { .. }
        | Event::Resumed { .. }
        | Event::Unknown { .. } => {}
    }
    Ok(Flow::Continue)
}

fn show(frames: &mut Frames<'_>, frame: &Frame<'_>) {
    frames.unnamed(|out| write_json(out, frame));
}

fn text(frames: &mut Frames<'_>, kind: &str, content: &str) {
    frames.unnamed(|out| {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"content\":");
        write_json(out, content);
        out.push(b'}');
    });
}

fn artifact_started(frames: &mut Frames<'_>, started: &ArtifactStarted) {
    let ArtifactStarted { id, version, artifact_type, title } = started;
    let artifact_id = id.as_str();
    match version {
        0 | 1 => show(frames, &Frame::ArtifactStart { artifact_id, artifact_type, title }),
        _ => show(frames, &Frame::ArtifactUpdate { artifact_id, version: *version, title }),
    }
}

fn history_compacted(frames: &mut Frames<'_>, compaction: &Compaction) {
    let Compaction { covers, left_out, shortened, change, .. } = compaction;
    let frame = Frame::CompactedHistory {
        // Earlier versions noted how many are covered, not how many were before.
        messages: change.map_or(*covers, |change| change.messages),
        summarised: *left_out == 0 && !compaction.summary.is_empty(),
        shortened: change.map_or(shortened.len(), |change| change.shortened),
        tokens_before: change.map(|change| change.tokens_before),
        tokens_after: change.map(|change| change.tokens_after),
    };
    show(frames, &frame);
}

fn form_request(frames: &mut Frames<'_>, form: &FormOpened) {
    let payload = Payload {
        title: &form.title,
        description: form.description.as_deref(),
        schema: &form.schema,
        tool_call_id: form.call_id.as_str(),
        expires_at: form.expires_at.map(rfc3339),
    };
    show(frames, &Frame::FormRequest { form_id: form.form_id.as_str(), form_kind: form.kind.as_str(), payload });
}

/// The word for what a turn waits for.
pub(crate) fn wake(wake: Wake) -> &'static str {
    match wake {
        Wake::Form => "form",
        Wake::ClientTools => "client_tools",
        Wake::Timer => "timer",
        Wake::RateLimit => "rate_limit",
    }
}

/// The word for why a turn was cancelled.
pub(crate) fn reason(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::UserStop => "user_stop",
        CancelReason::Timeout => "timeout",
        CancelReason::Superseded => "superseded",
        CancelReason::SessionDeleted => "session_deleted",
    }
}

/// A turn that failed, in the API's words: code, message, and whether the same turn may succeed later.
pub(crate) fn failure(outcome: &Outcome) -> Option<(&'static str, &str, bool)> {
    match outcome {
        Outcome::Completed | Outcome::Cancelled { .. } => None,
        Outcome::MaxTokens => {
            let message =
                "the answer, or the conversation, has reached the limit of tokens; what there is of it is kept";
            Some(("CONTEXT_OVERFLOW", message, false))
        }
        Outcome::Refused => Some(("REFUSED", "the model or its provider declined to answer", false)),
        Outcome::Failed { code, message, retryable } => Some((code.as_str(), message, *retryable)),
    }
}

/// What a person who knows nothing of the server may be told.
fn user_message(outcome: &Outcome, response: &str) -> &'static str {
    match outcome {
        Outcome::Completed | Outcome::Cancelled { .. } => "",
        Outcome::MaxTokens if response.is_empty() => {
            "The assistant ran out of room before it could answer. Please ask for less at once, or start a new conversation."
        }
        Outcome::MaxTokens => "The answer became too long and was cut off.",
        Outcome::Refused => "The assistant declined to answer this.",
        Outcome::Failed { code: FailureCode::StepLimit, .. } => {
            "The assistant stopped after many steps. Send a message to let it go on."
        }
        Outcome::Failed { retryable: false, .. } => "Something went wrong. The assistant's operator must look into it.",
        Outcome::Failed { code, retryable: true, .. } => match code {
            FailureCode::LlmProviderUnavailable | FailureCode::LlmRequestTimeout => {
                "The assistant cannot be reached at the moment. Please try again later."
            }
            FailureCode::LlmRateLimited => "The assistant is very busy at the moment. Please try again later.",
            FailureCode::LlmProviderError
            | FailureCode::LlmRequestRefused
            | FailureCode::Internal
            | FailureCode::StepLimit => "Something went wrong. Please try again.",
            FailureCode::StorageQuota => "The storage is full. Please delete something first.",
        },
    }
}

fn turn_ended(view: &TurnView, frames: &mut Frames<'_>, ended: &TurnEnded) {
    let TurnEnded { outcome, usage, response, artifacts } = ended;
    let (total_input_tokens, total_output_tokens) = (usage.input, usage.output);
    let (total_cached_input_tokens, total_reasoning_tokens) = (usage.cached_input, usage.reasoning);
    if let Some((code, message, retryable)) = failure(outcome) {
        return show(
            frames,
            &Frame::Error {
                error: code,
                code,
                message,
                retryable,
                user_message: user_message(outcome, response),
                partial_response: response,
                total_input_tokens,
                total_output_tokens,
                total_cached_input_tokens,
                total_reasoning_tokens,
            },
        );
    }
    if let Outcome::Cancelled { reason: why } = outcome {
        let (reason, partial_response) = (reason(*why), response.as_str());
        let frame = Frame::Cancelled {
            reason,
            partial_response,
            total_input_tokens,
            total_output_tokens,
            total_cached_input_tokens,
            total_reasoning_tokens,
        };
        return show(frames, &frame);
    }
    show(
        frames,
        &Frame::Complete {
            session_id: view.session.as_str(),
            message_id: view.turn.as_str(),
            final_response: response,
            total_input_tokens,
            total_output_tokens,
            total_cached_input_tokens,
            total_reasoning_tokens,
            artifacts: artifacts.iter().map(ArtifactOut::from).collect(),
        },
    );
}
