//! Lets a turn rest until a moment comes.

use std::time::Duration;

use everturn_core::{EffectClass, Json, Timestamp, ToolSpec};
use futures_util::future::BoxFuture;
use serde::Deserialize;

use crate::{Tool, ToolContext, ToolFailure, ToolKind, ToolOutput, input};

/// Longest wait: a year.
const MAX_SECONDS: u32 = 31_536_000;
/// Longest reason, in characters.
const MAX_REASON: usize = 500;

const DESCRIPTION: &str = "Pauses until some time has passed or a moment has come, then gives back the time. Nothing \
    runs meanwhile, and the pause survives restarts of the server. Use it when the person asks you to do something \
    later, or before you look again at something that takes time. Give either `seconds` or `until`, and not both. Do \
    not use it to think, nor to slow down an answer.";

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "seconds": {
      "type": "number",
      "description": "How long to wait, in seconds; a year (31536000) at most.",
      "exclusiveMinimum": 0,
      "maximum": 31536000
    },
    "until": {
      "type": "string",
      "description": "When to go on, as date and time with an offset (RFC 3339), such as 2026-01-31T09:00:00+01:00; a year from now at most.",
      "minLength": 1,
      "maxLength": 64
    },
    "reason": {
      "type": "string",
      "description": "What you wait for, in a few words for the person.",
      "maxLength": 500
    }
  },
  "additionalProperties": false
}"#;

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// For this time.
    For(Duration),
    /// Until this moment.
    Until(Timestamp),
}

/// A pause that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRequest {
    /// How long.
    pub pause: Pause,
    /// What it waits for.
    pub reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    seconds: Option<f64>,
    until: Option<String>,
    reason: Option<String>,
}

impl WaitRequest {
    /// The pause that an input of [`WaitTool`] describes. The message is for the model that made the input.
    pub fn parse(input: &Json) -> Result<Self, String> {
        let Input { seconds, until, reason } = input::read(WaitTool::NAME, input)?;
        if let Some(reason) = &reason {
            input::check_length("reason", reason, 0..=MAX_REASON)?;
        }
        let pause = match (seconds, until) {
            (Some(seconds), None) => Pause::For(duration(seconds)?),
            (None, Some(until)) => Pause::Until(moment(&until)?),
            (Some(_), Some(_)) => return Err("both seconds and until are given; give one of them".to_owned()),
            (None, None) => return Err("neither seconds nor until is given; give one of them".to_owned()),
        };
        Ok(Self { pause, reason })
    }

    /// The moment to go on if it is `now`. A moment that has passed is now. One that is more than a year away is
    /// refused; the message is for the model.
    pub fn wake_at(&self, now: Timestamp) -> Result<Timestamp, String> {
        let after = |millis: i64| Timestamp(now.millis().saturating_add(millis));
        let latest = after(i64::from(MAX_SECONDS) * 1000);
        match self.pause {
            Pause::For(duration) => Ok(after(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)).min(latest)),
            Pause::Until(moment) if moment > latest => Err(format!(
                "until is {}, which is more than a year from now ({}); choose an earlier moment",
                shown(moment),
                shown(now)
            )),
            Pause::Until(moment) => Ok(moment.max(now)),
        }
    }
}

/// Whole milliseconds, which is what the log keeps. Rounded up: never too short, and at least one.
fn duration(seconds: f64) -> Result<Duration, String> {
    if !(seconds > 0.0 && seconds <= f64::from(MAX_SECONDS)) {
        return Err(format!("seconds is {seconds}, it must be more than 0 and at most {MAX_SECONDS} (a year)"));
    }
    Ok(Duration::from_millis((seconds * 1000.0).ceil() as u64))
}

fn moment(text: &str) -> Result<Timestamp, String> {
    let moment: jiff::Timestamp = text.parse().map_err(|_| {
        let text: String = text.chars().take(64).collect();
        format!("until is {text:?}, it must be a date and time with an offset, such as 2026-01-31T09:00:00+01:00")
    })?;
    let millis = moment.as_millisecond();
    // Not a fraction of a millisecond too early.
    let is_whole = jiff::Timestamp::from_millisecond(millis).is_ok_and(|whole| whole >= moment);
    Ok(Timestamp(if is_whole { millis } else { millis.saturating_add(1) }))
}

fn shown(moment: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(moment.millis())
        .map_or_else(|_| format!("{} ms", moment.millis()), |moment| moment.to_string())
}

/// The tool `wait`.
#[derive(Debug)]
pub struct WaitTool {
    spec: ToolSpec,
}

impl WaitTool {
    /// Its name.
    pub const NAME: &str = "wait";

