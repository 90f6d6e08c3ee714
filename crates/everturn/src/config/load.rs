//! Finds the file, reads it and checks it.

use std::{
    collections::BTreeSet,
    io,
    ops::Range,
    path::{Path, PathBuf},
};

use super::{
    Environment, Found, OLLAMA_ADDRESS,
    check::{self, Context},
    file::File,
    find_agents,
    problem::{Problem, Problems, Report},
    settings::{Config, Durability, Source, StoreLocation},
};

/// The file that is read where none is named.
const USUAL_FILE: &str = "everturn.toml";
/// A larger file is not a configuration.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// The most mistakes in the shape of a file that are told at once.
const MAX_SHAPE_PROBLEMS: usize = 20;

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
    // A file that is wrong is not worth a look at what runs here.
    let is_complete = document.file.has_own_agents() || document.mistakes.is_some();
    let found = if is_complete { Found::default() } else { find_agents(environment, OLLAMA_ADDRESS).await };
    let tools = everturn_tools::builtin_tools().iter().map(|tool| tool.spec().name.clone()).collect();
    Ok(document.check(overrides, environment, &tools, found)?)
}

/// Where everything is kept, for those who need no more: what else the file says need not hold up, nor the variables be
/// set that it names.
pub fn load_store(named: Option<&Path>, overrides: &Overrides) -> Result<(StoreLocation, Durability), LoadError> {
    let (source, bytes) = find(named)?;
    let document = Document::read(source, &bytes)?;
    let mut report = Report::new(path(&document.source), document.text);
    report.extend(document.mistakes.map(|mistakes| mistakes.problems).unwrap_or_default());
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

/// A file whose shape is right, but for mistakes that were found and left out; its words are not checked yet.
struct Document<'t> {
    source: Source,
    text: &'t str,
    file: File,
    mistakes: Option<Mistakes>,
}

/// Mistakes in the shape of a file.
struct Mistakes {
    problems: Vec<Problem>,
    /// The lines that are left out because of them.
    left_out: String,
}

impl Mistakes {
    /// Whether a problem of the rest may be there only because these lines are left out: one that has no place, or names something
    /// that stands in them.
    fn may_explain(&self, problem: &Problem) -> bool {
        let mut named = problem.message.split('`').skip(1).step_by(2).flat_map(|name| name.split('/'));
        problem.place.is_none() || named.any(|name| !name.is_empty() && self.left_out.contains(name))
    }
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
            Ok(file) => Ok(Self { source, text, file, mistakes: None }),
            Err(error) => {
                let mut report = Report::new(path(&source), text);
                report.add_toml(&error);
                let (whole, mut rest, mut error) = (text, text.to_owned(), error);
                let mut file = None;
                for _ in 1..MAX_SHAPE_PROBLEMS {
                    let Some(span) = error.span() else { break };
                    let Some(shorter) = without(&rest, span) else { break };
                    rest = shorter;
                    let next = match toml::from_str::<File>(&rest) {
                        Ok(read) => {
                            file = Some(read);
                            break;
                        }
                        Err(next) => next,
                    };
                    // What is missing now may have been in the lines of a mistake.
                    let is_ours = next.message().starts_with("missing field")
                        && next.span().is_some_and(|span| table_at(whole, span.start) != table_at(&rest, span.start));
                    if !is_ours {
                        report.add_toml(&next);
                    }
                    error = next;
                }
                let Some(file) = file else { return report.finish(None) };
                let lines = text.lines().zip(rest.lines()).filter(|(line, left)| line != left);
                let left_out = lines.flat_map(|(line, _)| [line, "\n"]).collect();
                let mistakes = Some(Mistakes { problems: report.into_problems(), left_out });
                Ok(Self { source, text, file, mistakes })
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
        if let Some(mistakes) = self.mistakes {
            report.retain(|problem| !mistakes.may_explain(problem));
            report.extend(mistakes.problems);
        }
        report.finish(config)
    }
}

/// The lines of the table whose header stands at a place.
fn table_at(text: &str, place: usize) -> &str {
    let place = text.floor_char_boundary(place);
    let start = text[..place].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[place..].find("\n[").map_or(text.len(), |length| place + length);
    &text[start..end]
}

/// A text with blanks instead of the lines of a mistake, or instead of the whole table whose header it is in, so that the
/// next mistake is found at its place. `None` where the rest would not be TOML.
fn without(text: &str, mistake: Range<usize>) -> Option<String> {
    let line = |at: usize| text.get(..at).map(|before| before.rfind('\n').map_or(0, |newline| newline + 1));
    let start = line(mistake.start)?;
    let is_header = |line: &str| line.trim_start().starts_with('[');
    let end_of = |from: usize| text[from..].find('\n').map_or(text.len(), |length| from + length);
    let mut end = end_of(mistake.end.clamp(start, text.len()));
    if is_header(&text[start..end]) {
        while end < text.len() && !is_header(&text[end + 1..end_of(end + 1)]) {
            end = end_of(end + 1);
        }
    }
    let blank = |byte: u8| if byte == b'\n' { '\n' } else { ' ' };
    let blanks: String = text[start..end].bytes().map(blank).collect();
    let rest = format!("{}{blanks}{}", &text[..start], &text[end..]);
    (rest != text && toml::from_str::<toml::Table>(&rest).is_ok()).then_some(rest)
}

fn path(source: &Source) -> Option<PathBuf> {
    match source {
        Source::File(file) => Some(file.clone()),
        Source::Defaults => None,
    }
}
