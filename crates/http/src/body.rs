//! Reads JSON bodies within bounds, and within the memory that their tenant may hold.

use std::{ops::Deref, time::Duration};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use everturn_engine::{MemoryExhausted, MemoryKind, Reservation, TenantMemory};
use http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

/// How much memory a body takes once it is there: its bytes, and what is parsed out of them.
const PARSED: u64 = 2;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Bounds on bodies.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// How many bytes.
    pub bytes: usize,
    /// How deep objects and arrays may nest.
    pub depth: usize,
}

/// Why a body is not taken.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Not declared as JSON.
    #[error("the body must be JSON: send the header Content-Type: application/json{}", found(.0.as_deref()))]
    NotJson(Option<String>),
    /// Too long.
    #[error("the body is longer than {limit} bytes, which is the limit")]
    TooLong {
        /// How long it may be.
        limit: usize,
    },
    /// Nested too deeply.
    #[error("the body nests objects and arrays deeper than {limit} levels, which is the limit")]
    TooDeep {
        /// How deep it may be.
        limit: usize,
    },
    /// Not JSON, or not of the right shape.
    #[error("{0}")]
    Malformed(String),
    /// Too slow.
    #[error("the body did not arrive within {} s, which is the limit", BODY_TIMEOUT.as_secs())]
    TooSlow,
    /// There is no memory for it.
    #[error(transparent)]
    NoMemory(#[from] MemoryExhausted),
    /// The client went away.
    #[error("the body ended early")]
    Cut,
}

fn found(content_type: Option<&str>) -> String {
    content_type.map_or(String::new(), |found| format!(" (it was {found:?})"))
}

/// A body that has arrived, and the memory that it and what is parsed out of it take.
#[derive(Debug)]
pub struct Received {
    bytes: Bytes,
    _memory: Reservation,
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body that is declared as JSON. Hold what it gives until what it said is done: the memory is given back then.
pub async fn read_body(
    headers: &HeaderMap,
    body: Body,
    limits: BodyLimits,
    memory: &TenantMemory,
) -> Result<Received, BodyError> {
    let content_type = headers.get(header::CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    if !content_type.as_deref().is_some_and(is_json) {
        return Err(BodyError::NotJson(content_type.map(|value| value.chars().take(100).collect())));
    }
    // Said at once, not after all that fits has arrived.
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|bytes| bytes > limits.bytes as u64) {
        return Err(BodyError::TooLong { limit: limits.bytes });
    }
    let declared = declared.and_then(|bytes| usize::try_from(bytes).ok());
    let arriving = collect(body, declared, limits.bytes, memory.nothing(MemoryKind::Bodies));
    let received = tokio::time::timeout(BODY_TIMEOUT, arriving).await;
    received.map_err(|_elapsed| BodyError::TooSlow)?
}

/// Takes a body as it comes. Memory counts as it is used: who declares a long body and sends none holds none.
async fn collect(
    body: Body,
    declared: Option<usize>,
    limit: usize,
    mut memory: Reservation,
) -> Result<Received, BodyError> {
    let mut body = Limited::new(body, limit);
    // What is not written to takes no memory yet.
    let mut bytes = BytesMut::with_capacity(declared.unwrap_or(0));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => BodyError::TooLong { limit },
            None => BodyError::Cut,
        })?;
        let Ok(data) = frame.into_data() else { continue };
        let after = bytes.len() + data.len();
        // One without a declared length is copied as it grows.
        let held = if declared.is_some() { after } else { after.max(bytes.capacity() * 2) };
        memory.resize(held as u64)?;
        bytes.extend_from_slice(&data);
    }
    memory.resize((bytes.len() as u64).saturating_mul(PARSED))?;
    Ok(Received { bytes: bytes.freeze(), _memory: memory })
}

/// Parses a body.
pub fn parse_json<T: DeserializeOwned>(bytes: &[u8], limits: BodyLimits) -> Result<T, BodyError> {
    if nests_deeper(bytes, limits.depth) {
        return Err(BodyError::TooDeep { limit: limits.depth });
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        // A question mark stands for a key that was not read yet.
        let path = error.path().to_string();
        let path = path.trim_end_matches('?').trim_end_matches('.');
        let what = error.into_inner();
        BodyError::Malformed(match path {
            "" => format!("the body is not valid: {what}"),
            _ => format!("the body is not valid at {path}: {what}"),
        })
    })?;
    json.end().map_err(|error| BodyError::Malformed(format!("the body is not valid: {error}")))?;
    Ok(value)
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Looks at brackets outside strings only; whether it is JSON at all is the parser's question.
fn nests_deeper(json: &[u8], limit: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use everturn_core::TenantId;
    use everturn_engine::MemoryBudget;

    use super::*;

    #[track_caller]
    fn check(content_type: &str, body: &str, expected: &str) {
        #[derive(Debug, serde::Deserialize)]
        struct Shape {
            #[expect(dead_code, reason = "only whether it parses counts")]
            items: Vec<u32>,
        }
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, content_type.parse().unwrap())]);
        let limits = BodyLimits { bytes: 64, depth: 3 };
        let memory = MemoryBudget::of_size(1 << 20).of(&TenantId::local());
        let read = async {
            let bytes = read_body(&headers, Body::from(body.to_owned()), limits, &memory).await?;
            parse_json::<Shape>(&bytes, limits)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let outcome = match runtime.block_on(read) {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(outcome, expected);
    }

    #[test]
    fn bodies_are_bounded_and_errors_say_where() {
        let json = "application/json; charset=utf-8";
        check(json, r#"{"items":[1,2]}"#, "ok");
        check(
            json,
            r#"{"items":[1,"x"]}"#,
            "the body is not valid at items[1]: invalid type: string \"x\", expected u32 at line 1 column 15",
        );
        check(json, "", "the body is not valid: EOF while parsing a value at line 1 column 0");
        check(json, r#"{"items":[]} trailing"#, "the body is not valid: trailing characters at line 1 column 14");
        check(
            json,
            r#"{"items":[],"deep":[[["[[[["]]]}"#,
            "the body nests objects and arrays deeper than 3 levels, which is the limit",
        );
        check(json, r#"{"items":[],"text":"[[[[[[\"[[["}"#, "ok");
        check(json, &"x".repeat(65), "the body is longer than 64 bytes, which is the limit");
        check(
            "text/plain",
            "{}",
            "the body must be JSON: send the header Content-Type: application/json (it was \"text/plain\")",
        );
    }
}
