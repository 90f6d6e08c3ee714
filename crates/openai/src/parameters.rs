//! What a request asks for besides what it says: how the answer is given, with which tools and bounds.

use everturn_core::{Effort, Json, ModelOptions, Overlay, Thinking, ToolSpec};
use everturn_http::{BodyError, Object};
use serde_json::value::RawValue;

use crate::{
    error::ApiError,
    request::{Anything, ChatIn},
    response_format, tool_choice,
};

/// How many model calls a request may allow.
const MAX_ITERATIONS: u32 = 50;
/// How many it allows where it does not say.
const ITERATIONS: u32 = 25;
/// Most model calls of one turn, with all requests that go on with it.
const MAX_STEPS: u32 = 1000;
/// Most texts at which an answer may stop.
const MAX_STOPS: usize = 16;
/// Longest of these texts, in bytes.
const MAX_STOP_BYTES: usize = 1024;

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
    /// How the model thinks, samples and answers in this leg.
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
        let positive = |thousandths: Option<i32>| thousandths.map(i32::unsigned_abs);
        let temperature = positive(thousandths("temperature", request.temperature, 0.0, 2.0)?);
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
        let strict_tools = tool_choice::strict(&offered);
        let mut tools = tool_choice::tools(offered)?;
        let tool_choice = tool_choice::choice(&request.tool_choice, &mut tools)?;
        let options = request.reasoning_effort.as_deref().map_or(Ok(ModelOptions::default()), reasoning)?;
        let options = ModelOptions {
            top_p: positive(thousandths("top_p", request.top_p, 0.0, 1.0)?),
            frequency_penalty: thousandths("frequency_penalty", request.frequency_penalty, -2.0, 2.0)?,
            presence_penalty: thousandths("presence_penalty", request.presence_penalty, -2.0, 2.0)?,
            seed: request.seed,
            stop: stops(&request.stop)?,
            tool_choice,
            parallel_tool_calls: request.parallel_tool_calls,
            strict_tools,
            output: response_format::output(request.response_format.take())?,
            ..options
        };
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
    let refused = [
        ("n", !one, "a request gives one answer; send it several times to have several"),
        ("logprobs", request.logprobs == Some(true), "agents do not tell the probabilities of tokens"),
        ("top_logprobs", request.top_logprobs.is_some(), "agents do not tell the probabilities of tokens"),
        ("logit_bias", !is_empty(&request.logit_bias), "biases of tokens are not supported"),
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

/// Thousandths of a number between two bounds.
fn thousandths(param: &str, value: Option<f64>, least: f64, most: f64) -> Result<Option<i32>, ApiError> {
    match value {
        None => Ok(None),
        Some(value) if (least..=most).contains(&value) => Ok(Some((value * 1000.0).round() as i32)),
        Some(value) => Err(ApiError::invalid(param, format!("it must be between {least} and {most}, not {value}"))),
    }
}

/// The texts at which an answer stops: one, or several.
fn stops(stop: &Anything) -> Result<Vec<String>, ApiError> {
    let Some(stop) = stop else { return Ok(Vec::new()) };
    let one_or_many = |text: &str| match serde_json::from_str::<Option<String>>(text) {
        Ok(one) => Some(one.into_iter().collect()),
        Err(_) => serde_json::from_str::<Vec<String>>(text).ok(),
    };
    let invalid = || ApiError::invalid("stop", format!("it must be a string, or a list of up to {MAX_STOPS} strings"));
    let mut stops = one_or_many(stop.get()).ok_or_else(invalid)?;
    stops.retain(|stop| !stop.is_empty());
    if stops.len() > MAX_STOPS || stops.iter().any(|stop| stop.len() > MAX_STOP_BYTES) {
        return Err(invalid());
    }
    Ok(stops)
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
                "Mode { stream: false, usage: false, progress: false } [] Overlay { instructions: None, system: None, model: None, tools: None, max_steps: Some(28), temperature: None, max_output_tokens: None }"
            ],
        );
        check(
            r#""stream":true,"stream_options":{"include_usage":true},"include_tool_progress":true,"max_iterations":50,
               "temperature":0.7,"max_tokens":5,"max_completion_tokens":7,"n":1,"stop":[ ],"tool_choice":"auto","top_p":1,
               "tools":[{"type":"function","function":{"name":"f","strict":true}}],"response_format":{"type":"text"}"#,
            expect![[
                r#"Mode { stream: true, usage: true, progress: true } ["f"] Overlay { instructions: None, system: None, model: None, tools: None, max_steps: Some(43), temperature: Some(700), max_output_tokens: Some(7) }"#
            ]],
        );
        check(
            r#""tool_choice":"none","tools":[{"type":"function","function":{"name":"f"}}]"#,
            expect![
                "Mode { stream: false, usage: false, progress: false } [] Overlay { instructions: None, system: None, model: None, tools: None, max_steps: Some(28), temperature: None, max_output_tokens: None }"
            ],
        );
    }

    #[test]
    fn what_goes_to_the_model() {
        let options = |fields: &str| {
            let body = format!(r#"{{"model":"m","messages":[],{fields}}}"#);
            let Object(mut request) =
                parse_json::<Object<ChatIn>>(body.as_bytes(), BodyLimits { bytes: 10_000, depth: 20 }).unwrap();
            let parameters = Parameters::of(&mut request).unwrap();
            let tools: Vec<_> = parameters.tools.iter().map(|tool| tool.name.as_str()).collect();
            format!("{} {}", serde_json::to_string(&parameters.options).unwrap(), tools.join(" "))
        };
        let sampling = options(
            r#""top_p":0.9,"seed":7,"stop":"END","presence_penalty":-1.5,"frequency_penalty":0.25,
               "parallel_tool_calls":false"#,
        );
        expect![[r#"{"top_p":900,"frequency_penalty":250,"presence_penalty":-1500,"seed":7,"stop":["END"],"parallel_tool_calls":false} "#]]
            .assert_eq(&sampling);
        let schema = r#"{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}}"#;
        expect![[r#"{"output":{"json_schema":{"name":"n","schema":{"type":"object"},"strict":true}}} "#]]
            .assert_eq(&options(&format!(r#""response_format":{schema}"#)));
        expect![[r#"{"output":"json_object"} "#]].assert_eq(&options(r#""response_format":{"type":"json_object"}"#));
        let tools =
            r#""tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]"#;
        for (choice, expected) in [
            (r#""required""#, r#"{"tool_choice":"required"} f g"#),
            (r#"{"type":"function","function":{"name":"g"}}"#, r#"{"tool_choice":{"named":"g"}} f g"#),
            (
                r#"{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]}}"#,
                r#"{"tool_choice":"required"} g"#,
            ),
            (r#""auto""#, "{} f g"),
            (r#""none""#, "{} "),
        ] {
            assert_eq!(options(&format!(r#""tool_choice":{choice},{tools}"#)), expected);
        }
    }

    #[test]
    fn reasoning_efforts() {
        check(
            r#""reasoning_effort":"none""#,
            expect![
                "Mode { stream: false, usage: false, progress: false } [] Overlay { instructions: None, system: None, model: None, tools: None, max_steps: Some(28), temperature: None, max_output_tokens: None } off"
            ],
        );
        check(
            r#""reasoning_effort":"xhigh""#,
            expect![
                "Mode { stream: false, usage: false, progress: false } [] Overlay { instructions: None, system: None, model: None, tools: None, max_steps: Some(28), temperature: None, max_output_tokens: None } xhigh"
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
            (r#""stop":3"#, "stop"),
            (r#""stop":["x",null]"#, "stop"),
            (r#""top_p":1.1"#, "top_p"),
            (r#""presence_penalty":-3"#, "presence_penalty"),
            (r#""frequency_penalty":3"#, "frequency_penalty"),
            (r#""seed":1.5"#, "seed"),
            (r#""logit_bias":{"1":2}"#, "logit_bias"),
            (r#""response_format":{"type":"xml"}"#, "response_format.type"),
            (r#""response_format":{"type":"json_schema"}"#, "response_format.json_schema"),
            (
                r#""response_format":{"type":"json_schema","json_schema":{"name":"a b","schema":{}}}"#,
                "response_format.json_schema.name",
            ),
            (
                r#""response_format":{"type":"json_schema","json_schema":{"name":"a"}}"#,
                "response_format.json_schema.schema",
            ),
            (r#""modalities":["text","audio"]"#, "modalities"),
            (r#""audio":{"voice":"x"}"#, "audio"),
            (r#""functions":[]"#, "functions"),
            (r#""function_call":"auto""#, "function_call"),
            (r#""web_search_options":{}"#, "web_search_options"),
            (r#""tool_choice":"required""#, "tool_choice"),
            (r#""tool_choice":"sometimes""#, "tool_choice"),
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
