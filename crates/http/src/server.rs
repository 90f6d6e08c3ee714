//! The accept loop.

use std::{sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long a client may take to send its request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How much of a request's head, and of an answer that the client does not take, is kept in memory.
const BUFFER: usize = 32 * 1024;
/// How long to wait after the system refused to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Bounds on connections.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// How many may be open; others wait to be accepted.
    pub limit: usize,
}

/// Serves until `stop`, then lets open connections finish their answers. Returns when all are done; the caller puts a
/// deadline on that.
pub async fn serve(listener: TcpListener, app: Router, connections: Connections, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(connections.limit));
    let tasks = TaskTracker::new();
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(BUFFER);
    builder.http2().timer(TokioTimer::new());
    let builder = Arc::new(builder);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            slot = Arc::clone(&slots).acquire_owned() => tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept() => accepted.map(|(socket, _)| (socket, slot)),
            },
        };
        let (socket, slot) = match accepted {
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
        let (builder, service, stop) = (Arc::clone(&builder), TowerToHyperService::new(app.clone()), stop.clone());
        tasks.spawn(async move {
            // A client that connects and says nothing must not keep its place.
            let spoke = tokio::select! {
                readable = tokio::time::timeout(HEAD_TIMEOUT, socket.readable()) => readable.is_ok(),
                () = stop.cancelled() => false,
            };
            if !spoke {
                return;
            }
            let connection = builder.serve_connection_with_upgrades(TokioIo::new(socket), service);
            let mut connection = Box::pin(connection);
            let served = tokio::select! {
                served = connection.as_mut() => served,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = served {
                tracing::debug!(error, "a connection ended early");
            }
            drop(slot);
        });
    }
    tasks.close();
    tasks.wait().await;
}
