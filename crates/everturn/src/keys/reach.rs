//! The command's side: through the door of a running server, or to the database itself.

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
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
        if !self.database.exists() {
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
                None => match UnixStream::connect(door::beside(&self.database)).await {
                    Ok(stream) => return converse(stream, &request).await,
                    Err(error) if Instant::now() >= deadline => return Err(self.nobody_answers(&error)),
                    Err(_) => tokio::time::sleep(TRY_EVERY).await,
                },
            }
        }
    }

    /// The keys in the database, unless somebody else has it open.
    async fn open(&self) -> anyhow::Result<Option<Arc<Keys>>> {
        let (path, durability) = (self.database.clone(), compose::durability(self.durability));
        let had_data = path.exists();
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

    fn nobody_answers(&self, error: &io::Error) -> anyhow::Error {
        let (database, door) = (self.database.display(), door::beside(&self.database));
        anyhow::anyhow!(
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

async fn converse(stream: UnixStream, request: &Request) -> anyhow::Result<Answer> {
    let talk = async {
        let (reader, mut writer) = stream.into_split();
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        writer.write_all(&line).await?;
        let mut line = Vec::new();
        BufReader::new(reader.take(MAX_ANSWER)).read_until(b'\n', &mut line).await?;
        if line.last() != Some(&b'\n') {
            bail!("the server went away before it had answered; look with `everturn keys list` what has become of it");
        }
        Ok(serde_json::from_slice(&line)?)
    };
    tokio::time::timeout(PATIENCE, talk).await.context("the running server does not answer")?
}
