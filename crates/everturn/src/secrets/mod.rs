//! `everturn secrets`: another key for the secrets in the database, while no server runs on it.

mod key;

use std::sync::Arc;

use anyhow::{anyhow, bail};
use clap::Subcommand;
use everturn_core::{Json, TenantId, Timestamp};
use everturn_store::{
    CANARY, Command, OpenError, Put, Record, RecordKind, Reseal, Resealed, SecretBox, SqliteStore, Store, Write,
};
use secrecy::SecretString;

pub(crate) use self::key::{KeyPlace, VARIABLE};
use crate::{
    config::{Environment, StoreLocation},
    keys::Common,
};

/// States of the canary: the server made its key itself, or was given one.
const OWN: &str = "own";
const CONFIGURED: &str = "configured";

#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Seal all secrets in the database with a new key
    ///
    /// All of them get the new key, or none does. A key that is kept in a file (secret.key beside the database, or
    /// EVERTURN_SECRET_KEY=file:PATH) is replaced by a new one; for any other, --new-key says where the new one is. No
    /// server may run on the database meanwhile. Stream tokens that were given out before open nothing any more.
    Rotate {
        #[command(flatten)]
        common: Common,
        /// Where the new key is: env:NAME or file:PATH. Start the server with it from then on
        #[arg(long, value_name = "WHERE", value_parser = elsewhere)]
        new_key: Option<String>,
    },
    /// Take the present key for the right one, where the old one is lost
    ///
    /// Secrets that were sealed with the lost key cannot be opened any more and have to be set again. No server may run
    /// on the database meanwhile.
    Accept(Common),
}

/// A key on the command line would be shown to everybody on the machine.
fn elsewhere(text: &str) -> Result<String, String> {
    let is_elsewhere = text.starts_with("env:") || text.starts_with("file:");
    is_elsewhere.then(|| text.to_owned()).ok_or_else(|| "write env:NAME or file:PATH, not the key itself".to_owned())
}

impl SecretsCommand {
    pub(crate) fn common(&self) -> &Common {
        match self {
            Self::Rotate { common, .. } | Self::Accept(common) => common,
        }
    }

    pub(crate) fn run(self, store: &StoreLocation, environment: &Environment) -> anyhow::Result<()> {
        let StoreLocation::Sqlite(path) = store;
        let shown = path.display();
        // To look is no reason to make one.
        if !path.try_exists().map_err(|error| anyhow!("cannot look for the database {shown}: {error}"))? {
            bail!("there is no database {shown}\n\nhint: name it with --store, or the configuration with --config");
        }
        let variable = environment.get(VARIABLE).map(SecretString::from);
        let path = SqliteStore::real_path(path)?;
        let key = KeyPlace::find(variable.as_ref(), &path);
        if matches!(self, Self::Rotate { .. })
            && let Some(file) = key.file()
            && !file.exists()
        {
            bail!(
                "there is no key file {}\n\nhint: restore it, or say with {VARIABLE} where the key is",
                file.display()
            );
        }
        let mut database = SqliteStore::open_to_reseal(&path).map_err(|error| match error {
            OpenError::InUse { .. } => anyhow!("the database {shown} is in use\n\nhint: stop the server first"),
            other => other.into(),
        })?;
        let done = match self {
            Self::Rotate { new_key, .. } => rotate(&mut database, &key, new_key.as_deref(), environment),
            Self::Accept(_) => accept(&mut database, &key),
        };
        database.close()?;
        anstream::println!("{}", done?);
        Ok(())
    }
}

fn rotate(
    database: &mut Reseal,
    key: &KeyPlace,
    new_key: Option<&str>,
    environment: &Environment,
) -> anyhow::Result<String> {
    let old = key.open(database.canary()?.as_deref())?;
    let (done, from_now_on) = match (new_key, key.file()) {
        (Some(source), _) => {
            let done = database.reseal(&old, &key::from_source(environment, source)?)?;
            (done, format!("start the server with {VARIABLE}={source} from now on, or with the key itself"))
        }
        (None, Some(file)) => {
            let done = database.reseal(&old, &key::make_next(&file)?)?;
            key::put_in_place(&file)?;
            (done, format!("the new key is in {}", file.display()))
        }
        (None, None) => bail!(
            "{VARIABLE} has the key itself, which cannot be replaced from here\n\nhint: say where the new key is, with \
             --new-key env:NAME or --new-key file:PATH; make one with `openssl rand -hex 32`"
        ),
    };
    let Resealed { sealed, unreadable } = done;
    let left = match unreadable {
        0 => String::new(),
        count => format!("; {count} that were sealed with a key that is lost stay as they are"),
    };
    Ok(format!("secrets sealed with the new key: {sealed}{left}; {from_now_on}"))
}

fn accept(database: &mut Reseal, key: &KeyPlace) -> anyhow::Result<String> {
    database.accept(&key.read()?)?;
    Ok(format!("{key} is accepted; secrets that were sealed with another one have to be set again"))
}

/// Opens the key of a server that starts, or says that it is the wrong one. The first start with a key leaves a canary.
pub(crate) async fn open(store: &Arc<dyn Store>, key: &KeyPlace, had_data: bool) -> anyhow::Result<SecretBox> {
    let tenant = TenantId::local();
    let kept = store.record(&tenant, RecordKind::Canary, CANARY).await?.map(|row| row.record);
    let is_missing = matches!(key, KeyPlace::Own(file) if !file.exists());
    if is_missing && kept.as_ref().is_some_and(|kept| kept.state == CONFIGURED) {
        bail!(
            "the secrets in this database are sealed with a key from {VARIABLE}, which is not set\n\nhint: set it. If the \
             key is lost, run `everturn secrets accept`: options that were sealed with it have to be set again then"
        );
    }
    if is_missing && had_data {
        let file = key.file().unwrap_or_default();
        tracing::warn!(
            file = %file.display(),
            "the key that secret options are sealed with is gone; a new one is made, and secrets that were set before \
             cannot be opened any more. Restore the file if you have a copy"
        );
    }
    let kept = kept.filter(|_| !is_missing);
    let canary = kept.as_ref().map(|kept| serde_json::from_str::<String>(kept.body.as_str())).transpose()?;
    let opened = key.open(canary.as_deref())?;
    let state = if matches!(key, KeyPlace::Own(_)) { OWN } else { CONFIGURED };
    if kept.is_none_or(|kept| kept.state != state) {
        let record = Record {
            kind: RecordKind::Canary,
            id: CANARY.to_owned(),
            session: None,
            turn: None,
            state: state.to_owned(),
            body: Json::of(&opened.seal_canary()?)?,
            outcome: None,
        };
        let writes = vec![Write::Record(record)];
        let put = Put { tenant, expects: Vec::new(), writes, key: None, at: Timestamp::now() };
        for outcome in store.commit(Arc::new(vec![Command::Put(Box::new(put))])).await? {
            outcome?;
        }
    }
    Ok(opened)
}