    /// The tool.
    pub fn new() -> Self {
        Self { spec: input::spec(Self::NAME, "Wait", DESCRIPTION, SCHEMA) }
    }
}

impl Default for WaitTool {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for WaitTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn is_builtin(&self) -> bool {
        true
    }

    fn effect(&self) -> EffectClass {
        EffectClass::ReadOnly
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Timer
    }

    fn call(&self, _: ToolContext, _: Json) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        input::performed_by_the_engine(Self::NAME)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// 2026-03-29T01:30:00Z.
    const NOW: Timestamp = Timestamp(1_774_747_800_000);

    fn wake(input: &str) -> Result<i64, String> {
        let wake = WaitRequest::parse(&Json::parse(input).unwrap())?.wake_at(NOW)?;
        Ok(wake.millis() - NOW.millis())
    }

    #[track_caller]
    fn refused(input: &str, expected: Expect) {
        expected.assert_eq(&wake(input).unwrap_err());
    }

    #[test]
    fn moments_are_found() {
        assert_eq!(wake(r#"{"seconds":2}"#), Ok(2000));
        assert_eq!(wake(r#"{"seconds":0.5}"#), Ok(500));
        assert_eq!(wake(r#"{"seconds":1e-9,"reason":"a blink"}"#), Ok(1));
        assert_eq!(wake(r#"{"seconds":31536000}"#), Ok(31_536_000_000));
        assert_eq!(wake(r#"{"until":"2026-03-29T03:30:10+02:00"}"#), Ok(10_000));
        assert_eq!(wake(r#"{"until":"2026-03-29T01:30:00.0000001Z"}"#), Ok(1));
        assert_eq!(wake(r#"{"until":"2027-03-29T01:30:00Z"}"#), Ok(31_536_000_000));
    }

    #[test]
    fn a_moment_that_has_passed_is_now() {
        assert_eq!(wake(r#"{"until":"2026-03-29T01:29:59Z"}"#), Ok(0));
        assert_eq!(wake(r#"{"until":"1969-12-31T23:59:59.9999Z"}"#), Ok(0));
    }

    #[test]
    fn the_end_of_time_is_no_overflow() {
        let request = WaitRequest { pause: Pause::For(Duration::MAX), reason: None };
        assert_eq!(request.wake_at(Timestamp(i64::MAX)), Ok(Timestamp(i64::MAX)));
        let request = WaitRequest { pause: Pause::Until(Timestamp(i64::MAX)), reason: None };
        assert!(request.wake_at(Timestamp(i64::MIN)).is_err());
    }

    #[test]
    fn pauses_that_are_none() {
        refused("{}", expect!["neither seconds nor until is given; give one of them"]);
        refused(
            r#"{"seconds":1,"until":"2026-03-29T03:30:10Z"}"#,
            expect!["both seconds and until are given; give one of them"],
        );
        refused(r#"{"seconds":0}"#, expect!["seconds is 0, it must be more than 0 and at most 31536000 (a year)"]);
        refused(r#"{"seconds":-1}"#, expect!["seconds is -1, it must be more than 0 and at most 31536000 (a year)"]);
        refused(
            r#"{"seconds":31536001}"#,
            expect!["seconds is 31536001, it must be more than 0 and at most 31536000 (a year)"],
        );
        refused(
            r#"{"seconds":1e999}"#,
            expect!["the input is not what wait takes: number out of range at line 1 column 16"],
        );
        refused(
            r#"{"until":"tomorrow"}"#,
            expect![[
                r#"until is "tomorrow", it must be a date and time with an offset, such as 2026-01-31T09:00:00+01:00"#
            ]],
        );
        refused(
            r#"{"until":"2026-03-29T03:30:10"}"#,
            expect![[
                r#"until is "2026-03-29T03:30:10", it must be a date and time with an offset, such as 2026-01-31T09:00:00+01:00"#
            ]],
        );
        refused(
            r#"{"until":"2027-03-29T01:30:00.001Z"}"#,
            expect![
                "until is 2027-03-29T01:30:00.001Z, which is more than a year from now (2026-03-29T01:30:00Z); choose an earlier moment"
            ],
        );
        refused(
            r#"{"minutes":1}"#,
            expect![
                "the input is not what wait takes: unknown field `minutes`, expected one of `seconds`, `until`, `reason` at line 1 column 10"
            ],
        );
        let long = format!(r#"{{"seconds":1,"reason":"{}"}}"#, "x".repeat(501));
        refused(&long, expect!["reason has 501 characters, it must have 0 to 500"]);
    }
}
