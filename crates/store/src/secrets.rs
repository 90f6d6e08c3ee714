//! Seals the secrets of sessions, so that the database does not show them.
//!
//! A sealed secret is `v1:` and the base64 of a 24-byte nonce and XChaCha20-Poly1305 ciphertext. The tenant, the session
//! and the option are sealed along with it: moved to another place it does not open.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use base64::{
    Engine,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use chacha20poly1305::{
    Key, XChaCha20Poly1305, XNonce,
    aead::{Aead, KeyInit, Payload},
};
use everturn_core::{SessionId, TenantId};
use rand::RngCore;
use zeroize::Zeroizing;

const PREFIX: &str = "v1:";
const NONCE: usize = 24;
const KEY: usize = 32;

/// Name of the canary among the records of [`TenantId::local`].
pub const CANARY: &str = "canary";

/// What the canary is sealed along with. No [`SecretPlace`] gives these bytes.
const CANARY_PLACE: &[u8] = b"everturn canary";

/// No key is longer, in whatever form.
const MAX_KEY_TEXT: u64 = 256;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// Why a key cannot be had, or a secret not be opened. Never shows either.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// A text that is not a key.
    #[error(
        "a secret key is 32 bytes, written as 64 hex digits or as base64; this text has {length} characters and is \
         neither. Make one with `openssl rand -hex 32`"
    )]
    NotAKey {
        /// How long the text is.
        length: usize,
    },
    /// The file with the key cannot be used.
    #[error("cannot use the key file {}: {what}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// What happened.
        what: String,
    },
    /// The file with the key can be read by others than its owner.
    #[error("the key file {} can be read by others (mode {mode:03o}); run `chmod 600` on it", path.display())]
    KeyFileShared {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A text that is not a sealed secret of a version that is known.
    #[error("this is not a sealed secret that this program knows how to open")]
    UnknownForm,
    /// The secret does not open.
    #[error(
        "the secret does not open: it was sealed with another key, or for another option, session or tenant. Start \
         with the key that sealed it, or set the option again"
    )]
    WrongKey,
    /// The secret is too large to seal.
    #[error("the secret is too large")]
    TooLarge,
}

/// What a secret belongs to. It opens there only.
#[derive(Clone, Copy, Debug)]
pub struct SecretPlace<'a> {
    /// Owner of the session.
    pub tenant: &'a TenantId,
    /// The session.
    pub session: &'a SessionId,
    /// Name of the option.
    pub option: &'a str,
}

impl SecretPlace<'_> {
    /// Ids have no NUL and the option comes last, so no two places give the same bytes.
    fn bytes(self) -> Vec<u8> {
        let Self { tenant, session, option } = self;
        format!("everturn option\0{tenant}\0{session}\0{option}").into_bytes()
    }
}

/// Seals and opens secrets with one key. Shows nothing of it.
pub struct SecretBox {
    cipher: XChaCha20Poly1305,
}

impl fmt::Debug for SecretBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBox")
    }
}

impl SecretBox {
    /// Takes a key of 32 random bytes.
    pub fn new(key: &Zeroizing<[u8; KEY]>) -> Self {
        Self { cipher: XChaCha20Poly1305::new(&Key::from(**key)) }
    }

