//! Points in time as people write them: `2027-01-31T12:00:00Z`, or `2027-01-31` for its first moment, UTC.

use everturn_core::Timestamp;

/// What one must look like.
pub(crate) const FORM: &str = "write a time like 2027-01-31T12:00:00Z, or a day like 2027-01-31";

/// A time with its offset, or a day.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let at = match text.parse::<jiff::Timestamp>() {
        Ok(at) => at,
        // A time of a day without an offset is a moment nobody knows.
        Err(_) if text.len() > "2027-01-31".len() => return None,
        Err(_) => text.parse::<jiff::civil::Date>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp(),
    };
    Some(Timestamp(at.as_millisecond()))
}

/// A time as people read it: to the second, UTC.
pub(crate) fn shown(at: Timestamp) -> String {
    format!("{:.0}", nearest(at))
}

/// A time as programs read it: to the millisecond, UTC.
pub(crate) fn exact(at: Timestamp) -> String {
    format!("{:.3}", nearest(at))
}

/// Times that no calendar of ours has are shown as the nearest that it has.
fn nearest(at: Timestamp) -> jiff::Timestamp {
    let nearest = if at.millis() < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    jiff::Timestamp::from_millisecond(at.millis()).unwrap_or(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let of = |text| parse(text).map(shown);
        assert_eq!(of("2027-01-31T12:00:00Z").as_deref(), Some("2027-01-31T12:00:00Z"));
        assert_eq!(of("2027-01-31T12:00:00+02:00").as_deref(), Some("2027-01-31T10:00:00Z"));
        assert_eq!(of("2027-01-31").as_deref(), Some("2027-01-31T00:00:00Z"));
        for text in ["", "2027-01-31T12:00:00", "2027-13-01", "tomorrow", "30d", "2027", "12:00:00"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(exact(Timestamp(1_785_000_000_120)), "2026-07-25T17:20:00.120Z");
        assert!(shown(Timestamp(i64::MAX)).starts_with("9999-"));
    }
}
