//! What is tried of a model: requests, and what a good answer to each is.

use everturn_core::{
    Block, Content, Effort, Json, Message, ModelOptions, OutputFormat, Thinking, ToolChoice, ToolSpec,
};
use everturn_models::{ModelFinish, ModelRequest};
use serde_json::json;

/// Room for the answer and for what the model thinks before it.
const MAX_OUTPUT_TOKENS: u64 = 4096;

/// A red square of 64 by 64 pixels.
const RED_SQUARE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAS0lEQVR42u3PQQkAAAgAsetfWiP4FgYrs\
    KZeS0BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEDgsqnc8OJg6Ln3AAAAAElFTkSuQmCC";

/// The tool that models are offered.
const TOOL: &str = "add";

/// One thing to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    Answer,
    Tool,
    ForcedTool,
    Thinking,
    Image,
    Json,
}

/// An answer, as far as checks look at it.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    /// Whether some reasoning was shown or counted.
    pub(super) has_thought: bool,
    /// The tools that were called.
    pub(super) calls: Vec<String>,
    pub(super) finish: Option<ModelFinish>,
}

impl Check {
    /// In the order in which they are tried. The first decides whether the others make sense.
    pub(super) const ALL: [Self; 6] =
        [Self::Answer, Self::Tool, Self::ForcedTool, Self::Thinking, Self::Image, Self::Json];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Tool => "tool",
            Self::ForcedTool => "forced tool",
            Self::Thinking => "thinking",
            Self::Image => "image",
            Self::Json => "JSON",
        }
    }

    /// The request, with the fields that the agent adds to it.
    pub(super) fn request(self, body: Option<&Json>) -> Result<ModelRequest, serde_json::Error> {
        let mut options = ModelOptions { max_output_tokens: Some(MAX_OUTPUT_TOKENS), ..ModelOptions::default() };
        let mut tools = Vec::new();
        let message = match self {
            Self::Answer => Message::user("Answer with the one word: ready"),
            Self::Tool => {
                tools.push(tool()?);
                Message::user("Add 17 and 25 with the tool. Do not calculate yourself.")
            }
            Self::ForcedTool => {
                tools.push(tool()?);
                options.tool_choice = Some(ToolChoice::Named(TOOL.to_owned()));
                Message::user("What is 17 plus 25?")
            }
            Self::Thinking => {
                options.effort = Some(Effort::Low);
                options.thinking = Some(Thinking::Summary);
                Message::user(
                    "A farmer has 17 sheep. All but 9 run away, then each of the rest has 2 lambs. How many animals are there? \
                     Answer with the number only.",
                )
            }
            Self::Image => Message::User {
                content: Content::Blocks(vec![
                    Block::Image { url: RED_SQUARE.into() },
                    Block::Text("Which colour is this image? Answer with one word.".to_owned()),
                ]),
            },
            Self::Json => {
                options.output = Some(OutputFormat::JsonSchema {
                    name: "sum".to_owned(),
                    description: None,
                    schema: Json::of(&json!({
                        "type": "object", "properties": { "sum": { "type": "integer" } }, "required": ["sum"],
                        "additionalProperties": false,
                    }))?,
                    strict: true,
                });
                Message::user("What is 17 plus 25?")
            }
        };
        Ok(ModelRequest {
            system: "You are being tested. Be brief.".to_owned(),
            messages: vec![message].into(),
            tools: tools.into(),
            options,
            body: body.cloned(),
            ..ModelRequest::default()
        })
    }

    /// What the answer shows: that it works, or why it does not.
    pub(super) fn judge(self, answer: &Answer) -> Result<String, String> {
        let Answer { text, has_thought, calls, finish } = answer;
        if *finish == Some(ModelFinish::Refusal) {
            return Err("the model declined to answer".to_owned());
        }
        let said = || match text.trim() {
            "" => "nothing".to_owned(),
            text => format!("{:?}", text.chars().take(100).collect::<String>()),
        };
        match self {
            Self::Answer if text.trim().is_empty() => Err(match finish {
                Some(ModelFinish::MaxTokens) => format!("the model wrote {MAX_OUTPUT_TOKENS} tokens and no answer"),
                _ => "the answer is empty".to_owned(),
            }),
            Self::Answer => Ok("the model answers".to_owned()),
            Self::Tool | Self::ForcedTool if calls.iter().any(|call| call == TOOL) => {
                Ok("the model calls the tool".to_owned())
            }
            Self::Tool | Self::ForcedTool => Err(format!("the model did not call the tool; it said {}", said())),
            Self::Thinking if *has_thought => Ok("the model thinks before it answers".to_owned()),
            Self::Thinking => Err("the model answers without showing or counting any reasoning".to_owned()),
            Self::Image if text.to_lowercase().contains("red") => Ok("the model sees the red square".to_owned()),
            Self::Image => Err(format!("the model was shown a red square and said {}", said())),
            Self::Json => {
                let sum = serde_json::from_str::<serde_json::Value>(text.trim());
                if sum.is_ok_and(|value| value["sum"].is_i64()) {
                    Ok("the answer fits the schema".to_owned())
                } else {
                    Err(format!("the answer does not fit the schema; it is {}", said()))
                }
            }
        }
    }
}

fn tool() -> Result<ToolSpec, serde_json::Error> {
    Ok(ToolSpec {
        name: TOOL.to_owned(),
        title: None,
        description: "Adds two whole numbers".to_owned(),
        input_schema: Json::of(&json!({
            "type": "object",
            "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
            "required": ["a", "b"],
        }))?,
    })
}
