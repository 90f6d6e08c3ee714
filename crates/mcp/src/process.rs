//! The end of a server's process.

use std::{sync::Arc, time::Duration};

use tokio::{process::Child, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;

/// How long a guard may take to end everything; it has shorter times of its own.
const GUARD: Duration = Duration::from_secs(12);
/// How long its last words on standard error may take to be read once everybody is gone.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long after it was replaced calls may still begin on a connection.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// The guard of a process, and who reads its standard error.
pub(crate) type Guarded = (Child, JoinHandle<()>);

/// Waits for a guard, which ends as soon as its input does and nothing is left.
pub(crate) async fn end(guard: Option<Guarded>) -> Option<i32> {
    let (mut guard, errors) = guard?;
    drop(guard.stdin.take());
    let code = match tokio::time::timeout(GUARD, guard.wait()).await {
        Ok(status) => status.ok().and_then(|status| status.code()),
        Err(_) => {
            tracing::error!(target: "everturn::mcp", guard = guard.id(), "the guard of an MCP server does not end");
            None
        }
    };
    let _ = tokio::time::timeout(LAST_WORDS, errors).await;
    code
}

/// Ends a process that another has taken the place of, once its calls are over.
pub(crate) async fn retire(connection: Arc<Connection>, guard: Option<Guarded>, stop: CancellationToken) {
    let over = async {
        // Somebody who was given the connection may be about to call.
        tokio::time::sleep(LAST_CALLS).await;
        connection.ears.calls.idle().await;
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = connection.ears.link.broken() => {}
        () = over => {}
    }
    connection.close().await;
    end(guard).await;
}