    /// Takes a key as text: 64 hex digits, or base64 of either alphabet. White space around it does not matter.
    pub fn from_text(text: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        let not_a_key = || SecretError::NotAKey { length: text.chars().count() };
        let bytes = Zeroizing::new(if text.len() == 2 * KEY && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
            text.as_bytes().chunks(2).map(|pair| (digit(pair[0]) << 4) | digit(pair[1])).collect()
        } else {
            BASE64.decode(text).or_else(|_| BASE64_URL.decode(text)).map_err(|_| not_a_key())?
        });
        let mut key = Zeroizing::new([0; KEY]);
        if bytes.len() != KEY {
            return Err(not_a_key());
        }
        key.copy_from_slice(&bytes);
        Ok(Self::new(&key))
    }

    /// Takes the key in a file. Where there is none, makes a key that only this user can read.
    pub fn from_file(path: &Path) -> Result<Self, SecretError> {
        let failed = |error: io::Error| SecretError::KeyFile { path: path.to_owned(), what: error.to_string() };
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_key_file(path).map_err(failed)?;
                File::open(path)
            }
            opened => opened,
        };
        let file = file.map_err(failed)?;
        check_permissions(path, &file)?;
        let mut text = Zeroizing::new(String::new());
        file.take(MAX_KEY_TEXT).read_to_string(&mut text).map_err(failed)?;
        Self::from_text(&text).map_err(|error| SecretError::KeyFile { path: path.to_owned(), what: error.to_string() })
    }

    /// Seals a secret for a place.
    pub fn seal(&self, place: SecretPlace<'_>, secret: &str) -> Result<String, SecretError> {
        self.seal_for(&place.bytes(), secret)
    }

    /// Seals a text that is no secret. Whether it opens tells whether a key is the one that it was sealed with.
    pub fn seal_canary(&self) -> Result<String, SecretError> {
        self.seal_for(CANARY_PLACE, CANARY)
    }

    /// Whether a canary was sealed with this key.
    pub fn opens_canary(&self, sealed: &str) -> bool {
        self.open_for(CANARY_PLACE, sealed).is_ok()
    }

    fn seal_for(&self, place: &[u8], secret: &str) -> Result<String, SecretError> {
        let mut nonce = [0; NONCE];
        rand::rng().fill_bytes(&mut nonce);
        let payload = Payload { msg: secret.as_bytes(), aad: place };
        let sealed = self.cipher.encrypt(&XNonce::from(nonce), payload).map_err(|_| SecretError::TooLarge)?;
        let mut bytes = nonce.to_vec();
        bytes.extend(sealed);
        Ok(format!("{PREFIX}{}", BASE64.encode(bytes)))
    }

    /// Opens a secret that was sealed for this place.
    pub fn open(&self, place: SecretPlace<'_>, sealed: &str) -> Result<Zeroizing<String>, SecretError> {
        self.open_for(&place.bytes(), sealed)
    }

    fn open_for(&self, place: &[u8], sealed: &str) -> Result<Zeroizing<String>, SecretError> {
        let text = sealed.strip_prefix(PREFIX).ok_or(SecretError::UnknownForm)?;
        let bytes = BASE64.decode(text).map_err(|_| SecretError::UnknownForm)?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE>().ok_or(SecretError::UnknownForm)?;
        let payload = Payload { msg: sealed, aad: place };
        let opened = self.cipher.decrypt(&XNonce::from(*nonce), payload).map_err(|_| SecretError::WrongKey)?;
        let opened = String::from_utf8(opened).map_err(|error| {
            drop(Zeroizing::new(error.into_bytes()));
            SecretError::UnknownForm
        })?;
        Ok(Zeroizing::new(opened))
    }
}

/// Writes a new key beside its place and links it there: the file is whole whenever it is seen, and if two processes
/// do this at once, both use the same one.
fn create_key_file(path: &Path) -> io::Result<()> {
    let mut key = Zeroizing::new([0; KEY]);
    rand::rng().fill_bytes(&mut *key);
    let text = Zeroizing::new(format!("{}\n", BASE64.encode(*key)));

    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{:016x}.tmp", rand::rng().next_u64()));
    let draft = PathBuf::from(name);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| match std::fs::hard_link(&draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    let removed = std::fs::remove_file(&draft);
    linked.and(removed)?;
    // The name must last as long as what will be sealed with the key.
    File::open(directory)?.sync_all()
}

#[cfg(unix)]
fn check_permissions(path: &Path, file: &File) -> Result<(), SecretError> {
    use std::os::unix::fs::PermissionsExt;

    let metadata =
        file.metadata().map_err(|error| SecretError::KeyFile { path: path.to_owned(), what: error.to_string() })?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(SecretError::KeyFileShared { path: path.to_owned(), mode }) }
}

#[cfg(not(unix))]
fn check_permissions(_: &Path, _: &File) -> Result<(), SecretError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_sealed_opens_and_nothing_else_does(
            secret in ".{0,200}", key: [u8; KEY], flip in 0_usize..1000, bit in 0_u8..8,
        ) {
            let (tenant, session) = (TenantId::local(), SessionId::mint());
            let place = SecretPlace { tenant: &tenant, session: &session, option: "token" };
            let secrets = SecretBox::new(&Zeroizing::new(key));
            let sealed = secrets.seal(place, &secret).unwrap();
            let opened = secrets.open(place, &sealed).unwrap();
            prop_assert_eq!(opened.as_str(), secret.as_str());

            let mut bytes = BASE64.decode(&sealed[PREFIX.len()..]).unwrap();
            let flip = flip % bytes.len();
            bytes[flip] ^= 1 << bit;
            let changed = format!("{PREFIX}{}", BASE64.encode(bytes));
            prop_assert!(matches!(secrets.open(place, &changed), Err(SecretError::WrongKey)));
        }

        #[test]
        fn rubbish_does_not_open(rubbish in ".{0,100}") {
            let (tenant, session) = (TenantId::local(), SessionId::mint());
            let place = SecretPlace { tenant: &tenant, session: &session, option: "token" };
            let secrets = SecretBox::new(&Zeroizing::new([7; KEY]));
            prop_assert!(secrets.open(place, &rubbish).is_err());
            let prefixed = format!("{PREFIX}{rubbish}");
            prop_assert!(secrets.open(place, &prefixed).is_err());
        }
    }
}
