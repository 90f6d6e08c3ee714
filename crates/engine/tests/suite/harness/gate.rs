//! A place where something waits until a test lets it go on.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

/// Longer than any turn takes. The clock is paused, so that waiting in vain costs no time.
const FOREVER: Duration = Duration::from_secs(2 * 3600);

/// Waits for something that must happen; fails the test if it does not.
pub(crate) async fn in_time<T>(what: &str, awaited: impl Future<Output = T>) -> T {
    match tokio::time::timeout(FOREVER, awaited).await {
        Ok(value) => value,
        Err(_elapsed) => panic!("the test waits in vain: {what}"),
    }
}

/// Waits until something is so.
pub(crate) async fn until(condition: impl AsyncFn() -> bool) {
    for _ in 0..100_000 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the test waits in vain for its condition");
}

/// Clones are the same gate.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    open: watch::Sender<bool>,
    waiting: watch::Sender<usize>,
}

impl Gate {
    pub(crate) fn closed() -> Self {
        Self(Arc::new(Inner { open: watch::Sender::new(false), waiting: watch::Sender::new(0) }))
    }

    pub(crate) fn open(&self) {
        self.0.open.send_replace(true);
    }

    pub(crate) fn close(&self) {
        self.0.open.send_replace(false);
    }

    /// Waits until the gate is open.
    pub(crate) async fn pass(&self) {
        let _counted = Counted::new(&self.0.waiting);
        self.0.open.subscribe().wait_for(|open| *open).await.expect("the gate outlives this borrow");
    }

    /// Waits until so many wait at the gate.
    pub(crate) async fn waiting(&self, count: usize) {
        let mut waiting = self.0.waiting.subscribe();
        let outcome = in_time("for others at a gate", waiting.wait_for(|waiting| *waiting == count)).await;
        outcome.expect("the gate outlives this borrow");
    }
}

/// Counts one more for as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted(watch::Sender<usize>);

impl Counted {
    pub(crate) fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
