//! The protocol's view of the log: one projection for each streaming mode, in all versions. Only a turn that opened its
//! session names it, which is what version 1 does; in version 3 a session is there before its first turn.

use everturn_core::{Answer, Block, CallId, CorruptSegment, Event, Json, Kind, RawEvent, StepFinished, ToolUse};
use everturn_engine::{Flow, Frames, Projection, TurnView, write_json};
use serde::Serialize;

use crate::wire::{BlockOut, ContentOut, StopReason, stop_reason};

/// `stream: "delta"`.
pub(crate) static DELTA: Delta = Delta;
/// `stream: "message"`.
pub(crate) static MESSAGE: WholeMessage = WholeMessage;

/// The protocol's views of a turn.
pub fn projections() -> [&'static dyn Projection; 2] {
    [&DELTA, &MESSAGE]
}

pub(crate) struct Delta;
pub(crate) struct WholeMessage;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionStart<'a> {
    session_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolCall<'a> {
    tool_call_id: &'a CallId,
    name: &'a str,
    input: &'a Json,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'a> {
    tool_call_id: &'a CallId,
    content: ContentOut<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TurnStop {
    stop_reason: StopReason,
}

impl Projection for Delta {
    fn name(&self) -> &'static str {
        "aap-delta"
    }

    fn project(&self, view: &TurnView, event: &RawEvent<'_>, frames: &mut Frames<'_>) -> Result<Flow, CorruptSegment> {
        match event.kind {
            Kind::TEXT_DELTA => delta(frames, "text_delta", event.text()?),
            Kind::THINKING_DELTA => delta(frames, "thinking_delta", event.text()?),
            // Not as each call arrives: an attempt that breaks off takes its calls with it, and clients would answer
            // calls that nobody made.
            Kind::STEP_FINISHED => {
                if let Event::StepFinished(finished) = event.decode()? {
                    step_finished(frames, finished);
                }
            }
            // The protocol has no word for it. A comment tells people who look at the wire.
            Kind::STEP_RESTARTED => frames.comment("the model starts this step again; its text so far is void"),
            _ => return common(view, event, frames),
        }
        Ok(Flow::Continue)
    }
}

/// The calls of a step, whose text was shown in deltas; where retention has dropped those, the text as well.
fn step_finished(frames: &mut Frames<'_>, finished: StepFinished) {
    let StepFinished { content, deltas_dropped: dropped, withheld, .. } = finished;
    let blocks = content.into_blocks();
    let is_shown = |block: &Block| match block {
        Block::ToolUse(call) => !withheld.contains(&call.id),
        Block::Text(_) => dropped,
        Block::Thinking { .. } | Block::Image { .. } | Block::Document { .. } => false,
    };
    let shown: Vec<_> = (1..).zip(&blocks).filter(|(_, block)| is_shown(block)).collect();
    if shown.len() > 1 {
        frames.several();
    }
    for (part, block) in shown {
        frames.part(part);
        match block {
            Block::ToolUse(call) => tool_call(frames, call),
            Block::Text(text) => delta(frames, "text_delta", text),
            Block::Thinking { .. } | Block::Image { .. } | Block::Document { .. } => {}
        }
    }
}

impl Projection for WholeMessage {
    fn name(&self) -> &'static str {
        "aap-message"
    }

    fn project(&self, view: &TurnView, event: &RawEvent<'_>, frames: &mut Frames<'_>) -> Result<Flow, CorruptSegment> {
        if event.kind != Kind::STEP_FINISHED {
            return common(view, event, frames);
        }
        if let Event::StepFinished(finished) = event.decode()? {
            let StepFinished { content, withheld, .. } = finished;
            let blocks = content.into_blocks();
            let is_withheld = |block: &Block| matches!(block, Block::ToolUse(call) if withheld.contains(&call.id));
            let shown = |(part, block)| Some((part, BlockOut::of(block).filter(|_| !is_withheld(block))?));
            let blocks: Vec<_> = (1..).zip(&blocks).filter_map(shown).collect();
            if blocks.len() > 1 {
                frames.several();
            }
            for (part, block) in blocks {
                frames.part(part);
                match block {
                    BlockOut::Text { text } => field(frames, "text", "text", text),
                    BlockOut::Thinking { thinking } => field(frames, "thinking", "thinking", thinking),
                    BlockOut::ToolUse { tool_call_id, name, input } => {
                        let data = ToolCall { tool_call_id, name, input };
                        frames.event("tool_call", |out| write_json(out, &data));
                    }
                    // Models answer in text; there is no event for an image.
                    BlockOut::Image { .. } => {}
                }
            }
        }
        Ok(Flow::Continue)
    }
}

/// What both modes show alike.
fn common(view: &TurnView, event: &RawEvent<'_>, frames: &mut Frames<'_>) -> Result<Flow, CorruptSegment> {
    match event.kind {
        Kind::TURN_STARTED => {
            if let Event::TurnStarted(started) = event.decode()?
                && started.opens_session
            {
                frames.several();
                let data = SessionStart { session_id: view.session.as_str() };
                frames.event("session_start", |out| write_json(out, &data));
            }
            turn_start(frames);
        }
        // A pause that ended by itself was not shown, so its end is not either.
        Kind::RESUMED => {
            let by_time = |answer: &Answer| matches!(answer, Answer::Elapsed { .. });
            if !matches!(event.decode()?, Event::Resumed { answers, .. } if answers.iter().all(by_time)) {
                turn_start(frames);
            }
        }
        Kind::TOOL_FINISHED => {
            // The application knows of its own tools; a result for one that it has not run would be news of no call.
            if let Event::ToolFinished { call_id, content, application: false, .. } = event.decode()? {
                let data = ToolResult { tool_call_id: &call_id, content: ContentOut(&content) };
                frames.event("tool_result", |out| write_json(out, &data));
            }
        }
        Kind::WAITING => match event.decode()? {
            // Nobody need do anything about a pause that ends by itself: the stream stays open.
            Event::Waiting(wait) if wait.is_timed() => {}
            _ => {
                turn_stop(frames, StopReason::ToolUse);
                return Ok(Flow::Close);
            }
        },
        Kind::DROPPED => frames.comment("retention has dropped the deltas; each answer comes in one piece"),
        Kind::TURN_ENDED => {
            if let Event::TurnEnded(ended) = event.decode()? {
                turn_stop(frames, stop_reason(&ended.outcome));
            }
            return Ok(Flow::Close);
        }
        _ => {}
    }
    Ok(Flow::Continue)
}

fn turn_start(frames: &mut Frames<'_>) {
    frames.event("turn_start", |out| out.extend_from_slice(b"{}"));
}

fn turn_stop(frames: &mut Frames<'_>, stop_reason: StopReason) {
    frames.event("turn_stop", |out| write_json(out, &TurnStop { stop_reason }));
}

fn tool_call(frames: &mut Frames<'_>, call: &ToolUse) {
    let data = ToolCall { tool_call_id: &call.id, name: &call.name, input: &call.input };
    frames.event("tool_call", |out| write_json(out, &data));
}

fn delta(frames: &mut Frames<'_>, event: &str, text: &str) {
    field(frames, event, "delta", text);
}

/// `{"<name>":"<text>"}`, written straight into the buffer: this is the path that every delta takes.
fn field(frames: &mut Frames<'_>, event: &str, name: &str, text: &str) {
    frames.event(event, |out| {
        out.extend_from_slice(b"{\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        write_json(out, text);
        out.push(b'}');
    });
}
