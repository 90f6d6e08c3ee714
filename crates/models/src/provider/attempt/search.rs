//! Finds out by trials what a provider refuses in words that nobody knows.
//!
//! From a bare question on, what the call has beside the conversation is added step by step: tools, options, instructions.
//! The first step that is refused shows where to look. If none is, the conversation is to blame, and is written plainly.

use everturn_core::{Block, CallId, Content, Json, Message, ToolSpec, ToolUse};

use super::{
    Attempt, MAX_CHANGES,
    trial::{Symptom, Trials, question},
};
use crate::{
    model::{ModelError, ModelRequest},
    provider::{
        adapt::{self, Change},
        chat,
        learned::{Learned, MediaDigest},
        wire::Written,
    },
};

/// Instructions of our own.
const SYSTEM: &str = "You are helpful.";

/// What is looked at next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Search {
    #[default]
    Fields,
    Tools,
    Options,
    Instructions,
    SilentCalls,
    Roles,
    Over,
}

/// What came of looking at the fields of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Something is left out now.
    Found,
    /// The request is not refused, or it is not known.
    Fine,
    /// It is refused, and no field is to blame.
    Hopeless,
}

impl Search {
    fn next(self) -> Self {
        match self {
            Self::Fields => Self::Tools,
            Self::Tools => Self::Options,
            Self::Options => Self::Instructions,
            Self::Instructions => Self::SilentCalls,
            Self::SilentCalls => Self::Roles,
            Self::Roles | Self::Over => Self::Over,
        }
    }
}

impl Attempt {
    /// Leaves out what the provider refuses. `true` if something was found that was not left out before; the next refusal of
    /// the same call is searched from there on.
    pub(super) async fn search_what_is_refused(&mut self, error: &ModelError) -> bool {
        // What was left out on a guess has not helped, and is innocent if something else is found.
        let guessed = self.before_guesses.take().map(|before| std::mem::replace(&mut self.learned, *before));
        let without_proofs = std::mem::replace(&mut self.changes.without_proofs, false);
        if self.search_on(error).await {
            self.changes.media_of_call.clear();
            return true;
        }
        if let Some(guessed) = guessed {
            self.learned = guessed;
        }
        self.changes.without_proofs = without_proofs;
        false
    }

    async fn search_on(&mut self, error: &ModelError) -> bool {
        while self.search != Search::Over && self.changes.count < MAX_CHANGES {
            let place = self.search;
            self.search = place.next();
            let is_found = match place {
                Search::Fields => match self.leave_refused_fields_out(&question(self, Vec::new())).await {
                    Verdict::Found => true,
                    Verdict::Fine => false,
                    // The bare question is refused, whatever is left out of it: nothing can help.
                    Verdict::Hopeless => {
                        self.search = Search::Over;
                        false
                    }
                },
                Search::Tools => self.leave_refused_tools_out(Symptom::Refusal).await,
                Search::Options => {
                    let ModelRequest { options, tools, .. } = self.request.clone();
                    // Budgets of reasoning must fit into the answer.
                    let probe = ModelRequest { options, tools, ..question(self, Vec::new()) };
                    self.leave_refused_fields_out(&probe).await == Verdict::Found
                }
                Search::Instructions => {
                    // Not the agent's own: one text that is refused says nothing about others.
                    let probe = ModelRequest { system: SYSTEM.to_owned(), ..question(self, Vec::new()) };
                    let is_refused = !self.request.system.is_empty()
                        && Trials::new(self, Symptom::Refusal).is_refused(&probe, &self.learned).await == Some(true);
                    is_refused && self.apply(Change::System, error)
                }
                Search::SilentCalls => self.say_nothing_beside_calls(Symptom::Refusal).await,
                Search::Roles => {
                    let change = self.plain_conversation(error).await;
                    change.is_some_and(|change| self.apply(change, error))
                }
                Search::Over => false,
            };
            if is_found {
                return true;
            }
        }
        false
    }

    /// Writes an empty text beside calls, rather than none, if trials show that this is what the provider refuses.
    pub(super) async fn say_nothing_beside_calls(&mut self, symptom: Symptom) -> bool {
        let is_other = self.wire.name() != chat::NAME || self.learned.wants_empty_text;
        if is_other || !adapt::has_silent_calls(&self.request) {
            return false;
        }
        let (probe, learned) = (self.with_a_call(), Learned { wants_empty_text: true, ..self.learned.clone() });
        let mut trials = Trials::new(self, symptom);
        let is_refused = trials.is_refused(&probe, &self.learned).await == Some(true);
        let is_it = is_refused && trials.is_refused(&probe, &learned).await == Some(false);
        is_it && self.changes.apply(Change::EmptyText, &mut self.learned)
    }

