//! What lies beside the turns: records, their blobs, and titles.

use std::collections::BTreeMap;

use bytes::Bytes;
use everturn_core::{SessionId, TenantId, Timestamp};

use super::state::{Name, State, Verdict};
use crate::{Put, Receipt, Record, RecordFilter, RecordKind, RecordRow, Refusal, Write};

pub(super) type RecordName = (TenantId, RecordKind, String);

/// A record with its content.
#[derive(Debug)]
pub(super) struct Kept {
    row: RecordRow,
    blobs: BTreeMap<u32, Bytes>,
}

impl Kept {
    /// The session that it belongs to.
    pub(super) fn session(&self) -> Option<Name> {
        let RecordRow { tenant, record, .. } = &self.row;
        record.session.as_ref().map(|session| (tenant.clone(), session.clone()))
    }

    /// Writes what may change of a record. What is there already is no change.
    fn change(&mut self, at: Timestamp, new: Record) {
        if self.row.record != new {
            self.row.record = new;
            self.row.revision += 1;
            self.row.updated_at = at;
        }
    }
}

impl State {
    /// The content of a tenant's records and the logs of its turns that do not run.
    pub(super) fn stored_bytes(&self, tenant: &TenantId) -> u64 {
        let records = self.records.iter().filter(|((owner, ..), _)| owner == tenant);
        let blobs = records.flat_map(|(_, kept)| kept.blobs.values()).map(|bytes| bytes.len() as u64);
        let turns = self.turns.values().filter(|turn| turn.session.0 == *tenant && turn.node.is_none());
        let logs = turns.flat_map(|turn| &turn.log).map(|segment| segment.bytes().len() as u64);
        blobs.chain(logs).sum()
    }

    pub(super) fn put(&mut self, put: &Put) -> Verdict {
        self.check_key(&put.tenant, put.key.as_ref(), put.at)?;
        self.check_writes(&put.tenant, &put.writes, None)?;
        for expect in &put.expects {
            if self.record(&put.tenant, expect.kind, &expect.id).map(|row| row.revision) != expect.revision {
                return Err(Refusal::Changed);
            }
        }
        self.write(&put.tenant, &put.writes, put.at);
        self.keep_key(&put.tenant, put.key.as_ref(), put.at);
        Ok(Receipt { epoch: 0, version: 0 })
    }

    /// Refuses writes that speak of a session that is not there. `own` is that of the command itself.
    pub(super) fn check_writes(
        &self,
        tenant: &TenantId,
        writes: &[Write],
        own: Option<&SessionId>,
    ) -> Result<(), Refusal> {
        let sessions = writes.iter().filter_map(Write::session);
        let is_there = |session: &SessionId| self.sessions.contains_key(&(tenant.clone(), session.clone()));
        let mut absent = sessions.filter(|session| own != Some(session) && !is_there(session));
        if absent.next().is_some() { Err(Refusal::NotFound) } else { Ok(()) }
    }

    pub(super) fn write(&mut self, tenant: &TenantId, writes: &[Write], at: Timestamp) {
        for write in writes {
            let name = |kind: &RecordKind, id: &String| (tenant.clone(), *kind, id.clone());
            match write {
                Write::Record(record) => self.write_record(name(&record.kind, &record.id), record, at),
                Write::Close { kind, id, state, outcome } => {
                    if let Some(kept) = self.records.get_mut(&name(kind, id)) {
                        let (state, outcome) = (state.clone(), outcome.clone());
                        kept.change(at, Record { state, outcome, ..kept.row.record.clone() });
                    }
                }
                Write::Remove { kind, id } => {
                    self.records.remove(&name(kind, id));
                }
                Write::Blob { kind, id, part, bytes } => {
                    if let Some(kept) = self.records.get_mut(&name(kind, id)) {
                        kept.blobs.insert(*part, bytes.clone());
                    }
                }
                Write::Title { session, title } => {
                    if let Some(session) = self.sessions.get_mut(&(tenant.clone(), session.clone())) {
                        session.title = Some(title.clone());
                    }
                }
                Write::Usage(used) => self.add_usage(tenant, used),
            }
        }
    }

    fn write_record(&mut self, name: RecordName, record: &Record, at: Timestamp) {
        if let Some(kept) = self.records.get_mut(&name) {
            let Record { session, turn, .. } = kept.row.record.clone();
            kept.change(at, Record { session, turn, ..record.clone() });
            return;
        }
        self.last_record += 1;
        let row = RecordRow {
            tenant: name.0.clone(),
            position: self.last_record,
            revision: 1,
            record: record.clone(),
            created_at: at,
            updated_at: at,
        };
        self.records.insert(name, Kept { row, blobs: BTreeMap::new() });
    }

    fn find(&self, tenant: &TenantId, kind: RecordKind, id: &str) -> Option<&Kept> {
        self.records.get(&(tenant.clone(), kind, id.to_owned()))
    }

    pub(super) fn record(&self, tenant: &TenantId, kind: RecordKind, id: &str) -> Option<RecordRow> {
        self.find(tenant, kind, id).map(|kept| kept.row.clone())
    }

    pub(super) fn blob(&self, tenant: &TenantId, kind: RecordKind, id: &str, part: u32) -> Option<Bytes> {
        self.find(tenant, kind, id).and_then(|kept| kept.blobs.get(&part)).cloned()
    }

    pub(super) fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        filter: &RecordFilter,
        below: Option<u64>,
        limit: usize,
    ) -> Vec<RecordRow> {
        let is_wanted = |row: &&RecordRow| {
            (&row.tenant, row.record.kind) == (tenant, kind)
                && below.is_none_or(|below| row.position < below)
                && filter.state.as_ref().is_none_or(|state| row.record.state == *state)
                && filter.session.as_ref().is_none_or(|session| row.record.session.as_ref() == Some(session))
        };
        let mut rows: Vec<&RecordRow> = self.records.values().map(|kept| &kept.row).filter(is_wanted).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.position));
        rows.into_iter().take(limit).cloned().collect()
    }

    pub(super) fn old_records(&self, kind: RecordKind, state: &str, before: Timestamp, limit: usize) -> Vec<RecordRow> {
        let rows = self.records.values().map(|kept| &kept.row);
        let wanted = |row: &&RecordRow| row.record.kind == kind && row.record.state == state && row.updated_at < before;
        let mut old: Vec<&RecordRow> = rows.filter(wanted).collect();
        old.sort_by_key(|row| (row.updated_at, row.position));
        old.into_iter().take(limit).cloned().collect()
    }

    pub(super) fn records_of_all(
        &self,
        kind: RecordKind,
        state: &str,
        above: Option<u64>,
        limit: usize,
    ) -> Vec<RecordRow> {
        let rows = self.records.values().map(|kept| &kept.row);
        let wanted = |row: &&RecordRow| {
            row.record.kind == kind && row.record.state == state && row.position > above.unwrap_or(0)
        };
        let mut found: Vec<&RecordRow> = rows.filter(wanted).collect();
        found.sort_by_key(|row| row.position);
        found.into_iter().take(limit).cloned().collect()
    }
}
