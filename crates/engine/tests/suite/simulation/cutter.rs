//! Clients that cut: they fork their sessions and go on with the fork, or take back what was said.

use std::sync::Mutex;

use everturn_core::SessionId;
use everturn_engine::{Cut, CutError, Engine};
use rand::{Rng as _, rngs::StdRng};

use super::client::Client;

/// Forks or truncates a session, at any place.
pub(super) async fn cut(engine: &Engine, client: &Mutex<Client>, session: &SessionId, rng: &mut StdRng) {
    let tenant = client.lock().unwrap().tenant.clone();
    let Ok(said) = engine.conversation(&tenant, session).await else { return };
    let cut = match (rng.random_range(0..4), said.get(rng.random_range(0..said.len() + 1))) {
        (0 | 1, Some(one)) => Cut::Before(one.id.clone()),
        (2, Some(one)) => Cut::Through(one.id.turn.clone()),
        _ => Cut::Nothing,
    };
    let outcome = if rng.random() {
        let forked = engine.fork(&tenant, session, cut, None).await;
        forked.map(|fork| client.lock().unwrap().session = Some(fork))
    } else {
        // Whatever comes of it: the store may fail and have kept it.
        client.lock().unwrap().truncated.push(session.clone());
        engine.truncate(&tenant, session, cut, None).await
    };
    match outcome {
        Ok(()) | Err(CutError::Busy | CutError::Store(_) | CutError::Read(_) | CutError::Stop(_)) => {}
        Err(
            error @ (CutError::NotFound
            | CutError::NoMessage { .. }
            | CutError::KeyReused { .. }
            | CutError::Quota(_)
            | CutError::Rejected(_)),
        ) => panic!("a good cut was refused: {error}"),
    }
}
