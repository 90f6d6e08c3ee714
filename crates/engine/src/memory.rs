//! One budget for the memory that requests and turns hold: bodies, answers that are built whole, model requests, images.
//!
//! Code that holds many bytes for a tenant reserves them here first, and gives them back by dropping the [`Reservation`]. A tenant
//! may hold as much as is free after that: half of the budget while nobody else needs any, less the more others hold. So no
//! tenant takes the last of it, and small requests of the others are always served.

use std::{
    collections::HashMap,
    fmt,
    ops::{Deref, DerefMut},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use everturn_core::{SessionId, TenantId};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use tokio::{sync::Notify, time::Instant};

use crate::{Engine, ReadError};

/// One reservation counts for no more than this part of the budget. What is larger than that, such as a session that has grown
/// for years on a small machine, goes on nearly alone; it would else never go on.
const LARGEST_PART: u64 = 4;

/// All turns of a session.
pub(crate) const ALL_TURNS: (Option<u64>, usize) = (None, usize::MAX);

/// How much memory an answer takes that shows history, by what is stored of that: the text from the store, the messages, what a
/// dialect makes of them, and the answer.
pub(crate) const ANSWER: (MemoryKind, u64) = (MemoryKind::Answers, 4);
/// The same of a fork or a truncation: the text from the store, and the messages.
pub(crate) const CUT: (MemoryKind, u64) = (MemoryKind::Cuts, 2);

/// What memory is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// Bodies of requests, from their first byte until the request is done.
    Bodies,
    /// Documents that are being uploaded.
    Uploads,
    /// Answers that are built whole, with the history that they are made of, until the client has them.
    Answers,
    /// History that a fork or a truncation reads.
    Cuts,
    /// Requests to models, until their provider begins to answer.
    ModelRequests,
    /// Images that are kept encoded for models.
    Images,
    /// Sessions that were used lately.
    WarmSessions,
}

impl MemoryKind {
    const ALL: [Self; 7] =
        [Self::Bodies, Self::Uploads, Self::Answers, Self::Cuts, Self::ModelRequests, Self::Images, Self::WarmSessions];

    fn as_str(self) -> &'static str {
        match self {
            Self::Bodies => "bodies",
            Self::Uploads => "uploads",
            Self::Answers => "answers",
            Self::Cuts => "cuts",
            Self::ModelRequests => "model_requests",
            Self::Images => "images",
            Self::WarmSessions => "warm_sessions",
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

/// What is counted of the budget. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryMetrics {
    held: Family<KindLabel, Gauge>,
    refused: Family<KindLabel, Counter>,
    limit: Gauge,
}

impl MemoryMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let held = "Memory reserved under limits.memory, in bytes, by what it is held for";
        registry.register("everturn_memory_bytes", held, self.held.clone());
        registry.register("everturn_memory_limit_bytes", "limits.memory, in bytes", self.limit.clone());
        let refused = "Reservations that limits.memory had no room for, by what they were for";
        registry.register("everturn_memory_refused", refused, self.refused.clone());
    }
}

/// Why memory cannot be had now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the server has no memory for this at the moment: it takes {} more, this tenant's other requests hold {}, and all tenants \
     share {} (limits.memory); try again when some of them are done",
    Megabytes(*.wanted),
    Megabytes(*.held),
    Megabytes(*.limit)
)]
pub struct MemoryExhausted {
    /// How many bytes were asked for.
    pub wanted: u64,
    /// How many the tenant holds.
    pub held: u64,
    /// The whole budget.
    pub limit: u64,
}

/// Bytes as people read them.
struct Megabytes(u64);

impl fmt::Display for Megabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes < 1_000_000 => write!(f, "{} kB", bytes.div_ceil(1_000)),
            bytes => write!(f, "{} MB", bytes.div_ceil(1_000_000)),
        }
    }
}

/// The budget. Cheap to clone.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Budget>);

struct Budget {
    limit: u64,
    held: Mutex<Held>,
    freed: Notify,
    metrics: MemoryMetrics,
}

#[derive(Debug, Default)]
struct Held {
    total: u64,
    tenants: HashMap<TenantId, u64>,
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBudget").field("limit", &self.0.limit).finish_non_exhaustive()
    }
}

