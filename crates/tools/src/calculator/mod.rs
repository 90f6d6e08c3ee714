//! Arithmetic, which models are bad at.

mod expression;
mod number;

use std::time::Duration;

use everturn_core::{EffectClass, Json, ToolSpec};
use futures_util::future::{BoxFuture, FutureExt};
use serde::Deserialize;

use crate::{TimeLimit, Tool, ToolContext, ToolFailure, ToolOutput};

/// Evaluates an arithmetic expression.
#[derive(Debug)]
pub struct Calculator {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Input {
    expression: String,
}

impl Calculator {
    /// The calculator.
    pub fn new() -> Self {
        let schema = serde_json::json!({
            "type": "object",
            "properties": {
                "expression": {
                    "type": "string",
                    "description": "Such as 2 * (3 + 4) ^ 2 or sqrt(2) / max(1, pi).",
                    "minLength": 1,
                    "maxLength": expression::MAX_LENGTH
                }
            },
            "required": ["expression"],
            "additionalProperties": false
        });
        let spec = ToolSpec {
            name: "calculator".to_owned(),
            title: Some("Calculator".to_owned()),
            description: "Evaluates an arithmetic expression and gives its value. Operators: + - * / ^ (power) and % \
                          (remainder, with the sign of the dividend), parentheses. Functions: sqrt, abs, round, floor, \
                          ceil, min, max, ln, log (base 10), sin, cos, tan (radians). Constants: pi, e. Whole numbers \
                          are exact."
                .to_owned(),
            input_schema: Json::of(&schema).unwrap_or_else(|_| Json::empty_object()),
        };
        Self { spec }
    }
}

impl Default for Calculator {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for Calculator {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn is_builtin(&self) -> bool {
        true
    }

    fn effect(&self) -> EffectClass {
        EffectClass::ReadOnly
    }

    fn time_limit(&self) -> TimeLimit {
        TimeLimit { silence: Duration::from_secs(5), total: Duration::from_secs(5) }
    }

    fn call(&self, _: ToolContext, input: Json) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        std::future::ready(calculate(&input)).boxed()
    }
}

fn calculate(input: &Json) -> Result<ToolOutput, ToolFailure> {
    let input: Input = serde_json::from_str(input.as_str())
        .map_err(|error| ToolFailure(format!("the input is not what the calculator takes: {error}")))?;
    match expression::evaluate(&input.expression) {
        Ok(value) => Ok(ToolOutput::text(value.to_string())),
        Err(error) => Err(ToolFailure(error.to_string())),
    }
}
