//! Opening a database file: what is refused, and what is set.

use std::{
    collections::HashMap,
    fs::{DirBuilder, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use everturn_core::TurnId;
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

use super::{
    Durability, SqliteStore,
    batch::RowIds,
    fault::corrupt,
    live::{HotRow, Load, RunningTurn, Standing},
    place::{beside, lock, private_file},
    schema,
    trim::Extent,
};
use crate::StoreError;

/// How long to wait for a foreign program, say a backup, that holds the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// A file up to this size is checked whole when it is opened.
const CHECKED_WHOLE: u64 = 8 * 1024 * 1024;

/// Length of the header of a SQLite file.
const HEADER: u64 = 100;

/// Why a database cannot be used. Says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be created or written.
    #[error("cannot write to {}: {what}; give this user the right to write there, or choose another place", path.display())]
    NotWritable {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        what: String,
    },
    /// Another process has it open.
    #[error("the database {} is in use by another process; stop that one, or give this one a database of its own", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It has several names (hard links), and was used by another one.
    #[error("the database {} has {names} names (hard links), and it was not used by this one, which lacks its lock and its log; use the name that has a .lock file beside it, or a copy of the file that was made while nobody used it", path.display())]
    OtherName {
        /// The file.
        path: PathBuf,
        /// How many names it has.
        names: u64,
    },
    /// It belongs to another program.
    #[error("{} is a SQLite database of another program; choose another place", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// It was written by a newer version of this program.
    #[error("the database {} has schema version {found}, this program knows versions up to {known}; use the newer program that wrote it", path.display())]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The version that it has.
        found: i32,
        /// The last version that this program knows.
        known: i32,
    },
    /// It was written by a version of this program from before the first release.
    #[error("the database {} has schema version {found}, this program knows versions from {oldest} on; use the program that wrote it, or move the database away to begin with an empty one", path.display())]
    OlderSchema {
        /// The file.
        path: PathBuf,
        /// The version that it has.
        found: i32,
        /// The first version that this program knows.
        oldest: i32,
    },
    /// It cannot be read.
    #[error("the database {} is damaged: {what}; restore it from a backup, or move it away to begin with an empty one", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// There is no room to open it.
    #[error("no space is left on the disk of {}; free some", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// Anything else that the system or another program has to do with. It may pass.
    #[error("cannot open the database {}: {what}; try again once the cause is gone", path.display())]
    Unavailable {
        /// The file.
        path: PathBuf,
        /// What happened.
        what: String,
    },
}

impl OpenError {
    pub(super) fn io(path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotADirectory => {
                Self::NotWritable { path, what: error.to_string() }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            _ => Self::Unavailable { path, what: error.to_string() },
        }
    }

    pub(super) fn sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let (path, what) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt { path, what },
            Some(ErrorCode::DiskFull) => Self::DiskFull { path },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::NotWritable { path, what },
            _ => Self::Unavailable { path, what },
        }
    }

    fn store(path: &Path, error: StoreError) -> Self {
        let path = path.to_owned();
        match error {
            StoreError::Corrupt(what) => Self::Corrupt { path, what },
            StoreError::Unavailable(what) => Self::Unavailable { path, what },
            StoreError::Closed => Self::Unavailable { path, what: error.to_string() },
        }
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Writer(Durability),
    Checkpointer,
    Reader,
}

/// Opens a further connection to a database that is open and known to be ours. Makes none.
pub(super) fn connect(path: &Path, role: Role) -> rusqlite::Result<Connection> {
    let connection = bare(path, OpenFlags::empty())?;
    configure(&connection, role)?;
    Ok(connection)
}

fn bare(path: &Path, more: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // A statement keeps its plan whatever values it is given; otherwise SQLite plans many of them anew at each use.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

fn configure(connection: &Connection, role: Role) -> rusqlite::Result<()> {
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    if !matches!(role, Role::Writer(_)) {
        // The last connection that closes removes the write-ahead log by its name. Only the writer checks whose log that is.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    }
    match role {
        Role::Writer(durability) => {
            let synchronous = match durability {
                Durability::Fsync => "FULL",
                Durability::Process => "NORMAL",
            };
            connection.pragma_update(None, "synchronous", synchronous)?;
            // What is deleted is overwritten. `trim.rs` sees to it that this costs little.
            connection.pragma_update(None, "secure_delete", true)?;
            connection.pragma_update(None, "cache_size", -16 * 1024)
        }
        Role::Checkpointer => connection.pragma_update(None, "synchronous", "FULL"),
        Role::Reader => connection.pragma_update(None, "query_only", true),
    }
}

/// A database that was opened for this process alone.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    pub(super) running: HashMap<TurnId, RunningTurn>,
    pub(super) ids: RowIds,
    pub(super) extent: Extent,
    /// Held as long as the database is in use.
    pub(super) lock: File,
}

/// Opens or creates a database.
pub(super) fn open(path: &Path, durability: Durability) -> Result<Opened, OpenError> {
    let path = &SqliteStore::real_path(path).map_err(|error| OpenError::io(path, &error))?;
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        create_directory(directory).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => OpenError::NotWritable {
                path: directory.to_owned(),
                what: "there is a file where a directory should be".to_owned(),
            },
            _ => OpenError::io(directory, &error),
        })?;
    }
    let lock = lock(path)?;
    // Made here because SQLite would let others read it. Its companions get the mode that it has.
    private_file(path).map_err(|error| OpenError::io(path, &error))?;
    check_file(path)?;

    let failed = |error: rusqlite::Error| OpenError::sqlite(path, &error);
    let mut connection = bare(path, OpenFlags::SQLITE_OPEN_CREATE).map_err(failed)?;
    // Before anything is written, so that what is not ours stays as it is.
    check_origin(path, &connection)?;
    // Before the first table: a new file has it from the start, an old one takes it over when it is next written anew.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(failed)?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(failed)?;
    if !mode.eq_ignore_ascii_case("wal") {
        let what = format!("the file system does not allow write-ahead logging (journal mode {mode:?})");
        return Err(OpenError::Unavailable { path: path.to_owned(), what });
    }
    configure(&connection, Role::Writer(durability)).map_err(failed)?;
    schema::migrate(&mut connection).map_err(failed)?;
    check_pages(path, &connection)?;
    let (running, ids, extent) = running(&connection).map_err(|error| OpenError::store(path, error))?;
    Ok(Opened { path: path.to_owned(), connection, running, ids, extent, lock })
}

