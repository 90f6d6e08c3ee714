//! When to try again.

use std::time::{Duration, SystemTime};

use rand::Rng as _;

/// The first wait.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait, also if a receiver asks for a longer one.
pub(crate) const LONGEST: Duration = Duration::from_secs(60 * 60);

/// How long to wait after so many failed attempts: longer each time, at least as long as the receiver asks for, and not
/// at the same moment as all others.
pub(crate) fn wait(attempts: u32, asked: Option<Duration>) -> Duration {
    let doubled = FIRST.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1))).min(LONGEST);
    let spread = doubled.mul_f64(rand::rng().random_range(0.8..1.2)).min(LONGEST);
    // What is asked for is not undercut.
    spread.max(asked.unwrap_or_default().min(LONGEST))
}

/// What a `Retry-After` asks for: seconds, or a date.
pub(crate) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than a number can hold is long, too.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    httpdate::parse_http_date(value).ok().map(|date| date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_an_hour() {
        for (attempts, seconds) in [(0, 1.0), (1, 1.0), (2, 2.0), (3, 4.0), (10, 512.0), (12, 2048.0)] {
            let wait = wait(attempts, None).as_secs_f64();
            assert!((seconds * 0.8..seconds * 1.2).contains(&wait), "{attempts}: {wait}");
        }
        for attempts in [14, 40, u32::MAX] {
            assert!(wait(attempts, None) <= LONGEST && wait(attempts, None) >= LONGEST.mul_f64(0.8));
        }
    }

    #[test]
    fn what_is_asked_for_counts_within_bounds() {
        assert_eq!(wait(1, Some(Duration::from_secs(77))), Duration::from_secs(77));
        assert_eq!(wait(1, Some(Duration::from_secs(1_000_000))), LONGEST);
        assert!(wait(5, Some(Duration::from_secs(1))) > Duration::from_secs(10));
    }

    #[test]
    fn seconds_and_dates() {
        let now = httpdate::parse_http_date("Thu, 01 Jan 2026 00:00:00 GMT").unwrap();
        assert_eq!(retry_after(" 120 ", now), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Thu, 01 Jan 2026 00:01:00 GMT", now), Some(Duration::from_secs(60)));
        assert_eq!(retry_after("Wed, 31 Dec 2025 00:00:00 GMT", now), Some(Duration::ZERO));
        for text in ["soon", "-1", "+1", "", "1.5", "99999999999999999999x"] {
            assert_eq!(retry_after(text, now), None, "{text:?}");
        }
        let long = retry_after("99999999999999999999", now);
        assert_eq!(wait(1, long), LONGEST);
    }
}
