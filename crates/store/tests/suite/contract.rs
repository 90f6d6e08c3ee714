//! The contract suite, for every store of this crate.

use std::sync::{Arc, Mutex};

use everturn_store::{Durability, SimStore, SqliteStore, Store, contract::Harness};
use futures_util::{FutureExt, future::BoxFuture};
use tempfile::TempDir;

struct SqliteHarness {
    directory: TempDir,
}

impl SqliteHarness {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }
}

impl Harness for SqliteHarness {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        // A crash of the machine is not simulated here, so nothing is lost by not waiting for the disk.
        let store = SqliteStore::open(self.directory.path().join("data/store.db"), Durability::Process).unwrap();
        std::future::ready(Arc::new(store) as Arc<dyn Store>).boxed()
    }
}

struct SimHarness {
    current: Mutex<SimStore>,
}

impl SimHarness {
    fn new() -> Self {
        Self { current: Mutex::new(SimStore::new()) }
    }
}

impl Harness for SimHarness {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        let mut current = self.current.lock().unwrap();
        *current = current.crash();
        std::future::ready(Arc::new(current.clone()) as Arc<dyn Store>).boxed()
    }
}

mod sqlite {
    everturn_store::store_contract!(super::SqliteHarness::new());
}

mod sim {
    everturn_store::store_contract!(super::SimHarness::new());
}
