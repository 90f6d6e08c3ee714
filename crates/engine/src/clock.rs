//! Two clocks. The wall clock says what time it is; people and time servers set it, so it may jump. The steady clock
//! measures how much time has passed, and only goes forward.
//!
//! `wait 20`, pauses for rate limits and forms that expire measure time, so they go by the steady clock for as long as the
//! process lives. A turn's times are stored as wall times all the same, since after a restart there is no other clock.
//! [`Timelines`] has both: each turn lives on the wall clock as it was at one moment, plus the time that has passed since.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use everturn_core::{Timestamp, TurnId};

/// Turns that live on another timeline than the engine's start. Beyond this, turns stay on that one.
const MAX_OWN: usize = 10_000;
/// Steps of the wall clock that are no jump, in milliseconds.
const NO_JUMP: i64 = 1000;

/// Where the engine looks at the time.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// What time it is.
    fn wall(&self) -> Timestamp;

    /// How much time has passed since some moment; the same moment for as long as the process lives.
    fn steady(&self) -> Duration;
}

/// The system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        Timestamp::now()
    }

    /// Counts the time in which the machine sleeps, too: a laptop that is opened again owes nobody an hour of waiting.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn steady(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn steady(&self) -> Duration {
        static BEGUN: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
        BEGUN.elapsed()
    }
}

/// What a turn's time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timeline {
    /// The steady clock plus this, in milliseconds.
    Steady(i64),
    /// The wall clock, whatever it does.
    Wall,
}

/// The time of each turn that waits.
#[derive(Debug)]
pub(crate) struct Timelines {
    clock: Arc<dyn Clock>,
    /// That of all turns which have none of their own: the wall clock as it was at the start.
    base: i64,
    own: Mutex<HashMap<TurnId, Timeline>>,
}

impl Timelines {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let base = offset(&*clock);
        Self { clock, base, own: Mutex::default() }
    }

    /// What time it is for a turn.
    pub(crate) fn now(&self, turn: &TurnId) -> Timestamp {
        match self.own(|own| own.get(turn).copied()) {
            None => self.steady_plus(self.base),
            Some(Timeline::Steady(offset)) => self.steady_plus(offset),
            Some(Timeline::Wall) => self.clock.wall(),
        }
    }

    /// A turn that waits for nothing yet begins to: its times are those of the wall clock as it is now.
    pub(crate) fn begin(&self, turn: &TurnId) {
        let offset = offset(&*self.clock);
        let has_jumped = offset.saturating_sub(self.base).saturating_abs() > NO_JUMP;
        self.set(turn, has_jumped.then_some(Timeline::Steady(offset)));
    }

    /// A turn waits until a time of day, which the wall clock decides.
    pub(crate) fn follow_wall(&self, turn: &TurnId) {
        self.set(turn, Some(Timeline::Wall));
    }

    /// A turn is over.
    pub(crate) fn forget(&self, turn: &TurnId) {
        self.set(turn, None);
    }

    /// How many turns have a timeline of their own.
    pub(crate) fn count(&self) -> usize {
        self.own(|own| own.len())
    }

    fn set(&self, turn: &TurnId, timeline: Option<Timeline>) {
        self.own(|own| match timeline {
            Some(timeline) if own.len() < MAX_OWN || own.contains_key(turn) => {
                own.insert(turn.clone(), timeline);
            }
            Some(_) => {}
            None => {
                own.remove(turn);
            }
        });
    }

    fn steady_plus(&self, offset: i64) -> Timestamp {
        Timestamp(millis(self.clock.steady()).saturating_add(offset))
    }

    fn own<T>(&self, with: impl FnOnce(&mut HashMap<TurnId, Timeline>) -> T) -> T {
        with(&mut self.own.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How far the wall clock is ahead of the steady one, in milliseconds.
fn offset(clock: &dyn Clock) -> i64 {
    clock.wall().millis().saturating_sub(millis(clock.steady()))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Whether the wall clock can be believed: it has gone evenly, as the steady one does. Looked at from time to time.
#[derive(Debug)]
pub(crate) struct Evenness {
    clock: Arc<dyn Clock>,
    offset: i64,
    /// Since when, by the steady clock.
    since: Duration,
    has_jumped: bool,
}

/// What a look at both clocks shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Even {
    /// What time it is by the wall clock.
    pub(crate) now: Timestamp,
    /// For how long the wall clock has not jumped ahead since the process began.
    pub(crate) even_for: Duration,
    /// Whether it has jumped ahead since then. The times that were noted before the jump are wrong against it; at a start
    /// nobody knows that.
    pub(crate) has_jumped: bool,
}

impl Evenness {
    /// How far the wall clock may get ahead between two looks.
    const TOLERANCE: i64 = 60_000;

    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let (offset, since) = (offset(&*clock), clock.steady());
        Self { clock, offset, since, has_jumped: false }
    }

    /// Looks at both clocks.
    pub(crate) fn look(&mut self) -> Even {
        let now = offset(&*self.clock);
        let ahead = now.saturating_sub(self.offset);
        self.offset = now;
        let steady = self.clock.steady();
        if ahead > Self::TOLERANCE {
            let message = "the clock has jumped ahead; retention deletes nothing until its times have passed since";
            tracing::warn!(seconds = ahead / 1000, "{message}");
            (self.since, self.has_jumped) = (steady, true);
        }
        let even_for = steady.saturating_sub(self.since);
        Even { now: self.clock.wall(), even_for, has_jumped: self.has_jumped }
    }
}
