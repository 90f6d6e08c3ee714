//! Refuses texts with too many tags, tags that are too long, and lines that are too long.
//!
//! The engine's parser, its compiler and the walk over its tree call themselves for each sign of an expression and for
//! each `elif`. Its tokenizer does not, so it is safe to count with.

use minijinja::machinery::{Token, tokenize};

use super::{message, syntax};
use crate::bounds;

/// Why a text is refused.
pub(super) enum Refused {
    /// It is not written as templates are.
    Wrong(String),
    /// There is too much of something.
    TooMuch(String),
}

impl From<Refused> for String {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Wrong(what) | Refused::TooMuch(what) => what,
        }
    }
}

/// Counts the tags, and the parts of each.
pub(super) fn check(text: &str) -> Result<(), Refused> {
    let too_much = |what| Err(Refused::TooMuch(what));
    if text.split('\n').any(|line| line.len() > bounds::LINE) {
        return too_much(format!("a line of it has more than {} bytes; break it", bounds::LINE));
    }
    let mut tags = 0;
    let mut parts = 0;
    let mut elifs = 0;
    for token in tokenize(text, false, syntax()) {
        match token.map_err(|error| Refused::Wrong(message(&error)))?.0 {
            Token::TemplateData(_) => {}
            Token::VariableStart | Token::BlockStart => {
                tags += 1;
                parts = 0;
            }
            token => {
                elifs += usize::from(parts == 0 && matches!(token, Token::Ident("elif")));
                parts += 1;
            }
        }
        if tags > bounds::TAGS {
            return too_much(format!("it has more than {} places and statements", bounds::TAGS));
        }
        if parts > bounds::TAG_PARTS {
            return too_much(format!("a place in it has more than {} words and signs", bounds::TAG_PARTS));
        }
        if elifs > bounds::ELIFS {
            return too_much(format!("it has {{% elif %}} more than {} times", bounds::ELIFS));
        }
    }
    Ok(())
}
