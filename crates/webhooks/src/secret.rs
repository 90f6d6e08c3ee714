//! The secret that a receiver and we share, and what it signs.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// What stands before base64.
const PREFIX: &str = "whsec_";
/// Fewest bytes of a secret.
const MIN_BYTES: usize = 24;
/// Most bytes of a secret.
const MAX_BYTES: usize = 512;

/// What messages are signed with. Printing it shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(Zeroizing<Vec<u8>>);

/// Why a text cannot be a secret. Never holds the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Something around it that came along when it was copied.
    #[error("the secret begins or ends with a blank or a line break, which no receiver would know of; take it away")]
    Blank,
    /// A beginning that is not at the beginning, or not in lower case, so that it would be taken for something else.
    #[error("the secret has `whsec_` in it, but does not begin with it, in lower case; write `whsec_` and base64")]
    Prefix,
    /// After `whsec_` there is something else than base64.
    #[error("what follows `whsec_` in the secret is not base64")]
    NotBase64,
    /// Not enough of it.
    #[error("the secret has {found} bytes; it must have at least {MIN_BYTES}")]
    Short {
        /// How many there are.
        found: usize,
    },
    /// Too much of it.
    #[error("the secret has {found} bytes; it must have at most {MAX_BYTES}")]
    Long {
        /// How many there are.
        found: usize,
    },
}

impl SigningSecret {
    /// `whsec_` and the base64 of the secret's bytes, as Standard Webhooks has it; else the bytes of the text itself.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        if text.trim() != text {
            return Err(SecretError::Blank);
        }
        let bytes = match text.strip_prefix(PREFIX) {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| SecretError::NotBase64)?,
            None if has_prefix_somewhere(text) => return Err(SecretError::Prefix),
            None => text.as_bytes().to_vec(),
        };
        match bytes.len() {
            found @ ..MIN_BYTES => Err(SecretError::Short { found }),
            MIN_BYTES..=MAX_BYTES => Ok(Self(Zeroizing::new(bytes))),
            found => Err(SecretError::Long { found }),
        }
    }

    /// The value of `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
        // HMAC takes a key of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    }
}

fn has_prefix_somewhere(text: &str) -> bool {
    text.as_bytes().windows(PREFIX.len()).any(|part| part.eq_ignore_ascii_case(PREFIX.as_bytes()))
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that the reference implementations of Standard Webhooks are tested with.
    #[test]
    fn the_signature_is_that_of_the_standard() {
        let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed.unwrap(), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn both_ways_to_write_it() {
        let text = "a secret of 24 bytes ok?";
        let encoded = format!("whsec_{}", STANDARD.encode(text));
        let of = |text: &str| SigningSecret::parse(text).unwrap().sign("a", 1, b"x");
        assert_eq!(of(text), of(&encoded));
        assert_eq!(SigningSecret::parse("short").unwrap_err(), SecretError::Short { found: 5 });
        assert_eq!(SigningSecret::parse("whsec_c2hvcnQ=").unwrap_err(), SecretError::Short { found: 5 });
        assert_eq!(SigningSecret::parse("whsec_~~~~").unwrap_err(), SecretError::NotBase64);
        assert_eq!(SigningSecret::parse(&"x".repeat(513)).unwrap_err(), SecretError::Long { found: 513 });
        assert_eq!(format!("{:?}", SigningSecret::parse(text).unwrap()), "SigningSecret");
        assert!(SigningSecret::parse(&encoded).is_ok());
        // What would be taken for another secret than was meant.
        for around in [format!(" {encoded}"), format!("{encoded}\n"), format!("\u{a0}{encoded}"), format!("{text} ")] {
            assert_eq!(SigningSecret::parse(&around).unwrap_err(), SecretError::Blank, "{around:?}");
        }
        for other in [encoded.to_uppercase(), format!("\"{encoded}\""), format!("Bearer {encoded}")] {
            assert_eq!(SigningSecret::parse(&other).unwrap_err(), SecretError::Prefix, "{other:?}");
        }
    }
}
