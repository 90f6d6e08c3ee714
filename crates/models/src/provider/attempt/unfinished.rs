//! What calls found out that were interrupted by a rate limit or a fault: the next attempt of the same turn goes on from there.
//!
//! Without it, a provider with a tight rate would be asked the same for ever.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use super::{Attempt, search::Search};
use crate::provider::{adapt::Changes, learned::Learned};

/// The most sessions of one provider of which something is kept.
const MOST: usize = 1024;

/// What a call had found out when it was interrupted.
#[derive(Clone, Debug)]
struct Found {
    learned: Learned,
    changes: Changes,
    search: Search,
    has_asked_again: bool,
    has_searched_media: bool,
    tool_searches: usize,
}

/// What interrupted calls had found out, by the session and the model that they were made for.
#[derive(Debug, Default)]
pub(in crate::provider) struct Unfinished(Mutex<HashMap<(String, String), Found>>);

impl Unfinished {
    /// Keeps what a call has found out.
    pub(super) fn keep(&self, attempt: &Attempt) {
        let (Some(key), true) = (attempt.request.cache_key.clone(), attempt.has_found_something()) else { return };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST {
            kept.clear();
        }
        let found = Found {
            learned: attempt.learned.clone(),
            changes: attempt.changes.clone(),
            search: attempt.search,
            has_asked_again: attempt.has_asked_again,
            has_searched_media: attempt.has_searched_media,
            tool_searches: attempt.tool_searches,
        };
        kept.insert((key, attempt.model.clone()), found);
    }

    fn take(&self, attempt: &Attempt) -> Option<Found> {
        let key = (attempt.request.cache_key.clone()?, attempt.model.clone());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key)
    }
}

impl Attempt {
    fn has_found_something(&self) -> bool {
        self.changes.count > 0 || self.has_asked_again || self.search != Search::default()
    }

    /// Takes up what the attempt before this one had found out. What an earlier call of the session left is forgotten.
    pub(super) fn go_on_from_unfinished(&mut self) {
        let caller = std::sync::Arc::clone(&self.caller);
        let found = caller.unfinished.take(self);
        let Some(found) = found.filter(|_| self.request.attempt > 0) else { return };
        let Found { learned, changes, search, has_asked_again, has_searched_media, tool_searches } = found;
        (self.learned, self.changes, self.search) = (learned, changes, search);
        (self.has_asked_again, self.has_searched_media, self.tool_searches) =
            (has_asked_again, has_searched_media, tool_searches);
    }
}
