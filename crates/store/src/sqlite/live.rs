//! The turns that run, kept in memory: what an append is judged by, and where its events lie in `log`.
//!
//! The writer stages its changes beside the published ones and publishes them once they are durable, so that a batch
//! that fails leaves nothing behind and readers never see what may still be taken back.
//!
//! A reader looks here first and opens its snapshot of the database after. So the database it sees is at least as new
//! as what it saw here: a row of `log` named here is there still, or was gathered into `chunks`, or was deleted with
//! its session.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use everturn_core::TurnId;

/// Where a row of `log` is, and what it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct HotRow {
    pub(super) id: i64,
    pub(super) first_seq: u64,
    pub(super) bytes: u64,
}

/// What an append to a running turn is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// Row of the turn.
    pub(super) turn: i64,
    /// Row of its session.
    pub(super) session: i64,
    pub(super) epoch: u64,
    /// Seq of the last event.
    pub(super) head: u64,
    /// How much of it is in `log`.
    pub(super) load: Load,
}

/// How much of a turn is in `log`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    pub(super) rows: usize,
    pub(super) bytes: u64,
}

/// A turn that runs.
#[derive(Clone, Debug)]
pub(super) struct RunningTurn {
    pub(super) standing: Standing,
    /// Its rows of `log`, in order.
    pub(super) rows: Vec<HotRow>,
}

/// The turns that run, as of the last commit.
#[derive(Debug, Default)]
pub(super) struct LiveTurns {
    turns: RwLock<HashMap<TurnId, RunningTurn>>,
}

impl LiveTurns {
    pub(super) fn new(turns: HashMap<TurnId, RunningTurn>) -> Self {
        Self { turns: RwLock::new(turns) }
    }

    /// Seq of the last durable event, if the turn runs.
    pub(super) fn head(&self, turn: &TurnId) -> Option<u64> {
        let turns = self.turns.read().unwrap_or_else(PoisonError::into_inner);
        turns.get(turn).map(|running| running.standing.head)
    }

    /// The first row of `log` that a running turn still needs.
    pub(super) fn first_row(&self) -> Option<i64> {
        let turns = self.turns.read().unwrap_or_else(PoisonError::into_inner);
        turns.values().filter_map(|running| running.rows.first()).map(|row| row.id).min()
    }

    /// The turns with the oldest rows, the first of which is before row `end`; `count` at most.
    pub(super) fn oldest(&self, end: i64, count: usize) -> Vec<TurnId> {
        let turns = self.turns.read().unwrap_or_else(PoisonError::into_inner);
        let mut oldest: Vec<(i64, &TurnId)> = turns
            .iter()
            .filter_map(|(turn, running)| Some((running.rows.first()?.id, turn)))
            .filter(|(first, _)| *first < end)
            .collect();
        // There may be many, and few are wanted.
        if oldest.len() > count {
            oldest.select_nth_unstable(count);
            oldest.truncate(count);
        }
        oldest.sort_unstable();
        oldest.into_iter().map(|(_, turn)| turn.clone()).collect()
    }

    /// The rows that hold events after `seq`, as many as `max_bytes` call for. None if the turn does not run.
    pub(super) fn rows(&self, turn: &TurnId, seq: u64, max_bytes: u64) -> Vec<HotRow> {
        let turns = self.turns.read().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = turns.get(turn) else { return Vec::new() };
        let from = running.rows.partition_point(|row| row.first_seq <= seq.saturating_add(1)).saturating_sub(1);
        let mut total = 0;
        let mut rows = Vec::new();
        for row in &running.rows[from..] {
            if !rows.is_empty() && total >= max_bytes {
                break;
            }
            total += row.bytes;
            rows.push(*row);
        }
        rows
    }
}

/// What a batch has done to a turn so far.
#[derive(Debug)]
enum Change {
    Running {
        standing: Standing,
        /// Whether the published rows are still its own, before the new ones.
        keeps_rows: bool,
        rows: Vec<HotRow>,
    },
    /// It rests, or is deleted.
    Gone,
}

