//! Artifacts that the demo model writes: Markdown that keeps to the subject it was given.

use everturn_core::{Json, Message, Messages, ToolUse};
use serde::Serialize;
use serde_json::Value;

use super::{feature::Feature, title, words};

/// What a document may be called in a request.
const DOCUMENTS: [&str; 8] = ["artifact", "document", "file", "page", "report", "letter", "article", "essay"];

/// How far from the verb a request names the document: "write me a very short report".
const REACH: usize = 5;

/// How many characters a title or a subject has at most.
const MAX_SUBJECT: usize = 80;

#[derive(Serialize)]
struct Create<'a> {
    title: &'a str,
    r#type: &'a str,
    content: String,
}

#[derive(Serialize)]
struct Update<'a> {
    artifact_id: &'a str,
    content: String,
}

/// Whether these words, in lower case, ask for a document.
pub(super) fn is_wanted(words: &[&str]) -> bool {
    words.iter().any(|word| matches!(*word, "artifact" | "page"))
        || words.windows(2).any(|pair| pair == ["document", "called"])
        || follows(words, &["write", "create", "make", "draft"], &DOCUMENTS)
}

/// Whether these words, in lower case, ask for a change of a document.
pub(super) fn is_change(words: &[&str]) -> bool {
    let verbs = ["update", "change", "revise", "rewrite"];
    words.windows(2).any(|pair| verbs.contains(&pair[0]) && pair[1] == "it") || follows(words, &verbs, &DOCUMENTS)
}

/// Whether one of `nouns` comes soon after one of `verbs`.
fn follows(words: &[&str], verbs: &[&str], nouns: &[&str]) -> bool {
    let near = |at: usize| words[at + 1..].iter().take(REACH).any(|word| nouns.contains(word));
    words.iter().enumerate().any(|(at, word)| verbs.contains(word) && near(at))
}

/// The input of `create_artifact` for a message.
pub(super) fn create(message: &str) -> Option<Json> {
    let title = title(message);
    let content = document(&title, message);
    Json::of(&Create { title: &title, r#type: "markdown", content }).ok()
}

/// The input of `update_artifact` for a message: the newest artifact, with a section for the change.
pub(super) fn update(message: &str, history: &Messages) -> Option<Json> {
    let Artifact { id, content } = last(history)?;
    let content = content.unwrap_or_else(|| document(&title(message), message));
    let content = format!(
        "{}\n\n## Change\n\nYou asked: {}. I change nothing but this: what was there before stands above, and the \
         change has this section of its own.\n",
        content.trim_end(),
        words::quote(message)
    );
    Json::of(&Update { artifact_id: &id, content }).ok()
}

/// An artifact of the conversation.
#[derive(Debug, PartialEq)]
pub(super) struct Artifact {
    pub(super) id: String,
    /// Its content, where the call that wrote it is still known.
    content: Option<String>,
}

/// The artifact that was written last. Results come right after the message that made the calls.
pub(super) fn last(history: &Messages) -> Option<Artifact> {
    let writes =
        |call: &&ToolUse| matches!(Feature::named(&call.name), Some(Feature::CreateArtifact | Feature::UpdateArtifact));
    let (mut calls, mut last) = (Vec::new(), None);
    for message in history.iter() {
        match message {
            Message::Assistant { .. } => calls = message.tool_uses().filter(writes).collect(),
            Message::Tool { call_id, content, is_error: false } => {
                let written = calls.iter().find(|call| call.id == *call_id).zip(id(&content.text()));
                last = written.map(|(call, id)| Artifact { id, content: member(call, "content") }).or(last);
            }
            Message::Tool { .. } | Message::User { .. } | Message::System { .. } => {}
        }
    }
    last
}

/// The artifact that a result names: as a member of a JSON object, or as a word.
pub(super) fn id(result: &str) -> Option<String> {
    let object = serde_json::from_str::<Value>(result).ok();
    if let Some(id) = object.as_ref().and_then(|object| object.get("artifact_id")?.as_str()) {
        return Some(id.to_owned());
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut words = result.split(|c: char| !is_part(c)).map(|word| word.trim_end_matches('.'));
    words.find(|word| word.len() > 4 && word.starts_with("art_")).map(str::to_owned)
}

/// A text in the input of a call.
pub(super) fn member(call: &ToolUse, name: &str) -> Option<String> {
    Some(call.input.to_value().get(name)?.as_str()?.to_owned())
}

/// What the document is to be called: the name that the message gives it, its subject, or its main words.
fn title(message: &str) -> String {
    let named = after(message, &[" called ", " titled ", " named "]).map(|name| before(name, " about "));
    let title = named.or_else(|| after(message, &[" about "])).map(title::capitalised);
    title.or_else(|| title::main_words(message)).unwrap_or_else(|| "Notes".to_owned())
}

/// The words after the first of `markers` that the message has, up to the end of the sentence.
fn after<'a>(message: &'a str, markers: &[&str]) -> Option<&'a str> {
    // Lower-casing ASCII only keeps every byte's place.
    let haystack = message.to_ascii_lowercase();
    let start = markers.iter().find_map(|marker| Some(haystack.find(marker)? + marker.len()))?;
    let rest = &message[start..];
    let end = rest.find(['!', '?', '\n', ',', ';']).into_iter().chain(rest.find(". ")).min().unwrap_or(rest.len());
    let end = rest.char_indices().nth(MAX_SUBJECT).map_or(end, |(longest, _)| end.min(longest));
    Some(trimmed(&rest[..end])).filter(|words| !words.is_empty())
}

fn before<'a>(text: &'a str, marker: &str) -> &'a str {
    let end = text.to_ascii_lowercase().find(marker).unwrap_or(text.len());
    trimmed(&text[..end])
}

fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '“' | '”' | '.' | ':'))
}

/// A document of a few paragraphs.
fn document(title: &str, message: &str) -> String {
    let subject = after(message, &[" about "]).unwrap_or(title);
    let said = words::quote(message);
    format!(
        "# {title}\n\n\
         This document is about {subject}. You asked for it with the words {said}, and it appeared while it was being \
         written.\n\n\
         ## In short\n\n\
         - The subject is \"{subject}\", and nothing here leaves it.\n\
         - The text is *Markdown*: headings, lists and `code` are shown as such.\n\
         - It can be kept, opened again and downloaded.\n\n\
         ## In more words\n\n\
         Whoever wants to know all about {subject} needs a model that knows facts. The demo model knows none, so it \
         writes what it can stand for: that you wished to read of {subject}, and that a document grows beside the \
         conversation instead of within it.\n\n\
         ## What comes next\n\n\
         Say `change it`, and how. A new version then takes the place of this one, and this one is still there to go \
         back to.\n"
    )
}

#[cfg(test)]
mod tests {
    use everturn_core::CallId;

    use super::*;

    fn words(message: &str) -> Vec<&str> {
        message.split(|c: char| !c.is_alphanumeric()).collect()
    }

    #[test]
    fn requests_are_told_apart() {
        for message in ["write a page about tea", "an artifact, please", "write a file", "a document called notes"] {
            assert!(is_wanted(&words(message)) && !is_change(&words(message)), "{message}");
        }
        for message in ["update the artifact", "now change it to green", "rewrite that short document"] {
            assert!(is_change(&words(message)), "{message}");
        }
        for message in ["write to me", "document everything", "change trains", "it may change", "pages"] {
            assert!(!is_wanted(&words(message)) && !is_change(&words(message)), "{message}");
        }
    }

    #[test]
    fn titles_are_found() {
        for (message, expected) in [
            ("Write a document called \"Green tea\" about tea.", "Green tea"),
            ("write a page about the history of tea, please", "The history of tea"),
            ("make a file named notes.txt. Thanks!", "Notes.txt"),
            ("write a report", "Write report"),
            ("", "Notes"),
        ] {
            assert_eq!(title(message), expected, "{message}");
        }
    }

    fn written(id: &str, name: &str, result: &str) -> [Message; 2] {
        let input = Json::parse(r##"{"content":"# Old\n"}"##).unwrap();
        let call = ToolUse { id: CallId::new(id), name: name.to_owned(), input };
        let content = everturn_core::Content::answer(String::new(), None, String::new(), vec![call]);
        [Message::Assistant { content }, Message::tool(CallId::new(id), result)]
    }

    #[test]
    fn the_newest_artifact_is_changed() {
        let mut history = vec![Message::user("write a page")];
        assert_eq!(last(&history.clone().into()), None);
        history.extend(written("c1", "create_artifact", r#"{"artifact_id":"art_1","version":1}"#));
        history.extend(written("c2", "update_artifact", "The artifact art_2. It has version 2."));
        history.extend(written("c3", "clock", "art_3"));
        let history = Messages::from(history);
        assert_eq!(last(&history), Some(Artifact { id: "art_2".to_owned(), content: Some("# Old\n".to_owned()) }));
        let input = update("change it", &history).unwrap().to_value();
        assert_eq!(input["artifact_id"], "art_2");
        assert!(input["content"].as_str().unwrap().starts_with("# Old\n\n## Change\n\nYou asked: “change it”."));
    }

    proptest::proptest! {
        #[test]
        fn any_message_is_taken(message in "( called | about |[.,\"é a-z]){0,40}") {
            let input = create(&message).unwrap().to_value();
            let title = input["title"].as_str().unwrap();
            proptest::prop_assert!((1..=200).contains(&title.chars().count()), "{title:?}");
        }
    }
}
