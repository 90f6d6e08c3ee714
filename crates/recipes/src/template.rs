//! Texts with places for values.
//!
//! The language and the engine are those of Goose. That engine bounds the steps that a template takes but neither the
//! memory nor the depth of its own calls, and a recipe may come from anybody. So a text is looked at in three steps
//! before the engine may have it: [`literal`] keeps what Goose keeps, [`tags`] refuses long tags, and [`allowed`] refuses
//! everything that could make a value grow. What is then left of growing, the filters, counts its work ([`filters`]).

mod allowed;
mod filters;
mod literal;
mod tags;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    io,
    sync::LazyLock,
};

use minijinja::{Environment, Error, ErrorKind, Value, machinery, syntax::SyntaxConfig};

use crate::{RenderError, bounds, text::one_line, values::RECIPE_DIR};

/// The names that a text uses. An error says what in it is not taken.
pub(crate) fn variables(field: &'static str, text: &str) -> Result<BTreeSet<String>, String> {
    if is_plain(text) {
        return Ok(BTreeSet::new());
    }
    let text = literal::keep(text);
    tags::check(&text)?;
    let tree = machinery::parse(&text, field, syntax()).map_err(|error| message(&error))?;
    allowed::check(&tree)?;
    let mut environment = Environment::empty();
    environment.set_syntax(syntax());
    let template = environment.template_from_named_str(field, &text).map_err(|error| message(&error))?;
    Ok(template.undeclared_variables(false).into_iter().collect())
}

/// Puts values into texts that [`variables`] found nothing wrong with.
pub(crate) struct Renderer {
    environment: Environment<'static>,
    has_folder: bool,
    values: Value,
    left: usize,
}

impl Renderer {
    pub(crate) fn new(values: BTreeMap<String, String>) -> Self {
        let mut environment = Environment::empty();
        environment.set_syntax(syntax());
        environment.set_fuel(Some(bounds::FUEL));
        filters::add(&mut environment);
        Self {
            environment,
            has_folder: values.contains_key(RECIPE_DIR),
            values: Value::from_pairs(values),
            left: bounds::RENDERED,
        }
    }

    pub(crate) fn render(&mut self, field: &'static str, text: &str) -> Result<String, RenderError> {
        let mut output = Output { bytes: Vec::new(), left: self.left, is_full: false };
        if is_plain(text) {
            let _ = io::Write::write(&mut output, text.as_bytes());
        } else {
            self.evaluate(field, text, &mut output)?;
        }
        if output.is_full {
            return Err(RenderError::TooLarge { limit: bounds::RENDERED });
        }
        self.left = output.left;
        String::from_utf8(output.bytes)
            .map_err(|error| RenderError::Failed { field, what: error.utf8_error().to_string() })
    }

    fn evaluate(&self, field: &'static str, text: &str, output: &mut Output) -> Result<(), RenderError> {
        let failed = |what: String| RenderError::Failed { field, what };
        // The fields of a recipe are open to change after it was read.
        let names = variables(field, text).map_err(failed)?;
        if names.contains(RECIPE_DIR) && !self.has_folder {
            return Err(RenderError::NoFolder { field });
        }
        let text = literal::keep(text);
        let template = self.environment.template_from_named_str(field, &text);
        let template = template.map_err(|error| failed(message(&error)))?;
        match template.render_captured_to(self.values.clone(), &mut *output) {
            Ok(_) => Ok(()),
            Err(_) if output.is_full => Ok(()),
            Err(error) => Err(failed(message(&error))),
        }
    }
}

/// Whether nothing in the text means anything.
fn is_plain(text: &str) -> bool {
    !["{{", "{%", "{#"].iter().any(|begin| text.contains(begin))
}

fn syntax() -> SyntaxConfig {
    // To make one takes long; to copy one does not.
    static SYNTAX: LazyLock<SyntaxConfig> = LazyLock::new(|| {
        // The engine would take the last line break of each text for the end of a file.
        SyntaxConfig::builder().keep_trailing_newline(true).build().unwrap_or_default()
    });
    SYNTAX.clone()
}

/// What went wrong, in words.
fn message(error: &Error) -> String {
    let what = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => Cow::from(format!("it takes more than {} steps", bounds::FUEL)),
        (kind, None) => Cow::from(kind.to_string()),
        (_, Some(detail)) => Cow::from(detail),
    };
    match error.line() {
        Some(line) => one_line(&format!("{what} (line {line})")),
        None => one_line(&what),
    }
}

/// Takes what is rendered, up to an end.
struct Output {
    bytes: Vec<u8>,
    left: usize,
    is_full: bool,
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len()) else {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.left = left;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
