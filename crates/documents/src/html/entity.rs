//! Decodes `&amp;`, `&#8364;` and the like.

use std::{collections::HashMap, sync::LazyLock};

/// The longest name of an entity here.
const MAX_NAME: usize = 12;

/// Entities by name, as `name=code`.
static NAMES: LazyLock<HashMap<&str, char>> = LazyLock::new(|| {
    let pairs = include_str!("entities.txt").split_whitespace().filter_map(|pair| pair.split_once('='));
    pairs.filter_map(|(name, code)| Some((name, char::from_u32(u32::from_str_radix(code, 16).ok()?)?))).collect()
});

/// The character at the beginning of `text`, decoded, and what comes after it.
pub(crate) fn next(text: &str) -> Option<(char, &str)> {
    let rest = text.strip_prefix('&').and_then(entity);
    rest.or_else(|| {
        let mut characters = text.chars();
        Some((characters.next()?, characters.as_str()))
    })
}

/// Text with its entities decoded.
pub(crate) fn decode(mut text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    while let Some((character, rest)) = next(text) {
        decoded.push(character);
        text = rest;
    }
    decoded
}

fn entity(text: &str) -> Option<(char, &str)> {
    let end = text.bytes().take(MAX_NAME).position(|byte| byte == b';')?;
    let (name, rest) = (&text[..end], &text[end + 1..]);
    let character = match name.strip_prefix('#') {
        Some(code) => {
            let code = match code.strip_prefix(['x', 'X']) {
                Some(code) => u32::from_str_radix(code, 16).ok()?,
                None => code.parse().ok()?,
            };
            char::from_u32(code).filter(|character| *character != '\0').unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        None => *NAMES.get(name)?,
    };
    Some((character, rest))
}
