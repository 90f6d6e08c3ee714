//! The protocol's view of the log: chunks.
//!
//! There is one view for each way to ask: with or without the tokens used at the end, with or without what the server's own
//! tools do.

use std::io::Write as _;

use everturn_core::{
    Answer, Block, Content, CorruptSegment, Event, Finish as StepFinish, Kind, RawEvent, StepFinished, ToolUse, Wait,
};
use everturn_engine::{Flow, Frames, Projection, TurnView, write_json};
use serde::Serialize;

use crate::{
    answer::{BETWEEN_STEPS, are_made, waits_for_client},
    call_id,
    end::{self, Finish},
    error::ErrorBody,
    out::{UsageOut, completion_id, created},
    parameters::Mode,
};

static PLAIN: Chunks = Chunks { name: "openai", usage: false, progress: false };
static USAGE: Chunks = Chunks { name: "openai-usage", usage: true, progress: false };
static PROGRESS: Chunks = Chunks { name: "openai-progress", usage: false, progress: true };
static USAGE_PROGRESS: Chunks = Chunks { name: "openai-usage-progress", usage: true, progress: true };

/// The protocol's views of a turn.
pub fn projections() -> [&'static dyn Projection; 4] {
    [&PLAIN, &USAGE, &PROGRESS, &USAGE_PROGRESS]
}

/// The view that a request asks for.
pub(crate) fn projection(mode: Mode) -> &'static dyn Projection {
    match (mode.usage, mode.progress) {
        (false, false) => &PLAIN,
        (true, false) => &USAGE,
        (false, true) => &PROGRESS,
        (true, true) => &USAGE_PROGRESS,
    }
}

/// How many parts the end of an answer has: the last chunk or what went wrong, the tokens used, and `[DONE]`. They are
/// numbered alike in all views.
const END_PARTS: u32 = 3;

struct Chunks {
    name: &'static str,
    usage: bool,
    progress: bool,
}

/// What a tool of the server's does.
#[derive(Serialize)]
struct Progress<'a> {
    tool_call_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    tool: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    label: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a everturn_core::Json>,
}

impl Projection for Chunks {
    fn name(&self) -> &'static str {
        self.name
    }

    fn parts(&self, event: &Event) -> u32 {
        match event {
            Event::Waiting(_) | Event::TurnEnded(_) => END_PARTS,
            event => event.parts(),
        }
    }

    fn stands(&self) -> bool {
        true
    }

    fn project(&self, view: &TurnView, event: &RawEvent<'_>, frames: &mut Frames<'_>) -> Result<Flow, CorruptSegment> {
        match event.kind {
            // The path of every delta: no more than escaping.
            // An answer with a format is shown when it is known to fit.
            Kind::TEXT_DELTA if view.standing.has_format => {}
            Kind::TEXT_DELTA => self.text(view, frames, event.text()?),
            Kind::THINKING_DELTA => {
                let thought = event.text()?;
                self.delta(view, frames, |out| field(out, "reasoning_content", thought));
            }
            Kind::TURN_STARTED => self.begin(view, frames),
            Kind::RESUMED => {
                let is_result = |answer: &Answer| matches!(answer, Answer::Result { .. });
                if matches!(event.decode()?, Event::Resumed { answers, .. } if answers.iter().any(is_result)) {
                    self.begin(view, frames);
                }
            }
            Kind::STEP_FINISHED => {
                if let Event::StepFinished(finished) = event.decode()? {
                    self.step_finished(view, frames, finished);
                }
            }
            // The protocol has no word for it. A comment tells people who look at the wire.
            Kind::STEP_RESTARTED => frames.comment("the model starts this step again; its text so far is void"),
            Kind::DROPPED => frames.comment("retention has dropped the deltas; each answer comes in one piece"),
            Kind::TOOL_INTENDED | Kind::TOOL_FINISHED if self.progress => {
                self.tool_progress(view, frames, &event.decode()?);
            }
            Kind::NOTIFIED => {
                let event = event.decode()?;
                match event.as_model_notice() {
                    Some(notice) => self.notice(view, frames, &notice),
                    None if self.progress => self.tool_progress(view, frames, &event),
                    None => {}
                }
            }
            Kind::WAITING => {
                if let Event::Waiting(wait) = event.decode()? {
                    return Ok(self.waiting(view, frames, &wait));
                }
            }
            Kind::TURN_ENDED => {
                if let Event::TurnEnded(ended) = event.decode()? {
                    match end::of(&ended) {
                        Ok(finish) => self.end(view, frames, finish),
                        Err(error) => {
                            frames.several();
                            frames.unnamed(|out| write_json(out, &ErrorBody { error: &error.in_stream() }));
                            done(frames);
                        }
                    }
                }
                return Ok(Flow::Close);
            }
            _ => {}
        }
        Ok(Flow::Continue)
    }
}

