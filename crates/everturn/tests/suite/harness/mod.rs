//! Runs the real program in a folder of its own and talks to it over the network.

mod client;
pub(crate) mod contract;
mod model;
mod server;
mod shared;
mod transcript;

use std::{
    future::Future,
    sync::OnceLock,
    time::{Duration, Instant},
};

pub(crate) use client::{Answer, Client, Ended, Streaming};
pub(crate) use model::{Gate, Reply, asked, go_on, script};
pub(crate) use server::{Home, Server};
pub(crate) use shared::{PROVIDER_KEY, Shared, key, shared, shared_config};
pub(crate) use transcript::{Talk, check};

/// How long anything may take before a test gives up. Nothing that works comes near it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Where the harness does its own input and output.
pub(crate) fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap())
}

/// Waits for a future, within bounds.
#[track_caller]
fn block_on<F: Future>(future: F) -> F::Output {
    runtime().block_on(async { tokio::time::timeout(PATIENCE, future).await }).expect("it takes too long")
}

/// Looks again and again until there is something to see.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
