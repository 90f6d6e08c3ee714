//! A model provider that speaks OpenAI's wire at a set pace. Each delta tells when it was sent.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body_util::StreamBody;
use hyper::{Response, body::Frame, header, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::{
    net::TcpListener,
    sync::watch,
    time::{Instant as TimerInstant, sleep_until},
};

/// How every answer ends.
const END: &str = concat!(
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"paced\",\"choices\":",
    "[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"paced\",\"choices\":",
    "[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,\"total_tokens\":2}}\n\n",
    "data: [DONE]\n\n",
);

/// What it says.
#[derive(Clone, Copy)]
pub(crate) struct Script {
    /// How many turns will ask. They get their deltas at different moments.
    pub(crate) turns: usize,
    /// How many deltas each is given.
    pub(crate) deltas: usize,
    /// The time between two deltas of a turn.
    pub(crate) every: Duration,
}

/// A provider that holds its answers back until it is told to begin.
pub(crate) struct FakeModel {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    script: Script,
    clock: Clock,
    asked: watch::Sender<usize>,
    begin: watch::Sender<Option<Instant>>,
}

/// What sender and readers tell the time by.
#[derive(Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn now(self) -> Duration {
        self.0.elapsed()
    }
}

impl FakeModel {
    /// Listens, on the runtime that this is called on.
    pub(crate) async fn start(script: Script) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (asked, begin) = (watch::Sender::new(0), watch::Sender::new(None));
        let shared = Arc::new(Shared { script, clock: Clock(Instant::now()), asked, begin });
        tokio::spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self { address, shared })
    }

    /// What makes it the model of the agent `paced`.
    pub(crate) fn config(&self) -> String {
        format!(
            r#"
[providers.fake]
kind = "openai"
base_url = "http://{}/v1"
context_window = 1000000

[[agents]]
name = "paced"
model = "fake/paced"
titles = false
"#,
            self.address
        )
    }

    pub(crate) fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Waits until it has been asked so often.
    pub(crate) async fn asked(&self, times: usize) -> anyhow::Result<()> {
        let mut asked = self.shared.asked.subscribe();
        asked.wait_for(|asked| *asked >= times).await?;
        Ok(())
    }

    /// Begins to speak, from the instant that is given back.
    pub(crate) fn begin(&self) -> Instant {
        let now = Instant::now();
        self.shared.begin.send_replace(Some(now));
        now
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) -> anyhow::Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(move |_request| {
                let mut response = Response::new(StreamBody::new(Box::pin(answer(Arc::clone(&shared)))));
                let kind = header::HeaderValue::from_static("text/event-stream");
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                async move { Ok::<_, Infallible>(response) }
            });
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

fn answer(shared: Arc<Shared>) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
    let Script { turns, deltas, every } = shared.script;
    let mut turn = 0;
    shared.asked.send_modify(|asked| {
        turn = *asked;
        *asked += 1;
    });
    let phase = every.mul_f64(turn as f64 / turns as f64);
    stream::unfold((0, None), move |(sent, begin)| {
        let shared = Arc::clone(&shared);
        async move {
            let begin = match begin {
                Some(begin) => begin,
                None => (*shared.begin.subscribe().wait_for(Option::is_some).await.ok()?)?,
            };
            let bytes = if sent < deltas {
                sleep_until(TimerInstant::from_std(begin + phase + every.mul_f64(sent as f64))).await;
                delta(shared.clock.now())
            } else if sent == deltas {
                Bytes::from_static(END.as_bytes())
            } else {
                return None;
            };
            Some((Ok(Frame::data(bytes)), (sent + 1, Some(begin))))
        }
    })
}

fn delta(now: Duration) -> Bytes {
    let nanos = now.as_nanos();
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"paced\",\
         \"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{nanos} \"}},\"finish_reason\":null}}]}}\n\n"
    )
    .into()
}

/// When the deltas in a frame of the native view were sent, if it is one of them.
pub(crate) fn sent(data: &str) -> impl Iterator<Item = Duration> {
    let content = data.strip_prefix("{\"type\":\"delta\",\"content\":\"").unwrap_or_default();
    let stamps = content.strip_suffix("\"}").unwrap_or_default().split_ascii_whitespace();
    stamps.filter_map(|stamp| stamp.parse().ok()).map(Duration::from_nanos)
}
