//! The request of a call, without what its model does not take, and the notices of that.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
};

use everturn_core::{Message, Thinking, ToolChoice, ToolSpec, ToolUse};

use super::Attempt;
use crate::{
    model::{ModelError, ModelErrorKind, ModelRequest},
    provider::{
        adapt,
        calls_as_text::{join_neighbours, write_calls_as_text},
        catalog, instructions,
        learned::{Learned, MediaDigest, declaration},
        left_out,
        patch::patch,
        wire::{Ask, Written},
    },
};

/// Fields that nobody asked for, so that nobody misses them.
const OURS: &[&str] = &[
    "cache_control",
    "include",
    "options.num_ctx",
    "prompt_cache_key",
    "reasoning.summary",
    "shift",
    "store",
    "stream",
    "stream_options",
    "stream_options.include_obfuscation",
    "thinking.block_binding",
    "thinking.display",
    "truncate",
];

/// Fields for what the reader of the answer does where the provider does not: see [`crate::provider::answer`].
const DONE_BY_READER: &[&str] = &[
    "generationConfig.stopSequences",
    "options.stop",
    "parallel_tool_calls",
    "stop",
    "stop_sequences",
    "tool_choice.disable_parallel_tool_use",
];

/// Fields that hold the format of the answer.
const FORMAT_FIELDS: &[&str] = &[
    "output_config.format",
    "text.format",
    "response_format",
    "generationConfig.responseJsonSchema",
    "generationConfig.responseMimeType",
];

impl Attempt {
    /// The request as it is sent, and what to tell of it.
    pub(super) fn write(&self) -> Result<Written, ModelError> {
        let is_forced = self.request.options.tool_choice.as_ref().is_some_and(ToolChoice::is_forced);
        if is_forced && !self.request.tools.is_empty() && self.learned.fields.contains("tools") {
            let message = format!("{} takes no tools, and a call of one was asked for", self.from);
            return Err(ModelError::new(ModelErrorKind::Rejected, message));
        }
        let mut written = self.write_request(&self.request)?;
        if is_forced {
            self.check_forced_tool(&written)?;
        }
        self.tell_of_tools(&mut written.notices);
        if self.changes.without_proofs {
            written.notices.push(format!("earlier reasoning is left out: the provider of {} refuses it", self.model));
        }
        if self.learned.wants_plain_roles
            && self.request.messages.iter().any(|said| matches!(said, Message::Tool { .. }))
        {
            written.notices.push(format!("tool calls are given as text: the provider of {} refuses them", self.model));
        } else if self.request.messages.iter().flat_map(Message::tool_uses).any(|call| is_plain(call, &self.learned)) {
            let model = &self.model;
            written.notices.push(format!(
                "earlier tool calls are given as text: the provider of {model} refuses this conversation otherwise"
            ));
        }
        written.notices.extend(left_out::notices(&self.request, &self.learned, &self.model));
        Ok(written)
    }

    /// Makes sure that the tool whose call is asked for is declared: the model could only call another one, or none.
    fn check_forced_tool(&self, written: &Written) -> Result<(), ModelError> {
        let declared = adapt::declared_tools(&written.body);
        let name = match &self.request.options.tool_choice {
            Some(ToolChoice::Named(name)) if !declared.contains(name) => name,
            Some(ToolChoice::Required) if declared.is_empty() && !self.request.tools.is_empty() => {
                let message = format!("a tool call was asked for, and {} takes none of the tools", self.from);
                return Err(ModelError::new(ModelErrorKind::Rejected, message));
            }
            _ => return Ok(()),
        };
        let why = format!("the tool {name} is left out: ");
        let why = match written.notices.iter().find_map(|notice| notice.strip_prefix(&why)) {
            Some(why) => why.to_owned(),
            None if self.is_untried(name) => "the search for refused tools ended before it was tried".to_owned(),
            None if self.learned.tools.contains(name) => "its provider refuses the declaration".to_owned(),
            None => "it is not among the tools of the call".to_owned(),
        };
        let message = format!("a call of the tool {name} was asked for, which {} cannot be given: {why}", self.from);
        Err(ModelError::new(ModelErrorKind::Rejected, message))
    }

    /// A request without what the model does not take.
    fn write_request(&self, request: &ModelRequest) -> Result<Written, ModelError> {
        self.write_for(request, &self.learned)
    }

