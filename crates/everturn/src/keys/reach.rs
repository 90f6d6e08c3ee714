//! The command's side: through the door of a running server, or to the database itself.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail};
use everturn_http::{Keys, Quotas};
use everturn_store::{OpenError, SecretBox, SqliteStore};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
};

use super::{
    door,
    talk::{Answer, Request, answer},
};
use crate::{
    compose,
    config::{Durability, StoreLocation},
    serve,
};

/// How long to wait for whoever has the database: a server that starts or stops, or another command.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to try.
const TRY_EVERY: Duration = Duration::from_millis(50);
/// How long an answer may be, in bytes.
const MAX_ANSWER: u64 = 16 * 1024 * 1024;

/// How the keys can be reached.
#[derive(Debug)]
pub(crate) struct Reach {
    database: PathBuf,
    durability: Durability,
    /// Whether the environment has a key that secrets are sealed with.
    has_secret_key: bool,
    opened: Option<Arc<Keys>>,
}

impl Reach {
    pub(crate) fn new(store: &StoreLocation, durability: Durability, has_secret_key: bool) -> Self {
        let StoreLocation::Sqlite(database) = store;
        Self { database: database.clone(), durability, has_secret_key, opened: None }
    }

    pub(super) async fn ask(&mut self, request: Request) -> anyhow::Result<Answer> {
        if let Some(keys) = &self.opened {
            return Ok(answer(keys, request).await);
        }
        if !self.is_there()? {
            // To look is no reason to make one.
            match request {
                Request::Tenants => return Ok(Answer::Tenants { tenants: Vec::new() }),
                Request::List { .. } => return Ok(Answer::Listed { keys: Vec::new() }),
                Request::Revoke { .. } => bail!("there is no database {}", self.database.display()),
                Request::Create { .. } => {}
            }
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.open().await? {
                Some(keys) => {
                    let keys = self.opened.insert(keys);
                    return Ok(answer(keys, request).await);
                }
                None => {
                    let door = door::beside(&self.database)?;
                    match UnixStream::connect(&door).await {
                        Ok(stream) => return converse(stream, &request, PATIENCE).await,
                        Err(error) if Instant::now() >= deadline => return Err(self.nobody_answers(&door, &error)),
                        Err(_) => tokio::time::sleep(TRY_EVERY).await,
                    }
                }
            }
        }
    }

    /// Whether there is a database. That it cannot be seen does not mean that there is none.
    fn is_there(&self) -> anyhow::Result<bool> {
        self.database.try_exists().map_err(|error| {
            let database = self.database.display();
            anyhow!("cannot look for the database {database}: {error}\n\nhint: run this as the server's user")
        })
    }

    /// The keys in the database, unless somebody else has it open.
    async fn open(&self) -> anyhow::Result<Option<Arc<Keys>>> {
        let (path, durability) = (self.database.clone(), compose::durability(self.durability));
        let had_data = self.is_there()?;
        let store = match tokio::task::spawn_blocking(move || SqliteStore::open(path, durability)).await? {
            Ok(store) => store,
            Err(OpenError::InUse { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if !had_data && !self.has_secret_key {
            // As the server does: a database without one looks as if it had lost it.
            SecretBox::from_file(&serve::secret_file(&self.database))?;
        }
        let keys = Keys::load(Arc::new(store), Vec::new(), Quotas::default()).await;
        Ok(Some(Arc::new(keys.context("failed to read the keys")?)))
    }

    fn nobody_answers(&self, door: &Path, error: &io::Error) -> anyhow::Error {
        let database = self.database.display();
        anyhow!(
            "the database {database} is in use, and nobody answers at {} ({error})\n\nhint: if a server is running, run \
             this as the same user, and see in the server's log why it has no socket; or stop it for a moment",
            door.display()
        )
    }

    /// Gives the database back.
    pub(super) async fn close(self) {
        if let Some(keys) = self.opened {
            // Waits for the disk.
            let _ = tokio::task::spawn_blocking(move || drop(keys)).await;
        }
    }
}

/// Asks a server. Whatever goes wrong, the user is told what may have been done.
async fn converse(stream: UnixStream, request: &Request, patience: Duration) -> anyhow::Result<Answer> {
    let talk = async {
        let (reader, mut writer) = stream.into_split();
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        writer.write_all(&line).await?;
        let mut line = Vec::new();
        BufReader::new(reader.take(MAX_ANSWER)).read_until(b'\n', &mut line).await?;
        if line.last() != Some(&b'\n') {
            bail!("it went away");
        }
        Ok(serde_json::from_slice(&line)?)
    };
    let in_doubt = in_doubt(request);
    match tokio::time::timeout(patience, talk).await {
        Ok(told) => told.map_err(|error| anyhow!("the running server gave no answer ({error}); {in_doubt}")),
        Err(_) => bail!("the running server has given no answer for {} seconds; {in_doubt}", patience.as_secs()),
    }
}

/// What to say of a request that was sent and not answered.
fn in_doubt(request: &Request) -> &'static str {
    match request {
        Request::Create { .. } => {
            "it may have made the key all the same, whose secret nobody has seen: look for it with `everturn keys list`, \
             and revoke it"
        }
        Request::Revoke { .. } => {
            "it may have revoked the key all the same: look with `everturn keys list`, or revoke it again, which does no harm"
        }
        Request::Tenants | Request::List { .. } => "try again, and see in the server's log what it is busy with",
    }
}

#[cfg(test)]
mod tests {
    use everturn_core::TenantId;

    use super::*;

    /// A command that gives up does not know whether it was heard.
    #[tokio::test]
    async fn what_was_not_answered_is_in_doubt() {
        let new = serde_json::json!({ "create": { "tenant": "local", "key": { "name": "a", "scopes": [] } } });
        let requests: [(Request, &[&str]); 3] = [
            (serde_json::from_value(new).unwrap(), &["may have made the key", "`everturn keys list`", "revoke it"]),
            (Request::Revoke { id: "key_a".to_owned() }, &["may have revoked the key", "`everturn keys list`"]),
            (Request::List { tenant: TenantId::local(), after: None }, &["try again"]),
        ];
        for (request, expected) in requests {
            let (ours, silent) = UnixStream::pair().unwrap();
            let late = converse(ours, &request, Duration::ZERO).await.map(drop).unwrap_err().to_string();
            drop(silent);
            let (ours, gone) = UnixStream::pair().unwrap();
            drop(gone);
            let lost = converse(ours, &request, PATIENCE).await.map(drop).unwrap_err().to_string();
            assert!(late.contains("no answer for 0 seconds") && lost.contains("gave no answer ("), "{late}, {lost}");
            for word in expected {
                assert!(late.contains(word) && lost.contains(word), "{late}, {lost}");
            }
        }
    }
}
