//! Readers that come and go, and never forget where they stood.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use everturn_core::{SessionId, TenantId, TurnId};
use everturn_engine::{Cursor, Engine, OpenError, ReadError};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::suite::harness::*;

/// One reader of one turn, across all its connections and all lives of the server.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) session: SessionId,
    pub(super) turn: TurnId,
    pub(super) frames: Vec<Frame>,
    pub(super) state: Progress,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Reading,
    /// It saw the turn's end.
    Done,
    /// The session was deleted.
    Gone,
}

impl Seen {
    pub(super) fn new(session: SessionId, turn: TurnId) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { session, turn, frames: Vec::new(), state: Progress::Reading }))
    }

    pub(super) fn cursor(&self) -> Cursor {
        self.frames.last().map(|frame| frame.cursor).unwrap_or_default()
    }
}

/// The readers of all turns.
pub(super) type Readers = Arc<Mutex<BTreeMap<TurnId, Vec<Arc<Mutex<Seen>>>>>>;

/// Reads on until the turn has ended, is gone, or the server dies.
pub(super) async fn follow(engine: Engine, tenant: TenantId, seen: Arc<Mutex<Seen>>, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let (session, turn) = {
        let seen = seen.lock().unwrap();
        (seen.session.clone(), seen.turn.clone())
    };
    loop {
        tokio::time::sleep(Duration::from_millis(rng.random_range(1..300))).await;
        let cursor = seen.lock().unwrap().cursor();
        // By any door: some streams end where the turn rests, others do not.
        let projection = [&FRAMES, &PATIENT, &ASKING, &PAUSING][rng.random_range(0..4)];
        let mut reader = match engine.read_turn(&tenant, &session, &turn, projection, cursor).await {
            Ok(Some(reader)) => reader,
            // It is over, and all of it was seen.
            Ok(None) => {
                seen.lock().unwrap().state = Progress::Done;
                return;
            }
            Err(OpenError::NotFound) => {
                seen.lock().unwrap().state = Progress::Gone;
                return;
            }
            Err(OpenError::Store(_) | OpenError::Read(_)) => continue,
            Err(OpenError::Part { cursor }) => panic!("{cursor:?} was given to a reader, but there is no such part"),
            Err(OpenError::Cursor { head }) => panic!("{cursor:?} was given to a reader, but the log ends at {head}"),
        };
        // Hangs up after a while, or never.
        let mut patience = if rng.random() { rng.random_range(1..5) } else { usize::MAX };
        loop {
            match reader.next().await {
                Ok(Some(bytes)) => {
                    let mut frames = parse_frames(&bytes);
                    // A connection may break between any two frames.
                    patience = patience.saturating_sub(frames.len());
                    if patience == 0 {
                        frames.truncate(rng.random_range(0..=frames.len()));
                    }
                    seen.lock().unwrap().frames.extend(frames);
                    if patience == 0 {
                        break;
                    }
                }
                Ok(None) | Err(ReadError::Store(_)) => break,
                Err(error @ (ReadError::Corrupt(_) | ReadError::Memory(_))) => panic!("{error}"),
            }
        }
        let mut seen = seen.lock().unwrap();
        if seen.frames.last().is_some_and(Frame::ends_turn) {
            seen.state = Progress::Done;
            return;
        }
    }
}
