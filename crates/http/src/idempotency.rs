//! `Idempotency-Key`: a request that can be sent again without a second effect.

use everturn_engine::SubmissionKey;
use http::{HeaderMap, HeaderName};
use sha2::{Digest as _, Sha256};

/// Names a request.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// How long a key may be.
const MAX_KEY: usize = 255;

/// Why a key is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header Idempotency-Key must have 1 to {MAX_KEY} visible ASCII characters")]
pub struct KeyError;

/// The request's key, if it has one, together with what it asks: `operation` and its body.
pub fn submission_key(headers: &HeaderMap, operation: &str, body: &[u8]) -> Result<Option<SubmissionKey>, KeyError> {
    let Some(value) = headers.get(&IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = value.to_str().map_err(|_| KeyError)?;
    if key.is_empty() || key.len() > MAX_KEY || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(KeyError);
    }
    Ok(Some(named_submission(key.to_owned(), operation, body)))
}

/// A request that has its name elsewhere, together with what it asks.
pub fn named_submission(key: String, operation: &str, body: &[u8]) -> SubmissionKey {
    let digest = Sha256::new().chain_update(operation).chain_update([0]).chain_update(body).finalize();
    let fingerprint = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    SubmissionKey { key, fingerprint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(value: &str, operation: &str, body: &str) -> Result<Option<SubmissionKey>, KeyError> {
        let headers = HeaderMap::from_iter([(IDEMPOTENCY_KEY, value.parse().unwrap())]);
        submission_key(&headers, operation, body.as_bytes())
    }

    #[test]
    fn the_fingerprint_tells_requests_apart() {
        let first = key("k", "PUT /session", "{}").unwrap().unwrap();
        assert_eq!(key("k", "PUT /session", "{}").unwrap().unwrap(), first);
        assert_ne!(key("k", "PUT /session", "{ }").unwrap().unwrap(), first);
        assert_ne!(key("k", "POST /session/a", "{}").unwrap().unwrap(), first);
        assert_eq!(submission_key(&HeaderMap::new(), "PUT /session", b""), Ok(None));
    }

    #[test]
    fn keys_are_bounded() {
        assert_eq!(key("", "x", ""), Err(KeyError));
        assert_eq!(key("a b", "x", ""), Err(KeyError));
        assert_eq!(key(&"k".repeat(256), "x", ""), Err(KeyError));
        assert!(key(&"k".repeat(255), "x", "").is_ok());
    }
}