    /// The conversation with its calls as text. Where calls are taken as such, only those of this conversation are written so.
    async fn plain_conversation(&mut self, error: &ModelError) -> Option<Change> {
        let all: Vec<MediaDigest> =
            self.request.messages.iter().flat_map(Message::tool_uses).map(MediaDigest::of_call).collect();
        if all.is_empty() {
            return None;
        }
        if adapt::wants_reasoning_back(&error.message.to_lowercase()) {
            // Turns whose reasoning is known keep it. If they are refused as well, they are next.
            let is_new = |call: &MediaDigest| !self.learned.plain_calls.contains(call);
            let unknown: Vec<MediaDigest> = calls_of_unknown_turns(&self.request).into_iter().filter(is_new).collect();
            if unknown.is_empty() {
                return Some(Change::PlainCalls(all));
            }
            self.search = Search::Roles;
            return Some(Change::PlainCalls(unknown));
        }
        let mut trials = Trials::new(self, Symptom::Refusal);
        let are_taken = trials.is_refused(&self.with_a_call(), &self.learned).await == Some(false);
        Some(if are_taken { Change::PlainCalls(all) } else { Change::PlainRoles })
    }

    /// A short conversation in which a tool was called.
    fn with_a_call(&self) -> ModelRequest {
        let id = CallId::new("call_trial0001");
        let probe = question(self, Vec::new());
        let input = Json::empty_object();
        let tool = ToolSpec {
            name: "look".to_owned(),
            title: None,
            description: "Looks.".to_owned(),
            input_schema: input.clone(),
        };
        let call = ToolUse { id: id.clone(), name: tool.name.clone(), input };
        let messages = [
            Message::user("Look."),
            Message::Assistant { content: Content::Blocks(vec![Block::ToolUse(call)]) },
            Message::Tool { call_id: id, content: Content::Text("Nothing.".to_owned()), is_error: false },
        ];
        ModelRequest { messages: messages.into(), tools: [tool].into(), ..probe }
    }

    /// Leaves the field out without which a request is answered that is refused with it; if it is no single one, all fields
    /// that a call can do without.
    async fn leave_refused_fields_out(&mut self, probe: &ModelRequest) -> Verdict {
        let Ok(Written { body, .. }) = self.write_for(probe, &self.learned) else { return Verdict::Fine };
        let fields = adapt::optional_fields(&body, self.wire.required());
        let mut trials = Trials::new(self, Symptom::Refusal);
        if trials.is_refused(probe, &self.learned).await != Some(true) {
            return Verdict::Fine;
        }
        let mut culprits = Vec::new();
        for field in &fields {
            let mut learned = self.learned.clone();
            learned.fields.insert((*field).to_owned());
            if trials.is_refused(probe, &learned).await == Some(false) {
                culprits = vec![*field];
                break;
            }
        }
        if culprits.is_empty() {
            let mut learned = self.learned.clone();
            learned.fields.extend(fields.iter().map(|field| (*field).to_owned()));
            if trials.is_refused(probe, &learned).await == Some(false) {
                culprits = fields;
            }
        }
        tracing::debug!(model = self.from, ?culprits, "searched for the fields that are refused");
        let mut is_new = false;
        for field in culprits {
            is_new |= self.changes.apply(Change::Field(field.to_owned()), &mut self.learned);
        }
        if is_new { Verdict::Found } else { Verdict::Hopeless }
    }
}

/// The calls of turns in which the reasoning of some answer is not known.
fn calls_of_unknown_turns(request: &ModelRequest) -> Vec<MediaDigest> {
    let messages: Vec<&Message> = request.messages.iter().collect();
    let is_unknown = |message: &&Message| match message {
        Message::Assistant { content } => {
            let is_proven = |block: &Block| matches!(block, Block::Thinking { signature: Some(_), .. });
            !content.blocks().iter().any(is_proven)
        }
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => false,
    };
    let turns = messages.split(|message| matches!(message, Message::User { .. }));
    let unknown = turns.filter(|turn| turn.iter().any(is_unknown));
    unknown.flatten().flat_map(|message| message.tool_uses()).map(MediaDigest::of_call).collect()
}
