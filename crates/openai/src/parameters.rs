//! What a request asks for besides what it says: how the answer is given, with which tools and bounds.

use everturn_core::{Effort, Json, ModelOptions, Overlay, Thinking, ToolSpec};
use everturn_http::{BodyError, Object};
use serde_json::value::RawValue;

use crate::{
    error::ApiError,
    request::{Anything, ChatIn, ChoiceIn, FunctionIn, ToolIn},
};

/// How many model calls a request may allow.
const MAX_ITERATIONS: u32 = 50;
/// How many it allows where it does not say.
const ITERATIONS: u32 = 25;
/// Most model calls of one turn, with all requests that go on with it.
const MAX_STEPS: u32 = 1000;
/// How many tools of its own an application may bring.
const MAX_TOOLS: usize = 128;
/// The input of a tool that does not say what it takes.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

/// How the answer is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) stream: bool,
    pub(crate) usage: bool,
    pub(crate) progress: bool,
}

/// The settings of a request.
#[derive(Debug)]
pub(crate) struct Parameters {
    pub(crate) mode: Mode,
    /// The tools that the model may call, of those that the application has.
    pub(crate) tools: Vec<ToolSpec>,
    iterations: Option<u32>,
    temperature: Option<u32>,
    max_output_tokens: Option<u64>,
    /// How the model thinks in this turn.
    pub(crate) options: ModelOptions,
}

impl Parameters {
    /// Takes the settings out of a request, refusing what cannot be done.
    pub(crate) fn of(request: &mut ChatIn) -> Result<Self, ApiError> {
        refuse(request)?;
        let usage = request.stream_options.as_ref().and_then(|Object(options)| options.include_usage);
        let mode = Mode {
            stream: request.stream.unwrap_or(false),
            usage: usage.unwrap_or(false),
            progress: request.include_tool_progress.unwrap_or(false),
        };
        let iterations = match request.max_iterations {
            None => None,
            Some(n) => match u32::try_from(n) {
                Ok(n @ 1..=MAX_ITERATIONS) => Some(n),
                _ => {
                    let message = format!("it must be between 1 and {MAX_ITERATIONS}, not {n}");
                    return Err(ApiError::invalid("max_iterations", message));
                }
            },
        };
        let temperature = match request.temperature {
            None => None,
            Some(value) if (0.0..=2.0).contains(&value) => Some((value * 1000.0).round() as u32),
            Some(value) => {
                return Err(ApiError::invalid("temperature", format!("it must be between 0 and 2, not {value}")));
            }
        };
        let caps = [
            ("max_tokens", request.max_tokens),
            // The newer of the two counts.
            ("max_completion_tokens", request.max_completion_tokens),
        ];
        let mut max_output_tokens = None;
        for (param, cap) in caps {
            match cap.map(|cap| (cap, u64::try_from(cap))) {
                None => {}
                Some((_, Ok(cap @ 1..))) => max_output_tokens = Some(cap),
                Some((cap, _)) => return Err(ApiError::invalid(param, format!("it must be at least 1, not {cap}"))),
            }
        }
        let offered = request.tools.take().unwrap_or_default();
        if offered.len() > MAX_TOOLS {
            let message = format!("{} tools are too many, the limit is {MAX_TOOLS}", offered.len());
            return Err(ApiError::invalid("tools", message));
        }
        let tools = offered.into_iter().enumerate().map(|(index, Object(tool))| self::tool(index, tool));
        let mut tools = tools.collect::<Result<Vec<_>, _>>()?;
        match choice(&request.tool_choice)? {
            Choice::Auto => {}
            Choice::None => tools.clear(),
        }
        let options = request.reasoning_effort.as_deref().map_or(Ok(ModelOptions::default()), reasoning)?;
        Ok(Self { mode, tools, iterations, temperature, max_output_tokens, options })
    }

