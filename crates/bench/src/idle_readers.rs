//! Row 7: what a reader costs that waits with its turn.

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, future::try_join_all, stream};
use serde_json::{Value, json};

use crate::{
    client::Turn,
    reader::{Reader, frames, runtime, within},
    report::{Better, Report, Row},
    rows::{folder_beside, progress},
    server::Server,
};

const TURNS: usize = 100;
const READERS: usize = 10_000;
/// How many of the turns go on in the end.
const ANSWERED: usize = 5;
/// How many readers connect at once.
const CONNECTING: usize = 64;
/// Longer than the server's silence before a heartbeat.
const PATIENCE: Duration = Duration::from_secs(60);

/// A turn that waits for an answer to its form.
struct Waiting {
    turn: Turn,
    form: String,
    /// The id of `paused`, the last frame.
    paused: String,
}

pub(crate) fn measure(everturn: &Path, report: &mut Report) -> anyhow::Result<()> {
    progress("10,000 idle readers of waiting turns");
    let (folder, runtime) = (folder_beside(everturn)?, runtime()?);
    let server = Server::start(everturn, folder.path())?;
    let mut client = server.client()?;
    let begin = json!({ "agent_id": "asking", "message": "ask me for a colour" });
    let turns = (0..TURNS).map(|_| client.spawn(&begin)).collect::<anyhow::Result<Vec<_>>>()?;
    let waiting = turns.into_iter().map(|turn| wait_for_form(server.address, turn));
    let waiting = runtime.block_on(within(PATIENCE, "all turns wait for their forms", try_join_all(waiting)))?;

    has_readers(&server, 0)?;
    let before = server.memory()? as f64;
    let mut readers = runtime.block_on(within(PATIENCE, "opening the readers", open(server.address, &waiting)))?;
    has_readers(&server, READERS)?;
    // It reaches only those who are attached, and they keep what memory it needs.
    let heartbeats = readers.iter_mut().map(|(index, reader)| heartbeat(reader, &waiting[*index].paused));
    runtime.block_on(within(PATIENCE, "a heartbeat for every reader", try_join_all(heartbeats)))?;
    has_readers(&server, READERS)?;
    let value = (server.memory()? as f64 - before) / 1024.0 / READERS as f64;

    for Waiting { turn, form, .. } in &waiting[..ANSWERED] {
        let answer = json!({ "session_id": turn.session, "form_id": form, "form_answer": { "colour": "green" } });
        let taken_up = client.spawn(&answer)?;
        ensure!(taken_up.turn == turn.turn, "the answer to {form} went to {}, not {}", taken_up.turn, turn.turn);
    }
    let (going_on, still): (Vec<_>, Vec<_>) = readers.into_iter().partition(|(index, _)| *index < ANSWERED);
    let rest = going_on.into_iter().map(|(_, reader)| to_the_end(reader));
    runtime.block_on(within(PATIENCE, "the readers of answered turns reach the end", try_join_all(rest)))?;
    has_readers(&server, still.len())?;

    let (what, because) = ("memory of one idle reader, of 10,000", String::new());
    report.rows.push(Row { number: "7", what, value, unit: "KiB", goal: 16.0, better: Better::Less, because });
    Ok(())
}

/// Reads a turn until it waits.
async fn wait_for_form(address: SocketAddr, turn: Turn) -> anyhow::Result<Waiting> {
    let mut reader = Reader::open(address, &turn, None).await?;
    let (mut form, mut paused) = (None, None);
    while let Some(chunk) = reader.next().await? {
        for frame in frames(chunk)? {
            match frame.kind() {
                "form_request" => {
                    let data: Value = serde_json::from_str(frame.data)?;
                    form = data["form_id"].as_str().map(str::to_owned);
                }
                "paused" => paused = Some(frame.id.to_owned()),
                _ => {}
            }
        }
    }
    let form = form.context("the turn asked for no form")?;
    Ok(Waiting { turn, form, paused: paused.context("the turn does not wait")? })
}

/// Opens all readers, each with the index of its turn.
async fn open(address: SocketAddr, waiting: &[Waiting]) -> anyhow::Result<Vec<(usize, Reader)>> {
    let readers = (0..READERS).map(|reader| async move {
        let index = reader % waiting.len();
        let Waiting { turn, paused, .. } = &waiting[index];
        anyhow::Ok((index, Reader::open(address, turn, Some(paused)).await?))
    });
    stream::iter(readers).buffer_unordered(CONNECTING).try_collect().await
}

/// Waits for a heartbeat. Nothing else may come while the turn waits.
async fn heartbeat(reader: &mut Reader, paused: &str) -> anyhow::Result<()> {
    loop {
        let chunk = reader.next().await?.context("the stream of a waiting turn ended")?;
        for frame in frames(chunk)? {
            match frame.kind() {
                "heartbeat" if frame.id == paused => return Ok(()),
                // The beginning of the stream, which is no event.
                "" => {}
                _ => anyhow::bail!("a reader of a waiting turn was shown {frame:?}"),
            }
        }
    }
}

/// Reads the rest of a turn that goes on.
async fn to_the_end(mut reader: Reader) -> anyhow::Result<()> {
    let mut complete = false;
    while let Some(chunk) = reader.next().await? {
        complete = frames(chunk)?.last().is_some_and(|frame| frame.kind() == "complete");
    }
    ensure!(complete, "the stream of a turn ended before the turn did");
    Ok(())
}

/// Waits until the server has so many readers; it learns late that one has gone.
fn has_readers(server: &Server, expected: usize) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let readers = server.readers()?;
        if readers == expected {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "the server has {readers} readers, not {expected}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
