//! A receiver that does as it is told.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Instant,
};

use axum::{Router, body::Bytes, response::Response};
use http::HeaderMap;
use serde_json::Value;
use tokio::{net::TcpListener, runtime::Runtime};

use crate::suite::harness::eventually;

/// A message that came.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) at: Instant,
}

impl Delivery {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What a receiver does with a message.
#[derive(Clone, Debug)]
pub(super) enum Reaction {
    /// Answers with this status and these headers.
    Answer(u16, Vec<(&'static str, String)>),
    /// Never answers.
    Hang,
}

impl Reaction {
    pub(super) fn status(status: u16) -> Self {
        Self::Answer(status, Vec::new())
    }
}

type React = dyn FnMut(&Delivery) -> Reaction + Send;

/// A receiver. It is gone when it goes out of scope.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    deliveries: Arc<Mutex<Vec<Delivery>>>,
    react: Arc<Mutex<Box<React>>>,
    runtime: Option<Runtime>,
}

impl Receiver {
    /// One that takes everything.
    pub(super) fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap())
    }

    pub(super) fn at(address: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let address = listener.local_addr().unwrap();
        let deliveries = Arc::new(Mutex::new(Vec::new()));
        let react: Arc<Mutex<Box<React>>> = Arc::new(Mutex::new(Box::new(|_| Reaction::status(204))));
        let (kept, reacts) = (Arc::clone(&deliveries), Arc::clone(&react));
        let app = Router::new().fallback(async move |headers: HeaderMap, body: Bytes| {
            let delivery = Delivery { headers, body, at: Instant::now() };
            let reaction = (reacts.lock().unwrap())(&delivery);
            kept.lock().unwrap().push(delivery);
            match reaction {
                Reaction::Answer(status, headers) => {
                    let answer = Response::builder().status(status);
                    let answer = headers.into_iter().fold(answer, |answer, (name, value)| answer.header(name, value));
                    answer.body(axum::body::Body::from("whatever")).unwrap()
                }
                Reaction::Hang => std::future::pending().await,
            }
        });
        runtime.spawn(async { axum::serve(listener, app).await });
        Self { address, deliveries, react, runtime: Some(runtime) }
    }

    /// Does this from now on.
    pub(super) fn react(&self, react: impl FnMut(&Delivery) -> Reaction + Send + 'static) {
        *self.react.lock().unwrap() = Box::new(react);
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// What has come so far.
    pub(super) fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.lock().unwrap().clone()
    }

    /// Waits until this many have come.
    #[track_caller]
    pub(super) fn wait(&self, count: usize) -> Vec<Delivery> {
        eventually(&format!("{count} messages come"), || {
            Some(self.deliveries()).filter(|deliveries| deliveries.len() >= count)
        })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
