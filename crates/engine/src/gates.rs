//! Lets those who would collide in one after the other, in the order in which they come.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use everturn_core::TenantId;
use tokio::{sync::Notify, time::Instant};

/// The shortest and the longest time between two interrupts of one session. It doubles while interrupts follow each other
/// without a pause, so that turns get somewhere however many clients interrupt.
const BETWEEN_INTERRUPTS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));

/// Names that nobody holds any more are cleared away once there are this many.
const DEAD_ENTRIES: usize = 1024;

/// One gate for each name that a tenant uses: a session, or a submission's key.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    gates: Mutex<HashMap<Name, Weak<Gate>>>,
    interrupts: Mutex<HashMap<Name, Interrupted>>,
}

/// The last interrupt of a session.
#[derive(Clone, Copy, Debug)]
struct Interrupted {
    at: Instant,
    /// The time until the next one.
    pause: Duration,
}

type Name = (TenantId, String);

/// Held by one at a time. Fair: who waits longest is next.
///
/// Of a session: a submission that joins the queue lets the next one in as soon as its command is on its way.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    held: tokio::sync::Mutex<()>,
    /// Held by the submission that interrupts next.
    interrupting: tokio::sync::Mutex<()>,
    joining: AtomicUsize,
    all_joined: Notify,
}

/// Lets the next one in when it is dropped.
pub(crate) type Alone<'gate> = tokio::sync::MutexGuard<'gate, ()>;

impl Gate {
    /// Waits until nobody else is under way.
    pub(crate) async fn lock(&self) -> Alone<'_> {
        let alone = self.lock_beside_joining().await;
        self.joined().await;
        alone
    }

    /// The same, except for submissions that are about to join the queue.
    pub(crate) async fn lock_beside_joining(&self) -> Alone<'_> {
        self.held.lock().await
    }

    /// The place of the submission that interrupts next; `None` if another one has it.
    pub(crate) fn try_interrupt(&self) -> Option<Alone<'_>> {
        self.interrupting.try_lock().ok()
    }

    /// Waits for that place. Fair, so that no interrupt is passed over.
    pub(crate) async fn interrupt_next(&self) -> Alone<'_> {
        self.interrupting.lock().await
    }

    /// Waits until those have joined the queue that are about to. There are no new ones while the gate is held.
    pub(crate) async fn joined(&self) {
        loop {
            let all_joined = self.all_joined.notified();
            if self.joining() == 0 {
                return;
            }
            all_joined.await;
        }
    }

    /// How many submissions are about to join the queue, and may have joined it just now.
    pub(crate) fn joining(&self) -> usize {
        self.joining.load(Ordering::Acquire)
    }

    /// A submission is about to join the queue. It holds the gate until its command is on its way.
    pub(crate) fn join(self: &Arc<Self>) -> Joining {
        self.joining.fetch_add(1, Ordering::AcqRel);
        Joining(Arc::clone(self))
    }
}

/// See [`Gate::join`]. Dropped when the submission has joined the queue, or was refused.
#[derive(Debug)]
pub(crate) struct Joining(Arc<Gate>);

impl Drop for Joining {
    fn drop(&mut self) {
        if self.0.joining.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.all_joined.notify_waiters();
        }
    }
}

impl Gates {
    /// The gate of a name.
    pub(crate) fn of(&self, tenant: &TenantId, name: &str) -> Arc<Gate> {
        let mut gates = lock(&self.gates);
        if gates.len() >= DEAD_ENTRIES && gates.len().is_power_of_two() {
            gates.retain(|_, gate| gate.strong_count() > 0);
        }
        let entry = gates.entry((tenant.clone(), name.to_owned())).or_default();
        entry.upgrade().unwrap_or_else(|| {
            let gate = Arc::new(Gate::default());
            *entry = Arc::downgrade(&gate);
            gate
        })
    }

    /// Notes an interrupt. If the one before it was a moment ago, gives the time to wait instead.
    pub(crate) fn interrupt(&self, tenant: &TenantId, name: &str) -> Result<(), Duration> {
        let (mut interrupts, now) = (lock(&self.interrupts), Instant::now());
        if interrupts.len() >= DEAD_ENTRIES {
            interrupts.retain(|_, last| now.duration_since(last.at) < last.pause * 2);
        }
        let (shortest, longest) = BETWEEN_INTERRUPTS;
        let name = (tenant.clone(), name.to_owned());
        let pause = match interrupts.get(&name).map(|last| (now.duration_since(last.at), last.pause)) {
            Some((passed, pause)) if passed < pause => return Err(pause - passed),
            Some((passed, pause)) if passed < pause * 2 => (pause * 2).min(longest),
            Some(_) | None => shortest,
        };
        interrupts.insert(name, Interrupted { at: now, pause });
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
