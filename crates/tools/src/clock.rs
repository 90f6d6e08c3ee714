//! What time it is.

use std::time::Duration;

use everturn_core::{EffectClass, Json, ToolSpec};
use futures_util::future::{BoxFuture, FutureExt};
use jiff::{Timestamp, tz::TimeZoneDatabase};
use serde::Deserialize;

use crate::{TimeLimit, Tool, ToolContext, ToolFailure, ToolOutput};

/// Tells the date, the time and the weekday in a time zone.
#[derive(Debug)]
pub struct Clock {
    spec: ToolSpec,
    /// Bundled with the program, so that the answer does not depend on what a machine has installed.
    zones: TimeZoneDatabase,
    now: fn() -> Timestamp,
}

#[derive(Deserialize)]
struct Input {
    timezone: Option<String>,
}

impl Clock {
    /// A clock that shows the machine's time.
    pub fn new() -> Self {
        Self::at(Timestamp::now)
    }

    fn at(now: fn() -> Timestamp) -> Self {
        let schema = serde_json::json!({
            "type": "object",
            "properties": {
                "timezone": {
                    "type": "string",
                    "description": "IANA name of a time zone, such as Europe/Berlin. UTC if left out.",
                    "minLength": 1,
                    "maxLength": 64
                }
            },
            "additionalProperties": false
        });
        let spec = ToolSpec {
            name: "clock".to_owned(),
            title: Some("Clock".to_owned()),
            description: "Tells the current date, time and weekday, in UTC or in a given time zone.".to_owned(),
            input_schema: Json::of(&schema).unwrap_or_else(|_| Json::empty_object()),
        };
        Self { spec, zones: TimeZoneDatabase::bundled(), now }
    }

    fn tell(&self, input: &Json) -> Result<ToolOutput, ToolFailure> {
        let input: Input = serde_json::from_str(input.as_str())
            .map_err(|error| ToolFailure(format!("the input is not what the clock takes: {error}")))?;
        let name = input.timezone.as_deref().unwrap_or("UTC");
        let zone = self.zones.get(name).map_err(|_| {
            ToolFailure(format!(
                "there is no time zone {name:?}; give an IANA name such as \"Europe/Berlin\", \"America/New_York\" or \"UTC\""
            ))
        })?;
        let canonical = zone.iana_name().unwrap_or(name).to_owned();
        let time = (self.now)().to_zoned(zone);
        Ok(ToolOutput::text(format!(
            "{}, {} ({canonical})",
            time.strftime("%Y-%m-%dT%H:%M:%S%:z"),
            time.strftime("%A")
        )))
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for Clock {
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
        std::future::ready(self.tell(&input)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tell(input: &str) -> Result<String, String> {
        // 2026-03-29 01:30 UTC: half an hour after Berlin's clocks went forward, still Saturday in New York.
        let clock = Clock::at(|| Timestamp::from_second(1_774_747_800).unwrap());
        clock.tell(&Json::parse(input).unwrap()).map(|output| output.content.text()).map_err(|failure| failure.0)
    }

    #[test]
    fn utc_is_the_default() {
        assert_eq!(tell("{}").unwrap(), "2026-03-29T01:30:00+00:00, Sunday (UTC)");
    }

    #[test]
    fn zones_have_their_offset_of_that_moment_and_their_own_weekday() {
        assert_eq!(
            tell(r#"{"timezone":"Europe/Berlin"}"#).unwrap(),
            "2026-03-29T03:30:00+02:00, Sunday (Europe/Berlin)"
        );
        assert_eq!(
            tell(r#"{"timezone":"america/new_york"}"#).unwrap(),
            "2026-03-28T21:30:00-04:00, Saturday (America/New_York)"
        );
        assert_eq!(
            tell(r#"{"timezone":"Asia/Kathmandu"}"#).unwrap(),
            "2026-03-29T07:15:00+05:45, Sunday (Asia/Kathmandu)"
        );
    }

    #[test]
    fn an_unknown_zone_is_named_and_an_example_given() {
        assert_eq!(
            tell(r#"{"timezone":"Mars/Olympus"}"#).unwrap_err(),
            "there is no time zone \"Mars/Olympus\"; give an IANA name such as \"Europe/Berlin\", \"America/New_York\" or \"UTC\""
        );
    }
}
