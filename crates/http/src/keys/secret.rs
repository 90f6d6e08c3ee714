//! Secrets that callers show, and what is kept of them.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::HeaderMap;
use rand::{TryRngCore as _, rngs::OsRng};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::BookError;
use crate::auth::bearer;

/// What our secrets begin with, so that people and scanners know them for what they are.
const BRAND: &str = "evt_";
/// How much of a secret is shown in lists. What is left has more than two hundred bits.
const SHOWN: usize = 10;
/// How long anything may be that is compared with keys, in bytes. Longer is none.
pub(super) const MAX_SECRET: usize = 512;

/// The SHA-256 of a secret. Secrets are long and random, so that nobody finds one by its digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Digest([u8; 32]);

impl Digest {
    pub(super) fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }

    /// Whether it is the same, in a time that does not tell how much of it is.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        URL_SAFE_NO_PAD.encode(digest.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| "not a digest")?;
        Ok(Self(bytes.try_into().map_err(|_| "not a digest")?))
    }
}

/// The key of one route, which opens nothing else.
#[derive(Clone, Debug)]
pub struct MetricsKey(Digest);

impl MetricsKey {
    /// Keeps what is needed to recognise the key.
    pub fn new(secret: &str) -> Self {
        Self(Digest::of(secret.as_bytes()))
    }

    /// Whether a request has it.
    pub(crate) fn is_shown(&self, headers: &HeaderMap) -> bool {
        bearer(headers).is_some_and(|shown| shown.len() <= MAX_SECRET && self.0.is(&Digest::of(shown)))
    }
}

/// A new secret, with what is kept of it.
pub(super) struct Minted {
    pub(super) secret: SecretString,
    pub(super) digest: Digest,
    pub(super) prefix: String,
}

/// 256 bits from the system, as text.
pub(super) fn mint() -> Result<Minted, BookError> {
    let mut bytes = Zeroizing::new([0; 32]);
    OsRng.try_fill_bytes(bytes.as_mut_slice()).map_err(|error| BookError::Random(error.to_string()))?;
    let text = Zeroizing::new(format!("{BRAND}{}", URL_SAFE_NO_PAD.encode(bytes.as_slice())));
    let prefix = text.chars().take(SHOWN).collect();
    Ok(Minted { digest: Digest::of(text.as_bytes()), secret: SecretString::from(text.as_str()), prefix })
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn secrets_are_long_and_different() {
        let (one, other) = (mint().unwrap(), mint().unwrap());
        let text = one.secret.expose_secret();
        assert_eq!(text.len(), 47);
        assert!(text.starts_with(&one.prefix) && text.starts_with("evt_"));
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')));
        assert!(one.digest.is(&Digest::of(text.as_bytes())) && !one.digest.is(&other.digest));
        assert!(!format!("{:?} {:?}", one.secret, one.digest).contains(text));
    }

    #[test]
    fn digests_are_kept_as_text() {
        let digest = Digest::of(b"secret");
        let json = serde_json::to_string(&digest).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
        assert!(serde_json::from_str::<Digest>("\"c2hvcnQ\"").is_err());
    }
}
