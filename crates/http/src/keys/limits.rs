//! How many requests in a second.

use std::{collections::BTreeMap, fmt, num::NonZeroU32, time::Duration};

use everturn_core::{Quota, TenantId};
use governor::{
    DefaultDirectRateLimiter, RateLimiter,
    clock::{Clock as _, DefaultClock},
};

/// What tenants and keys may use, as far as they have no quota of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Every tenant, with all its keys together.
    pub tenant: Quota,
    /// Every key.
    pub key: Quota,
    /// Tenants that have their own.
    pub tenants: BTreeMap<TenantId, Quota>,
}

impl Quotas {
    /// How many requests a second may be allowed.
    pub const MOST_REQUESTS: u64 = 1_000_000;
    /// How many turns at once may be allowed.
    pub const MOST_TURNS: u64 = 1_000_000;
    /// How many tokens a day may be allowed: more than anybody uses, and within what stores count with.
    pub const MOST_TOKENS: u64 = 1_000_000_000_000_000;
    /// How many bytes of storage may be allowed: more than any disk has.
    pub const MOST_STORAGE: u64 = 1_000_000_000_000_000;

    /// What a tenant may use.
    pub fn of_tenant(&self, tenant: &TenantId) -> Quota {
        self.tenants.get(tenant).map_or(self.tenant, |own| own_or(own, &self.tenant))
    }

    /// What a key may use.
    pub fn of_key(&self, own: &Quota) -> Quota {
        own_or(own, &self.key)
    }
}

fn own_or(own: &Quota, other: &Quota) -> Quota {
    Quota {
        requests_per_second: own.requests_per_second.or(other.requests_per_second),
        concurrent_turns: own.concurrent_turns.or(other.concurrent_turns),
        tokens_per_day: own.tokens_per_day.or(other.tokens_per_day),
        storage: own.storage.or(other.storage),
    }
}

/// Counts the requests of one key or tenant. As many as a second allows may come at once.
pub(super) struct Pace {
    limit: NonZeroU32,
    limiter: DefaultDirectRateLimiter,
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Pace {
    pub(super) fn of(quota: &Quota) -> Option<Self> {
        let limit = quota.requests_per_second?;
        Some(Self { limit, limiter: RateLimiter::direct(governor::Quota::per_second(limit)) })
    }

    /// Takes one more, or tells how many may be made and when the next one is taken.
    pub(super) fn take(&self) -> Result<(), (u32, Duration)> {
        let taken = self.limiter.check();
        taken.map_err(|not_until| (self.limit.get(), not_until.wait_time_from(DefaultClock::default().now())))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    #[test]
    fn a_second_allows_so_many_at_once() {
        let quota = Quota { requests_per_second: NonZeroU32::new(3), ..Quota::default() };
        let pace = Pace::of(&quota).unwrap();
        for _ in 0..3 {
            assert_eq!(pace.take(), Ok(()));
        }
        let (limit, wait) = pace.take().unwrap_err();
        assert_eq!(limit, 3);
        assert!(wait <= Duration::from_millis(334), "{wait:?}");
        assert!(Pace::of(&Quota::default()).is_none());
    }

    #[test]
    fn a_quota_of_ones_own_comes_first() {
        let (acme, bob): (TenantId, TenantId) = ("acme".parse().unwrap(), "bob".parse().unwrap());
        let tenant = Quota { requests_per_second: NonZeroU32::new(9), ..Quota::default() };
        let own = Quota { tokens_per_day: NonZeroU64::new(5), ..Quota::default() };
        let quotas = Quotas { tenant, key: own, tenants: [(acme.clone(), own)].into() };
        let both = Quota { tokens_per_day: NonZeroU64::new(5), ..tenant };
        assert_eq!((quotas.of_tenant(&acme), quotas.of_tenant(&bob)), (both, tenant));
        assert_eq!(quotas.of_key(&tenant), both);
    }
}
