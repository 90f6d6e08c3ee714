//! Standing words on tools: what a tenant's people have allowed or denied for good.

use std::{collections::BTreeMap, sync::Arc};

use everturn_core::{CallId, Event, FormId, Json, SessionId, TenantId, Timestamp};
use everturn_store::{Record, RecordFilter, RecordKind, RecordRow, StoreError, Write};

use crate::{
    Account, Engine, Reply, Started, SubmissionKey, Submit, SubmitError,
    turn::{Stopped, Turn},
};

/// How many standing words a tenant may have.
const MAX_PERMISSIONS: usize = 1000;

/// The states of the records.
pub(crate) const ALLOWED: &str = "allowed";
const DENIED: &str = "denied";

/// A standing word on a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// Its place in the list.
    pub position: u64,
    /// The tool, by name.
    pub tool: String,
    /// Whether it runs without asking; else it never runs.
    pub allowed: bool,
    /// When somebody said so.
    pub at: Timestamp,
}

impl Permission {
    fn of(row: RecordRow) -> Self {
        Self { position: row.position, tool: row.record.id, allowed: row.record.state == ALLOWED, at: row.updated_at }
    }
}

/// What a person says to a call that waits for permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it may run.
    pub granted: bool,
    /// Whether that goes for all later calls of the tool, in all sessions of the tenant.
    pub always: bool,
    /// Why.
    pub reason: Option<String>,
}

/// The standing words that a turn knows of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permissions(BTreeMap<String, bool>);

impl Engine {
    /// A page of the tenant's standing words, newest first.
    pub async fn permissions(
        &self,
        tenant: &TenantId,
        below: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Permission>, StoreError> {
        let filter = RecordFilter::default();
        let rows = self.0.store.records(tenant, RecordKind::Permission, &filter, below, limit).await?;
        Ok(rows.into_iter().map(Permission::of).collect())
    }

    /// Takes a standing word back: the tool asks again. `false` if there is none.
    pub async fn forget_permission(&self, tenant: &TenantId, tool: &str) -> Result<bool, SubmitError> {
        if self.0.store.record(tenant, RecordKind::Permission, tool).await?.is_none() {
            return Ok(false);
        }
        let removal = Write::Remove { kind: RecordKind::Permission, id: tool.to_owned() };
        self.put_if(tenant, Vec::new(), vec![removal], None).await?;
        Ok(true)
    }

    /// Says what a person decided about a call that waits for permission.
    pub async fn decide(
        &self,
        tenant: &TenantId,
        account: &Arc<Account>,
        session: &SessionId,
        call: &CallId,
        verdict: Verdict,
        key: Option<SubmissionKey>,
    ) -> Result<Started, SubmitError> {
        let form = FormId::of_call(call);
        let asked = self.form(tenant, &form).await?;
        let asked = asked.filter(|form| form.session == *session && form.opened.asks_for.is_some());
        let asked = asked.ok_or_else(|| SubmitError::FormClosed { form: form.clone() })?;
        let standing = asked.opened.asks_for.filter(|_| verdict.always).map(|call| call.name);
        if let Some(tool) = &standing {
            self.check_room(tenant, tool).await?;
        }
        let mut value = serde_json::json!({ "approved": verdict.granted });
        if let Some(reason) = verdict.reason {
            value["reason"] = reason.into();
        }
        let value = Json::of(&value).unwrap_or_else(|_| Json::empty_object());
        let reply = Reply { form: Some(form), value };
        let started =
            self.submit(Submit::reply(tenant.clone(), Arc::clone(account), session.clone(), reply, key)).await?;
        // Only after it was taken: of two who disagree, the word of the one who was too late does not stand.
        if let Some(tool) = &standing {
            self.remember(tenant, tool, verdict.granted).await?;
        }
        Ok(started)
    }

    async fn check_room(&self, tenant: &TenantId, tool: &str) -> Result<(), SubmitError> {
        let known = self.0.store.record(tenant, RecordKind::Permission, tool).await?;
        if known.is_none() && self.permissions(tenant, None, MAX_PERMISSIONS).await?.len() >= MAX_PERMISSIONS {
            return Err(SubmitError::TooManyPermissions { limit: MAX_PERMISSIONS });
        }
        Ok(())
    }

    /// Keeps a standing word on a tool. [`Self::decide`] does so itself; whoever does not know whether it got that far
    /// says it again.
    pub async fn remember(&self, tenant: &TenantId, tool: &str, allowed: bool) -> Result<(), SubmitError> {
        self.check_room(tenant, tool).await?;
        let record = Record {
            kind: RecordKind::Permission,
            id: tool.to_owned(),
            session: None,
            turn: None,
            state: if allowed { ALLOWED } else { DENIED }.to_owned(),
            body: Json::empty_object(),
            outcome: None,
        };
        Ok(self.put_if(tenant, Vec::new(), vec![Write::Record(record)], None).await?)
    }
}

impl Turn {
    /// Looks up what people have said for good, if any tool of the session can be spoken of: built-in ones never ask. A
    /// failure only means that they are asked again.
    pub(crate) async fn load_permissions(&mut self) {
        let tools = &self.shared.tools;
        let asks = |name: &String| tools.get(name).is_some_and(|tool| !tool.is_builtin());
        if !self.config.agent_tools || !self.agent.offered(tools).iter().any(asks) {
            return;
        }
        let filter = RecordFilter::default();
        let rows =
            self.shared.store.records(&self.tenant, RecordKind::Permission, &filter, None, MAX_PERMISSIONS).await;
        match rows {
            Ok(rows) => {
                let words = rows.into_iter().map(Permission::of).map(|word| (word.tool, word.allowed));
                self.permissions = Permissions(words.collect());
            }
            Err(error) => tracing::warn!(turn = %self.log.turn(), %error, "cannot read the permissions"),
        }
    }

    /// What was said for good of a tool. Where the client has said whom to trust, nothing.
    pub(crate) fn standing_word(&self, tool: &str) -> Option<bool> {
        let chosen = !self.config.agent_tools || self.config.tools.iter().any(|chosen| chosen.name == tool);
        if chosen { None } else { self.permissions.0.get(tool).copied() }
    }

    /// Tells those who watch that a tool server of the agent has other tools than before.
    pub(crate) fn tell_list_changes(&mut self) -> Result<(), Stopped> {
        let patterns = self.agent.tools.iter().chain(&self.agent.internal_tools);
        let mut servers = patterns.filter_map(|pattern| pattern.split_once('/')).map(|(server, _)| server).peekable();
        if servers.peek().is_none() {
            return Ok(());
        }
        let known = self.shared.tools.servers();
        let lists: BTreeMap<_, _> = servers
            .filter_map(|server| {
                Some((server.to_owned(), known.get(server).filter(|list| list.revision > 0)?.revision))
            })
            .collect();
        let Some(before) = self.lists.replace(lists.clone()) else { return Ok(()) };
        for (server, revision) in lists {
            if before.get(&server).is_some_and(|before| *before != revision) {
                let params =
                    Json::of(&serde_json::json!({ "server": server })).unwrap_or_else(|_| Json::empty_object());
                let method = "notifications/tools/list_changed".to_owned();
                self.record(Event::Notified { call_id: None, method, params })?;
            }
        }
        Ok(())
    }
}
