//! The accept loop.

use std::{sync::Arc, time::Duration};

use axum::Router;
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{connection::Door, proxies::Proxies, tls::Tls};

/// How long to wait after the system refused to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How connections are taken.
#[derive(Clone, Debug)]
pub struct Connections {
    /// How many may be open; others wait to be accepted.
    pub limit: usize,
    /// What https is spoken with; without it, http is.
    pub tls: Option<Tls>,
    /// The proxies that are believed when they say whom they speak for.
    pub proxies: Proxies,
}

/// Serves until `stop`, then lets open connections finish their answers. Returns when all are done; the caller puts a
/// deadline on that.
pub async fn serve(listener: TcpListener, app: Router, connections: Connections, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(connections.limit));
    let tasks = TaskTracker::new();
    let door = Door::new(app, connections.tls, connections.proxies, stop.clone());
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            slot = Arc::clone(&slots).acquire_owned() => tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept() => accepted.map(|(socket, peer)| (socket, peer, slot)),
            },
        };
        let (socket, peer, slot) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, or a client that left at once: neither ends the server.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Frames are small and must not wait for more.
        let _ = socket.set_nodelay(true);
        let door = Arc::clone(&door);
        tasks.spawn(async move {
            door.serve(socket, peer).await;
            drop(slot);
        });
    }
    tasks.close();
    tasks.wait().await;
}
