//! Notes that a dialect keeps beside a session, outside its settings, or for a whole tenant: they can be written while no
//! turn begins.

use everturn_core::{Json, SessionId, TenantId};
use everturn_store::{Record, RecordKind, Refusal, Write};

use crate::{Engine, SubmitError, committer::CommitError};

/// Longest note, in bytes.
const MAX_NOTE: usize = 1024 * 1024;
/// The state of the records, which have only one.
const KEPT: &str = "kept";

impl Engine {
    /// Keeps a note beside a session, in the place of an earlier one of that name. It is deleted with the session.
    pub async fn keep_note(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        name: &'static str,
        body: Json,
    ) -> Result<(), SubmitError> {
        let record = note(Some(session), name, body)?;
        match self.put_if(tenant, Vec::new(), vec![Write::Record(record)], None).await {
            Err(CommitError::Refused(Refusal::NotFound)) => Err(SubmitError::NotFound),
            result => Ok(result?),
        }
    }

    /// Keeps a note for a tenant, in the place of an earlier one of that name.
    pub async fn keep_tenant_note(&self, tenant: &TenantId, name: &'static str, body: Json) -> Result<(), SubmitError> {
        let record = note(None, name, body)?;
        Ok(self.put_if(tenant, Vec::new(), vec![Write::Record(record)], None).await?)
    }

    /// The note of this name for a tenant.
    pub async fn tenant_note(&self, tenant: &TenantId, name: &str) -> Result<Option<Json>, SubmitError> {
        let row = self.0.store.record(tenant, RecordKind::Note, &id(None, name)).await?;
        Ok(row.map(|row| row.record.body))
    }

    /// The note of this name beside a session.
    pub async fn note(&self, tenant: &TenantId, session: &SessionId, name: &str) -> Result<Option<Json>, SubmitError> {
        let row = self.0.store.record(tenant, RecordKind::Note, &id(Some(session), name)).await?;
        Ok(row.map(|row| row.record.body))
    }
}

fn note(session: Option<&SessionId>, name: &'static str, body: Json) -> Result<Record, SubmitError> {
    if body.as_str().len() > MAX_NOTE {
        let what = format!("it has {} bytes, the limit is {MAX_NOTE}", body.as_str().len());
        return Err(SubmitError::Overlay { field: name, what });
    }
    Ok(Record {
        kind: RecordKind::Note,
        id: id(session, name),
        session: session.cloned(),
        turn: None,
        state: KEPT.to_owned(),
        body,
        outcome: None,
    })
}

/// No session has an empty name: what is a tenant's is never a session's.
fn id(session: Option<&SessionId>, name: &str) -> String {
    format!("{}/{name}", session.map_or("", SessionId::as_str))
}
