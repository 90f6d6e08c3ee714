//! Keys: who calls, and what they may do.

use everturn_core::TenantId;
use http::{HeaderMap, HeaderName, header};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What a key allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Reading sessions and turns.
    Read,
    /// Running turns, and all that reading allows.
    Chat,
    /// Everything.
    Admin,
}

/// A key as the server knows it: not the key itself.
#[derive(Clone)]
pub struct Key {
    digest: [u8; 32],
    tenant: TenantId,
    scopes: Vec<Scope>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("tenant", &self.tenant).field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

impl Key {
    /// Keeps what is needed to recognise a key.
    pub fn new(secret: &str, tenant: TenantId, scopes: Vec<Scope>) -> Self {
        Self { digest: Sha256::digest(secret.as_bytes()).into(), tenant, scopes }
    }
}

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The tenant that the key belongs to.
    pub tenant: TenantId,
    scopes: Vec<Scope>,
}

impl Caller {
    /// Checks that the caller may do this.
    pub fn require(&self, needed: Scope) -> Result<(), AuthError> {
        let allows = |scope: &Scope| match (scope, needed) {
            (Scope::Admin, _) | (Scope::Chat, Scope::Chat | Scope::Read) | (Scope::Read, Scope::Read) => true,
            (Scope::Chat, Scope::Admin) | (Scope::Read, Scope::Chat | Scope::Admin) => false,
        };
        if self.scopes.iter().any(allows) { Ok(()) } else { Err(AuthError::Scope { needed }) }
    }
}

/// Why a caller is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No key was sent.
    #[error("this server wants a key: send the header Authorization: Bearer <key>")]
    Missing,
    /// A key that is not known.
    #[error("the key is not valid on this server")]
    Invalid,
    /// A key that does not allow this.
    #[error("the key does not allow this; it needs the scope {}", name(.needed))]
    Scope {
        /// What it would need.
        needed: Scope,
    },
    /// A server without keys was called by a name that is not this machine's.
    #[error(
        "this server runs without keys and answers only to localhost, 127.0.0.1 and [::1]; \
         call it by one of these names, or configure a key"
    )]
    Host,
}

fn name(scope: &Scope) -> &'static str {
    match scope {
        Scope::Read => "read",
        Scope::Chat => "chat",
        Scope::Admin => "admin",
    }
}

/// The keys of a server.
#[derive(Clone, Debug)]
pub enum Keys {
    /// None: everybody on this machine may do everything, as tenant `local`.
    Open,
    /// These.
    Closed(Vec<Key>),
}

impl Keys {
    /// Finds out who calls.
    pub fn caller(&self, headers: &HeaderMap) -> Result<Caller, AuthError> {
        self.caller_with(headers, bearer(headers))
    }

    /// Finds out who calls, in a dialect that has a place of its own for the key: a bearer's key comes first.
    pub fn caller_by_header(&self, headers: &HeaderMap, place: &HeaderName) -> Result<Caller, AuthError> {
        let own = || headers.get(place).and_then(|value| value.to_str().ok()).map(str::trim);
        self.caller_with(headers, bearer(headers).or_else(own))
    }

    fn caller_with(&self, headers: &HeaderMap, secret: Option<&str>) -> Result<Caller, AuthError> {
        match self {
            Self::Open => {
                // A page on the web can have its own name resolve to this machine; the browser then sends that name.
                let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
                if host.is_some_and(|host| !is_loopback(host)) {
                    return Err(AuthError::Host);
                }
                Ok(Caller { tenant: TenantId::local(), scopes: vec![Scope::Admin] })
            }
            Self::Closed(keys) => {
                let secret = secret.ok_or(AuthError::Missing)?;
                let digest: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
                // All are compared, so that the time tells nothing.
                let found = keys
                    .iter()
                    .fold(None, |found, key| if bool::from(key.digest.ct_eq(&digest)) { Some(key) } else { found });
                let key = found.ok_or(AuthError::Invalid)?;
                Ok(Caller { tenant: key.tenant.clone(), scopes: key.scopes.clone() })
            }
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    let address = name.parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn a_key_gives_its_tenant_and_scopes() {
        let acme: TenantId = "acme".parse().unwrap();
        let keys = Keys::Closed(vec![
            Key::new("other", TenantId::local(), vec![Scope::Admin]),
            Key::new("secret", acme.clone(), vec![Scope::Read]),
        ]);
        let caller = keys.caller(&headers(header::AUTHORIZATION, "bearer secret")).unwrap();
        assert_eq!(caller.tenant, acme);
        assert_eq!(caller.require(Scope::Read), Ok(()));
        assert_eq!(caller.require(Scope::Chat), Err(AuthError::Scope { needed: Scope::Chat }));
        let refused = |value| keys.caller(&headers(header::AUTHORIZATION, value)).unwrap_err();
        assert_eq!(refused("Bearer wrong"), AuthError::Invalid);
        assert_eq!(refused("Basic secret"), AuthError::Missing);
        assert_eq!(keys.caller(&HeaderMap::new()).unwrap_err(), AuthError::Missing);
        assert!(!format!("{keys:?}").contains("secret"));
    }

    #[test]
    fn a_dialect_may_have_a_place_for_keys() {
        let keys = Keys::Closed(vec![Key::new("secret", TenantId::local(), vec![Scope::Read])]);
        let place = HeaderName::from_static("x-secret-key");
        let by = |headers: HeaderMap| keys.caller_by_header(&headers, &place).map(|_| ());
        assert_eq!(by(headers(place.clone(), "secret")), Ok(()));
        assert_eq!(by(headers(header::AUTHORIZATION, "Bearer secret")), Ok(()));
        assert_eq!(by(headers(place.clone(), "wrong")), Err(AuthError::Invalid));
        assert_eq!(by(HeaderMap::new()), Err(AuthError::Missing));
        assert_eq!(keys.caller(&headers(place.clone(), "secret")).unwrap_err(), AuthError::Missing);
    }

    #[test]
    fn without_keys_only_this_machines_names_count() {
        for host in ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "127.9.9.9"] {
            assert!(Keys::Open.caller(&headers(header::HOST, host)).is_ok(), "{host}");
        }
        for host in ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1"] {
            assert_eq!(Keys::Open.caller(&headers(header::HOST, host)).unwrap_err(), AuthError::Host, "{host}");
        }
    }
}
