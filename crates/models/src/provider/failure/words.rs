//! Numbers and times in the words of a provider.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

/// How many characters of a provider's words are kept.
const MAX_WORDS: usize = 500;

/// The first characters of a text, on one line.
pub(super) fn bounded(text: &str) -> String {
    let mut words: String =
        text.trim().chars().take(MAX_WORDS + 1).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if let Some((end, _)) = words.char_indices().nth(MAX_WORDS) {
        words.truncate(end);
        words.push('…');
    }
    words
}

/// How long the provider asks us to wait: `retry-after-ms`, else `Retry-After` as seconds or as a date, else the time at
/// which a rate limit resets.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(wait) = header("retry-after-ms").and_then(seconds) {
        return Some(wait / 1000);
    }
    if let Some(value) = header("retry-after") {
        return seconds(value).or_else(|| {
            let date = httpdate::parse_http_date(value).ok()?;
            Some(date.duration_since(now).unwrap_or(Duration::ZERO))
        });
    }
    // OpenAI counts requests and tokens apart. Only a limit that is used up says how long to wait.
    let resets = ["requests", "tokens"].into_iter().filter_map(|what| {
        let is_used_up = header(&format!("x-ratelimit-remaining-{what}"))? == "0";
        is_used_up.then(|| duration(header(&format!("x-ratelimit-reset-{what}"))?)).flatten()
    });
    resets.max().or_else(|| until_reset(header(RESET)?, now))
}

/// The header in which OpenRouter says when a limit resets.
pub(super) const RESET: &str = "x-ratelimit-reset";

/// The time until a reset that is given as a Unix time in milliseconds or seconds, or as the seconds left.
pub(super) fn until_reset(value: &str, now: SystemTime) -> Option<Duration> {
    /// No server asks to wait for thirty years; a larger number is a date.
    const SMALLEST_DATE: f64 = 1e9;
    /// Dates in seconds reach this number in the year 5138.
    const SMALLEST_MILLIS: f64 = 1e11;
    let number: f64 = value.parse().ok()?;
    if number < SMALLEST_DATE {
        return Duration::try_from_secs_f64(number).ok();
    }
    let unix = if number < SMALLEST_MILLIS { number } else { number / 1000.0 };
    let reset = SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(unix).ok()?)?;
    Some(reset.duration_since(now).unwrap_or(Duration::ZERO))
}

/// The whole number that follows the last place of these words in a text; its digits may be grouped by commas.
pub(in crate::provider) fn number_after(text: &str, marker: &str) -> Option<u64> {
    text.rmatch_indices(marker).find_map(|(at, _)| {
        let rest = &text[at + marker.len()..];
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(rest.len());
        rest[..end].replace(',', "").parse().ok()
    })
}

/// The whole number right before the first place of these words in a text.
pub(super) fn number_before(text: &str, marker: &str) -> Option<u64> {
    let (before, _) = text.split_once(marker)?;
    let start = before.rfind(|c: char| !c.is_ascii_digit() && c != ',').map_or(0, |at| at + 1);
    before.get(start..)?.replace(',', "").parse().ok()
}

pub(super) fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

/// A wait in the words of an error: "Please try again in 1m2.5s."
pub(super) fn wait_in(words: &str) -> Option<Duration> {
    let words = words.to_lowercase();
    ["try again in ", "try again after ", "retry in ", "retry after "].iter().find_map(|marker| {
        let (_, rest) = words.split_once(marker)?;
        duration(rest)
    })
}

/// The time that a text begins with, such as `20s`, `1m2.5s`, `350ms` or `2 seconds`.
fn duration(mut text: &str) -> Option<Duration> {
    /// Hours, minutes, seconds, milliseconds.
    const MOST: usize = 4;
    let mut wait = None;
    for _ in 0..MOST {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, rest) = text.split_at(digits);
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(letters);
        let factor = match unit {
            "ms" | "milliseconds" => 0.001,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            _ => break,
        };
        let Some(part) = number.parse::<f64>().ok().and_then(|n| Duration::try_from_secs_f64(n * factor).ok()) else {
            break;
        };
        wait = Some(wait.unwrap_or(Duration::ZERO).checked_add(part)?);
        text = rest;
    }
    wait
}
