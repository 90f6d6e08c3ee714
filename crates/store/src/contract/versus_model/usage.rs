//! What the tenants used, and what is looked for among the records of all of them.

use std::sync::Arc;

use everturn_core::{Day, KeyId, TenantId, Timestamp, Usage};
use rand::{Rng, seq::IndexedRandom};

use super::{
    Tally, placeless,
    world::{STATES, World},
};
use crate::{
    RecordKind, RecordRow, Store, StoreError, UsageCount, UsageRow, UsageSlot, Write, contract::fixture::Talk,
};

/// The keys of all callers.
const CALLERS: [&str; 3] = ["key_1", "key_2", "key_10"];

impl World {
    /// The key of somebody, or of nobody.
    pub(super) fn caller(&mut self) -> Option<KeyId> {
        let caller = self.random.random_ratio(2, 3).then(|| CALLERS.choose(&mut self.random).expect("a caller"));
        caller.map(|caller| caller.parse().expect("a key id"))
    }

    /// Tells of something that was used about now.
    pub(super) fn usage(&mut self) -> Write {
        let text = |random: &mut rand::rngs::StdRng| (*["", "a", "b"].choose(random).expect("a text")).to_owned();
        let day = Day(Timestamp(self.clock).day().0 - self.random.random_range(0..2));
        let (agent, model) = (text(&mut self.random), text(&mut self.random));
        let number = |random: &mut rand::rngs::StdRng| match random.random_range(0..20) {
            0 => u64::MAX,
            1 => (1 << 60) - 1,
            2 => (1 << 59) + 1,
            _ => random.random_range(0..1000),
        };
        let [turns, calls, input, output] = std::array::from_fn(|_| number(&mut self.random));
        // Details that differ from their wholes, and from each other.
        let tokens = Usage { input, output, cached_input: calls, cache_write: turns, reasoning: calls ^ turns };
        let slot = UsageSlot { day, agent, model, key: self.caller() };
        Write::Usage(UsageRow { slot, count: UsageCount { turns, calls, tokens } })
    }
}

/// All that a tenant used in these days, page by page.
async fn pages(
    store: &Arc<dyn Store>,
    tenant: &TenantId,
    days: (Day, Day),
    limit: usize,
) -> Result<Vec<UsageRow>, StoreError> {
    let mut all: Vec<UsageRow> = Vec::new();
    loop {
        let page = store.usage(tenant, days, all.last().map(|row| &row.slot), limit).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

pub(super) async fn compare(
    world: &World,
    store: &Arc<dyn Store>,
    sim: &Arc<dyn Store>,
    tally: &mut Tally,
    place: &str,
) {
    let today = Timestamp(world.clock).day();
    for tenant in world.tenants() {
        for (from, to) in [(Day(today.0 - 1), today), (Day(0), Day(today.0 / 2)), (Day(i32::MIN), Day(i32::MAX))] {
            let found = pages(store, tenant, (from, to), 3).await;
            tally.agree("usage", place, found, pages(sim, tenant, (from, to), 1000).await);
        }
        for caller in CALLERS.into_iter().map(|caller| Some(caller.parse().expect("a key id"))).chain([None]) {
            let found = store.used_on(tenant, today, caller.as_ref()).await;
            let expected = sim.used_on(tenant, today, caller.as_ref()).await;
            let used = |found: Result<Usage, StoreError>| found.map(|used| (!used.is_zero()).then_some(used));
            let list = |used: Option<Usage>| used.into_iter().collect();
            tally.agree("used today", place, used(found).map(list), used(expected).map(list));
        }
    }
    for kind in [RecordKind::Key, RecordKind::Notice, RecordKind::Form] {
        for state in STATES {
            let found = placeless(of_all(store, kind, state, 2).await);
            tally.agree("records of all", place, found, placeless(of_all(sim, kind, state, 1000).await));
        }
    }
    for Talk { tenant, session, .. } in &world.talks {
        let turns = store.turns(tenant, session).await.expect("turns");
        *tally.seen.entry("turns of callers").or_default() +=
            turns.iter().filter(|turn| turn.by.is_some()).count() as u32;
    }
}

/// All records of a kind and in a state, page by page.
async fn of_all(
    store: &Arc<dyn Store>,
    kind: RecordKind,
    state: &str,
    limit: usize,
) -> Result<Vec<RecordRow>, StoreError> {
    let mut all: Vec<RecordRow> = Vec::new();
    loop {
        let page = store.records_of_all(kind, state, all.last().map(|row| row.position), limit).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}
