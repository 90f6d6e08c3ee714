//! Who calls, and what they may do.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use everturn_core::TenantId;
use everturn_engine::{Account, Whose};
use http::{HeaderMap, HeaderName, header};
use serde::{Deserialize, Serialize};

/// What a key allows. Each allows what those before it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Reading sessions and turns.
    Read,
    /// Running turns, and all that reading allows.
    Chat,
    /// Everything.
    Admin,
}

impl Scope {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Read, Self::Chat, Self::Admin];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Chat => "chat",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a scope is read, chat or admin")]
pub struct NoScope;

impl FromStr for Scope {
    type Err = NoScope;

    fn from_str(word: &str) -> Result<Self, NoScope> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word).ok_or(NoScope)
    }
}

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The tenant that the key belongs to.
    pub tenant: TenantId,
    /// On whose account the caller acts.
    pub account: Arc<Account>,
    /// The most that the caller may do.
    pub(crate) allowed: Option<Scope>,
}

impl Caller {
    /// Checks that the caller may do this.
    pub fn require(&self, needed: Scope) -> Result<(), AuthError> {
        match self.allowed {
            Some(allowed) if allowed >= needed => Ok(()),
            Some(_) | None => Err(AuthError::Scope { needed }),
        }
    }
}

/// Why a caller is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// More requests than the key or the tenant may make.
    #[error(
        "this {whose} may make {limit} request{} a second; try again in a moment", if *.limit == 1 { "" } else { "s" }
    )]
    TooMany {
        /// Whose quota.
        whose: Whose,
        /// How many in a second.
        limit: u32,
        /// When the next one is taken.
        retry_after: Duration,
    },
    /// No key was sent.
    #[error("this server wants a key: send the header Authorization: Bearer <key>")]
    Missing,
    /// A key that is not known.
    #[error("the key is not valid on this server")]
    Invalid,
    /// A key whose time is over.
    #[error("the key has expired; ask for a new one")]
    Expired,
    /// A key that was taken back.
    #[error("the key was revoked; ask for a new one")]
    Revoked,
    /// A key that does not allow this.
    #[error("the key does not allow this; it needs the scope {needed}")]
    Scope {
        /// What it would need.
        needed: Scope,
    },
    /// A server without keys was called by a name that is not this machine's.
    #[error(
        "this server runs without keys and answers only to localhost, 127.0.0.1 and [::1], and to a trusted proxy only \
         if it says that a client on this machine called one of these names; call it by one of them, or configure a key"
    )]
    Host,
}

/// The value of `Retry-After` for a wait: whole seconds, and at least one.
pub fn retry_seconds(wait: Duration) -> u32 {
    let whole = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    u32::try_from(whole).unwrap_or(u32::MAX).max(1)
}

/// The key of a bearer. Not always a text: nobody has promised that.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let at = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, secret) = value.split_at(at);
    scheme.eq_ignore_ascii_case(b"bearer").then(|| secret.trim_ascii())
}

/// The key in another header.
pub(crate) fn in_header<'h>(headers: &'h HeaderMap, place: &HeaderName) -> Option<&'h [u8]> {
    headers.get(place).map(|value| value.as_bytes().trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_include_those_below_them() {
        let may = |allowed: Option<Scope>| {
            let caller = Caller { tenant: TenantId::local(), account: Arc::default(), allowed };
            Scope::ALL.map(|needed| caller.require(needed).is_ok())
        };
        assert_eq!(may(None), [false, false, false]);
        assert_eq!(may(Some(Scope::Read)), [true, false, false]);
        assert_eq!(may(Some(Scope::Chat)), [true, true, false]);
        assert_eq!(may(Some(Scope::Admin)), [true, true, true]);
        assert_eq!("chat".parse(), Ok(Scope::Chat));
        assert_eq!("Chat".parse::<Scope>(), Err(NoScope));
    }

    #[test]
    fn waits_are_whole_seconds() {
        assert_eq!(retry_seconds(Duration::ZERO), 1);
        assert_eq!(retry_seconds(Duration::from_millis(1001)), 2);
    }
}
