//! Times as clients see them.

use everturn_core::Timestamp;

/// RFC 3339, UTC, with milliseconds. Times that no calendar of ours has are shown as the nearest that it has.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    let nearest = if time.millis() < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    let time = jiff::Timestamp::from_millisecond(time.millis()).unwrap_or(nearest);
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
        assert!(rfc3339(Timestamp(i64::MIN)).starts_with("-009999-"));
    }
}
