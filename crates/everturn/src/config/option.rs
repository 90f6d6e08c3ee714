//! Checks the options that an agent declares.

use std::{collections::BTreeSet, ops::Range};

use everturn_core::OptionSpec;

use super::{
    choice::{Choice, choose},
    file::{AgentOption, Text},
    problem::Report,
    suggest,
};

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Secret,
    Select,
}

impl Choice for Kind {
    const WHAT: &'static str = "type of option";
    const WORDS: &'static [(&'static str, Self)] =
        &[("text", Self::Text), ("secret", Self::Secret), ("select", Self::Select)];
}

/// The options that hold up. Names are unique within an agent.
pub(super) fn check(report: &mut Report<'_>, options: Vec<AgentOption>) -> Vec<OptionSpec> {
    let mut names = BTreeSet::new();
    let mut checked = Vec::with_capacity(options.len());
    for option in options {
        let name = option.name.get_ref();
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > 64 || !name.chars().all(word) {
            let message = format!("`{name}` cannot be the name of an option");
            report.add(Some(option.name.span()), message, "use 1 to 64 characters of A-Z a-z 0-9 _ -".to_owned());
        } else if !names.insert(name.clone()) {
            report.add(Some(option.name.span()), format!("the agent has two options `{name}`"), None);
        }
        if let Some(kind) = choose::<Kind>(report, Some(option.kind.span()), option.kind.get_ref()) {
            checked.extend(spec(report, kind, option));
        }
    }
    checked
}

fn spec(report: &mut Report<'_>, kind: Kind, option: AgentOption) -> Option<OptionSpec> {
    let AgentOption { kind: word, name, title, description, options, default } = option;
    let name = name.into_inner();
    if let (Kind::Text | Kind::Secret, Some(options)) = (kind, &options) {
        let message = format!("the option `{name}` has choices, but is a {}", word.get_ref());
        report.add(Some(options.span()), message, "choices belong to an option of type `select`".to_owned());
    }
    match kind {
        Kind::Text => {
            let default = default.map(Text::into_inner).unwrap_or_default();
            Some(OptionSpec::Text { name, title, description, default })
        }
        Kind::Secret => {
            if let Some(default) = default.filter(|default| !default.get_ref().is_empty()) {
                let message = format!("the option `{name}` is a secret and has a default");
                let hint = "defaults are shown to every client; leave it out, and let each session set it".to_owned();
                report.add(Some(default.span()), message, hint);
            }
            Some(OptionSpec::Secret { name, title, description, default: String::new() })
        }
        Kind::Select => {
            let (choices, span) = choices(report, &name, word.span(), options)?;
            let default = match default {
                Some(default) if choices.contains(default.get_ref()) => default.into_inner(),
                Some(default) => {
                    let message = format!("`{}` is not one of the choices of the option `{name}`", default.get_ref());
                    let hint = suggest::did_you_mean(default.get_ref(), "choices", choices.iter().map(String::as_str));
                    report.add(Some(default.span()), message, hint);
                    return None;
                }
                None => {
                    let hint = "name one of the choices as `default`".to_owned();
                    report.add(Some(span), format!("the option `{name}` has no default"), hint);
                    return None;
                }
            };
            Some(OptionSpec::Select { name, title, description, options: choices, default })
        }
    }
}

fn choices(
    report: &mut Report<'_>,
    name: &str,
    kind_at: Range<usize>,
    options: Option<toml::Spanned<Vec<Text>>>,
) -> Option<(Vec<String>, Range<usize>)> {
    let Some(options) = options.filter(|options| !options.get_ref().is_empty()) else {
        let hint = "list them: options = [\"one\", \"two\"]".to_owned();
        report.add(Some(kind_at), format!("the option `{name}` is a select without choices"), hint);
        return None;
    };
    let span = options.span();
    let mut choices: Vec<String> = Vec::with_capacity(options.get_ref().len());
    for choice in options.into_inner() {
        if choices.contains(choice.get_ref()) {
            let message = format!("the option `{name}` has the choice `{}` twice", choice.get_ref());
            report.add(Some(choice.span()), message, None);
        }
        choices.push(choice.into_inner());
    }
    Some((choices, span))
}
