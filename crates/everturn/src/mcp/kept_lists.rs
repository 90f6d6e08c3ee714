//! Keeps what MCP servers offer in the store.

use std::sync::Arc;

use everturn_core::{Json, TenantId, Timestamp};
use everturn_mcp::KeptLists;
use everturn_store::{Command, Put, Record, RecordKind, Store, Write};
use futures_util::future::BoxFuture;

/// Lists in the store. They are the server's own, so they are kept with the tenant that is always there.
#[derive(Clone)]
pub(crate) struct StoredLists(pub(crate) Arc<dyn Store>);

impl std::fmt::Debug for StoredLists {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredLists").finish_non_exhaustive()
    }
}

impl KeptLists for StoredLists {
    fn load(&self, key: String) -> BoxFuture<'static, Option<Json>> {
        let store = Arc::clone(&self.0);
        Box::pin(async move {
            let kept = store.record(&TenantId::local(), RecordKind::ToolList, &key).await;
            kept.ok().flatten().map(|row| row.record.body)
        })
    }

    fn keep(&self, key: String, list: Json) -> BoxFuture<'static, ()> {
        let store = Arc::clone(&self.0);
        Box::pin(async move {
            let tenant = TenantId::local();
            let known = store.record(&tenant, RecordKind::ToolList, &key).await;
            if known.is_ok_and(|known| known.is_some_and(|row| row.record.body == list)) {
                return;
            }
            let record = Record {
                kind: RecordKind::ToolList,
                id: key,
                session: None,
                turn: None,
                state: String::new(),
                body: list,
                outcome: None,
            };
            let writes = vec![Write::Record(record)];
            let put = Put { tenant, expects: Vec::new(), writes, key: None, at: Timestamp::now() };
            if let Err(error) = store.commit(Arc::new(vec![Command::Put(Box::new(put))])).await {
                tracing::warn!(%error, "the tools of an MCP server could not be kept");
            }
        })
    }
}
