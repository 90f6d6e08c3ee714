//! Titles of conversations: the main words of what the user said first.

use everturn_core::Message;

/// How the engine's request for a title begins.
pub(super) const REQUEST: &str = "Write a title for this conversation";

/// How many words a title has at most.
const MAX_WORDS: usize = 6;

/// How many characters a title has at most.
const MAX_CHARACTERS: usize = 60;

/// Words that say nothing about a subject.
const SMALL_WORDS: [&str; 63] = [
    "a", "about", "an", "and", "are", "as", "at", "be", "by", "can", "could", "did", "do", "does", "for", "from",
    "give", "had", "has", "have", "how", "i", "i'm", "if", "in", "into", "is", "it", "it's", "its", "let", "like",
    "me", "must", "my", "of", "on", "or", "our", "please", "should", "so", "tell", "that", "the", "then", "there",
    "this", "to", "us", "use", "want", "was", "we", "what", "what's", "when", "which", "why", "will", "with", "would",
    "you",
];

/// A title for a conversation.
pub(super) fn of<'m>(messages: impl IntoIterator<Item = &'m Message>) -> String {
    let first = messages.into_iter().find_map(|message| match message {
        Message::User { content } => Some(content.text()).filter(|text| !text.trim().is_empty()),
        Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
    });
    first.and_then(|text| main_words(&text)).unwrap_or_else(|| "New conversation".to_owned())
}

/// The main words of a text, with a capital letter. Where it has no other words, the small ones.
pub(super) fn main_words(text: &str) -> Option<String> {
    let words = || {
        text.split_whitespace()
            .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
            .filter(|word| !word.is_empty())
    };
    let main = words().filter(|word| !SMALL_WORDS.contains(&word.to_lowercase().as_str()));
    let mut chosen: Vec<&str> = main.take(MAX_WORDS).collect();
    if chosen.is_empty() {
        chosen = words().take(MAX_WORDS).collect();
    }
    let title: String = chosen.join(" ").chars().take(MAX_CHARACTERS).collect();
    Some(capitalised(title.trim_end())).filter(|title| !title.is_empty())
}

/// The text with a capital letter at the beginning.
pub(super) fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().into_iter().flat_map(char::to_uppercase).chain(characters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_made_of_main_words() {
        for (said, title) in [
            ("Why is the sky blue?", "Sky blue"),
            ("what is 12*7?", "12*7"),
            ("Please write a page about the history of “tea” in Japan and China", "Write page history tea Japan China"),
            ("What is it?", "What is it"),
            ("élan vital", "Élan vital"),
            ("?!", "New conversation"),
            ("", "New conversation"),
        ] {
            assert_eq!(of(&[Message::user(said), Message::assistant("Well.")]), title, "{said}");
        }
        assert_eq!(of(&[Message::user(" "), Message::assistant("?"), Message::user("green tea")]), "Green tea");
        assert_eq!(of(&[]), "New conversation");
        assert_eq!(of(&[Message::user("x".repeat(500))]).len(), 60);
    }
}
