//! Finds the file, reads it and checks it.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use super::{
    Environment, Found, OLLAMA_ADDRESS,
    check::{self, Context},
    file::File,
    find_agents,
    problem::{Problems, Report},
    settings::{Config, Durability, Source, StoreLocation},
};

/// The file that is read where none is named.
const USUAL_FILE: &str = "everturn.toml";
/// A larger file is not a configuration.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Settings from flags and variables; they win over the file's.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Instead of `listen`.
    pub listen: Option<String>,
    /// Instead of `store`.
    pub store: Option<String>,
    /// Instead of `durability`.
    pub durability: Option<String>,
    /// Instead of `tls.cert`.
    pub tls_cert: Option<String>,
    /// Instead of `tls.key`.
    pub tls_key: Option<String>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {error}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It can be read, and is wrong.
    #[error(transparent)]
    Problems(#[from] Problems),
}

/// The configuration of the named file; else of `./everturn.toml`, if there is one; else the default one.
pub async fn load(named: Option<&Path>, overrides: &Overrides, environment: &Environment) -> Result<Config, LoadError> {
    let (source, bytes) = find(named)?;
    let document = Document::read(source, &bytes)?;
    let found =
        if document.file.has_own_agents() { Found::default() } else { find_agents(environment, OLLAMA_ADDRESS).await };
    let tools = everturn_tools::builtin_tools().iter().map(|tool| tool.spec().name.clone()).collect();
    Ok(document.check(overrides, environment, &tools, found)?)
}

/// Where everything is kept, for those who need no more: what else the file says need not hold up, nor the variables be
/// set that it names.
pub fn load_store(named: Option<&Path>, overrides: &Overrides) -> Result<(StoreLocation, Durability), LoadError> {
    let (source, bytes) = find(named)?;
    let document = Document::read(source, &bytes)?;
    let mut report = Report::new(path(&document.source), document.text);
    let store = check::check_store(&mut report, document.file, overrides);
    Ok(report.finish(store)?)
}

fn find(named: Option<&Path>) -> Result<(Source, Vec<u8>), LoadError> {
    let file = match named {
        Some(file) => Some(file),
        None => Some(Path::new(USUAL_FILE)).filter(|file| file.exists()),
    };
    Ok(match file {
        Some(file) => (Source::File(file.to_owned()), read(file)?),
        None => (Source::Defaults, Vec::new()),
    })
}

fn read(file: &Path) -> Result<Vec<u8>, LoadError> {
    let fail = |error| LoadError::Read { file: file.to_owned(), error };
    let size = std::fs::metadata(file).map_err(fail)?.len();
    if size > MAX_FILE_BYTES {
        return Err(fail(io::Error::other(format!("it has {size} bytes, at most {MAX_FILE_BYTES} are read"))));
    }
    std::fs::read(file).map_err(fail)
}

/// The configuration in a text. Nothing but the arguments is looked at.
pub fn parse(
    source: Source,
    text: &[u8],
    overrides: &Overrides,
    environment: &Environment,
    tools: &BTreeSet<String>,
    found: Found,
) -> Result<Config, Problems> {
    Document::read(source, text)?.check(overrides, environment, tools, found)
}

/// A file whose shape is right; its words are not checked yet.
struct Document<'t> {
    source: Source,
    text: &'t str,
    file: File,
}

impl<'t> Document<'t> {
    fn read(source: Source, bytes: &'t [u8]) -> Result<Self, Problems> {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                let mut report = Report::new(path(&source), std::str::from_utf8(valid).unwrap_or_default());
                let byte = rest.first().copied().unwrap_or_default();
                let message = format!("the file is not UTF-8 text: the byte 0x{byte:02x} cannot stand here");
                report.add(Some(valid.len()..valid.len()), message, None);
                return report.finish(None);
            }
        };
        match toml::from_str(text) {
            Ok(file) => Ok(Self { source, text, file }),
            Err(error) => {
                let mut report = Report::new(path(&source), text);
                report.add_toml(&error);
                report.finish(None)
            }
        }
    }

    fn check(
        self,
        overrides: &Overrides,
        environment: &Environment,
        tools: &BTreeSet<String>,
        found: Found,
    ) -> Result<Config, Problems> {
        let mut report = Report::new(path(&self.source), self.text);
        let context = Context { source: self.source, environment, overrides, tools, found };
        let config = check::check(&mut report, self.file, context);
        report.finish(config)
    }
}

fn path(source: &Source) -> Option<PathBuf> {
    match source {
        Source::File(file) => Some(file.clone()),
        Source::Defaults => None,
    }
}
