//! What the machine can do without us.

use std::{
    convert::Infallible,
    fs::File,
    io::Write as _,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::{Response, body::Frame, service::service_fn};
use hyper_util::{rt::TokioExecutor, rt::TokioIo, server::conn::auto};
use tokio::io::AsyncReadExt as _;

use crate::{reader::runtime, server::Server};

/// One frame, as long as those that the server sends for a delta of the load.
fn frame(index: usize) -> Bytes {
    format!("event: text_delta\nid: {index}\ndata: {{\"delta\":\"word {index} \"}}\n\n").into()
}

/// A bare hyper server that streams frames from memory, frame by frame.
pub(crate) fn serve_raw_sse(frames: usize) -> anyhow::Result<()> {
    let frames: std::sync::Arc<[Bytes]> = (0..frames).map(frame).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}", listener.local_addr()?);
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            let frames = frames.clone();
            tokio::spawn(async move {
                let service = service_fn(move |_request| {
                    let frames = frames.clone();
                    let body = stream::unfold(0, move |index| {
                        let next = frames.get(index).cloned();
                        async move { next.map(|bytes| (Ok::<_, Infallible>(Frame::data(bytes)), index + 1)) }
                    });
                    async move { Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(body)))) }
                });
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
            });
        }
    })
}

/// Frames a second that the bare server gives to the same client.
pub(crate) fn raw_sse(frames: usize, runs: usize) -> anyhow::Result<f64> {
    let this = std::env::current_exe()?;
    let begun = Instant::now();
    let child = Command::new(this).args(["raw-sse", &frames.to_string()]).stdout(Stdio::piped()).spawn()?;
    let server = Server::ready(child, begun, "/")?;
    let mut client = server.client()?;
    let mut rates = Vec::new();
    for _ in 0..runs {
        let answer = client.request("GET", "/", "")?;
        anyhow::ensure!(answer.frames == frames, "the yardstick gave {} frames", answer.frames);
        rates.push(frames as f64 / answer.whole.as_secs_f64());
    }
    Ok(median(&mut rates))
}

/// Median time of `fdatasync` after an append of 4 KiB.
pub(crate) fn raw_fsync(folder: &Path) -> anyhow::Result<Duration> {
    let mut file = File::create(folder.join("fsync"))?;
    let block = [7; 4096];
    let mut times = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        times.push(begun.elapsed().as_secs_f64());
    }
    Ok(Duration::from_secs_f64(median(&mut times)))
}

/// CPU time of writing a frame to each of many readers, over and over, in microseconds for one write: what no server can
/// do without.
pub(crate) fn raw_fan_out(readers: usize, rounds: u32, every: Duration) -> anyhow::Result<f64> {
    let runtime = runtime()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut sockets = Vec::with_capacity(readers);
    for _ in 0..readers {
        let reader = TcpStream::connect(listener.local_addr()?)?;
        reader.set_nonblocking(true)?;
        runtime.spawn(async move {
            let (mut reader, mut buffer) = (tokio::net::TcpStream::from_std(reader)?, [0; 2048]);
            while reader.read(&mut buffer).await? > 0 {}
            std::io::Result::Ok(())
        });
        let (socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        sockets.push(socket);
    }
    let (begun, before, bytes) = (Instant::now(), thread_cpu()?, frame(1_000_000));
    for round in 1..=rounds {
        for socket in &mut sockets {
            socket.write_all(&bytes)?;
        }
        std::thread::sleep((every * round).saturating_sub(begun.elapsed()));
    }
    let used = thread_cpu()? - before;
    Ok(used.as_secs_f64() * 1e6 / f64::from(rounds) / readers as f64)
}

/// CPU time that this thread has used.
fn thread_cpu() -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = stat.split(' ').next().and_then(|field| field.parse().ok()).context("schedstat")?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// The middle value.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value that this part of all values lies below.
pub(crate) fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len() as f64 * part) as usize).copied().unwrap_or_default()
}
