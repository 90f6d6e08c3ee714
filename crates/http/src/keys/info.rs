//! What is told of a key: all but the secret.

use std::num::{NonZeroU32, NonZeroU64};

use everturn_core::{KeyId, Quota, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use super::{BookError, Quotas};
use crate::Scope;

/// How long the name of a key may be, in characters.
pub const MAX_KEY_NAME: usize = 100;
/// How far ahead the end of a key may lie, in milliseconds: ten years.
const LONGEST_LIFE: i64 = 10 * 365 * 24 * 60 * 60 * 1000;

/// A key, as its tenant sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyInfo {
    /// Its name for programs.
    pub id: KeyId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Its name for people.
    pub name: String,
    /// How its secret begins; not told of those that are configured.
    pub prefix: Option<String>,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// When it was made; not known of those that are configured.
    pub created_at: Option<Timestamp>,
    /// When it ends, if it does.
    pub expires_at: Option<Timestamp>,
    /// When it was taken back, if it was.
    pub revoked_at: Option<Timestamp>,
    /// When it was last shown, about.
    pub last_used_at: Option<Timestamp>,
    /// What it may use, as far as it has a quota of its own.
    pub quota: Quota,
    /// Its place in the list: a page goes on after the last place of the one before.
    pub place: u64,
}

/// How a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyStatus {
    /// It opens.
    Live,
    /// Its time is over.
    Expired,
    /// It was taken back.
    Revoked,
}

impl KeyStatus {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl KeyInfo {
    /// How it stands at a time.
    pub fn status(&self, now: Timestamp) -> KeyStatus {
        match (self.revoked_at, self.expires_at) {
            (Some(_), _) => KeyStatus::Revoked,
            (None, Some(end)) if end <= now => KeyStatus::Expired,
            (None, Some(_) | None) => KeyStatus::Live,
        }
    }

    /// Whether it gives its holder what another gives.
    pub(super) fn gives_the_same(&self, other: &Self) -> bool {
        let given = |info: &Self| (info.tenant.clone(), info.scopes.iter().max().copied(), info.expires_at);
        given(self) == given(other)
    }

    /// Whether it stands in the configuration.
    pub fn is_configured(&self) -> bool {
        self.created_at.is_none()
    }
}

/// What a new key shall be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewKey {
    /// Its name for people. Need not be unique.
    pub name: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// When it ends; `None` for never.
    pub expires_at: Option<Timestamp>,
    /// What it may use; what is not said is left to the configuration.
    #[serde(default)]
    pub quota: Quota,
}

impl NewKey {
    /// The same in order, if it can be made.
    pub(super) fn checked(self, now: Timestamp) -> Result<Self, BookError> {
        let invalid = |field, what: String| Err(BookError::Invalid { field, what });
        let length = self.name.chars().count();
        if !(1..=MAX_KEY_NAME).contains(&length) {
            return invalid("name", format!("it must have 1 to {MAX_KEY_NAME} characters, not {length}"));
        }
        let name = self.name.trim().to_owned();
        if name.is_empty() {
            return invalid("name", "it must not be blank".to_owned());
        }
        if let Some(c) = self.name.chars().find(|c| c.is_control()) {
            return invalid("name", format!("it must not have the control character {c:?}"));
        }
        let mut scopes = self.scopes;
        scopes.sort_unstable();
        scopes.dedup();
        if scopes.is_empty() {
            return invalid("scopes", "a key must allow something: name some of read, chat and admin".to_owned());
        }
        check_quota(&self.quota)?;
        match self.expires_at {
            Some(end) if end <= now => {
                return invalid("expires_at", "it lies in the past; name a time to come".to_owned());
            }
            Some(end) if end.millis().saturating_sub(now.millis()) > LONGEST_LIFE => {
                let what = "it lies more than ten years ahead; leave it out for a key that does not expire";
                return invalid("expires_at", what.to_owned());
            }
            Some(_) | None => {}
        }
        Ok(Self { name, scopes, ..self })
    }
}

fn check_quota(quota: &Quota) -> Result<(), BookError> {
    let beyond = |field, given: Option<u64>, most: u64| match given {
        Some(given) if given > most => Err(BookError::Invalid { field, what: format!("it is at most {most}") }),
        Some(_) | None => Ok(()),
    };
    if quota.storage.is_some() {
        let what =
            "storage is counted for a tenant as a whole; set it in the configuration, under [quotas] or [tenants]";
        return Err(BookError::Invalid { field: "quota.storage", what: what.to_owned() });
    }
    let small = |number: Option<NonZeroU32>| number.map(|number| u64::from(number.get()));
    beyond("quota.requests_per_second", small(quota.requests_per_second), Quotas::MOST_REQUESTS)?;
    beyond("quota.concurrent_turns", small(quota.concurrent_turns), Quotas::MOST_TURNS)?;
    beyond("quota.tokens_per_day", quota.tokens_per_day.map(NonZeroU64::get), Quotas::MOST_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> NewKey {
        NewKey { name: name.to_owned(), scopes: vec![Scope::Chat], expires_at: None, quota: Quota::default() }
    }

    #[test]
    fn what_a_key_may_be() {
        let now = Timestamp(1000);
        let check = |key: NewKey| key.checked(now).map_err(|error| error.to_string());
        assert_eq!(check(named(" Köln \u{1f511} ")).unwrap().name, "Köln \u{1f511}");
        assert!(check(named(&"é".repeat(100))).is_ok());
        assert_eq!(check(named(&"é".repeat(101))).unwrap_err(), "name: it must have 1 to 100 characters, not 101");
        assert_eq!(check(named("  ")).unwrap_err(), "name: it must not be blank");
        let quota = Quota { concurrent_turns: NonZeroU32::new(1_000_001), ..Quota::default() };
        let beyond = check(NewKey { quota, ..named("a") }).unwrap_err();
        assert_eq!(beyond, "quota.concurrent_turns: it is at most 1000000");
        assert_eq!(check(named("a\r\nX-Evil: 1")).unwrap_err(), "name: it must not have the control character '\\r'");
        let scopes = check(NewKey { scopes: vec![Scope::Admin, Scope::Read, Scope::Admin], ..named("a") });
        assert_eq!(scopes.unwrap().scopes, [Scope::Read, Scope::Admin]);
        assert!(check(NewKey { scopes: Vec::new(), ..named("a") }).is_err());
        let ends = |at| check(NewKey { expires_at: Some(Timestamp(at)), ..named("a") });
        assert!(ends(1001).is_ok());
        assert!(ends(1000).unwrap_err().contains("in the past"));
        assert!(ends(i64::MAX).unwrap_err().contains("ten years"));
        assert!(ends(i64::MIN).is_err());
    }

    #[test]
    fn a_key_ends() {
        let key = KeyInfo {
            id: KeyId::mint(),
            tenant: TenantId::local(),
            name: "a".to_owned(),
            prefix: None,
            scopes: vec![Scope::Read],
            created_at: None,
            expires_at: Some(Timestamp(5)),
            revoked_at: None,
            last_used_at: None,
            quota: Quota::default(),
            place: 0,
        };
        assert_eq!(key.status(Timestamp(4)), KeyStatus::Live);
        assert_eq!(key.status(Timestamp(5)), KeyStatus::Expired);
        let revoked = KeyInfo { revoked_at: Some(Timestamp(1)), ..key };
        assert_eq!(revoked.status(Timestamp(5)), KeyStatus::Revoked);
    }
}
