//! The open connections. Where there is no room for another, the one that has been without a request for longest goes, so
//! that clients who say nothing keep nobody out. Where all of them are at work, a few more are let in to ask how the server is.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::activity::Activity;

/// Connections beyond the limit, for operators.
pub(crate) const RESERVED: usize = 64;
/// How soon to look again whether a connection has ended its request.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// All open connections.
#[derive(Debug)]
pub(crate) struct Crowd {
    limit: usize,
    next: AtomicU64,
    open: Mutex<BTreeMap<u64, Guest>>,
    left: Notify,
}

/// An open connection, as the others see it.
#[derive(Clone, Debug)]
struct Guest {
    activity: Arc<Activity>,
    asked_to_leave: CancellationToken,
}

/// A connection's place. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    crowd: Arc<Crowd>,
    number: u64,
    pub(crate) activity: Arc<Activity>,
    /// Cancelled when another connection needs the place.
    pub(crate) asked_to_leave: CancellationToken,
    /// Whether it is one of the few that are let in to ask how the server is.
    pub(crate) is_reserved: bool,
}

impl Crowd {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit: limit.max(1), next: AtomicU64::new(0), open: Mutex::default(), left: Notify::new() })
    }

    /// A place for one more connection.
    pub(crate) async fn enter(self: &Arc<Self>) -> Place {
        loop {
            let left = self.left.notified();
            if let Some(place) = self.find_place() {
                return place;
            }
            let _ = timeout(LOOK_AGAIN, left).await;
        }
    }

    fn find_place(self: &Arc<Self>) -> Option<Place> {
        let mut open = self.open();
        // Those who were asked to leave are on their way out.
        let staying = |open: &BTreeMap<u64, Guest>| {
            open.len() - open.values().filter(|guest| guest.asked_to_leave.is_cancelled()).count()
        };
        let mut count = open.len();
        if count >= self.limit {
            count = staying(&open);
        }
        let mut is_reserved = false;
        if count >= self.limit {
            let idle = open.values().filter(|guest| !guest.asked_to_leave.is_cancelled());
            let longest =
                idle.filter_map(|guest| Some((guest.activity.idle_since()?, guest))).min_by_key(|(at, _)| *at);
            match longest {
                Some((_, guest)) => guest.asked_to_leave.cancel(),
                None if count < self.limit + RESERVED => is_reserved = true,
                None => return None,
            }
        }
        // They have their descriptors until they are gone.
        if open.len() >= self.limit + RESERVED {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let guest = Guest { activity: Activity::new(), asked_to_leave: CancellationToken::new() };
        let Guest { activity, asked_to_leave } = guest.clone();
        open.insert(number, guest);
        Some(Place { crowd: Arc::clone(self), number, activity, asked_to_leave, is_reserved })
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Guest>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.open().remove(&self.number);
        self.crowd.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_makes_room() {
        let crowd = Crowd::new(3);
        let busy = crowd.enter().await;
        let _request = busy.activity.request();
        let first = crowd.enter().await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        let second = crowd.enter().await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        // It had a request since the second one came.
        drop(first.activity.request());
        let newcomer = crowd.enter().await;
        let asked = [&busy, &first, &second, &newcomer].map(|place| place.asked_to_leave.is_cancelled());
        assert_eq!(asked, [false, false, true, false]);
        assert!(!newcomer.is_reserved);
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_are_at_work_a_few_more_may_ask_how_it_goes() {
        let crowd = Crowd::new(2);
        let mut busy = Vec::new();
        for number in 0..2 + RESERVED {
            let place = crowd.enter().await;
            assert_eq!(place.is_reserved, number >= 2);
            let request = place.activity.request();
            busy.push((request, place));
        }
        let mut next = Box::pin(crowd.enter());
        assert!(timeout(Duration::from_secs(60), next.as_mut()).await.is_err(), "there is no room");
        drop(busy.remove(0));
        assert!(next.await.is_reserved);
    }
}