    /// What the session has instead of what its agent says, for a turn that has made so many model calls before. The bound
    /// of the agent holds for each request: a turn that goes on again and again with results is many requests.
    pub(crate) fn overlay(&self, own: Option<&Overlay>, agent_steps: u32, steps_done: u32) -> Overlay {
        let steps = self.iterations.unwrap_or(ITERATIONS).min(agent_steps).saturating_add(steps_done);
        Overlay {
            max_steps: Some(steps.min(MAX_STEPS)),
            temperature: self.temperature,
            max_output_tokens: self.max_output_tokens,
            ..own.cloned().unwrap_or_default()
        }
    }

    /// The same for a session that another dialect has made: its own settings stay where the request does not say.
    pub(crate) fn overlay_of_other(&self, own: Option<&Overlay>, agent_steps: u32, steps_done: u32) -> Option<Overlay> {
        if self.iterations.is_none() && self.temperature.is_none() && self.max_output_tokens.is_none() {
            return None;
        }
        let mut overlay = own.cloned().unwrap_or_default();
        if self.iterations.is_some() {
            overlay.max_steps = self.overlay(None, agent_steps, steps_done).max_steps;
        }
        overlay.temperature = self.temperature.or(overlay.temperature);
        overlay.max_output_tokens = self.max_output_tokens.or(overlay.max_output_tokens);
        Some(overlay)
    }
}

