//! How much tenants and keys may use.

use std::num::{NonZeroU32, NonZeroU64};

use everturn_core::{Quota, TenantId};
use everturn_http::Quotas;

use super::{
    file::{self, Number},
    problem::Report,
};

/// What the file says, and no bound where it says nothing.
pub(super) fn check(
    report: &mut Report<'_>,
    quotas: &file::Quotas,
    tenants: std::collections::BTreeMap<file::Text, file::Tenant>,
) -> Quotas {
    let mut checked = Quotas {
        tenant: of_tenant(report, quotas.tenant.as_ref()),
        key: of_key(report, quotas.key.as_ref()),
        ..Quotas::default()
    };
    for (name, tenant) in tenants {
        let own = of_tenant(report, tenant.quota.as_ref());
        match name.get_ref().parse::<TenantId>() {
            Ok(tenant) => {
                checked.tenants.insert(tenant, own);
            }
            Err(error) => {
                let message = format!("`{}` cannot be a tenant: {error}", name.get_ref());
                report.add(Some(name.span()), message, None);
            }
        }
    }
    checked
}

/// A key's quota, as far as it holds up.
pub(super) fn of_key(report: &mut Report<'_>, quota: Option<&file::Quota>) -> Quota {
    if let Some(storage) = quota.and_then(|quota| quota.storage.as_ref()) {
        let message = "`storage` is counted for a tenant as a whole, not for a key".to_owned();
        let hint = "set it in `tenant` under [quotas], or in `quota` under [tenants.NAME]";
        report.add(Some(storage.span()), message, Some(hint.to_owned()));
    }
    Quota { storage: None, ..of_tenant(report, quota) }
}

/// A tenant's quota, as far as it holds up.
fn of_tenant(report: &mut Report<'_>, quota: Option<&file::Quota>) -> Quota {
    let Some(quota) = quota else { return Quota::default() };
    let mut bound = |name, value: &Option<Number>, max| number(report, name, value.as_ref(), max);
    let requests = bound("requests_per_second", &quota.requests_per_second, Quotas::MOST_REQUESTS);
    let turns = bound("concurrent_turns", &quota.concurrent_turns, Quotas::MOST_TURNS);
    let tokens = bound("tokens_per_day", &quota.tokens_per_day, Quotas::MOST_TOKENS);
    let storage = bound("storage", &quota.storage, Quotas::MOST_STORAGE);
    let small = |number: Option<u64>| number.and_then(|number| u32::try_from(number).ok()).and_then(NonZeroU32::new);
    Quota {
        requests_per_second: small(requests),
        concurrent_turns: small(turns),
        tokens_per_day: tokens.and_then(NonZeroU64::new),
        storage: storage.and_then(NonZeroU64::new),
    }
}

fn number(report: &mut Report<'_>, name: &str, value: Option<&Number>, max: u64) -> Option<u64> {
    let value = value?;
    let number = *value.get_ref();
    if let Some(number) = u64::try_from(number).ok().filter(|number| (1..=max).contains(number)) {
        return Some(number);
    }
    let message = format!("`{name}` must be between 1 and {max}, not {number}");
    let hint = (number == 0)
        .then(|| format!("leave `{name}` out for no bound; to let nobody in, take the key out or revoke it"));
    report.add(Some(value.span()), message, hint);
    None
}
