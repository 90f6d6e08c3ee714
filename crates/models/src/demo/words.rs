//! What the demo model says. It advertises only what the request at hand lets it do.

use everturn_core::{Message, ToolSpec};

use super::feature::Feature;
use crate::model::ModelRequest;

/// How many characters of somebody else's words it repeats at most.
const MAX_QUOTE: usize = 400;

/// How many tools or results it names at most.
pub(super) const MAX_LIST: usize = 8;

/// The message of the failure that `fail` asks for.
pub(super) const FAILURE: &str = "the demo model failed because the message asked it to";

/// The answer that comes with a refusal.
pub(super) const REFUSAL: &str = "I decline, because you asked me to. This is how a refusal looks.";

/// An answer that ends at the cap on tokens.
pub(super) const CUT_SHORT: &str = "This answer stops in the middle of a sentence, because the model has reached its";

/// The answer after thinking aloud.
pub(super) const AFTER_THINKING: &str = "I thought first and answered second. The thinking came as pieces of its own, \
     so your application can show it, fold it away or leave it out.";

/// What there is to try.
pub(super) fn help(tools: &[ToolSpec]) -> String {
    let has = |name: &str| tools.iter().any(|tool| tool.name == name);
    let mut text = "Hello! I am the demo model. I am a small script inside the server: I need no key and no network, \
         and the same request always gets the same answer. Try one of these:\n\n"
        .to_owned();
    text.push_str("- `why is the sky blue?`: I think before I answer.\n");
    if has("clock") {
        text.push_str("- `what time is it?`: I call `clock`.\n");
    }
    if has("calculator") {
        text.push_str("- `what is 12*7?`: I call `calculator`.\n");
    }
    for tool in tools {
        let Some(feature) = Feature::of(tool) else { continue };
        let (request, effect) = match feature {
            Feature::Form => ("ask me for a colour", "I show you a form and wait for your answer"),
            Feature::Wait => ("wait 10 seconds", "the turn rests, and goes on by itself"),
            Feature::CreateArtifact => ("write a page about tea", "I write an artifact while you watch"),
            Feature::UpdateArtifact => ("change it", "I write a new version of the last artifact"),
        };
        text.push_str(&format!("- `{request}`: {effect}.\n"));
    }
    let plain: Vec<&str> =
        tools.iter().filter(|tool| Feature::of(tool).is_none()).map(|tool| tool.name.as_str()).collect();
    let others: Vec<&str> = plain.iter().copied().filter(|name| !matches!(*name, "clock" | "calculator")).collect();
    match others.as_slice() {
        [] => {}
        [only] => text.push_str(&format!("- `{only}`: I call that tool. Add its input as JSON if you like.\n")),
        several => {
            let list = list(several);
            text.push_str(&format!(
                "- the name of a tool: I call it. Add its input as JSON if you like. I have {list}.\n"
            ));
        }
    }
    if let [first, second, ..] = plain.as_slice() {
        text.push_str(&format!("- `{first} and {second}`: I call both at the same time.\n"));
    }
    text.push_str("- `stream 200 at 20/s`: a long answer at the pace you choose.\n");
    text.push_str("- `refuse`, `max tokens` or `fail`: other ways for a turn to end.\n");
    text.push_str("- an image: I count it.\n");
    if tools.is_empty() {
        text.push_str("\nThis request gave me no tools. Give me some, and I call the ones you name.\n");
    }
    text.truncate(text.trim_end().len());
    text
}

/// An answer to something that it does not know.
pub(super) fn echo(request: &ModelRequest) -> String {
    let said = quote(&last_text(request));
    format!("You said {said}. I am the demo model and know only a few requests. Say `help` to see them.")
}

/// What it thinks before it answers or calls a tool.
pub(super) fn thoughts(request: &ModelRequest) -> String {
    let said = quote(&last_text(request));
    format!(
        "The message is {said}. I know no facts, I look for words that I know. One of them asks me to think aloud, so I do."
    )
}

/// What it says before it calls tools.
pub(super) fn before_calls(names: &[&str]) -> String {
    match names {
        [only] => format!("I call `{only}`."),
        several => format!("I call {} at the same time.", list(several)),
    }
}

/// What it sees.
pub(super) fn images(count: usize) -> String {
    match count {
        1 => "I see 1 image. I can count images, but not look into them.".to_owned(),
        count => format!("I see {count} images. I can count images, but not look into them."),
    }
}

/// The conversation in a sentence or two.
pub(super) fn summary(request: &ModelRequest) -> String {
    let count = request.messages.len().saturating_sub(1);
    let mut said = request.messages.iter().take(count).filter_map(|message| match message {
        Message::User { content } => Some(quote(&content.text())),
        Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
    });
    let count = match count {
        1 => "1 message".to_owned(),
        count => format!("{count} messages"),
    };
    match (said.next(), said.last()) {
        (Some(first), Some(last)) => {
            format!("Summary of {count}: the user began with {first} and last said {last}.")
        }
        (Some(only), None) => format!("Summary of {count}: the user said {only}."),
        (None, _) => format!("Summary of {count}."),
    }
}

/// What the user said last.
fn last_text(request: &ModelRequest) -> String {
    match request.messages.last() {
        Some(Message::User { content }) => content.text(),
        Some(Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. }) | None => String::new(),
    }
}

/// A text in quotation marks, shortened where it is long.
pub(super) fn quote(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MAX_QUOTE) {
        Some((end, _)) => format!("“{}…”", &text[..end]),
        None => format!("“{text}”"),
    }
}

/// "`a`, `b` and `c`".
pub(super) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().take(MAX_LIST).map(|name| format!("`{name}`")).collect();
    match (names.len().saturating_sub(MAX_LIST), quoted.as_slice()) {
        (0, [init @ .., last]) if !init.is_empty() => format!("{} and {last}", init.join(", ")),
        (0, quoted) => quoted.join(", "),
        (more, quoted) => format!("{} and {more} more", quoted.join(", ")),
    }
}