/// Refuses what would change the answer, and is not done here.
fn refuse(request: &ChatIn) -> Result<(), ApiError> {
    let one = request.n.is_none_or(|n| n == 1);
    let text_only = |modalities: &Vec<String>| modalities.iter().all(|modality| modality == "text");
    let plain = request.response_format.as_ref().is_none_or(|Object(format)| format.r#type == "text");
    let refused = [
        ("n", !one, "a request gives one answer; send it several times to have several"),
        ("logprobs", request.logprobs == Some(true), "agents do not tell the probabilities of tokens"),
        ("top_logprobs", request.top_logprobs.is_some(), "agents do not tell the probabilities of tokens"),
        ("stop", !is_empty(&request.stop), "stop sequences are not supported"),
        ("logit_bias", !is_empty(&request.logit_bias), "biases of tokens are not supported"),
        ("response_format", !plain, "agents answer in text; ask for JSON in a message, or give them a tool to call"),
        ("modalities", !request.modalities.as_ref().is_none_or(text_only), "agents answer in text only"),
        ("audio", request.audio.is_some(), "agents answer in text only"),
        ("functions", request.functions.is_some(), "it is deprecated; send tools"),
        ("function_call", request.function_call.is_some(), "it is deprecated; send tool_choice"),
        (
            "web_search_options",
            request.web_search_options.is_some(),
            "an agent has the tools that it is configured with",
        ),
    ];
    match refused.into_iter().find(|(_, is_asked, _)| *is_asked) {
        Some((param, _, message)) => Err(ApiError::unsupported(param, message)),
        None => Ok(()),
    }
}

/// Whether a list, an object or a text has nothing in it.
fn is_empty(value: &Anything) -> bool {
    value.as_ref().is_none_or(|value| {
        let text: String = value.get().split_ascii_whitespace().collect();
        matches!(text.as_str(), "[]" | "{}" | "\"\"" | "null")
    })
}

/// How hard a model thinks, or that it does not.
fn reasoning(word: &str) -> Result<ModelOptions, ApiError> {
    let plain = ModelOptions::default();
    if word == "none" {
        return Ok(ModelOptions { thinking: Some(Thinking::Off), ..plain });
    }
    match Effort::ALL.into_iter().find(|effort| effort.as_str() == word) {
        Some(effort) => Ok(ModelOptions { effort: Some(effort), ..plain }),
        None => {
            let shown: String = word.chars().take(64).collect();
            let words: Vec<_> = Effort::ALL.iter().map(|effort| format!("{:?}", effort.as_str())).collect();
            let message = format!("it cannot be {shown:?}; use \"none\", {}", words.join(", "));
            Err(ApiError::invalid("reasoning_effort", message))
        }
    }
}

enum Choice {
    Auto,
    None,
}

fn choice(choice: &Anything) -> Result<Choice, ApiError> {
    const FORCED: &str = "use \"auto\" or \"none\": an agent decides by itself which tools it calls";
    let Some(choice) = choice else { return Ok(Choice::Auto) };
    match choice.get() {
        "\"auto\"" | "null" => return Ok(Choice::Auto),
        "\"none\"" => return Ok(Choice::None),
        "\"required\"" => return Err(ApiError::unsupported("tool_choice", FORCED)),
        _ => {}
    }
    match serde_json::from_str::<Object<ChoiceIn>>(choice.get()) {
        Ok(Object(ChoiceIn { r#type })) if matches!(r#type.as_str(), "function" | "allowed_tools" | "custom") => {
            Err(ApiError::unsupported("tool_choice", FORCED))
        }
        Ok(_) | Err(_) => Err(ApiError::invalid("tool_choice", FORCED)),
    }
}

fn tool(index: usize, tool: ToolIn) -> Result<ToolSpec, ApiError> {
    if tool.r#type != "function" {
        let shown: String = tool.r#type.chars().take(64).collect();
        let message = format!("tools of type {shown:?} are not supported; use \"function\"");
        return Err(ApiError::unsupported(&format!("tools[{index}].type"), message));
    }
    let missing = || ApiError::invalid(format!("tools[{index}].function"), "it is missing");
    let Object(FunctionIn { name, description, parameters }) = tool.function.ok_or_else(missing)?;
    let place = format!("tools[{index}].function.parameters");
    let input_schema = match parameters {
        Some(parameters) => Json::from(parameters),
        None => Json::parse(NO_PARAMETERS).unwrap_or_else(|_| Json::empty_object()),
    };
    if !input_schema.is_object() {
        return Err(ApiError::invalid(place, "it must be a JSON Schema, which is an object"));
    }
    Ok(ToolSpec { name, title: None, description: description.unwrap_or_default(), input_schema })
}

/// A JSON object that is written in a string.
pub(crate) fn object(text: &str, depth: usize) -> Result<Json, BodyError> {
    let limits = everturn_http::BodyLimits { bytes: text.len(), depth };
    let value: Box<RawValue> = everturn_http::parse_json(text.as_bytes(), limits)?;
    let value = Json::from(value);
    if value.is_object() { Ok(value) } else { Err(BodyError::Malformed("it is no object".to_owned())) }
}

#[cfg(test)]
mod tests {
    use everturn_http::{BodyLimits, parse_json};
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(fields: &str, expected: Expect) {
        let body = format!(r#"{{"model":"m","messages":[]{}{fields}}}"#, if fields.is_empty() { "" } else { "," });
        let limits = BodyLimits { bytes: 10_000, depth: 20 };
        let shown = parse_json::<Object<ChatIn>>(body.as_bytes(), limits)
            .map_err(ApiError::from)
            .and_then(|Object(mut request)| Parameters::of(&mut request))
            .map_or_else(
                |error| serde_json::to_string(&error.error).unwrap(),
                |parameters| {
                    let tools: Vec<_> = parameters.tools.iter().map(|tool| tool.name.as_str()).collect();
                    let ModelOptions { effort, thinking, .. } = parameters.options;
                    let thinks = effort.map(Effort::as_str).or(thinking.map(Thinking::as_str)).unwrap_or_default();
                    format!("{:?} {tools:?} {:?} {thinks}", parameters.mode, parameters.overlay(None, 40, 3))
                        .trim_end()
                        .to_owned()
                },
            );
        expected.assert_eq(&shown);
    }

    #[test]
    fn what_is_honoured() {
        check(
            "",
            expect![
                "Mode { stream: false, usage: false, progress: false } [] Overlay { instructions: None, model: None, tools: None, max_steps: Some(28), temperature: None, max_output_tokens: None }"
            ],
        );
        check(
            r#""stream":true,"stream_options":{"include_usage":true},"include_tool_progress":true,"max_iterations":50,
               "temperature":0.7,"max_tokens":5,"max_completion_tokens":7,"n":1,"stop":[ ],"tool_choice":"auto","top_p":1,
               "tools":[{"type":"function","function":{"name":"f","strict":true}}],"response_format":{"type":"text"}"#,
            expect![[
                r#"Mode { stream: true, usage: true, progress: true } ["f"] Overlay { instructions: None, model: None, tools: None, max_steps: Some(43), temperature: Some(700), max_output_tokens: Some(7) }"#
            ]],
        );
        check(
            r#""tool_choice":"none","tools":[{"type":"function","function":{"name":"f"}}]"#,
            expect![
                "Mode { stream: false, usage: false, progress: false } [] Overlay { instructions: None, model: None, tools: None, max_steps: Some(28), temperature: None, max_output_tokens: None }"
            ],
        );
    }

    #[test]
    fn reasoning_efforts() {
        check(
            r#""reasoning_effort":"none""#,
            expect![
                "Mode { stream: false, usage: false, progress: false } [] Overlay { instructions: None, model: None, tools: None, max_steps: Some(28), temperature: None, max_output_tokens: None } off"
            ],
        );
        check(
            r#""reasoning_effort":"xhigh""#,
            expect![
                "Mode { stream: false, usage: false, progress: false } [] Overlay { instructions: None, model: None, tools: None, max_steps: Some(28), temperature: None, max_output_tokens: None } xhigh"
            ],
        );
        check(
            r#""reasoning_effort":"extreme""#,
            expect![[
                r#"{"message":"reasoning_effort: it cannot be \"extreme\"; use \"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\", \"max\"","type":"invalid_request_error","param":"reasoning_effort","code":"invalid_value"}"#
            ]],
        );
    }

    #[test]
    fn what_is_refused() {
        for (fields, param) in [
            (r#""n":2"#, "n"),
            (r#""logprobs":true"#, "logprobs"),
            (r#""top_logprobs":1"#, "top_logprobs"),
            (r#""stop":["x"]"#, "stop"),
            (r#""stop":"x""#, "stop"),
            (r#""logit_bias":{"1":2}"#, "logit_bias"),
            (r#""response_format":{"type":"json_object"}"#, "response_format"),
            (r#""modalities":["text","audio"]"#, "modalities"),
            (r#""audio":{"voice":"x"}"#, "audio"),
            (r#""functions":[]"#, "functions"),
            (r#""function_call":"auto""#, "function_call"),
            (r#""web_search_options":{}"#, "web_search_options"),
            (r#""tool_choice":"required""#, "tool_choice"),
            (r#""tool_choice":{"type":"function","function":{"name":"f"}}"#, "tool_choice"),
            (r#""tool_choice":3"#, "tool_choice"),
            (r#""max_iterations":0"#, "max_iterations"),
            (r#""max_iterations":51"#, "max_iterations"),
            (r#""temperature":2.1"#, "temperature"),
            (r#""temperature":"hot""#, "temperature"),
            (r#""max_tokens":0"#, "max_tokens"),
            (r#""max_completion_tokens":-1"#, "max_completion_tokens"),
            (r#""reasoning_effort":"extreme""#, "reasoning_effort"),
            (r#""stream":"yes""#, "stream"),
            (r#""tools":[{"type":"custom"}]"#, "tools[0].type"),
            (r#""tools":[{"type":"function"}]"#, "tools[0].function"),
            (
                r#""tools":[{"type":"function","function":{"name":"f","parameters":[]}}]"#,
                "tools[0].function.parameters",
            ),
        ] {
            let body = format!(r#"{{"model":"m","messages":[],{fields}}}"#);
            let limits = BodyLimits { bytes: 10_000, depth: 20 };
            let error = parse_json::<Object<ChatIn>>(body.as_bytes(), limits)
                .map_err(ApiError::from)
                .and_then(|Object(mut request)| Parameters::of(&mut request))
                .expect_err(fields);
            assert_eq!(error.error.param.as_deref(), Some(param), "{fields}: {error:?}");
            assert_eq!(error.status, 400, "{fields}");
        }
        check(
            r#""n":2"#,
            expect![[
                r#"{"message":"n: a request gives one answer; send it several times to have several","type":"invalid_request_error","param":"n","code":"unsupported_parameter"}"#
            ]],
        );
    }
}
