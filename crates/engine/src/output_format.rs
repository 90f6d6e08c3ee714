//! Holds a model to the shape of answer, or to the call, that was asked for.
//!
//! Some providers hold their models to it, others only ask them in words. So every answer is checked before it counts; a
//! model whose answer does not fit is told what is wrong, and answers again.

use everturn_core::{CallRoute, Content, Json, Message, ModelOptions, OutputFormat, ToolChoice, ToolSpec};
use everturn_tools::Schemas;
use serde::de::IgnoredAny;

use crate::turn::Turn;

/// How often a model may mend its answer.
const REPAIRS: usize = 2;

/// How many steps may call the agent's own tools only where a call of the application's tools is asked for.
const INSIDE_STEPS: usize = 5;

/// How much of an answer the model is shown again, in characters. The model wrote it, and needs it only to mend it.
const MAX_SHOWN: usize = 64 * 1024;

/// An answer that does not fit.
#[derive(Clone, Debug)]
pub(crate) struct Misfit {
    answer: String,
    /// What is wrong with it.
    pub(crate) problem: String,
    /// What the model is told.
    complaint: String,
}

impl Turn {
    /// Checks the answer of the open step.
    pub(crate) async fn hold_to_request(&mut self) -> Result<(), Misfit> {
        self.hold_to_choice()?;
        self.hold_to_format().await
    }

    /// Checks that a call was made that had to be made.
    fn hold_to_choice(&self) -> Result<(), Misfit> {
        let Some(step) = self.state.step.as_ref() else { return Ok(()) };
        // What an application forces is a call of its own tools, one that it is shown. Calls of the agent's tools may come
        // before it: they run, and the next step is held to the same.
        if step.calls.iter().any(|(_, route)| !matches!(route, CallRoute::Client | CallRoute::Refused { .. })) {
            return Ok(());
        }
        let own: Vec<&str> = self.config.client_tools.iter().map(|tool| tool.name.as_str()).collect();
        let mut made = step.calls.iter().filter(|(_, route)| *route == CallRoute::Client);
        let what = match &self.state.options.tool_choice {
            Some(ToolChoice::Required) if made.next().is_none() => match own.as_slice() {
                [] => "a tool".to_owned(),
                names => format!("one of the tools {}", names.join(", ")),
            },
            Some(ToolChoice::Named(name)) if !made.any(|(call, _)| call.name == *name) => format!("the tool {name}"),
            Some(_) | None => return Ok(()),
        };
        let reason = step.calls.iter().find_map(|(_, route)| match route {
            CallRoute::Refused { reason } => Some(reason.as_str()),
            _ => None,
        });
        let reason = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
        Err(Misfit {
            answer: step.text.chars().take(MAX_SHOWN).collect(),
            problem: format!(
                "the model was to call {what}, and did not{}",
                if reason.is_empty() { "" } else { " in a way that fits" }
            ),
            complaint: format!("You were to call {what}, and did not.{reason} Call it now."),
        })
    }

    /// The tools of the next model call. A model that must call one of the application's tools, and has called the agent's own for
    /// a while, is offered the application's alone: else it could go on for ever.
    pub(crate) fn offered_tools(&self) -> Vec<ToolSpec> {
        let mut specs = self.tool_specs();
        let own = &self.config.client_tools;
        let is_held = self.state.options.tool_choice.as_ref().is_some_and(ToolChoice::is_forced);
        let inside = self.state.settled().iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
        if is_held && inside >= INSIDE_STEPS && specs.iter().any(|spec| is_among(own, spec)) {
            specs.retain(|spec| is_among(own, spec));
        }
        specs
    }

    /// What the next model call is asked for. Stop texts are left out while a call is forced: its text is not the answer, and
    /// one that ended there would never come to the call.
    pub(crate) fn model_options(&self) -> ModelOptions {
        let mut options = self.state.options.clone().over(&self.agent.model_options);
        if options.tool_choice.as_ref().is_some_and(ToolChoice::is_forced) {
            options.stop.clear();
        }
        options
    }

