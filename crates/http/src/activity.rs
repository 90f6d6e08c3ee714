//! Whether a connection is of use to anybody: how many requests are under way on it, and since when there is none.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

/// What goes on in a connection.
#[derive(Debug)]
pub(crate) struct Activity {
    begun: Instant,
    requests: AtomicU64,
    under_way: AtomicUsize,
    /// When the last request ended, in milliseconds since the beginning.
    ended: AtomicU64,
}

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            begun: Instant::now(),
            requests: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
        })
    }

    /// Notes a request, which is under way until what this gives is dropped.
    pub(crate) fn request(self: &Arc<Self>) -> UnderWay {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(self))
    }

    /// Since when there is no request; `None` while there is one.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let is_idle = self.under_way.load(Ordering::Relaxed) == 0;
        is_idle.then(|| self.begun + Duration::from_millis(self.ended.load(Ordering::Relaxed)))
    }

    /// Waits until there is no request for so long, or none at all for `first`.
    pub(crate) async fn idle(&self, first: Duration, then: Duration) {
        loop {
            let patience = if self.requests.load(Ordering::Relaxed) == 0 { first } else { then };
            let quiet_at = match self.under_way.load(Ordering::Relaxed) {
                0 => self.begun + Duration::from_millis(self.ended.load(Ordering::Relaxed)) + patience,
                _ => Instant::now() + patience,
            };
            if quiet_at <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(quiet_at).await;
        }
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Activity>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let elapsed = u64::try_from(self.0.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.ended.store(elapsed, Ordering::Relaxed);
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of an answer, whose request is under way until it has been sent or given up.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) body: Body,
    pub(crate) _request: UnderWay,
}

impl HttpBody for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(30);
    const THEN: Duration = Duration::from_secs(120);

    async fn idle_after(activity: &Activity) -> u64 {
        let begun = Instant::now();
        activity.idle(FIRST, THEN).await;
        begun.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_soon_idle() {
        assert_eq!(idle_after(&Activity::new()).await, 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_request_is_not() {
        let activity = Activity::new();
        let (one, other) = (activity.request(), activity.request());
        drop(one);
        let hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, activity.idle(FIRST, THEN)).await.is_err());
        drop(other);
        assert_eq!(idle_after(&activity).await, 120);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_in_time_is_enough() {
        let activity = Activity::new();
        tokio::time::sleep(Duration::from_secs(29)).await;
        drop(activity.request());
        assert_eq!(idle_after(&activity).await, 120);
    }
}
