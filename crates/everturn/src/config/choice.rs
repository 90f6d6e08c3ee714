//! Words of which only a few are allowed.

use std::ops::Range;

use everturn_core::{Effort, Thinking};
use everturn_engine::ClientTrust;
use everturn_models::OpenAiWire;

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

impl Choice for ClientTrust {
    const WHAT: &'static str = "client_trust";
    const WORDS: &'static [(&'static str, Self)] =
        &[("any", Self::Any), ("configured", Self::Configured), ("never", Self::Never)];
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

impl Choice for OpenAiWire {
    const WHAT: &'static str = "wire";
    const WORDS: &'static [(&'static str, Self)] = &[("chat", Self::Chat), ("responses", Self::Responses)];
}

impl Choice for Effort {
    const WHAT: &'static str = "effort";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("minimal", Self::Minimal),
        ("low", Self::Low),
        ("medium", Self::Medium),
        ("high", Self::High),
        ("xhigh", Self::Xhigh),
        ("max", Self::Max),
    ];
}

impl Choice for Thinking {
    const WHAT: &'static str = "mode of thinking";
    const WORDS: &'static [(&'static str, Self)] = &[("off", Self::Off), ("on", Self::On), ("summary", Self::Summary)];
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
