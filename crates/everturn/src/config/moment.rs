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
    let known = jiff::Timestamp::from_millisecond(at.millis());
    known.map_or_else(|_| "a time beyond the calendar".to_owned(), |at| format!("{at:.0}"))
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
        assert!(!shown(Timestamp(i64::MAX)).is_empty());
    }
}
