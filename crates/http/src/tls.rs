//! https: a certificate and its key, read from files and read again when they are renewed.

mod validity;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        Error, InconsistentKeys, ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
        version::{TLS12, TLS13},
    },
    server::TlsStream,
};

pub use self::validity::Untimely;

/// Larger files are neither certificates nor keys.
const MAX_BYTES: u64 = 1024 * 1024;

/// Where a certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those that vouch for it, as PEM.
    pub cert: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
}

/// Why files cannot be used for TLS. Never holds what is in them.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read the {what} {}: {error}", .file.display())]
    Read {
        /// What should be in it.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} {problem}", .file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// The files do not belong together.
    #[error(
        "the key {} does not belong to the certificate {}; name the key that the certificate was made for, and put that \
         certificate first in its file", .key.display(), .cert.display()
    )]
    Mismatch {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// The library refuses.
    #[error("cannot set up TLS: {0}")]
    Refused(#[from] Error),
}

impl TlsFiles {
    /// Reads both files and checks that they hold what they should and belong together. Tells if the certificate is of
    /// no use now, because of its time.
    pub fn check(&self) -> Result<Option<Untimely>, TlsError> {
        Ok(self.untimely(&*self.read()?))
    }

    fn untimely(&self, pair: &CertifiedKey) -> Option<Untimely> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Untimely::find(self.cert.clone(), &pair.cert, now)
    }

    pub(crate) fn read(&self) -> Result<Arc<CertifiedKey>, TlsError> {
        let chain = certificates(&self.cert)?;
        let key = private_key(&self.key)?;
        let unfit = |problem: &str, file: &Path| content(file, problem);
        let pair = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                TlsError::Mismatch { cert: self.cert.clone(), key: self.key.clone() }
            }
            Error::InvalidCertificate(reason) => unfit(&format!("holds a broken certificate: {reason:?}"), &self.cert),
            // What the library says of keys, it says without quoting them.
            Error::General(reason) => {
                unfit(&format!("holds a key that cannot be used: {reason}; RSA, ECDSA and Ed25519 keys can"), &self.key)
            }
            error => TlsError::Refused(error),
        })?;
        Ok(Arc::new(pair))
    }
}

fn content(file: &Path, problem: impl Into<String>) -> TlsError {
    TlsError::Content { file: file.to_owned(), problem: problem.into() }
}

fn text(what: &'static str, file: &Path) -> Result<Vec<u8>, TlsError> {
    let fail = |error| TlsError::Read { what, file: file.to_owned(), error };
    let metadata = std::fs::metadata(file).map_err(fail)?;
    if metadata.is_dir() {
        return Err(fail(io::Error::other("it is a folder")));
    }
    if metadata.len() > MAX_BYTES {
        let size = metadata.len();
        return Err(fail(io::Error::other(format!("it has {size} bytes, at most {MAX_BYTES} are read"))));
    }
    std::fs::read(file).map_err(fail)
}

fn has(text: &[u8], words: &str) -> bool {
    text.windows(words.len()).any(|window| window == words.as_bytes())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = text("certificate", file)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| content(file, format!("is broken PEM: {}", told(&error))))?;
    if chain.is_empty() {
        let problem = if has(&text, "PRIVATE KEY-----") {
            "has a private key and no certificate; are `cert` and `key` the wrong way round?"
        } else {
            "has no certificate; it must be PEM, with the line -----BEGIN CERTIFICATE-----"
        };
        return Err(content(file, problem));
    }
    Ok(chain)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = zeroize::Zeroizing::new(text("key", file)?);
    if has(&text, "-----BEGIN ENCRYPTED PRIVATE KEY-----") || has(&text, "Proc-Type: 4,ENCRYPTED") {
        let problem = "has a key that is locked with a password, which nobody could type at a start; write it without one: \
                       openssl pkey -in locked.pem -out privkey.pem";
        return Err(content(file, problem));
    }
    match PrivateKeyDer::from_pem_slice(&text) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) if has(&text, "-----BEGIN CERTIFICATE-----") => {
            Err(content(file, "has a certificate and no key; are `cert` and `key` the wrong way round?"))
        }
        Err(pem::Error::NoItemsFound) => {
            Err(content(file, "has no key; it must be PEM, with the line -----BEGIN PRIVATE KEY-----"))
        }
        Err(error) => Err(content(file, format!("is broken PEM: {}", told(&error)))),
    }
}

/// What is wrong with PEM, without a word of it: the library quotes lines.
fn told(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "it has a BEGIN line without its END line",
        pem::Error::IllegalSectionStart { .. } => "it has a BEGIN line that is malformed",
        pem::Error::Base64Decode(_) => "what is between BEGIN and END is not base64",
        pem::Error::SectionTooLarge => "it is too large",
        _ => "it cannot be read",
    }
}

/// https as a server speaks it. Cheap to clone; all clones get the renewed certificate.
#[derive(Clone)]
pub struct Tls {
    files: TlsFiles,
    current: Arc<Current>,
    acceptor: TlsAcceptor,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

/// The pair that new connections get.
struct Current(RwLock<Arc<CertifiedKey>>);

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Current")
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Tls {
    /// TLS 1.2 and 1.3 with the pair in these files, offering HTTP/2 and HTTP/1.1.
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let current = Arc::new(Current(RwLock::new(files.read()?)));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13, &TLS12])?;
        let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(&current) as _;
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = aws_lc_rs::Ticketer::new()?;
        Ok(Self { files, current, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// Where the pair is.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Reads the files again. New connections get the new pair; if it is no good, they get the old one.
    pub(crate) fn reload(&self) -> Result<Renewed, TlsError> {
        let pair = self.files.read()?;
        let mut current = self.current.0.write().unwrap_or_else(PoisonError::into_inner);
        let renewed = if current.cert == pair.cert { Renewed::Same } else { Renewed::Other };
        *current = pair;
        Ok(renewed)
    }

    /// Whether the certificate in use is of no use now, because of its time.
    pub(crate) fn untimely(&self) -> Option<Untimely> {
        let current = Arc::clone(&self.current.0.read().unwrap_or_else(PoisonError::into_inner));
        self.files.untimely(&current)
    }

    pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> io::Result<TlsStream<S>> {
        self.acceptor.accept(stream).await
    }
}

/// What was found when files were read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// The certificate that we had.
    Same,
    /// Another one.
    Other,
}

#[cfg(test)]
mod tests;