    /// Checks the format of the answer. One that fits loses what stands around its JSON.
    async fn hold_to_format(&mut self) -> Result<(), Misfit> {
        let options = self.model_options();
        let (Some(format), Some(step)) = (options.output, self.state.step.as_mut()) else { return Ok(()) };
        if !step.calls.is_empty() || (!options.stop.is_empty() && is_cut(&step.text)) {
            return Ok(());
        }
        match fitting(&format, &step.text, self.tenant.as_str(), self.shared.tools.schemas()).await {
            Ok(json) if json.len() == step.text.len() => Ok(()),
            Ok(json) => {
                step.text = json.to_owned();
                Ok(())
            }
            Err(problem) => Err(Misfit {
                answer: step.text.chars().take(MAX_SHOWN).collect(),
                problem: format!("the answer does not have the format that was asked for: {problem}"),
                complaint: format!(
                    "Your answer does not have the format that was asked for: {problem}\nAnswer again, with JSON that fits \
                     and with nothing else."
                ),
            }),
        }
    }

    /// Whether the model may mend one more answer of this step.
    pub(crate) fn may_repair(&self) -> bool {
        self.misfits.len() < REPAIRS
    }

    /// What the model is told of its answers that did not fit. It is not part of the conversation.
    pub(crate) fn complaints(&self) -> impl Iterator<Item = Message> {
        self.misfits.iter().flat_map(|Misfit { answer, complaint, .. }| {
            let answer = if answer.trim().is_empty() { "(no answer)" } else { answer };
            let said = Message::Assistant { content: Content::Text(answer.to_owned()) };
            [said, Message::User { content: Content::Text(complaint.clone()) }]
        })
    }
}

/// Whether a text is the beginning of JSON, as a stop text leaves it. That is the answer that was asked for.
fn is_cut(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_err_and(|error| error.is_eof())
}

fn is_among(tools: &[ToolSpec], one: &ToolSpec) -> bool {
    tools.iter().any(|tool| tool.name == one.name)
}

/// The JSON of an answer, if it fits; else what is wrong with it.
async fn fitting<'a>(
    format: &OutputFormat,
    answer: &'a str,
    tenant: &str,
    schemas: &Schemas,
) -> Result<&'a str, String> {
    let text = without_fence(answer.trim());
    let json = Json::parse(text).map_err(|error| format!("it is not JSON: {error}"))?;
    match format {
        OutputFormat::JsonObject if json.is_object() => Ok(text),
        OutputFormat::JsonObject => Err("it is not a JSON object".to_owned()),
        OutputFormat::JsonSchema { schema, .. } => {
            let schema = schemas.compile(tenant, schema).await.map_err(|error| error.to_string())?;
            let fits = schemas.validate(tenant, &schema, &json).await;
            fits.map(|()| text).map_err(|problem| problem.replace("input", "answer"))
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

    async fn check<'a>(format: &OutputFormat, answer: &'a str) -> Result<&'a str, String> {
        fitting(format, answer, "acme", &Schemas::default()).await
    }

    #[tokio::test]
    async fn answers_that_fit() {
        for answer in [r#"{"n":1}"#, "\n {\"n\":1}\n", "```json\n{\"n\":1}\n```", "```\n{\"n\":1}\n```\n"] {
            assert_eq!(check(&schema(), answer).await, Ok(r#"{"n":1}"#), "{answer}");
            assert_eq!(check(&OutputFormat::JsonObject, answer).await, Ok(r#"{"n":1}"#), "{answer}");
        }
    }

    #[tokio::test]
    async fn answers_that_do_not_fit() {
        for (answer, problem) in [
            ("", "it is not JSON"),
            ("Sure! {\"n\":1}", "it is not JSON"),
            (r#"{"n":"one"}"#, "the answer does not fit the tool's schema:\n- at /n: "),
            ("[]", "the answer does not fit"),
        ] {
            let told = check(&schema(), answer).await.unwrap_err();
            assert!(told.starts_with(problem), "{answer}: {told}");
        }
        assert_eq!(check(&OutputFormat::JsonObject, "[]").await, Err("it is not a JSON object".to_owned()));
    }
}
