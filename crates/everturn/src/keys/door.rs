//! The server's side: a socket beside the database, for its user alone.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use everturn_http::Keys;
use everturn_mcp::guard::{descends_from, is_guarded};
use everturn_store::SqliteStore;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

use crate::guard;

use super::talk::{Answer, Request, answer};

/// How many may talk at once.
const GUESTS: usize = 8;
/// How long a talk may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a question may be, in bytes.
const MAX_REQUEST: u64 = 16 * 1024;

/// Where the door of a server with this database is, whichever link leads there.
pub(super) fn beside(database: &Path) -> io::Result<PathBuf> {
    Ok(with_suffix(&SqliteStore::real_path(database)?, ".sock"))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// An open door. Closed and taken away when it is dropped, which must be before the database is given up.
#[derive(Debug)]
pub(crate) struct Door {
    path: PathBuf,
    listener: UnixListener,
}

impl Door {
    /// Opens the door of this database, which nobody else has open: what is there is left over from a crash.
    pub(crate) fn open(database: &Path) -> anyhow::Result<Self> {
        let path = beside(database)?;
        let told = || format!("cannot open the socket {}", path.display());
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.file_type().is_socket() => bail!("{} is something else than a socket", path.display()),
            Ok(_) | Err(_) => {}
        }
        let listener = bind(&path).with_context(told)?;
        listener.set_nonblocking(true).with_context(told)?;
        let listener = UnixListener::from_std(listener).with_context(told)?;
        Ok(Self { path, listener })
    }

    /// Answers until told to stop.
    pub(crate) async fn serve(self, keys: Arc<Keys>, stop: CancellationToken) {
        let guests = Arc::new(Semaphore::new(GUESTS));
        let (user, own) = (rustix::process::geteuid().as_raw(), rustix::process::getpid().as_raw_pid());
        loop {
            let guest = async {
                // Those who come while all places are taken wait outside.
                let place = Arc::clone(&guests).acquire_owned().await.ok();
                (self.listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                () = stop.cancelled() => break,
                guest = guest => guest,
            };
            let Ok((stream, _)) = accepted else {
                // Too many open files, say. They will not stay so for ever.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            // The mode keeps others out already, where systems heed it. Programs that this server or a command such as
            // `everturn mcp list` has started run as the same user, and must not make keys.
            let is_ours = stream.peer_cred().is_ok_and(|guest| {
                let is_user = guest.uid() == user || guest.uid() == 0;
                let is_program = |pid| descends_from(pid, own) || is_guarded(pid, guard::SUBCOMMAND);
                is_user && guest.pid().is_none_or(|pid| !is_program(pid))
            });
            if !is_ours {
                continue;
            }
            let keys = Arc::clone(&keys);
            tokio::spawn(async move {
                let talked = tokio::time::timeout(PATIENCE, talk(stream, &keys)).await;
                if let Ok(Err(error)) = talked {
                    tracing::debug!(%error, "a command went away");
                }
                drop(place);
            });
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A socket that others could not have opened at any moment: it is made in a folder of its own, then moved to its place.
fn bind(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let folder = with_suffix(path, ".d");
    let inside = folder.join("s");
    let clear = || {
        let _ = fs::remove_file(&inside);
        let _ = fs::remove_dir(&folder);
    };
    clear();
    let made = (|| {
        DirBuilder::new().mode(0o700).create(&folder)?;
        let listener = std::os::unix::net::UnixListener::bind(&inside)?;
        fs::set_permissions(&inside, Permissions::from_mode(0o600))?;
        fs::rename(&inside, path)?;
        Ok(listener)
    })();
    clear();
    made
}

async fn talk(stream: UnixStream, keys: &Keys) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = Vec::new();
    BufReader::new(reader.take(MAX_REQUEST)).read_until(b'\n', &mut line).await?;
    let answer = if line.len() as u64 >= MAX_REQUEST {
        Answer::Failed { message: format!("the request is longer than {MAX_REQUEST} bytes") }
    } else {
        match serde_json::from_slice::<Request>(&line) {
            // Its command has given up, or was ended, and told its user so. Nobody would learn of what is done now.
            Ok(_) if has_gone(writer.as_ref()) => return Err(io::ErrorKind::ConnectionAborted.into()),
            Ok(request) => answer(keys, request).await,
            Err(error) => Answer::Failed {
                message: format!("the server does not understand the request; is it of another version? ({error})"),
            },
        }
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    writer.write_all(&line).await?;
    writer.shutdown().await
}

/// Whether whoever was at the other end is there no more. Asks the system, which may know more than the runtime yet does.
fn has_gone(stream: &UnixStream) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::empty())];
    poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().contains(PollFlags::HUP)
}
