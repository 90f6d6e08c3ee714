//! Sums of what was used.

use everturn_core::{Day, KeyId, TenantId, Usage};

use super::state::State;
use crate::{UsageCount, UsageRow, UsageSlot};

const MOST: u64 = 1 << 60;

impl State {
    pub(super) fn add_usage(&mut self, tenant: &TenantId, used: &UsageRow) {
        let sum = self.usage.entry((tenant.clone(), used.slot.clone())).or_default();
        let UsageCount { turns, calls, tokens } = used.count;
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more).min(MOST);
        add(&mut sum.turns, turns);
        add(&mut sum.calls, calls);
        sum.tokens += tokens;
        sum.tokens = sum.tokens.at_most(MOST);
    }

    fn usage_of<'a>(&'a self, tenant: &'a TenantId) -> impl Iterator<Item = (&'a UsageSlot, &'a UsageCount)> {
        self.usage.iter().filter(move |((owner, _), _)| owner == tenant).map(|((_, slot), count)| (slot, count))
    }

    pub(super) fn usage_page(
        &self,
        tenant: &TenantId,
        (from, to): (Day, Day),
        after: Option<&UsageSlot>,
        limit: usize,
    ) -> Vec<UsageRow> {
        let days = self.usage_of(tenant).filter(|(slot, _)| (from..=to).contains(&slot.day));
        let rest = days.filter(|(slot, _)| after.is_none_or(|after| *slot > after));
        rest.take(limit).map(|(slot, count)| UsageRow { slot: slot.clone(), count: *count }).collect()
    }

    pub(super) fn used_on(&self, tenant: &TenantId, day: Day, key: Option<&KeyId>) -> Usage {
        let slots = self.usage_of(tenant).filter(|(slot, _)| slot.day == day);
        let mut sum = Usage::default();
        slots.filter(|(slot, _)| key.is_none() || slot.key.as_ref() == key).for_each(|(_, count)| sum += count.tokens);
        sum.at_most(MOST)
    }
}