impl Chunks {
    /// The first chunk says who speaks, and where.
    fn begin(&self, view: &TurnView, frames: &mut Frames<'_>) {
        frames.unnamed(|out| {
            head(out, view);
            out.extend_from_slice(b",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":null}]");
            self.no_usage(out);
            place(out, view);
        });
    }

    fn text(&self, view: &TurnView, frames: &mut Frames<'_>, text: &str) {
        // The first words of a step after others.
        if view.standing.spoken && view.standing.pieces == 1 && !view.standing.has_format {
            let text = format!("{BETWEEN_STEPS}{text}");
            return self.delta(view, frames, |out| field(out, "content", &text));
        }
        self.delta(view, frames, |out| field(out, "content", text));
    }

    fn delta(&self, view: &TurnView, frames: &mut Frames<'_>, delta: impl FnOnce(&mut Vec<u8>)) {
        frames.unnamed(|out| self.chunk(out, view, delta));
    }

    /// What was asked for and is not done, in a field of our own. Its choice adds nothing: code that reads the first choice
    /// of every chunk finds one.
    fn notice(&self, view: &TurnView, frames: &mut Frames<'_>, notice: &str) {
        frames.unnamed(|out| {
            self.chunk(out, view, |_| {});
            out.pop();
            out.extend_from_slice(b",\"notices\":");
            write_json(out, &[notice]);
            out.push(b'}');
        });
    }

    fn chunk(&self, out: &mut Vec<u8>, view: &TurnView, delta: impl FnOnce(&mut Vec<u8>)) {
        head(out, view);
        out.extend_from_slice(b",\"choices\":[{\"index\":0,\"delta\":{");
        delta(out);
        out.extend_from_slice(b"},\"logprobs\":null,\"finish_reason\":null}]");
        self.no_usage(out);
        out.push(b'}');
    }

    /// Where the tokens used come at the end, the other chunks say that they do not have them.
    fn no_usage(&self, out: &mut Vec<u8>) {
        if self.usage {
            out.extend_from_slice(b",\"usage\":null");
        }
    }

    /// The calls that the application is to run; not as each arrives, since an attempt that breaks off takes its calls with
    /// it. Where retention has dropped the deltas, the text as well.
    fn step_finished(&self, view: &TurnView, frames: &mut Frames<'_>, finished: StepFinished) {
        let StepFinished { content, finish, deltas_dropped, .. } = finished;
        let shows_text = match view.standing.has_format {
            // What is said beside a call is not the answer, and would spoil its JSON.
            // Nor is an answer shown that never came to fit: readers parse what they are shown.
            true => !matches!(finish, StepFinish::ToolUse | StepFinish::Aborted),
            false => deltas_dropped,
        };
        if let (Content::Text(text), true) = (&content, shows_text) {
            if !text.is_empty() {
                self.text(view, frames, text);
            }
            return;
        }
        let is_shown = |block: &Block| match block {
            Block::ToolUse(call) => are_made(finish) && view.standing.client_calls.contains(&call.id),
            Block::Text(text) => shows_text && !text.is_empty(),
            Block::Thinking { .. } | Block::Image { .. } | Block::Document { .. } => false,
        };
        let shown: Vec<_> = (1..).zip(content.blocks()).filter(|(_, block)| is_shown(block)).collect();
        if shown.len() > 1 {
            frames.several();
        }
        let mut index = 0;
        for (part, block) in shown {
            frames.part(part);
            match block {
                Block::ToolUse(call) => {
                    self.tool_call(view, frames, call, index);
                    index += 1;
                }
                Block::Text(text) => self.text(view, frames, text),
                Block::Thinking { .. } | Block::Image { .. } | Block::Document { .. } => {}
            }
        }
    }

    /// A call: its name, then its arguments. A client that is cut off between them is shown both again.
    fn tool_call(&self, view: &TurnView, frames: &mut Frames<'_>, call: &ToolUse, index: usize) {
        frames.aside_of_next(|out| self.chunk(out, view, |out| call_begins(out, view, call, index)));
        let mut pieces = pieces(call.input.as_str()).peekable();
        while let Some(piece) = pieces.next() {
            let write = |out: &mut Vec<u8>| self.chunk(out, view, |out| call_goes_on(out, piece, index));
            if pieces.peek().is_some() { frames.aside_of_next(write) } else { frames.unnamed(write) }
        }
    }

    fn waiting(&self, view: &TurnView, frames: &mut Frames<'_>, wait: &Wait) -> Flow {
        if waits_for_client(wait) {
            self.end(view, frames, Finish::ToolCalls);
            return Flow::Close;
        }
        // Nobody at this end can do anything about it: the stream stays open.
        let what = if wait.is_timed() { "the turn goes on by itself later" } else { "the turn waits for a person" };
        frames.comment(what);
        Flow::Continue
    }

    fn end(&self, view: &TurnView, frames: &mut Frames<'_>, finish: Finish) {
        frames.several();
        frames.unnamed(|out| {
            head(out, view);
            out.extend_from_slice(b",\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"");
            out.extend_from_slice(finish.as_str().as_bytes());
            out.extend_from_slice(b"\"}]");
            self.no_usage(out);
            place(out, view);
        });
        if self.usage {
            frames.part(2);
            frames.unnamed(|out| {
                head(out, view);
                out.extend_from_slice(b",\"choices\":[],\"usage\":");
                write_json(out, &UsageOut::from(view.standing.used_since_answer()));
                out.push(b'}');
            });
        }
        done(frames);
    }

    /// A named event, which clients that do not look for it skip; those that read every event as a chunk find one without
    /// choices.
    fn tool_progress(&self, view: &TurnView, frames: &mut Frames<'_>, event: &Event) {
        let plain = Progress { tool_call_id: "", tool: "", label: "", status: "", duration_ms: None, progress: None };
        let progress = match event {
            Event::ToolIntended { call_id, tool, label, .. } => {
                Progress { tool_call_id: call_id.as_str(), tool, label, status: "running", ..plain }
            }
            Event::ToolFinished { call_id, tool, is_error, duration_ms, .. } => {
                let status = if *is_error { "failed" } else { "completed" };
                Progress { tool_call_id: call_id.as_str(), tool, status, duration_ms: Some(*duration_ms), ..plain }
            }
            Event::Notified { call_id: Some(call_id), method, params } if method == "notifications/progress" => {
                Progress { tool_call_id: call_id.as_str(), status: "running", progress: Some(params), ..plain }
            }
            _ => return,
        };
        frames.event("tool.progress", |out| {
            head(out, view);
            out.extend_from_slice(b",\"choices\":[],\"tool_progress\":");
            write_json(out, &progress);
            self.no_usage(out);
            out.push(b'}');
        });
    }
}