/// The changes of one batch.
#[derive(Debug)]
pub(super) struct Staged<'a> {
    published: &'a LiveTurns,
    changes: HashMap<TurnId, Change>,
}

impl<'a> Staged<'a> {
    pub(super) fn new(published: &'a LiveTurns) -> Self {
        Self { published, changes: HashMap::new() }
    }

    /// Where the turn stands, if it runs.
    pub(super) fn standing(&self, turn: &TurnId) -> Option<Standing> {
        match self.changes.get(turn) {
            Some(Change::Running { standing, .. }) => Some(*standing),
            Some(Change::Gone) => None,
            None => {
                let turns = self.published.turns.read().unwrap_or_else(PoisonError::into_inner);
                turns.get(turn).map(|running| running.standing)
            }
        }
    }

    /// The turn's rows of `log`, in order.
    pub(super) fn rows(&self, turn: &TurnId) -> Vec<HotRow> {
        let published = || {
            let turns = self.published.turns.read().unwrap_or_else(PoisonError::into_inner);
            turns.get(turn).map(|running| running.rows.clone()).unwrap_or_default()
        };
        match self.changes.get(turn) {
            Some(Change::Running { keeps_rows, rows, .. }) => {
                let mut all = if *keeps_rows { published() } else { Vec::new() };
                all.extend(rows);
                all
            }
            Some(Change::Gone) => Vec::new(),
            None => published(),
        }
    }

    /// The turn begins to run, with no rows yet.
    pub(super) fn start(&mut self, turn: &TurnId, standing: Standing) {
        self.changes.insert(turn.clone(), Change::Running { standing, keeps_rows: false, rows: Vec::new() });
    }

    /// Another owner has it.
    pub(super) fn set_epoch(&mut self, turn: &TurnId, new_epoch: u64) {
        if let Some(Change::Running { standing, .. }) = self.change(turn) {
            standing.epoch = new_epoch;
        }
    }

    /// A row was added. Tells how much of the turn is in `log` now.
    pub(super) fn add_row(&mut self, turn: &TurnId, row: HotRow, new_head: u64) -> Load {
        let Some(Change::Running { standing, rows, .. }) = self.change(turn) else { return Load::default() };
        standing.head = new_head;
        standing.load.rows += 1;
        standing.load.bytes += row.bytes;
        rows.push(row);
        standing.load
    }

    /// Its rows were gathered; it runs on.
    pub(super) fn clear_rows(&mut self, turn: &TurnId) {
        if let Some(Change::Running { standing, keeps_rows, rows }) = self.change(turn) {
            standing.load = Load::default();
            *keeps_rows = false;
            rows.clear();
        }
    }

    /// It rests, or is deleted.
    pub(super) fn stop(&mut self, turn: &TurnId) {
        self.changes.insert(turn.clone(), Change::Gone);
    }

    fn change(&mut self, turn: &TurnId) -> Option<&mut Change> {
        if !self.changes.contains_key(turn) {
            let standing = self.standing(turn)?;
            self.changes.insert(turn.clone(), Change::Running { standing, keeps_rows: true, rows: Vec::new() });
        }
        self.changes.get_mut(turn)
    }

    /// Makes the changes visible. Only after they are durable.
    pub(super) fn publish(self) {
        let mut turns = self.published.turns.write().unwrap_or_else(PoisonError::into_inner);
        for (turn, change) in self.changes {
            match change {
                Change::Gone => {
                    turns.remove(&turn);
                }
                Change::Running { standing, keeps_rows, rows } => match turns.get_mut(&turn) {
                    Some(running) => {
                        running.standing = standing;
                        if !keeps_rows {
                            running.rows.clear();
                        }
                        running.rows.extend(rows);
                    }
                    None => {
                        turns.insert(turn, RunningTurn { standing, rows });
                    }
                },
            }
        }
    }
}
