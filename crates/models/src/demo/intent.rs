//! What a message asks of the demo model.

use std::num::NonZeroU32;

use everturn_core::{Block, Content, Message, OutputFormat, ToolChoice};

use super::{
    mention::{self, Call},
    results, schema_fill, title,
};
use crate::model::ModelRequest;

/// How the engine's request for a summary begins.
const SUMMARY_REQUEST: &str = "Summarise the conversation so far";

/// The longest answer to `stream N`.
const MAX_PIECES: u64 = 1_000_000;

/// What to show.
#[derive(Debug, PartialEq)]
pub(super) enum Intent {
    /// Say what came of the tool calls.
    Results,
    /// Summarise the conversation.
    Summary,
    /// Give the conversation a title.
    Title,
    /// Give this many pieces, at the pace named or the model's own.
    Stream { pieces: u64, rate: Option<NonZeroU32> },
    /// Fail for good.
    Fail,
    /// Decline.
    Refuse,
    /// Stop in mid-sentence at the cap on tokens.
    MaxTokens,
    /// Call tools; think first where asked to.
    Call { calls: Vec<Call>, think: bool },
    /// Answer with this JSON, because a format was asked for.
    Json(String),
    /// Think, then speak.
    Think,
    /// Say how many images there are.
    Images(usize),
    /// Say what there is to try.
    Help,
    /// Say that it heard.
    Echo,
}

impl Intent {
    /// What `request` asks, which its last message says.
    pub(super) fn of(request: &ModelRequest) -> Self {
        if request.system.trim_start().starts_with(title::REQUEST) {
            return Self::Title;
        }
        let content = match request.messages.last() {
            Some(Message::Tool { .. }) => {
                return formatted(request, &results::tell(request)).map_or(Self::Results, Self::Json);
            }
            Some(Message::User { content }) => content,
            Some(Message::Assistant { .. } | Message::System { .. }) | None => return Self::Help,
        };
        let text = content.text();
        if text.trim_start().starts_with(SUMMARY_REQUEST) {
            return Self::Summary;
        }
        let lower = text.to_lowercase();
        let words: Vec<&str> =
            lower.split(|c: char| !(c.is_alphanumeric() || c == '/')).filter(|w| !w.is_empty()).collect();
        if let Some(intent) = command(&words) {
            return intent;
        }
        let think = words.iter().any(|word| matches!(*word, "think" | "thinking" | "why" | "reason"));
        let mut calls = mention::calls(&text, &request.tools, &request.messages);
        let choice = request.options.tool_choice.as_ref();
        let is_chosen = |name: &str| match choice {
            Some(ToolChoice::Named(named)) => named == name,
            Some(ToolChoice::Auto | ToolChoice::Required) | None => true,
            Some(ToolChoice::None) => false,
        };
        calls.retain(|call| is_chosen(&call.name));
        if calls.is_empty() && matches!(choice, Some(ToolChoice::Required | ToolChoice::Named(_))) {
            let tool = request.tools.iter().rev().find(|tool| is_chosen(&tool.name));
            calls.extend(tool.map(|tool| mention::forced(tool, &text)));
        }
        if !calls.is_empty() {
            return Self::Call { calls, think };
        }
        if let Some(json) = formatted(request, &text) {
            return Self::Json(json);
        }
        if think {
            return Self::Think;
        }
        match images(content) {
            0 if words.is_empty() || is_greeting(&words) => Self::Help,
            0 => Self::Echo,
            count => Self::Images(count),
        }
    }
}

/// An answer in the format that was asked for, if one was, made of these words.
fn formatted(request: &ModelRequest, words: &str) -> Option<String> {
    let object = match request.options.output.as_ref()? {
        OutputFormat::JsonObject => serde_json::Map::from_iter([("answer".to_owned(), words.into())]),
        OutputFormat::JsonSchema { schema, .. } => schema_fill::fill(&schema.to_value(), words),
    };
    serde_json::to_string(&object).ok()
}

