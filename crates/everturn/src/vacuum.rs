//! `everturn vacuum`: writes the database anew, so that its free space goes back to the disk at once.

use anyhow::{anyhow, bail};
use everturn_store::{OpenError, SqliteStore, Vacuumed};

use crate::config::StoreLocation;

pub(crate) fn run(store: &StoreLocation) -> anyhow::Result<()> {
    let StoreLocation::Sqlite(path) = store;
    let shown = path.display();
    // To look is no reason to make one.
    if !path.try_exists().map_err(|error| anyhow!("cannot look for the database {shown}: {error}"))? {
        bail!("there is no database {shown}\n\nhint: name it with --store, or the configuration with --config");
    }
    let Vacuumed { before, after } = SqliteStore::vacuum(path).map_err(|error| match error {
        OpenError::InUse { .. } => anyhow!(
            "the database {shown} is in use; a running server gives free space back by itself, a little at a time\n\nhint: \
             stop the server to do it at once; this is needed once for a database that was made before servers could do so"
        ),
        other => other.into(),
    })?;
    let freed = before.saturating_sub(after);
    anstream::println!("{shown}: {freed} bytes freed; it had {before} bytes and has {after}");
    Ok(())
}
