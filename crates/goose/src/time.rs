//! Times as clients see them, and send them.

use std::fmt;

use everturn_core::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

/// Whole seconds since the Unix epoch.
pub(crate) fn seconds(time: Timestamp) -> i64 {
    time.millis().div_euclid(1000)
}

/// The first second of the year 0, before which RFC 3339 has none.
const FIRST: i64 = -62_167_219_200;

/// RFC 3339, UTC, in whole seconds. Times that it cannot tell are shown as the nearest that it can.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    let time = jiff::Timestamp::from_second(seconds(time).max(FIRST)).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.0}")
}

/// A time that a client sends: seconds since the Unix epoch, or RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MomentVisitor)
    }
}

struct MomentVisitor;

impl Visitor<'_> for MomentVisitor {
    type Value = Moment;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("seconds since 1970, or a time such as 2026-03-04T10:00:00Z")
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Moment, E> {
        Ok(Moment(Timestamp(seconds.saturating_mul(1000))))
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Moment, E> {
        self.visit_i64(i64::try_from(seconds).unwrap_or(i64::MAX))
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Moment, E> {
        // A number out of range becomes the nearest within.
        Ok(Moment(Timestamp((seconds * 1000.0) as i64)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
        let time: jiff::Timestamp =
            text.trim().parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))?;
        Ok(Moment(Timestamp(time.as_millisecond())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds() {
        assert_eq!(rfc3339(Timestamp(1_772_618_400_999)), "2026-03-04T10:00:00Z");
        assert_eq!(seconds(Timestamp(1_772_618_400_999)), 1_772_618_400);
        assert_eq!(seconds(Timestamp(-1)), -1);
        assert!(rfc3339(Timestamp(i64::MAX)).starts_with("9999-"));
    }

    #[test]
    fn both_ways_to_write_a_time_are_read() {
        let read = |json: &str| serde_json::from_str::<Moment>(json).map(|moment| moment.0.millis()).ok();
        assert_eq!(read("1772618400"), Some(1_772_618_400_000));
        assert_eq!(read("1772618400.5"), Some(1_772_618_400_500));
        assert_eq!(read("\"2026-03-04T10:00:00Z\""), Some(1_772_618_400_000));
        assert_eq!(read("\"2026-03-04T11:00:00.25+01:00\""), Some(1_772_618_400_250));
        assert_eq!(read("1e300"), Some(i64::MAX));
        for wrong in ["\"yesterday\"", "\"2026-03-04\"", "true", "{}", "[1]"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
