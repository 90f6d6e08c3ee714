//! Requests that an SDK sends again by itself, because the connection broke or took too long.
//!
//! The SDKs do not name their requests, but they count their attempts. So a turn whose answer was not delivered is kept in
//! mind, and the next attempt at the very same request is shown that turn instead of beginning another. A first attempt
//! is another request: whoever makes it has given up the ones before. What we forget here, and what a restart of the server
//! makes us forget, an `Idempotency-Key` would have kept.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use everturn_core::{CommandId, TenantId};
use everturn_engine::SubmissionKey;
use everturn_http::named_submission;
use http::{HeaderMap, HeaderName};

/// How many attempts the SDK made before this one.
const RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");
/// How many requests are kept in mind.
const MAX_KEPT: usize = 10_000;
/// For how long: longer than the SDKs wait for an answer.
const KEPT: Duration = Duration::from_secs(3600);
/// For how long after the connection was lost: the SDKs wait for 8 s at most before their next attempt.
const LOST: Duration = Duration::from_secs(15);

/// The requests whose answers were not delivered yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempts(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// By what is asked.
    requests: HashMap<String, Vec<Request>>,
    /// Oldest first; some may be gone.
    order: VecDeque<(Instant, String, String)>,
}

#[derive(Debug)]
struct Request {
    name: String,
    /// Since when nobody waits for its answer any more.
    lost: Option<Instant>,
}

impl Request {
    /// Whether nobody will ask for its answer any more.
    fn is_given_up(&self, now: Instant) -> bool {
        self.lost.is_some_and(|lost| now.saturating_duration_since(lost) > LOST)
    }
}

impl Attempts {
    /// An attempt at a request; `None` for clients that do not count them.
    pub(crate) fn begin(&self, tenant: &TenantId, headers: &HeaderMap, body: &[u8]) -> Option<Attempt> {
        let count: u32 = headers.get(&RETRY_COUNT)?.to_str().ok()?.parse().ok()?;
        let asked = named_submission(String::new(), tenant.as_str(), body).fingerprint;
        let now = Instant::now();
        let mut kept = self.lock();
        kept.forget_old();
        let requests = kept.requests.entry(asked.clone()).or_default();
        requests.retain(|request| if count == 0 { request.lost.is_none() } else { !request.is_given_up(now) });
        // One that nobody waits for any more, or one whose connection we believe to be open still.
        let known = requests.iter().position(|request| request.lost.is_some());
        let known = known.or((!requests.is_empty()).then_some(0));
        let name = match known.filter(|_| count > 0) {
            Some(known) => {
                requests[known].lost = None;
                requests[known].name.clone()
            }
            None => {
                let name = format!("openai-attempt-{}", CommandId::mint());
                requests.push(Request { name: name.clone(), lost: None });
                kept.order.push_back((now, asked.clone(), name.clone()));
                name
            }
        };
        drop(kept);
        Some(Attempt { attempts: self.clone(), asked, name, open: true })
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn forget_old(&mut self) {
        while let Some((at, ..)) = self.order.front() {
            if self.order.len() <= MAX_KEPT && at.elapsed() < KEPT {
                return;
            }
            if let Some((_, asked, name)) = self.order.pop_front() {
                self.remove(&asked, &name);
            }
        }
    }

    fn remove(&mut self, asked: &str, name: &str) {
        if let Some(requests) = self.requests.get_mut(asked) {
            requests.retain(|request| request.name != name);
            if requests.is_empty() {
                self.requests.remove(asked);
            }
        }
    }
}

/// One attempt. Dropped before it is done with, it counts as lost.
#[derive(Debug)]
pub(crate) struct Attempt {
    attempts: Attempts,
    asked: String,
    name: String,
    open: bool,
}

impl Attempt {
    /// The key of what it submits.
    pub(crate) fn key(&self, operation: &str, body: &[u8]) -> SubmissionKey {
        named_submission(self.name.clone(), operation, body)
    }

    /// Its answer was given: the same request is another one from now on.
    pub(crate) fn done(&mut self) {
        self.open = false;
        self.attempts.lock().remove(&self.asked, &self.name);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.open
            && let Some(requests) = self.attempts.lock().requests.get_mut(&self.asked)
        {
            let own = requests.iter_mut().filter(|request| request.name == self.name);
            own.for_each(|request| request.lost = Some(Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(attempts: &Attempts, count: &str, body: &str) -> Attempt {
        let headers = HeaderMap::from_iter([(RETRY_COUNT, count.parse().unwrap())]);
        attempts.begin(&TenantId::local(), &headers, body.as_bytes()).unwrap()
    }

    #[test]
    fn an_attempt_goes_on_where_the_last_one_was_lost() {
        let attempts = Attempts::default();
        let (first, other) = (attempt(&attempts, "0", "a"), attempt(&attempts, "0", "a"));
        assert_ne!(first.name, other.name, "two requests that ask the same are two");
        let name = other.name.clone();
        drop(other);
        let mut again = attempt(&attempts, "1", "a");
        assert_eq!(again.name, name, "the lost one, not the one under way");
        again.done();
        // One whose connection is gone without our noticing.
        assert_eq!(attempt(&attempts, "1", "a").name, first.name);
        assert_ne!(attempt(&attempts, "1", "b").name, first.name, "it never came here");
    }

    #[test]
    fn what_was_delivered_is_over() {
        let attempts = Attempts::default();
        let mut first = attempt(&attempts, "0", "a");
        first.done();
        let name = first.name.clone();
        drop(first);
        assert_ne!(attempt(&attempts, "2", "a").name, name);
        assert!(attempts.begin(&TenantId::local(), &HeaderMap::new(), b"a").is_none());
    }

    #[test]
    fn what_was_given_up_is_over() {
        let attempts = Attempts::default();
        let lost = |body: &str| {
            let attempt = attempt(&attempts, "0", body);
            attempt.name.clone()
        };
        // A first attempt is another request, whatever becomes of it.
        let name = lost("a");
        attempt(&attempts, "0", "a").done();
        assert_ne!(attempt(&attempts, "1", "a").name, name);
        // So is one that comes later than any SDK does.
        let name = lost("b");
        for request in attempts.lock().requests.values_mut().flatten() {
            request.lost = request.lost.and_then(|lost| lost.checked_sub(LOST + Duration::from_secs(1)));
        }
        assert_ne!(attempt(&attempts, "1", "b").name, name);
    }

    #[test]
    fn what_is_kept_in_mind_is_bounded() {
        let attempts = Attempts::default();
        for body in 0..MAX_KEPT + 10 {
            drop(attempt(&attempts, "0", &body.to_string()));
        }
        assert!(attempts.lock().requests.len() <= MAX_KEPT + 1);
    }
}
