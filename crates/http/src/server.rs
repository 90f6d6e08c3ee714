//! The accept loop.

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use tokio::{net::TcpListener, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{connection::Door, crowd::Crowd, proxies::Proxies, tls::Tls};

/// How long to wait after the system refused to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Between two lines of the log about connections that cannot be accepted.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// How connections are taken.
#[derive(Clone, Debug)]
pub struct Connections {
    /// How many may be open. One more takes the place of one without a request, or is let in to ask how the server is.
    pub limit: usize,
    /// What https is spoken with; without it, http is.
    pub tls: Option<Tls>,
    /// The proxies that are believed when they say whom they speak for.
    pub proxies: Proxies,
}

/// Serves until `stop`, then lets open connections finish their answers. Returns when all are done; the caller puts a
/// deadline on that.
pub async fn serve(listener: TcpListener, app: Router, connections: Connections, stop: CancellationToken) {
    let crowd = Crowd::new(connections.limit);
    let mut trouble = Trouble::default();
    let tasks = TaskTracker::new();
    let door = Door::new(app, connections.tls, connections.proxies, stop.clone());
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, or a client that left at once: neither ends the server.
                trouble.tell(&error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let place = tokio::select! {
            () = stop.cancelled() => break,
            place = crowd.enter() => place,
        };
        // Frames are small and must not wait for more.
        let _ = socket.set_nodelay(true);
        let door = Arc::clone(&door);
        tasks.spawn(async move {
            door.serve(socket, peer, place).await;
        });
    }
    tasks.close();
    tasks.wait().await;
}

/// Connections that could not be accepted. One line of the log in a while tells of all of them.
#[derive(Debug, Default)]
struct Trouble {
    told: Option<Instant>,
    untold: u64,
}

impl Trouble {
    fn tell(&mut self, error: &io::Error) {
        if self.told.is_some_and(|told| told.elapsed() < BETWEEN_LINES) {
            self.untold += 1;
            return;
        }
        let since_the_last_line = std::mem::take(&mut self.untold);
        tracing::warn!(%error, since_the_last_line, "cannot accept a connection");
        self.told = Some(Instant::now());
    }
}
