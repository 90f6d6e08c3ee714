//! How long a call may take: a time without a sign of life, and a time in all.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use everturn_core::EffectClass;
use tokio::{sync::watch, time::Instant};

/// The two limits of one call. Time in which the call waits for a person counts for neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimit {
    /// How long the call may go without a sign of life.
    pub silence: Duration,
    /// How long the call may take in all, however lively it is.
    pub total: Duration,
}

/// Which limit a call has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedOut {
    /// [`TimeLimit::silence`].
    Silent(Duration),
    /// [`TimeLimit::total`].
    TooLong(Duration),
}

impl TimedOut {
    /// What the model is told of a call that timed out. The call may have had its effect, or still have it.
    pub fn told(self, effect: EffectClass) -> String {
        if effect.may_repeat() {
            format!("Tool call timed out: {self}. You may call it again")
        } else {
            format!("Tool call timed out: {self}. Whether it had its effect is unknown; check before you call it again")
        }
    }
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(limit) => write!(f, "it gave no sign of life for {limit:?}, which is its limit (`timeout`)"),
            Self::TooLong(limit) => write!(f, "it took {limit:?} in all, which is its limit (`max_timeout`)"),
        }
    }
}

/// When a call last gave a sign of life. Cheap to clone; all clones are of the same call.
#[derive(Clone, Debug)]
pub struct LifeSign(Arc<Mutex<Instant>>);

impl Default for LifeSign {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl LifeSign {
    pub(crate) fn give(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// The last sign.
    pub fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TimeLimit {
    /// Waits for a call within these limits. `asking` says whether the call waits for a person; once its sender is gone,
    /// nobody watches the call any more, and whoever drops the future ends it.
    pub async fn hold<T>(
        self,
        life: &LifeSign,
        mut asking: watch::Receiver<bool>,
        call: impl Future<Output = T>,
    ) -> Result<T, TimedOut> {
        let mut call = std::pin::pin!(call);
        // Time that counted, up to `since`.
        let (mut spent, mut since) = (Duration::ZERO, Instant::now());
        loop {
            let waits = *asking.borrow_and_update();
            let end = since + self.total.saturating_sub(spent);
            let silent_at = life.last().max(since) + self.silence;
            tokio::select! {
                biased;
                value = &mut call => return Ok(value),
                changed = asking.changed() => {
                    let now = Instant::now();
                    if !waits {
                        spent += now - since;
                    }
                    // A question, and its answer, are signs of life.
                    since = now;
                    if changed.is_err() {
                        return Ok(call.await);
                    }
                }
                () = tokio::time::sleep_until(end.min(silent_at)), if !waits => {
                    let now = Instant::now();
                    if now >= end {
                        return Err(TimedOut::TooLong(self.total));
                    }
                    if now >= life.last().max(since) + self.silence {
                        return Err(TimedOut::Silent(self.silence));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: TimeLimit = TimeLimit { silence: Duration::from_secs(10), total: Duration::from_secs(60) };

    /// Holds a call that gives a sign of life after each of these seconds and then takes some more.
    async fn held(signs: &[u64], rest: u64) -> (Result<(), TimedOut>, u64) {
        let life = LifeSign::default();
        let (_asking, is_asking) = watch::channel(false);
        let begun = Instant::now();
        let call = async {
            for seconds in signs {
                tokio::time::sleep(Duration::from_secs(*seconds)).await;
                life.give();
            }
            tokio::time::sleep(Duration::from_secs(rest)).await;
        };
        (LIMIT.hold(&life, is_asking, call).await, begun.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_extend_a_call_up_to_its_total() {
        assert_eq!(held(&[], 9).await, (Ok(()), 9));
        assert_eq!(held(&[], 11).await, (Err(TimedOut::Silent(LIMIT.silence)), 10));
        assert_eq!(held(&[9, 9, 9], 9).await, (Ok(()), 36));
        assert_eq!(held(&[9, 9, 9], 11).await, (Err(TimedOut::Silent(LIMIT.silence)), 37));
        assert_eq!(held(&[9; 10], 1).await, (Err(TimedOut::TooLong(LIMIT.total)), 60));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_person_counts_for_neither_limit() {
        let life = LifeSign::default();
        let (asking, is_asking) = watch::channel(false);
        let call = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(9)).await;
                asking.send_replace(true);
                tokio::time::sleep(Duration::from_secs(3600)).await;
                asking.send_replace(false);
            }
            tokio::time::sleep(Duration::from_secs(9)).await;
        };
        assert_eq!(LIMIT.hold(&life, is_asking, call).await, Ok(()));
    }

    #[test]
    fn the_limit_is_named_with_its_value() {
        let silent = TimedOut::Silent(Duration::from_millis(300)).to_string();
        assert_eq!(silent, "it gave no sign of life for 300ms, which is its limit (`timeout`)");
        let long = TimedOut::TooLong(Duration::from_secs(3600)).to_string();
        assert_eq!(long, "it took 3600s in all, which is its limit (`max_timeout`)");
    }

    #[test]
    fn only_what_may_run_twice_is_called_again() {
        let told = |effect| TimedOut::Silent(Duration::from_secs(600)).told(effect);
        for safe in [EffectClass::ReadOnly, EffectClass::Idempotent] {
            assert!(told(safe).ends_with("(`timeout`). You may call it again"), "{}", told(safe));
        }
        let unknown = told(EffectClass::Effectful);
        assert!(unknown.contains("Whether it had its effect is unknown; check before"), "{unknown}");
    }
}
