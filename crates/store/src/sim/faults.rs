//! The ways in which a simulated store fails.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use everturn_core::TurnId;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::sync::watch;

use crate::{Command, StoreError};

/// What becomes of a batch whose commit fails. The caller cannot tell the two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It was not kept.
    Lost,
    /// It was kept; only the answer is missing.
    Kept,
}

pub(super) fn unavailable() -> StoreError {
    StoreError::Unavailable("simulated".to_owned())
}

/// What a store is told to do wrong.
#[derive(Debug)]
pub(super) struct Switches {
    plan: Mutex<Plan>,
    gate: watch::Sender<bool>,
    held: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Plan {
    next: VecDeque<Fault>,
    random: Option<(StdRng, u32)>,
    out: bool,
    damaged: HashSet<TurnId>,
}

impl Default for Switches {
    fn default() -> Self {
        Self { plan: Mutex::default(), gate: watch::Sender::new(false), held: watch::Sender::new(0) }
    }
}

impl Switches {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_out(&self) -> bool {
        self.plan().out
    }

    /// Fails at a turn whose rows are damaged.
    pub(super) fn check(&self, turn: &TurnId) -> Result<(), StoreError> {
        let is_damaged = self.plan().damaged.contains(turn);
        if is_damaged { Err(StoreError::Corrupt("simulated".to_owned())) } else { Ok(()) }
    }

    /// Fails at a command that needs the rows of a damaged turn.
    pub(super) fn check_command(&self, command: &Command) -> Result<(), StoreError> {
        let turn = match command {
            Command::Append(append) => &append.turn,
            Command::ResumeTurn(resume) => &resume.turn,
            Command::EndTurn(end) => &end.turn,
            Command::ReplaceLog(replace) => &replace.turn,
            Command::CreateSession(_)
            | Command::BeginTurn(_)
            | Command::TruncateSession(_)
            | Command::Put(_)
            | Command::DeleteSession(_)
            | Command::ForgetDeleted { .. } => return Ok(()),
        };
        self.check(turn)
    }

    pub(super) fn next_fault(&self) -> Option<Fault> {
        let mut plan = self.plan();
        if plan.out {
            return Some(Fault::Lost);
        }
        if let Some(fault) = plan.next.pop_front() {
            return Some(fault);
        }
        let (random, one_in) = plan.random.as_mut()?;
        let fails = random.random_ratio(1, *one_in);
        fails.then(|| if random.random() { Fault::Kept } else { Fault::Lost })
    }

    pub(super) async fn pass_gate(&self) {
        let mut gate = self.gate.subscribe();
        if !*gate.borrow_and_update() {
            return;
        }
        let _held = Held::new(&self.held);
        // The sender lives as long as this borrow, so waiting cannot fail.
        let _ = gate.wait_for(|closed| !*closed).await;
    }

    pub(super) fn release(&self) {
        self.gate.send_replace(false);
    }
}

/// Counts a commit as held until it passes or its future is dropped.
struct Held<'a>(&'a watch::Sender<usize>);

impl<'a> Held<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|held| *held += 1);
        Self(count)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held -= 1);
    }
}

/// The switches of a [`super::SimStore`].
#[derive(Clone, Copy, Debug)]
pub struct Faults<'a> {
    switches: &'a Switches,
}

impl<'a> Faults<'a> {
    pub(super) fn new(switches: &'a Switches) -> Self {
        Self { switches }
    }

    /// Lets the next `count` commits fail.
    pub fn fail_next(&self, count: usize, fault: Fault) {
        self.switches.plan().next.extend(std::iter::repeat_n(fault, count));
    }

    /// Lets one commit in `one_in` fail, at random, of either kind. The same seed gives the same failures.
    pub fn fail_randomly(&self, seed: u64, one_in: u32) {
        self.switches.plan().random = Some((StdRng::seed_from_u64(seed), one_in.max(1)));
    }

    /// From now on everything fails and nothing is kept, reads included, until [`Faults::stop`].
    pub fn outage(&self) {
        self.switches.plan().out = true;
    }

    /// Damages what is kept of a turn: its log cannot be read, and batches with commands for it fail.
    pub fn damage(&self, turn: &TurnId) {
        self.switches.plan().damaged.insert(turn.clone());
    }

    /// Ends all failing. The gate stays as it is.
    pub fn stop(&self) {
        *self.switches.plan() = Plan::default();
    }

    /// Closes the gate: commits wait before they do anything.
    pub fn hold(&self) {
        self.switches.gate.send_replace(true);
    }

    /// Opens the gate.
    pub fn release(&self) {
        self.switches.release();
    }

    /// Waits until `count` commits, or more, wait at the gate.
    pub async fn held(&self, count: usize) {
        let mut held = self.switches.held.subscribe();
        // The sender lives as long as this borrow, so waiting cannot fail.
        let _ = held.wait_for(|held| *held >= count).await;
    }
}
