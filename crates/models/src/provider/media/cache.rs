//! Images that were looked at before: each step of a turn sends all of them again.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use sha2::{Digest as _, Sha256};

use super::{Limits, convert::Outcome};

/// The most bytes that are kept, of all providers together.
pub(super) const MAX_BYTES: usize = 64 * 1024 * 1024;
/// What an entry takes besides its image.
const ENTRY_BYTES: usize = 128;

/// An image and what it is converted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn of(url: &str, limits: Limits) -> Self {
        let Limits { types, side, bytes } = limits;
        let mut digest = Sha256::new();
        digest.update(format!("{types:?} {side} {bytes} "));
        digest.update(url);
        Self(digest.finalize().into())
    }
}

/// Outcomes by image, the latest used. Bounded.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<Key, Entry>,
    bytes: usize,
    /// Counts uses.
    now: u64,
}

#[derive(Debug)]
struct Entry {
    outcome: Outcome,
    used: u64,
}

impl Cache {
    pub(super) fn get(&self, key: &Key) -> Option<Outcome> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.now += 1;
        let now = entries.now;
        let entry = entries.by_key.get_mut(key)?;
        entry.used = now;
        Some(entry.outcome.clone())
    }

    pub(super) fn put(&self, key: Key, outcome: Outcome) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.now += 1;
        entries.bytes += size(&outcome);
        let entry = Entry { outcome, used: entries.now };
        if let Some(earlier) = entries.by_key.insert(key, entry) {
            entries.bytes -= size(&earlier.outcome);
        }
        if entries.bytes > MAX_BYTES {
            entries.shrink();
        }
    }
}

impl Entries {
    /// Keeps the entries used last, up to half of the bytes, so that this is rare.
    fn shrink(&mut self) {
        let mut used: Vec<(u64, usize)> =
            self.by_key.values().map(|entry| (entry.used, size(&entry.outcome))).collect();
        used.sort_unstable_by(|a, b| b.cmp(a));
        let mut bytes = 0;
        let mut oldest = self.now;
        for (used, size) in used {
            if bytes + size > MAX_BYTES / 2 {
                break;
            }
            (bytes, oldest) = (bytes + size, used);
        }
        self.by_key.retain(|_, entry| entry.used >= oldest);
        self.bytes = self.by_key.values().map(|entry| size(&entry.outcome)).sum();
    }
}

fn size(outcome: &Outcome) -> usize {
    ENTRY_BYTES
        + match outcome {
            Outcome::Same => 0,
            Outcome::Converted(url) => url.len(),
            Outcome::LeftOut(reason) => reason.len(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_images_used_last_are_kept() {
        let limits = Limits { types: &[], side: 1, bytes: 1 };
        let key = |n: usize| Key::of(&n.to_string(), limits);
        let cache = Cache::default();
        let image = || Outcome::Converted("x".repeat(1024 * 1024).into());
        for n in 0..60 {
            cache.put(key(n), image());
        }
        assert!(cache.get(&key(0)).is_some());
        for n in 60..70 {
            cache.put(key(n), image());
        }
        let kept: Vec<usize> = (0..70).filter(|n| cache.get(&key(*n)).is_some()).collect();
        assert!(kept.contains(&0) && kept.contains(&69) && !kept.contains(&1), "{kept:?}");
        assert!(cache.0.lock().unwrap().bytes < MAX_BYTES);
    }
}
