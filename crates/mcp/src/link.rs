//! What the parts of one connection share: whether it still stands, and if not, why.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// A connection's state. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    broken: CancellationToken,
    reason: Mutex<Option<String>>,
    tools_changed: Notify,
    another_wanted: Notify,
}

impl Link {
    /// Says that it stands no more. The first reason counts.
    pub(crate) fn cut(&self, reason: impl Into<String>) {
        self.0.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason.into());
        self.0.broken.cancel();
    }

    /// Waits until it stands no more.
    pub(crate) fn broken(&self) -> WaitForCancellationFuture<'_> {
        self.0.broken.cancelled()
    }

    /// Why it stands no more, if so.
    pub(crate) fn reason(&self) -> Option<String> {
        self.0.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says that somebody needs a connection on which nobody else has left anything.
    pub(crate) fn want_another(&self) {
        self.0.another_wanted.notify_one();
    }

    /// Waits until somebody needs another connection.
    pub(crate) async fn another_wanted(&self) {
        self.0.another_wanted.notified().await;
    }

    /// Says that the server has other tools now.
    pub(crate) fn tools_have_changed(&self) {
        self.0.tools_changed.notify_one();
    }

    /// Waits until the server has other tools.
    pub(crate) async fn tools_changed(&self) {
        self.0.tools_changed.notified().await;
    }
}
