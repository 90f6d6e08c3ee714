//! Which tools of a server ask questions, as far as their calls have shown.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// What the last call of a tool has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Habit {
    /// It was not called yet, or not answered.
    #[default]
    Unknown,
    /// It asks nothing.
    Quiet,
    /// It asks, or may have.
    Asks,
}

/// The habits of a server's tools. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Habits(Arc<Mutex<HashMap<String, Habit>>>);

impl Habits {
    /// What is known of a tool.
    pub(crate) fn of(&self, tool: &str) -> Habit {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(tool).copied().unwrap_or_default()
    }

    /// A call of it has shown this.
    pub(crate) fn learn(&self, tool: &str, habit: Habit) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(tool.to_owned(), habit);
    }
}
