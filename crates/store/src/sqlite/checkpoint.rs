//! Moves the write-ahead log into the database file, beside the commits rather than within them.
//!
//! A thread of its own copies while the writer goes on committing. SQLite begins the log anew only when a commit finds
//! nothing left to copy, which under steady load does not happen by itself; so when the log has grown long, the writer
//! waits for the thread and copies the little that it has left over. A disk that cannot keep up slows the commits down
//! rather than filling up.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI32, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use rusqlite::Connection;

use super::open::{Role, connect};

/// Pages in the log after which the thread copies, and how many more until it does so again.
const COPY_EVERY: i32 = 1_000;

/// Pages in the log after which the writer takes a hand (32 MiB).
const LONG: i32 = 8_000;

/// Watches the write-ahead log of one connection.
#[derive(Debug)]
pub(super) struct Checkpointer {
    pages: Arc<AtomicI32>,
    copied_at: i32,
    /// Held by whoever copies: SQLite lets one at a time, and turns the other away.
    copying: Arc<Mutex<()>>,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Begins to watch the writer's connection.
    pub(super) fn start(path: &Path, writer: &mut Connection) -> rusqlite::Result<Self> {
        let pages = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&pages);
        writer.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, count| {
            seen.store(count, Ordering::Relaxed);
            Ok(())
        }))?;
        let connection = connect(path, Role::Checkpointer)?;
        let (wake, woken) = sync_channel::<()>(1);
        let copying = Arc::new(Mutex::new(()));
        let theirs = Arc::clone(&copying);
        let thread = std::thread::Builder::new().name("everturn-checkpoint".to_owned()).spawn(move || {
            while woken.recv().is_ok() {
                copy(&connection, &theirs);
            }
        });
        // Without the thread the writer does all the copying, later and in larger pieces.
        let thread = thread.inspect_err(|error| tracing::warn!(%error, "cannot start the checkpoint thread")).ok();
        Ok(Self { pages, copied_at: 0, copying, wake: Some(wake), thread })
    }

    /// To be called after a commit, when its outcome has been told.
    pub(super) fn after_commit(&mut self, writer: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.copied_at {
            self.copied_at = 0;
        }
        if pages - self.copied_at < COPY_EVERY {
            return;
        }
        self.copied_at = pages;
        if pages >= LONG {
            copy(writer, &self.copying);
        } else if let Some(wake) = &self.wake {
            // Full means that it is about to copy anyway.
            let _ = wake.try_send(());
        }
    }

    /// Has the log copied though it is short.
    pub(super) fn copy_soon(&mut self) {
        self.copied_at = self.pages.load(Ordering::Relaxed);
        if let Some(wake) = &self.wake {
            let _ = wake.try_send(());
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Copies what no reader stands in the way of. What fails now is tried again after more commits.
fn copy(connection: &Connection, copying: &Mutex<()>) {
    let _alone = copying.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
        tracing::warn!(%error, "cannot move the write-ahead log into the database");
    }
}