/// Requests that are commands: they are the beginning of the message, not words somewhere in it.
fn command(words: &[&str]) -> Option<Intent> {
    match words {
        ["stream", count, rest @ ..] | ["count", "to", count, rest @ ..] => {
            let pieces = count.parse::<u64>().ok()?.min(MAX_PIECES);
            let rate = match rest {
                ["at", rate, ..] => rate.split('/').next().and_then(|rate| rate.parse().ok()),
                _ => None,
            };
            Some(Intent::Stream { pieces, rate })
        }
        ["fail", ..] => Some(Intent::Fail),
        ["refuse", ..] => Some(Intent::Refuse),
        ["max", "tokens", ..] => Some(Intent::MaxTokens),
        _ => None,
    }
}

fn is_greeting(words: &[&str]) -> bool {
    let greetings = ["hello", "hi", "hey", "help", "hallo", "greetings"];
    greetings.contains(&words[0]) || matches!(words, ["what", "can", "you", "do", ..] | ["who", "are", "you", ..])
}

/// How many images a content has.
pub(super) fn images(content: &Content) -> usize {
    content.blocks().iter().filter(|block| matches!(block, Block::Image { .. })).count()
}

#[cfg(test)]
mod tests {
    use everturn_core::{Json, ModelOptions, ToolSpec};

    use super::*;

    fn check(text: &str, expected: Intent) {
        let request = ModelRequest { messages: [Message::user(text)].into(), ..ModelRequest::default() };
        assert_eq!(Intent::of(&request), expected, "{text}");
    }

    #[test]
    fn messages_are_understood() {
        check("", Intent::Help);
        check("Hello there!", Intent::Help);
        check("what can you do?", Intent::Help);
        check("I like tea", Intent::Echo);
        check("Why is the sky blue?", Intent::Think);
        check("stream 5", Intent::Stream { pieces: 5, rate: None });
        check("Stream 200 at 20/s, please", Intent::Stream { pieces: 200, rate: NonZeroU32::new(20) });
        check("count to 3", Intent::Stream { pieces: 3, rate: None });
        check("stream 99999999", Intent::Stream { pieces: 1_000_000, rate: None });
        check("stream 5 at 0/s", Intent::Stream { pieces: 5, rate: None });
        check("stream of consciousness", Intent::Echo);
        check("fail", Intent::Fail);
        check("did it fail", Intent::Echo);
        check("Refuse.", Intent::Refuse);
        check("max tokens", Intent::MaxTokens);
        check("Summarise the conversation so far, briefly.", Intent::Summary);
        check("Write a title for this conversation", Intent::Echo);
    }

    #[test]
    fn formats_and_forced_calls_are_heeded() {
        let schema = Json::parse(r#"{"type":"object","required":["city"],"properties":{"city":{"type":"string"}}}"#);
        let schema = schema.unwrap();
        let tool = ToolSpec {
            name: "weather".to_owned(),
            title: None,
            description: String::new(),
            input_schema: schema.clone(),
        };
        let asked = |options: ModelOptions| {
            let (messages, tools) = ([Message::user("I like Paris")].into(), [tool.clone()].into());
            Intent::of(&ModelRequest { messages, tools, options, ..ModelRequest::default() })
        };
        let input = Json::parse(r#"{"city":"I like Paris"}"#).unwrap();
        let forced = Intent::Call { calls: vec![Call { name: "weather".to_owned(), input }], think: false };
        for choice in [ToolChoice::Required, ToolChoice::Named("weather".to_owned())] {
            assert_eq!(asked(ModelOptions { tool_choice: Some(choice), ..ModelOptions::default() }), forced);
        }
        let format = OutputFormat::JsonSchema { name: "place".to_owned(), description: None, schema, strict: true };
        let json = |text: &str| Intent::Json(text.to_owned());
        let output = |format| ModelOptions { output: Some(format), ..ModelOptions::default() };
        assert_eq!(asked(output(format)), json(r#"{"city":"I like Paris"}"#));
        assert_eq!(asked(output(OutputFormat::JsonObject)), json(r#"{"answer":"I like Paris"}"#));
        assert_eq!(asked(ModelOptions::default()), Intent::Echo);
    }

    #[test]
    fn a_title_is_asked_for_by_the_standing_instructions() {
        for messages in [vec![Message::user("fail")], vec![Message::user("hi"), Message::assistant("Hi!")], vec![]] {
            let system = format!("{}. Answer with the title alone.", title::REQUEST);
            let request = ModelRequest { system, messages: messages.into(), ..ModelRequest::default() };
            assert_eq!(Intent::of(&request), Intent::Title);
        }
    }
}
