//! Times as clients see them.

use everturn_core::Timestamp;

/// The first moment of the year 1. RFC 3339 has none before the year 0, and what reads it often none before this.
const FIRST: i64 = -62_135_596_800_000;

/// RFC 3339, UTC, with milliseconds. Times before or after all that clients can read are shown as the nearest that they can.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(time.millis().max(FIRST)).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds() {
        assert_eq!(rfc3339(Timestamp(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Timestamp(1_785_000_000_120)), "2026-07-25T17:20:00.120Z");
        assert_eq!(rfc3339(Timestamp(i64::MAX)), "9999-12-30T22:00:00.999Z");
        assert_eq!(rfc3339(Timestamp(FIRST)), "0001-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Timestamp(FIRST - 1)), "0001-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Timestamp(i64::MIN)), "0001-01-01T00:00:00.000Z");
    }
}
