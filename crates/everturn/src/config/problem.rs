//! What is wrong with a configuration, where, and what to do about it.
//!
//! No source text is quoted: the line may hold a key.

use std::{fmt, ops::Range, path::PathBuf};

use super::suggest;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What.
    pub message: String,
    /// Where in the file; `None` if it is not in the file.
    pub place: Option<Place>,
    /// What to do.
    pub hint: Option<String>,
}

/// A place in a file, counted from 1; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// Everything that is wrong with a configuration. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// The problems, in the order of the file.
    pub problems: Vec<Problem>,
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                write!(f, "\n\n")?;
            }
            write!(f, "error: {}", problem.message)?;
            if let (Some(file), Some(place)) = (&self.file, problem.place) {
                write!(f, "\n  --> {}:{}:{}", file.display(), place.line, place.column)?;
            }
            if let Some(hint) = &problem.hint {
                write!(f, "\n\nhint: {hint}")?;
            }
        }
        Ok(())
    }
}

/// Gathers problems while a configuration is checked.
pub(super) struct Report<'t> {
    file: Option<PathBuf>,
    text: &'t str,
    problems: Vec<Problem>,
}

impl<'t> Report<'t> {
    pub(super) fn new(file: Option<PathBuf>, text: &'t str) -> Self {
        Self { file, text, problems: Vec::new() }
    }

    /// Notes a problem at a place in the text, or at none.
    pub(super) fn add(
        &mut self,
        at: Option<Range<usize>>,
        message: impl Into<String>,
        hint: impl Into<Option<String>>,
    ) {
        let place = at.map(|span| self.place(span.start));
        self.problems.push(Problem { message: message.into(), place, hint: hint.into() });
    }

    /// Notes what the TOML reader says.
    pub(super) fn add_toml(&mut self, error: &toml::de::Error) {
        let (message, hint) = translate(error.message());
        match error.span().and_then(|span| Some((self.key_of(span.start)?, self.text.get(span)?))) {
            Some((key, value)) if message.starts_with("expected ") => {
                let hint = hint.or_else(|| suggest::value(key, value, &message));
                self.add(error.span(), format!("`{key}`: {message}"), hint);
            }
            _ => self.add(error.span(), message, hint),
        }
    }

    /// The key of the value at a place, if it stands in the same line.
    fn key_of(&self, value: usize) -> Option<&'t str> {
        let before = self.text.get(..value)?;
        let line = &before[before.rfind('\n').map_or(0, |newline| newline + 1)..];
        let key = line.trim_end().strip_suffix('=')?.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        (!key.is_empty() && key.chars().all(is_name)).then_some(key)
    }

    /// Takes problems that were noted elsewhere.
    pub(super) fn extend(&mut self, problems: Vec<Problem>) {
        self.problems.extend(problems);
    }

    /// Forgets the other problems.
    pub(super) fn retain(&mut self, keep: impl FnMut(&Problem) -> bool) {
        self.problems.retain(keep);
    }

    /// What was noted.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// The value, if nothing is wrong.
    pub(super) fn finish<T>(mut self, value: Option<T>) -> Result<T, Problems> {
        self.problems.sort_by_key(|problem| problem.place);
        match value {
            Some(value) if self.problems.is_empty() => Ok(value),
            Some(_) | None => Err(Problems { file: self.file, problems: self.problems }),
        }
    }

    fn place(&self, offset: usize) -> Place {
        let before = &self.text[..self.text.floor_char_boundary(offset)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }
}

/// The words of the TOML reader in ours. It quotes values of a wrong type, which may be secrets; we do not.
fn translate(message: &str) -> (String, Option<String>) {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if let (true, [unknown, known @ ..]) = (message.starts_with("unknown field"), quoted.as_slice()) {
        let hint = suggest::did_you_mean(unknown, "keys here", known.iter().copied());
        return (format!("unknown key `{unknown}`"), Some(hint));
    }
    if let (true, [missing, ..]) = (message.starts_with("missing field"), quoted.as_slice()) {
        return (format!("the key `{missing}` is missing"), None);
    }
    if let Some(mismatch) = message.strip_prefix("invalid type: ")
        && let Some((found, expected)) = mismatch.rsplit_once(", expected ")
    {
        let kind = found.split(['`', '"']).next().unwrap_or_default().trim();
        return (format!("expected {}, found {}", in_toml(expected), in_toml(kind)), None);
    }
    (message.trim().to_owned(), None)
}

/// What TOML calls a type that the reader calls by a name of Rust.
fn in_toml(kind: &str) -> &str {
    match kind {
        "string" => "a string",
        "i64" | "integer" => "an integer",
        "floating point" => "a float",
        "f64" => "a number",
        "boolean" => "a boolean",
        "a sequence" | "sequence" => "an array",
        "a map" | "map" => "a table",
        kind if kind.starts_with("struct ") => "a table",
        kind => kind,
    }
}