/// The beginning of every chunk.
fn head(out: &mut Vec<u8>, view: &TurnView) {
    let id = completion_id(&view.turn, view.standing.answered_at);
    let created = created(&view.turn);
    // Writing to memory does not fail, and ids need no escaping.
    let _ = write!(out, r#"{{"id":"{id}","object":"chat.completion.chunk","created":{created},"model":"#);
    write_json(out, &*view.standing.agent);
}

/// The end of chunks that say where the answer is given.
fn place(out: &mut Vec<u8>, view: &TurnView) {
    let _ = write!(out, r#","session_id":"{}","message_id":"{}"}}"#, view.session, view.turn);
}

/// `"<name>":"<text>"`.
fn field(out: &mut Vec<u8>, name: &str, text: &str) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    write_json(out, text);
}

/// How much of a call's arguments one chunk has, in bytes.
const PIECE: usize = 512;

/// Arguments in pieces, of which there is at least one.
fn pieces(arguments: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(arguments);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let (piece, more) = text.split_at(text.floor_char_boundary(PIECE));
        rest = (!more.is_empty()).then_some(more);
        Some(piece)
    })
}

fn call_begins(out: &mut Vec<u8>, view: &TurnView, call: &ToolUse, index: usize) {
    let id = call_id::shown(&view.session, &view.turn, &call.id);
    let _ = write!(out, r#""tool_calls":[{{"index":{index},"id":"#);
    write_json(out, &id);
    out.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
    write_json(out, &call.name);
    out.extend_from_slice(b",\"arguments\":\"\"}}]");
}

fn call_goes_on(out: &mut Vec<u8>, arguments: &str, index: usize) {
    let _ = write!(out, r#""tool_calls":[{{"index":{index},"function":{{"arguments":"#);
    write_json(out, arguments);
    out.extend_from_slice(b"}}]");
}

fn done(frames: &mut Frames<'_>) {
    frames.part(END_PARTS);
    frames.unnamed(|out| out.extend_from_slice(b"[DONE]"));
}
