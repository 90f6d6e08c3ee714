//! Holds a model's answer to the shape that was asked for.
//!
//! Some providers hold their models to it, others only ask them in words. So every answer is checked before it counts; a
//! model whose answer does not fit is told what is wrong, and answers again.

use everturn_core::{Content, Json, Message, OutputFormat};
use everturn_tools::SchemaCheck;

use crate::turn::Turn;

/// How often a model may mend its answer.
const REPAIRS: usize = 2;

/// How much of an answer the model is shown again, in characters. The model wrote it, and needs it only to mend it.
const MAX_SHOWN: usize = 64 * 1024;

/// An answer that does not fit.
#[derive(Clone, Debug)]
pub(crate) struct Misfit {
    answer: String,
    pub(crate) problem: String,
}

impl Turn {
    /// Checks the answer of the open step. One that fits loses what stands around its JSON.
    pub(crate) fn hold_to_format(&mut self) -> Result<(), Misfit> {
        let options = self.state.options.clone().over(&self.agent.model_options);
        let (Some(format), Some(step)) = (options.output, self.state.step.as_mut()) else { return Ok(()) };
        if !step.calls.is_empty() {
            return Ok(());
        }
        match fitting(&format, &step.text) {
            Ok(json) if json.len() == step.text.len() => Ok(()),
            Ok(json) => {
                step.text = json.to_owned();
                Ok(())
            }
            Err(problem) => Err(Misfit { answer: step.text.chars().take(MAX_SHOWN).collect(), problem }),
        }
    }

    /// Whether the model may mend one more answer of this step.
    pub(crate) fn may_repair(&self) -> bool {
        self.misfits.len() < REPAIRS
    }

    /// What the model is told of its answers that did not fit. It is not part of the conversation.
    pub(crate) fn complaints(&self) -> impl Iterator<Item = Message> {
        self.misfits.iter().flat_map(|Misfit { answer, problem }| {
            let answer = if answer.trim().is_empty() { "(no answer)" } else { answer };
            let complaint = format!(
                "Your answer does not have the format that was asked for: {problem}\nAnswer again, with JSON that fits and \
                 with nothing else."
            );
            let said = Message::Assistant { content: Content::Text(answer.to_owned()) };
            [said, Message::User { content: Content::Text(complaint) }]
        })
    }
}

/// The JSON of an answer, if it fits; else what is wrong with it.
fn fitting<'a>(format: &OutputFormat, answer: &'a str) -> Result<&'a str, String> {
    let text = without_fence(answer.trim());
    let json = Json::parse(text).map_err(|error| format!("it is not JSON: {error}"))?;
    match format {
        OutputFormat::JsonObject if json.is_object() => Ok(text),
        OutputFormat::JsonObject => Err("it is not a JSON object".to_owned()),
        OutputFormat::JsonSchema { schema, .. } => {
            let schema = SchemaCheck::default().compile(schema).map_err(|error| error.to_string())?;
            schema.validate(&json).map(|()| text).map_err(|problem| problem.replace("input", "answer"))
        }
    }
}

/// The inside of a Markdown code block, where that is all there is.
fn without_fence(text: &str) -> &str {
    let inside = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match inside.and_then(|inside| inside.split_once('\n')) {
        Some((language, json)) if language.trim().chars().all(char::is_alphanumeric) => json.trim(),
        Some(_) | None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> OutputFormat {
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
        let schema = Json::parse(schema).unwrap();
        OutputFormat::JsonSchema { name: "n".into(), description: None, schema, strict: true }
    }

    #[test]
    fn answers_that_fit() {
        for answer in [r#"{"n":1}"#, "\n {\"n\":1}\n", "```json\n{\"n\":1}\n```", "```\n{\"n\":1}\n```\n"] {
            assert_eq!(fitting(&schema(), answer), Ok(r#"{"n":1}"#), "{answer}");
            assert_eq!(fitting(&OutputFormat::JsonObject, answer), Ok(r#"{"n":1}"#), "{answer}");
        }
    }

    #[test]
    fn answers_that_do_not_fit() {
        for (answer, problem) in [
            ("", "it is not JSON"),
            ("Sure! {\"n\":1}", "it is not JSON"),
            (r#"{"n":"one"}"#, "the answer does not fit the tool's schema:\n- at /n: "),
            ("[]", "the answer does not fit"),
        ] {
            let told = fitting(&schema(), answer).unwrap_err();
            assert!(told.starts_with(problem), "{answer}: {told}");
        }
        assert_eq!(fitting(&OutputFormat::JsonObject, "[]"), Err("it is not a JSON object".to_owned()));
    }
}
