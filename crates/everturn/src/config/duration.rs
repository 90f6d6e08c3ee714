//! Durations as people write them: `10s`, `5m`, `1h`.

use std::time::Duration;

/// Longest duration that we take: a year.
const MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What a duration must look like.
pub(crate) const FORM: &str = "write a number and a unit: `500ms`, `10s`, `5m`, `1h` or `2d`";

/// A whole number and a unit.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit_at);
    let number: u64 = number.parse().ok()?;
    let millis = match unit.trim_start() {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        "d" => 24 * 60 * 60 * 1000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(millis)?)).filter(|duration| *duration <= MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units() {
        let of = |text| parse(text).map(|duration| duration.as_millis());
        assert_eq!(of("500ms"), Some(500));
        assert_eq!(of("10s"), Some(10_000));
        assert_eq!(of("5m"), Some(300_000));
        assert_eq!(of("5 min"), Some(300_000));
        assert_eq!(of("1h"), Some(3_600_000));
        assert_eq!(of("365d"), Some(31_536_000_000));
        assert_eq!(of("0s"), Some(0));
    }

    #[test]
    fn all_else_is_none() {
        for text in
            ["", "10", "s", "-1s", "1.5h", "10 parsecs", "366d", "99999999999999999999s", "18446744073709551615h"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