    /// The same for a model of which so much is known.
    pub(super) fn write_for(&self, request: &ModelRequest, learned: &Learned) -> Result<Written, ModelError> {
        let (wants_summary, patch_of_agent) =
            (request.options.thinking == Some(Thinking::Summary), request.body.as_ref());
        let asked = request.options.effort;
        let nearest = asked.and_then(|asked| learned.efforts.get(&asked).copied());
        let mut request = Cow::Borrowed(request);
        let mut format_in_words = false;
        if learned.max_tools.is_some_and(|most| most < request.tools.len()) {
            request.to_mut().tools = sent_tools(&request, learned).cloned().collect();
        }
        let takes_no_tools = learned.fields.contains("tools") || learned.takes_tools == Some(false);
        if takes_no_tools || learned.wants_plain_roles || (learned.wants_tools_with_calls && request.tools.is_empty()) {
            write_calls_as_text(&mut request, |_| true);
        }
        let has_plain_calls = write_calls_as_text(&mut request, |call| is_plain(call, learned));
        if nearest.is_some() {
            request.to_mut().options.effort = nearest;
        }
        if adapt::refuses_format(&request, learned) || FORMAT_FIELDS.iter().any(|field| learned.fields.contains(*field))
        {
            let is_asked = request.options.output.is_some();
            instructions::ask_for_format(request.to_mut());
            format_in_words = is_asked;
        }
        if learned.refuses_system {
            instructions::from_user(request.to_mut());
        } else if learned.wants_system_first {
            instructions::inner_from_user(request.to_mut());
        }
        if learned.wants_plain_roles || has_plain_calls {
            join_neighbours(&mut request);
        }
        let ends_with_wish = !self.forces_calls(&request, learned) && instructions::ask_for_call(request.to_mut());
        let ask = Ask { ends_with_wish, ..self.ask(&request, learned) };
        let patches = [self.caller.settings.body.as_ref(), patch_of_agent];
        let written = self.wire.write(&ask).and_then(|mut written| {
            let without: BTreeSet<String> = learned
                .fields
                .iter()
                .filter(|field| !self.wire.required().contains(&field.as_str()))
                .cloned()
                .collect();
            let (body, removed) = patch(written.body, &without, &patches)?;
            let is_asked = |field: &&String| {
                let is_missed = ![OURS, DONE_BY_READER].iter().any(|fields| fields.contains(&field.as_str()));
                is_missed || (wants_summary && field.as_str() == "reasoning.summary")
            };
            let fields = removed.iter().filter(is_asked);
            written.notices.extend(fields.map(|field| format!("{field} is not sent: {} does not take it", self.model)));
            if let (Some(asked), Some(nearest)) = (asked, nearest) {
                let (asked, nearest) = (asked.as_str(), nearest.as_str());
                written.notices.push(format!("effort is {nearest}: {} does not know {asked}", self.model));
            }
            if format_in_words {
                written.notices.push(format!("the answer's format is asked for in words: {} refuses it", self.from));
            }
            if let (Some(asked), Some(most)) = (request.options.max_output_tokens, ask.most_output())
                && asked > most
            {
                written
                    .notices
                    .push(format!("the answer has at most {most} tokens, not {asked}: {} writes no more", self.model));
            }
            if removed.iter().any(|field| field == "stream") {
                written.notices.push(format!("the answer comes in one piece: {} does not stream it", self.from));
            }
            Ok(Written { body, ..written })
        });
        written.map_err(|error| {
            let message = format!("failed to write the request to {}: {error}", self.caller.failures.provider);
            ModelError::new(ModelErrorKind::Rejected, message)
        })
    }