/// Makes a directory, and those above it, for this user alone. One that is there stays as it is.
fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Finds a file that is no database, or was cut off: SQLite would take the shortest ones for new and write over them.
fn check_file(path: &Path) -> Result<(), OpenError> {
    let failed = |error: io::Error| OpenError::io(path, &error);
    let damaged = |what: String| Err(OpenError::Corrupt { path: path.to_owned(), what });
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(failed)?,
    };
    let length = file.metadata().map_err(failed)?.len();
    let mut header = Vec::new();
    (&file).take(HEADER).read_to_end(&mut header).map_err(failed)?;
    if header.is_empty() {
        return Ok(());
    }
    if !header.starts_with(b"SQLite format 3\0") {
        return damaged("it is not a SQLite database".to_owned());
    }
    let Ok(header) = <[u8; HEADER as usize]>::try_from(header) else {
        return damaged(format!("the file ends after {length} bytes"));
    };
    // With a write-ahead log beside it the file may rightly be shorter than it says. Unless the two counters are equal,
    // the number of pages was not kept.
    let has_log = std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0);
    if has_log || header[24..28] != header[92..96] {
        return Ok(());
    }
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    let pages = u64::from(u32::from_be_bytes([header[28], header[29], header[30], header[31]]));
    if length < page * pages {
        return damaged(format!("the file has {length} bytes of {}", page * pages));
    }
    Ok(())
}

fn check_origin(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    let failed = |error: rusqlite::Error| OpenError::sqlite(path, &error);
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    let version = schema::version(connection).map_err(failed)?;
    let fresh = application == 0 && tables == 0 && version == 0;
    if application != schema::APPLICATION_ID && !fresh {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    if !fresh && version < schema::OLDEST {
        return Err(OpenError::OlderSchema { path: path.to_owned(), found: version, oldest: schema::OLDEST });
    }
    if version > schema::VERSION {
        return Err(OpenError::NewerSchema { path: path.to_owned(), found: version, known: schema::VERSION });
    }
    Ok(())
}

/// Looks for damage. Whole where that is quick; elsewhere damage shows when the page that has it is read.
fn check_pages(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    if std::fs::metadata(path).is_ok_and(|file| file.len() > CHECKED_WHOLE) {
        return Ok(());
    }
    let found: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| OpenError::sqlite(path, &error))?;
    if found == "ok" { Ok(()) } else { Err(OpenError::Corrupt { path: path.to_owned(), what: found }) }
}

/// The turns that were running when the database was last closed, and what `log` holds. Reads no events.
fn running(connection: &Connection) -> Result<(HashMap<TurnId, RunningTurn>, RowIds, Extent), StoreError> {
    let last_turn = connection.query_row("SELECT ifnull(max(id), 0) FROM turns", [], |row| row.get(0))?;
    let mut ids = RowIds { next_turn: last_turn, next_log: 0 };
    let mut extent = Extent::default();
    let mut turns: HashMap<i64, (TurnId, u64, RunningTurn)> = HashMap::new();
    let mut select =
        connection.prepare("SELECT id, name, gathered, session, epoch, head FROM turns WHERE node IS NOT NULL")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let turn = row.get(0)?;
        let name = TurnId::try_from(row.get::<_, String>(1)?).map_err(corrupt)?;
        let standing =
            Standing { turn, session: row.get(3)?, epoch: row.get(4)?, head: row.get(5)?, load: Load::default() };
        turns.insert(turn, (name, row.get(2)?, RunningTurn { standing, rows: Vec::new() }));
    }
    let mut select = connection.prepare("SELECT id, turn, first_seq, count, length(bytes) FROM log ORDER BY id")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let hot = HotRow { id: row.get(0)?, first_seq: row.get(2)?, bytes: row.get(4)? };
        let turn = row.get(1)?;
        if extent.load.rows == 0 {
            extent.first = hot.id;
        }
        extent.grow(Load { rows: 1, bytes: hot.bytes });
        ids.next_log = hot.id;
        // A dead row may be all that is left of a turn; its number must not be given to another meanwhile.
        ids.next_turn = ids.next_turn.max(turn);
        if let Some((_, gathered, running)) = turns.get_mut(&turn)
            && hot.first_seq > *gathered
        {
            let standing = &mut running.standing;
            standing.head = standing.head.max(hot.first_seq + u64::from(row.get::<_, u32>(3)?).saturating_sub(1));
            standing.load.rows += 1;
            standing.load.bytes += hot.bytes;
            running.rows.push(hot);
        }
    }
    ids.next_turn += 1;
    ids.next_log += 1;
    if extent.load.rows == 0 {
        extent.first = ids.next_log;
    }
    // Closed in order, `log` is empty. After a crash it may hold what was deleted before.
    extent.owed = ids.next_log;
    Ok((turns.into_values().map(|(name, _, running)| (name, running)).collect(), ids, extent))
}
