//! The key that secrets are sealed with: where it is kept, and whether it is the right one.
//!
//! A rotation writes the new key beside the old one, commits, and renames. A crash may come in between, so the next
//! command or start that opens the key finishes what was begun. The canary in the database tells which of the two files has the right key.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt as _, chown},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, bail};
use everturn_store::SecretBox;
use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    config::{self, Environment},
    serve,
};

pub(crate) const VARIABLE: &str = "EVERTURN_SECRET_KEY";

/// Where the key is kept.
pub(crate) enum KeyPlace {
    /// In the variable itself.
    Variable(SecretString),
    /// In the file that the variable names.
    File(PathBuf),
    /// In the file that the server makes beside its database.
    Own(PathBuf),
}

impl KeyPlace {
    /// Where the variable says. Without it, beside the database.
    pub(crate) fn find(variable: Option<&SecretString>, database: &Path) -> Self {
        let Some(text) = variable else { return Self::Own(serve::secret_file(database)) };
        match text.expose_secret().strip_prefix("file:") {
            Some(path) => Self::File(PathBuf::from(path)),
            None => Self::Variable(text.clone()),
        }
    }

    /// The file that has the key. Where its name is a link, the file itself.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Variable(_) => None,
            Self::File(path) | Self::Own(path) => Some(fs::canonicalize(path).unwrap_or_else(|_| path.clone())),
        }
    }

    /// Opens the key, and checks it against the canary, if there is one. Finishes a rotation that a crash has cut short.
    pub(crate) fn open(&self, canary: Option<&str>) -> anyhow::Result<SecretBox> {
        let Some(canary) = canary else { return self.read() };
        let file = self.file();
        if let Some(file) = &file
            && let Some(next) = read_next(file)
            && next.opens_canary(canary)
        {
            put_in_place(file)?;
            tracing::info!(file = %file.display(), "a rotation of the key was cut short after its commit; it is finished now");
            return Ok(next);
        }
        let key = self.read()?;
        if !key.opens_canary(canary) {
            bail!(
                "{self} is not the key that the secrets in this database are sealed with\n\nhint: start with the key that \
                 sealed them. If it is lost, run `everturn secrets accept` with this key: options that were sealed with the \
                 lost one cannot be opened then and have to be set again"
            );
        }
        if let Some(file) = &file {
            // Of a rotation that was not committed.
            discard_next(file)?;
        }
        Ok(key)
    }

    /// Reads the key. Makes one only beside the database.
    pub(crate) fn read(&self) -> anyhow::Result<SecretBox> {
        match self {
            Self::Own(file) => SecretBox::from_file(file).map_err(Into::into),
            Self::Variable(text) => SecretBox::from_text(text.expose_secret()).map_err(Into::into),
            Self::File(path) => from_source(&Environment::default(), &format!("file:{}", path.display())),
        }
        .with_context(|| format!("{self} cannot be used"))
    }
}

impl std::fmt::Display for KeyPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Variable(_) => f.write_str(VARIABLE),
            Self::File(path) => write!(f, "{VARIABLE} (the file {})", path.display()),
            Self::Own(path) => write!(f, "the key in {}", path.display()),
        }
    }
}

/// A key that is kept in a variable or a file.
pub(super) fn from_source(environment: &Environment, text: &str) -> anyhow::Result<SecretBox> {
    let text = config::find_secret(environment, text).map_err(|(what, hint)| anyhow!("{what}\n\nhint: {hint}"))?;
    Ok(SecretBox::from_text(text.expose_secret())?)
}

/// Where a rotation keeps the new key until it is committed.
fn next_file(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

/// The key of a rotation that is not finished. One that cannot be read was not committed: it was written whole before.
fn read_next(file: &Path) -> Option<SecretBox> {
    let text = zeroize::Zeroizing::new(fs::read_to_string(next_file(file)).ok()?);
    SecretBox::from_text(&text).ok()
}

/// Makes a new key beside the old one, for the same owner and with the same rights. It is on the disk on return.
pub(super) fn make_next(file: &Path) -> anyhow::Result<SecretBox> {
    discard_next(file)?;
    let next = next_file(file);
    let key = SecretBox::from_file(&next)?;
    let prepared = fs::metadata(file).and_then(|old| {
        let new = fs::metadata(&next)?;
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            chown(&next, Some(old.uid()), Some(old.gid()))?;
        }
        fs::set_permissions(&next, old.permissions())?;
        File::open(&next)?.sync_all()
    });
    prepared
        .with_context(|| format!("cannot give {} the owner and the rights of {}", next.display(), file.display()))?;
    Ok(key)
}

/// Gives the new key the name of the old one.
pub(super) fn put_in_place(file: &Path) -> anyhow::Result<()> {
    let next = next_file(file);
    let renamed = fs::rename(&next, file).and_then(|()| {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    });
    renamed.with_context(|| {
        format!(
            "the secrets are sealed with the key in {} by now, which cannot be renamed to {}; the next start tries again",
            next.display(),
            file.display()
        )
    })
}

fn discard_next(file: &Path) -> anyhow::Result<()> {
    let next = next_file(file);
    match fs::remove_file(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}, which a rotation has left", next.display()))
        }
        _ => Ok(()),
    }
}