impl MemoryBudget {
    pub(crate) fn new(limit: u64, metrics: MemoryMetrics) -> Self {
        metrics.limit.set(limit.cast_signed());
        // All of them are shown from the start.
        for kind in MemoryKind::ALL {
            let label = KindLabel { kind: kind.as_str() };
            drop((metrics.held.get_or_create(&label), metrics.refused.get_or_create(&label)));
        }
        Self(Arc::new(Budget { limit, held: Mutex::default(), freed: Notify::new(), metrics }))
    }

    /// A budget of its own, which no metrics show.
    pub fn of_size(limit: u64) -> Self {
        Self::new(limit, MemoryMetrics::default())
    }

    /// The part of a tenant.
    pub fn of(&self, tenant: &TenantId) -> TenantMemory {
        TenantMemory { budget: self.clone(), tenant: tenant.clone() }
    }

    /// The part of a cache of all tenants. It must be bounded by itself: it takes what is free.
    pub(crate) fn of_cache(&self, kind: MemoryKind) -> Reservation {
        Reservation { budget: self.clone(), tenant: None, kind, bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn label(kind: MemoryKind) -> KindLabel {
        KindLabel { kind: kind.as_str() }
    }
}

/// A tenant's part of the budget.
#[derive(Clone, Debug)]
pub struct TenantMemory {
    budget: MemoryBudget,
    tenant: TenantId,
}

impl TenantMemory {
    /// Reserves so many bytes.
    pub fn reserve(&self, kind: MemoryKind, bytes: u64) -> Result<Reservation, MemoryExhausted> {
        let mut reservation = self.nothing(kind);
        reservation.resize(bytes)?;
        Ok(reservation)
    }

    /// A reservation of nothing yet.
    pub fn nothing(&self, kind: MemoryKind) -> Reservation {
        Reservation { budget: self.budget.clone(), tenant: Some(self.tenant.clone()), kind, bytes: 0 }
    }

    /// Reserves so many bytes as soon as they are free, if that is soon.
    pub async fn reserve_within(
        &self,
        patience: Duration,
        kind: MemoryKind,
        bytes: u64,
    ) -> Result<Reservation, MemoryExhausted> {
        let deadline = Instant::now() + patience;
        let mut reservation = self.nothing(kind);
        loop {
            let mut freed = pin!(self.budget.0.freed.notified());
            freed.as_mut().enable();
            match reservation.try_resize(bytes) {
                Ok(()) => return Ok(reservation),
                Err(exhausted) if tokio::time::timeout_at(deadline, freed).await.is_err() => {
                    reservation.count_refusal();
                    return Err(exhausted);
                }
                Err(_) => {}
            }
        }
    }
}

/// Memory that somebody may hold. Dropping it gives it back.
#[derive(Debug)]
pub struct Reservation {
    budget: MemoryBudget,
    /// `None` for what all tenants use.
    tenant: Option<TenantId>,
    kind: MemoryKind,
    bytes: u64,
}

impl Reservation {
    /// Changes how much it is. Where there is no room for more it stays what it was.
    pub fn resize(&mut self, bytes: u64) -> Result<(), MemoryExhausted> {
        self.try_resize(bytes).inspect_err(|_| self.count_refusal())
    }

    /// The same for someone who waits or does without: no refusal is counted.
    pub(crate) fn try_resize(&mut self, bytes: u64) -> Result<(), MemoryExhausted> {
        let limit = self.budget.0.limit;
        let bytes = bytes.min(limit / LARGEST_PART);
        if bytes == self.bytes {
            return Ok(());
        }
        let mut held = self.budget.lock();
        let total = held.total - self.bytes + bytes;
        if let Some(tenant) = &self.tenant {
            let before = held.tenants.get(tenant).copied().unwrap_or(0);
            let after = before - self.bytes + bytes;
            if bytes > self.bytes && limit.checked_sub(total).is_none_or(|free| after > free) {
                return Err(MemoryExhausted { wanted: bytes - self.bytes, held: before, limit });
            }
            match after {
                0 => drop(held.tenants.remove(tenant)),
                after => drop(held.tenants.insert(tenant.clone(), after)),
            }
        } else if bytes > self.bytes && total > limit {
            return Err(MemoryExhausted { wanted: bytes - self.bytes, held: 0, limit });
        }
        held.total = total;
        drop(held);
        let change = bytes.cast_signed() - self.bytes.cast_signed();
        self.budget.0.metrics.held.get_or_create(&MemoryBudget::label(self.kind)).inc_by(change);
        if bytes < self.bytes {
            self.budget.0.freed.notify_waiters();
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Gives back all beyond so many bytes.
    pub fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.min(bytes);
        // Less is always granted.
        let _granted = self.try_resize(less);
    }

    fn count_refusal(&self) {
        self.budget.0.metrics.refused.get_or_create(&MemoryBudget::label(self.kind)).inc();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

impl Engine {
    /// Reserves memory for a page of a session's history that is about to be read: for what is stored of it, `times` over.
    pub(crate) async fn reserve_history(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        (below, limit): (Option<u64>, usize),
        (kind, times): (MemoryKind, u64),
    ) -> Result<Reservation, ReadError> {
        let bytes = self.0.store.history_bytes(tenant, session, below, limit).await?;
        Ok(self.memory_of(tenant).reserve(kind, bytes.saturating_mul(times))?)
    }
}

/// A value and the memory that is reserved for it.
#[derive(Debug)]
pub struct Reserved<T> {
    /// The value.
    pub value: T,
    /// Its memory.
    pub memory: Reservation,
}

impl<T> Deref for Reserved<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Reserved<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit: u64) -> (MemoryBudget, [TenantMemory; 3]) {
        let budget = MemoryBudget::new(limit, MemoryMetrics::default());
        let tenants = ["a", "b", "c"].map(|name| budget.of(&name.parse().unwrap()));
        (budget, tenants)
    }

    const KIND: MemoryKind = MemoryKind::Bodies;

    #[test]
    fn a_tenant_leaves_as_much_as_it_holds() {
        let (budget, [a, b, c]) = budget(1000);
        let _first = a.reserve(KIND, 250).unwrap();
        let second = a.reserve(KIND, 250).unwrap();
        assert_eq!(a.reserve(KIND, 1).unwrap_err(), MemoryExhausted { wanted: 1, held: 500, limit: 1000 });
        // Half of the rest, and so on.
        let _of_b = b.reserve(KIND, 250).unwrap();
        assert!(b.reserve(KIND, 1).is_err());
        assert!(c.reserve(KIND, 125).is_ok());
        assert_eq!(budget.0.metrics.held.get_or_create(&MemoryBudget::label(KIND)).get(), 750);
        assert_eq!(budget.0.metrics.refused.get_or_create(&MemoryBudget::label(KIND)).get(), 2);
        drop(second);
        assert!(a.reserve(KIND, 125).is_ok());
    }

    #[test]
    fn what_is_given_back_is_free_again() {
        let (budget, [a, ..]) = budget(1000);
        let mut one = a.reserve(KIND, 10).unwrap();
        one.resize(250).unwrap();
        let mut other = a.reserve(KIND, 200).unwrap();
        assert!(other.resize(251).is_ok(), "more than a quarter counts as a quarter");
        assert!(a.reserve(KIND, 1).is_err());
        one.shrink_to(100);
        one.shrink_to(200);
        assert_eq!(budget.lock().total, 350);
        drop((one, other));
        assert_eq!(budget.lock().total, 0);
        assert!(budget.lock().tenants.is_empty());
    }

    #[test]
    fn caches_take_what_is_free_and_no_more() {
        let (budget, [a, ..]) = budget(1000);
        let mut cache = budget.of_cache(MemoryKind::WarmSessions);
        cache.resize(250).unwrap();
        let _held = [a.reserve(KIND, 250).unwrap(), a.reserve(KIND, 125).unwrap()];
        assert!(a.reserve(KIND, 1).is_err());
        let mut other = budget.of_cache(MemoryKind::Images);
        assert!(other.resize(250).is_ok());
        assert!(budget.of_cache(MemoryKind::Images).resize(126).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_waits_for_a_while() {
        let (_, [a, ..]) = budget(1000);
        let held = [a.reserve(KIND, 250).unwrap(), a.reserve(KIND, 250).unwrap()];
        let second = Duration::from_secs(1);
        assert!(a.reserve_within(second, KIND, 100).await.is_err());
        let (waited, ()) = tokio::join!(a.reserve_within(second, KIND, 100), async {
            tokio::task::yield_now().await;
            drop(held);
        });
        assert!(waited.is_ok());
    }
}
