//! Row 5: how long a delta takes from the model to its reader, with many turns at a human pace.

use std::{path::Path, time::Duration};

use futures_util::future::try_join_all;
use serde_json::json;

use crate::{
    fake_model::{Clock, FakeModel, Script, sent},
    reader::{Reader, frames, runtime, within},
    report::{Better, Report, Row},
    rows::{folder_beside, progress},
    server::Server,
    yardstick::{quantile, raw_fsync},
};

const TURNS: usize = 500;
const EVERY: Duration = Duration::from_millis(50);
const TIME: Duration = Duration::from_secs(10);
/// The first deltas are not counted.
const WARM_UP: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);

/// When a delta was sent, and how long it took.
type Delivery = (Duration, Duration);

pub(crate) fn measure(everturn: &Path, report: &mut Report) -> anyhow::Result<()> {
    progress("500 turns at 20 deltas a second each");
    let (folder, runtime) = (folder_beside(everturn)?, runtime()?);
    let deltas = (TIME.as_secs_f64() / EVERY.as_secs_f64()) as usize;
    let model = runtime.block_on(FakeModel::start(Script { turns: TURNS, deltas, every: EVERY }))?;
    let server = Server::start_with(everturn, folder.path(), &model.config())?;
    let mut client = server.client()?;
    let begin = json!({ "agent_id": "paced", "message": "go" });
    let turns = (0..TURNS).map(|_| client.spawn(&begin)).collect::<anyhow::Result<Vec<_>>>()?;
    // The disk changes its mood: measured right here.
    let fsync = raw_fsync(folder.path())?.as_secs_f64() * 1e3;

    let (deliveries, counted_from, cores) = runtime.block_on(async {
        let open = turns.iter().map(|turn| Reader::open(server.address, turn, None));
        let readers = within(PATIENCE, "opening the readers", try_join_all(open)).await?;
        within(PATIENCE, "all turns ask the model", model.asked(TURNS)).await?;
        let clock = model.clock();
        let following: Vec<_> = readers.into_iter().map(|reader| tokio::spawn(follow(reader, clock))).collect();
        let begin = model.begin();
        tokio::time::sleep_until((begin + WARM_UP).into()).await;
        let (counted_from, before) = (clock.now(), server.cpu()?);
        tokio::time::sleep_until((begin + TIME).into()).await;
        let cores = (server.cpu()? - before).as_secs_f64() / (clock.now() - counted_from).as_secs_f64();
        let mut deliveries = Vec::with_capacity(TURNS * deltas);
        for reader in following {
            let seen = within(PATIENCE, "a turn ends", async { reader.await? }).await?;
            anyhow::ensure!(seen.len() == deltas, "a reader was given {} deltas of {deltas}", seen.len());
            deliveries.extend(seen);
        }
        anyhow::Ok((deliveries, counted_from, cores))
    })?;

    let counted = deliveries.into_iter().filter(|(sent, _)| *sent >= counted_from);
    let mut times: Vec<f64> = counted.map(|(_, took)| took.as_secs_f64() * 1e3).collect();
    let (p50, value) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99));
    let because = format!("6 × raw fsync ({fsync:.2} ms) + 10 ms; p50 {p50:.2} ms");
    let (what, goal) = ("model to reader, 500 turns at 20/s: p99", 6.0 * fsync + 10.0);
    report.rows.push(Row { number: "5", what, value, unit: "ms", goal, better: Better::Less, because });
    let (what, because) = ("server CPU, 500 turns at 20 deltas/s", "less than one core".to_owned());
    report.rows.push(Row { number: "5", what, value: cores, unit: "core", goal: 1.0, better: Better::Less, because });
    Ok(())
}

async fn follow(mut reader: Reader, clock: Clock) -> anyhow::Result<Vec<Delivery>> {
    let mut seen = Vec::new();
    while let Some(chunk) = reader.next().await? {
        let now = clock.now();
        for frame in frames(chunk)? {
            seen.extend(sent(frame.data).map(|sent| (sent, now - sent)));
        }
    }
    Ok(seen)
}