    /// A call, as its wire is to write it.
    fn ask<'a>(&'a self, request: &'a ModelRequest, learned: &'a Learned) -> Ask<'a> {
        Ask {
            from: &self.from,
            model: &self.model,
            settings: &self.caller.settings,
            known: catalog::known(&self.model),
            learned,
            request,
            without_proofs: self.changes.without_proofs || learned.refuses_reasoning,
            ends_with_wish: false,
        }
    }

    /// The cap on the answer that is sent where none is asked for.
    pub(super) fn usual_cap(&self) -> Option<u64> {
        self.wire.usual_cap(&self.ask(&self.request, &self.learned))
    }

    /// Whether the provider makes the model call a tool where a request says so.
    fn forces_calls(&self, request: &ModelRequest, learned: &Learned) -> bool {
        let is_forced = request.options.tool_choice.as_ref().is_some_and(ToolChoice::is_forced);
        let is_refused = ["tool_choice", "toolConfig"].iter().any(|field| learned.fields.contains(*field));
        !is_forced || (!is_refused && self.wire.forces_calls(&self.ask(request, learned)))
    }

    /// The tools that the call declares.
    pub(super) fn sent_tools(&self) -> impl Iterator<Item = &ToolSpec> {
        sent_tools(&self.request, &self.learned)
    }

    /// Whether a tool is left out because the search for refused tools ended before it was tried.
    fn is_untried(&self, name: &str) -> bool {
        let untried = &self.learned.untried_declarations;
        let is_it = |tool: &ToolSpec| tool.name == name && untried.contains(&declaration(tool));
        self.learned.tools.contains(name) && self.request.tools.iter().any(is_it)
    }

    fn tell_of_tools(&self, notices: &mut Vec<String>) {
        let (learned, model) = (&self.learned, &self.model);
        let left_out = self.request.tools.iter().filter(|tool| learned.tools.contains(&tool.name));
        let (untried, refused): (Vec<&ToolSpec>, Vec<&ToolSpec>) =
            left_out.partition(|tool| learned.untried_declarations.contains(&declaration(tool)));
        let names = |tools: &[&ToolSpec]| named(&tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>());
        match refused.as_slice() {
            [] => {}
            [tool] => {
                let name = &tool.name;
                notices.push(format!("the tool {name} is left out: the provider of {model} refuses its declaration"));
            }
            tools => {
                let (count, names) = (tools.len(), names(tools));
                notices.push(format!(
                    "{count} tools are left out: the provider of {model} refuses their declarations: {names}"
                ));
            }
        }
        if !untried.is_empty() {
            let (count, names) = (untried.len(), names(&untried));
            let are = if count == 1 { "tool is" } else { "tools are" };
            notices.push(format!(
                "{count} {are} left out: the provider of {model} refuses some tools, and the search for them ended before these \
                 were tried: {names}"
            ));
        }
        let Some(most) = learned.max_tools else { return };
        let sent: HashSet<&str> = self.sent_tools().map(|tool| tool.name.as_str()).collect();
        let names = taken_tools(&self.request, learned).map(|tool| tool.name.as_str());
        let beyond: Vec<&str> = names.filter(|name| !sent.contains(name)).collect();
        if !beyond.is_empty() {
            let (count, names) = (beyond.len(), named(&beyond));
            let are = if count == 1 { "tool is" } else { "tools are" };
            notices.push(format!("{count} {are} left out: the provider of {model} takes at most {most}: {names}"));
        }
    }
}

/// Whether a call is written as text because its conversation is refused otherwise.
fn is_plain(call: &ToolUse, learned: &Learned) -> bool {
    !learned.plain_calls.is_empty() && learned.plain_calls.contains(&MediaDigest::of_call(call))
}

/// The tools whose declarations are not refused, in order.
fn taken_tools<'r>(request: &'r ModelRequest, learned: &Learned) -> impl Iterator<Item = &'r ToolSpec> {
    request.tools.iter().filter(|tool| !learned.tools.contains(&tool.name))
}

/// As many of them as the provider takes: the first ones, and in any case the one whose call is asked for.
fn sent_tools<'r>(request: &'r ModelRequest, learned: &Learned) -> impl Iterator<Item = &'r ToolSpec> {
    let most = learned.max_tools.unwrap_or(usize::MAX);
    let forced = match &request.options.tool_choice {
        Some(ToolChoice::Named(name)) => taken_tools(request, learned).position(|tool| tool.name == *name),
        _ => None,
    };
    let first = if forced.is_some_and(|at| at >= most) { most.saturating_sub(1) } else { most };
    let is_sent = move |at: usize| at < first || forced == Some(at);
    taken_tools(request, learned).enumerate().filter(move |(at, _)| is_sent(*at)).map(|(_, tool)| tool)
}

/// Names for a notice, of which only the first are shown.
fn named(names: &[&str]) -> String {
    const MOST: usize = 50;
    let shown = names.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
