//! Words of which only a few are allowed.

use std::ops::Range;

use super::{
    problem::Report,
    settings::{Durability, ProviderKind, Scope},
    suggest,
};

/// Something that a file names with one of a few words.
pub(super) trait Choice: Copy + 'static {
    /// What it is, in words.
    const WHAT: &'static str;
    /// The words.
    const WORDS: &'static [(&'static str, Self)];
}

impl Choice for Durability {
    const WHAT: &'static str = "durability";
    const WORDS: &'static [(&'static str, Self)] = &[("fsync", Self::Fsync), ("process", Self::Process)];
}

impl Choice for Scope {
    const WHAT: &'static str = "scope";
    const WORDS: &'static [(&'static str, Self)] =
        &[("chat", Self::Chat), ("read", Self::Read), ("admin", Self::Admin)];
}

impl Choice for ProviderKind {
    const WHAT: &'static str = "kind of provider";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("openai", Self::OpenAi),
        ("anthropic", Self::Anthropic),
        ("gemini", Self::Gemini),
        ("ollama", Self::Ollama),
        ("demo", Self::Demo),
    ];
}

/// What a word stands for; a problem if it stands for nothing.
pub(super) fn choose<C: Choice>(report: &mut Report<'_>, at: Option<Range<usize>>, word: &str) -> Option<C> {
    let choice = C::WORDS.iter().find(|(name, _)| *name == word).map(|(_, choice)| *choice);
    if choice.is_none() {
        let hint = suggest::did_you_mean(word, "choices", C::WORDS.iter().map(|(name, _)| *name));
        report.add(at, format!("there is no {} `{word}`", C::WHAT), hint);
    }
    choice
}
