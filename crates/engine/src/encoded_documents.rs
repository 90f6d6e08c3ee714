//! Images and PDF files as models are given them, in base64: encoded once, and shared by the steps of a turn, by turns, and by
//! sessions.
//!
//! A document never changes, so what is kept of it stays right until it is deleted. Whether it is still there, the store is
//! asked first.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use everturn_core::{DocumentId, SharedText, TenantId};

use crate::Reservation;

/// The most bytes that are kept.
const ROOM: u64 = 64 * 1024 * 1024;

/// What is kept. The one that was used least lately goes first.
#[derive(Debug)]
pub(crate) struct EncodedDocuments(Mutex<Kept>);

type Name = (TenantId, DocumentId);

#[derive(Debug)]
struct Kept {
    documents: HashMap<Name, (SharedText, u64)>,
    /// By when they were last used.
    by_use: BTreeMap<u64, Name>,
    uses: u64,
    bytes: u64,
    /// The bytes, as part of all memory.
    memory: Reservation,
}

impl EncodedDocuments {
    pub(crate) fn new(memory: Reservation) -> Self {
        let (documents, by_use) = (HashMap::new(), BTreeMap::new());
        Self(Mutex::new(Kept { documents, by_use, uses: 0, bytes: 0, memory }))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, tenant: &TenantId, id: &DocumentId) -> Option<SharedText> {
        let name = (tenant.clone(), id.clone());
        let mut kept = self.lock();
        let text = kept.remove(&name)?;
        kept.add(name, text.clone());
        Some(text)
    }

    pub(crate) fn put(&self, tenant: &TenantId, id: &DocumentId, text: SharedText) {
        let name = (tenant.clone(), id.clone());
        let mut kept = self.lock();
        kept.remove(&name);
        if text.len() as u64 <= ROOM {
            kept.add(name, text);
            kept.make_room();
        }
    }

    /// What was deleted is not kept here either.
    pub(crate) fn forget(&self, tenant: &TenantId, id: &DocumentId) {
        let mut kept = self.lock();
        kept.remove(&(tenant.clone(), id.clone()));
        kept.make_room();
    }
}

impl Kept {
    fn add(&mut self, name: Name, text: SharedText) {
        self.uses += 1;
        self.bytes += text.len() as u64;
        self.by_use.insert(self.uses, name.clone());
        self.documents.insert(name, (text, self.uses));
    }

    fn remove(&mut self, name: &Name) -> Option<SharedText> {
        let (text, used) = self.documents.remove(name)?;
        self.by_use.remove(&used);
        self.bytes -= text.len() as u64;
        Some(text)
    }

    /// Requests come first: what they leave of the memory of all is for documents that nobody may use again.
    fn make_room(&mut self) {
        while self.bytes > ROOM || self.memory.try_resize(self.bytes).is_err() {
            let Some((_, oldest)) = self.by_use.first_key_value() else { break };
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryBudget, MemoryKind, memory::MemoryMetrics};

    #[test]
    fn those_used_last_are_kept_within_what_is_free() {
        const MB: usize = 1024 * 1024;
        let budget = MemoryBudget::new(100 * MB as u64, MemoryMetrics::default());
        let documents = EncodedDocuments::new(budget.of_cache(MemoryKind::Images));
        let tenant: TenantId = "acme".parse().unwrap();
        let ids: Vec<DocumentId> = (0..4).map(|_| DocumentId::mint()).collect();
        let put = |id: &DocumentId| documents.put(&tenant, id, "x".repeat(20 * MB).into());
        ids[..3].iter().for_each(put);
        assert!(documents.get(&tenant, &ids[0]).is_some());
        put(&ids[3]);
        let is_kept = |id| documents.get(&tenant, id).is_some();
        assert_eq!([&ids[0], &ids[1], &ids[2], &ids[3]].map(is_kept), [true, false, true, true]);
        assert!(documents.get(&"other".parse().unwrap(), &ids[0]).is_none(), "it is another tenant's");
        // Requests take all but a little.
        let other = budget.of(&"other".parse().unwrap());
        let _held =
            [other.reserve(MemoryKind::Bodies, 25 * MB as u64), other.reserve(MemoryKind::Bodies, 12 * MB as u64)];
        documents.forget(&tenant, &ids[0]);
        assert!(!is_kept(&ids[0]));
        documents.put(&tenant, &ids[0], "x".repeat(30 * MB).into());
        assert!(documents.lock().bytes <= 64 * MB as u64);
    }
}
