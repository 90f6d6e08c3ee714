//! Row 8: what it costs to show one turn to many readers.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::try_join_all;
use serde_json::json;

use crate::{
    client::Turn,
    fake_model::{FakeModel, Script},
    reader::{Reader, frames, runtime, within},
    report::{Better, Figure, Report, Row},
    rows::{folder_beside, progress},
    server::Server,
    yardstick::raw_fan_out,
};

const READERS: usize = 1000;
const DELTAS: usize = 500;
/// Slow enough for all readers to follow delta by delta: those who lag are given several at once, which is cheaper.
const EVERY: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn measure(everturn: &Path, report: &mut Report) -> anyhow::Result<()> {
    progress("one turn, 1,000 readers");
    let (folder, runtime) = (folder_beside(everturn)?, runtime()?);
    let model = runtime.block_on(FakeModel::start(Script { turns: 1, deltas: DELTAS, every: EVERY }))?;
    let server = Server::start_with(everturn, folder.path(), &model.config())?;
    let turn = server.client()?.spawn(&json!({ "agent_id": "paced", "message": "go" }))?;

    let transcript = Arc::new(Transcript::default());
    let (cpu, counts) = runtime.block_on(async {
        within(PATIENCE, "the turn asks the model", model.asked(1)).await?;
        let open = (0..READERS).map(|_| Follower::attach(&server, &turn, &transcript));
        let attached = within(PATIENCE, "opening the readers", try_join_all(open)).await?;
        let readers = server.readers()?;
        anyhow::ensure!(readers == READERS, "the server has {readers} readers, not {READERS}");
        let following: Vec<_> = attached.into_iter().map(|follower| tokio::spawn(follower.follow())).collect();
        let before = server.cpu()?;
        model.begin();
        let done = async { try_join_all(following).await?.into_iter().collect::<anyhow::Result<Vec<_>>>() };
        let counts = within(PATIENCE, "all readers reach the turn's end", done).await?;
        anyhow::Ok((server.cpu()? - before, counts))
    })?;

    for Counts { deltas, ended, .. } in &counts {
        anyhow::ensure!(*deltas == DELTAS && *ended, "a reader was given {deltas} deltas of {DELTAS}");
    }
    let sum = |count: fn(&Counts) -> usize| counts.iter().map(count).sum::<usize>() as f64;
    let (frames, chunks) = (sum(|counts| counts.frames), sum(|counts| counts.chunks));
    let value = cpu.as_secs_f64() * 1e6 / frames;
    let raw = raw_fan_out(READERS, 150, EVERY)?;
    report
        .yardsticks
        .push(Figure { name: "raw write, a frame to each of 1,000 readers: CPU", value: raw, unit: "µs" });
    let because = format!("{:.2} frames a write; a bare write {raw:.2} µs", frames / chunks);
    let what = "one turn, 1,000 readers: CPU per frame";
    report.rows.push(Row { number: "8", what, value, unit: "µs", goal: 8.0, better: Better::Less, because });
    Ok(())
}

/// What the readers were shown. Whoever is ahead writes it, the others compare.
#[derive(Default)]
struct Transcript(Mutex<Vec<u8>>);

impl Transcript {
    fn agrees(&self, at: usize, part: &[u8]) -> bool {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = shown.len().saturating_sub(at).min(part.len());
        let agrees = shown.get(at..at + known) == Some(&part[..known]);
        shown.extend_from_slice(&part[known..]);
        agrees
    }
}

/// A reader that compares what it is shown with what the others were.
struct Follower {
    reader: Reader,
    transcript: Arc<Transcript>,
    at: usize,
}

/// What a reader was given.
#[derive(Default)]
struct Counts {
    chunks: usize,
    frames: usize,
    deltas: usize,
    started: bool,
    ended: bool,
}

impl Follower {
    /// Opens a reader and waits until it has seen the beginning of the turn.
    async fn attach(server: &Server, turn: &Turn, transcript: &Arc<Transcript>) -> anyhow::Result<Self> {
        let reader = Reader::open(server.address, turn, None).await?;
        let (mut follower, mut counts) =
            (Self { reader, transcript: Arc::clone(transcript), at: 0 }, Counts::default());
        while !counts.started {
            anyhow::ensure!(follower.next(&mut counts).await?, "a stream ended before the turn had begun");
        }
        Ok(follower)
    }

    /// Reads to the end of the turn.
    async fn follow(mut self) -> anyhow::Result<Counts> {
        let mut counts = Counts::default();
        while self.next(&mut counts).await? {}
        Ok(counts)
    }

    /// Takes one chunk. False at the end.
    async fn next(&mut self, counts: &mut Counts) -> anyhow::Result<bool> {
        let Some(chunk) = self.reader.next().await? else { return Ok(false) };
        anyhow::ensure!(self.transcript.agrees(self.at, chunk), "readers of one turn were shown different frames");
        self.at += chunk.len();
        counts.chunks += 1;
        for frame in frames(chunk)? {
            counts.frames += 1;
            match frame.kind() {
                "start" => counts.started = true,
                "delta" => counts.deltas += 1,
                "complete" => counts.ended = true,
                _ => {}
            }
        }
        Ok(true)
    }
}
