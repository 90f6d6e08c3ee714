//! Texts from outside, made fit to be told.

use everturn_core::{Block, Content, Json};
use secrecy::{ExposeSecret, SecretString};

use crate::ServerConfig;

/// Stands in for a secret.
const HIDDEN: &str = "•••";
/// Shorter values are no secrets, and hiding them would make texts unreadable.
const SHORTEST_SECRET: usize = 6;

/// At most so many bytes of a text, cut between characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)])
}

/// One line without control characters, of at most so many bytes.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let clean: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    shortened(&clean, most)
}

/// Hides the secrets of a configuration in what a server says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets(Vec<SecretString>);

impl Secrets {
    /// All that a server may have.
    pub(crate) fn of(config: &ServerConfig) -> Self {
        Self::among(config.possible_secrets())
    }

    /// Those that a server has for sure.
    pub(crate) fn sure(config: &ServerConfig) -> Self {
        Self::among(config.secrets.iter().map(ExposeSecret::expose_secret))
    }

    fn among<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let mut found: Vec<&str> = Vec::new();
        for value in values.filter(|value| value.len() >= SHORTEST_SECRET) {
            found.push(value);
            // `Bearer abc`: a server may repeat the token alone.
            found.extend(value.split_once(' ').map(|(_, token)| token).filter(|token| token.len() >= SHORTEST_SECRET));
        }
        // As they are within JSON, too.
        let escaped: Vec<String> = found
            .iter()
            .map(|value| serde_json::Value::from(*value).to_string())
            .map(|json| json[1..json.len() - 1].to_owned())
            .collect();
        found.extend(escaped.iter().map(String::as_str));
        // The longest first, so that none is left in part.
        found.sort_by_key(|value| std::cmp::Reverse(value.len()));
        found.dedup();
        Self(found.into_iter().map(SecretString::from).collect())
    }

    /// The content without them.
    pub(crate) fn hide_in(&self, content: Content) -> Content {
        if self.0.is_empty() {
            return content;
        }
        match content {
            Content::Text(text) => Content::Text(self.hide(text)),
            Content::Blocks(blocks) => {
                let hidden = |block| match block {
                    Block::Text(text) => Block::Text(self.hide(text)),
                    other => other,
                };
                Content::Blocks(blocks.into_iter().map(hidden).collect())
            }
        }
    }

    /// The news without them.
    pub(crate) fn hide_in_json(&self, json: Json) -> Json {
        if self.0.iter().all(|secret| !json.as_str().contains(secret.expose_secret())) {
            return json;
        }
        Json::parse(&self.hide(json.as_str().to_owned())).unwrap_or_else(|_| Json::empty_object())
    }

    /// The text without them.
    pub(crate) fn hide(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| match text.contains(secret.expose_secret()) {
            true => text.replace(secret.expose_secret(), HIDDEN),
            false => text,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Endpoint;

    #[test]
    fn lines() {
        assert_eq!(one_line("  a\tb\u{1b}[0m\n", 20), "a b [0m");
        assert_eq!(one_line("éé", 3), "é…");
    }

    #[test]
    fn secrets_are_hidden_whole_and_in_part() {
        let headers = BTreeMap::from([
            ("authorization".to_owned(), SecretString::from("Bearer abcdef123")),
            ("x-short".to_owned(), SecretString::from("1")),
        ]);
        let config = ServerConfig::new("a", Endpoint::Http { url: String::new(), headers });
        let secrets = Secrets::of(&config);
        let hide = |text: &str| secrets.hide(text.to_owned());
        assert_eq!(hide("got Bearer abcdef123 and abcdef123, 1"), "got ••• and •••, 1");
        assert!(!format!("{secrets:?}").contains("abcdef123"));
    }
}
