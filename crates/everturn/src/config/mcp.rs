//! Checks MCP servers.

use std::collections::BTreeMap;

use everturn_core::EffectClass;
use everturn_mcp::{Endpoint, MAX_NAME, ServerConfig, is_server_name};
use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};

use super::{
    Environment,
    check::duration,
    choice::{Choice, choose},
    confinement,
    file::{self, Text},
    limits::number,
    problem::Report,
    secret::{self, is_kept_elsewhere},
};

/// Headers that MCP itself sets.
const RESERVED: [&str; 7] =
    ["accept", "content-length", "content-type", "host", "last-event-id", "mcp-protocol-version", "mcp-session-id"];

impl Choice for EffectClass {
    const WHAT: &'static str = "class of effects";
    const WORDS: &'static [(&'static str, Self)] =
        &[("read_only", Self::ReadOnly), ("idempotent", Self::Idempotent), ("effectful", Self::Effectful)];
}

/// The server, as far as it holds up.
pub(super) fn check(
    report: &mut Report<'_>,
    environment: &Environment,
    name: &Text,
    server: file::McpServer,
) -> Option<ServerConfig> {
    if !is_server_name(name.get_ref()) {
        let message = format!("`{}` cannot be the name of an MCP server", name.get_ref());
        report.add(Some(name.span()), message, format!("use 1 to {MAX_NAME} characters of a-z 0-9 _ -, and no `__`"));
    }
    let timeout = duration(report, "timeout", server.timeout.as_ref());
    let max_timeout = duration(report, "max_timeout", server.max_timeout.as_ref());
    if let (Some(silence), Some(total), Some(text)) = (timeout, max_timeout, &server.max_timeout)
        && total < silence
    {
        let message = format!("`max_timeout` is {total:?}, which is less than `timeout` ({silence:?})");
        let hint =
            "`timeout` is how long a call may go without a sign of life, `max_timeout` how long it may take in all";
        report.add(Some(text.span()), message, hint.to_owned());
    }
    let start_timeout = duration(report, "start_timeout", server.start_timeout.as_ref());
    let mut bytes = |name, value: &Option<file::Number>, allowed| {
        number(report, name, value.as_ref(), allowed).and_then(|n| usize::try_from(n).ok())
    };
    let output_cap = bytes("output_cap", &server.output_cap, 1..=16 * 1024 * 1024);
    let max_message = bytes("max_message", &server.max_message, 4096..=256 * 1024 * 1024);
    let mut effects = BTreeMap::new();
    for (tool, word) in &server.effects {
        if let Some(effect) = choose::<EffectClass>(report, Some(word.span()), word.get_ref()) {
            effects.insert(tool.get_ref().clone(), effect);
        }
    }
    let enabled = server.enabled;
    // What was kept out of the file is a secret for sure, and so is what a server is sent to know us by.
    let from_environment = server.env.values().filter(|value| is_kept_elsewhere(value.get_ref()));
    let secrets: Vec<_> = from_environment
        .chain(server.headers.values())
        .filter_map(|value| secret::find(environment, value.get_ref()).ok())
        .collect();
    let confinement = confinement::check(report, &server);
    let endpoint = endpoint(report, environment, name, server)?;
    let plain = ServerConfig::new(name.get_ref(), endpoint);
    // Whoever sets one of the two must not trip over the default of the other.
    let silence = timeout.unwrap_or_else(|| max_timeout.map_or(plain.timeout, |total| plain.timeout.min(total)));
    let total = max_timeout.unwrap_or_else(|| plain.max_timeout.max(silence));
    Some(ServerConfig {
        timeout: silence,
        max_timeout: total,
        start_timeout: start_timeout.unwrap_or(plain.start_timeout),
        output_cap: output_cap.unwrap_or(plain.output_cap),
        max_message: max_message.unwrap_or(plain.max_message),
        effects,
        secrets,
        confinement,
        enabled: enabled.unwrap_or(plain.enabled),
        ..plain
    })
}

fn endpoint(
    report: &mut Report<'_>,
    environment: &Environment,
    name: &Text,
    server: file::McpServer,
) -> Option<Endpoint> {
    let variables = pairs(report, environment, &server.env, unfit_variable);
    let headers = pairs(report, environment, &server.headers, unfit_header);
    match (server.command, server.url) {
        (Some(command), None) => {
            for header in server.headers.keys() {
                misplaced(report, header, "header", "a program is sent none; give it variables by `env`");
            }
            let mut words = command.get_ref().iter().map(|word| word.get_ref().clone());
            let Some(program) = words.next().filter(|program| !program.is_empty()) else {
                let hint = "name a program and its arguments: [\"npx\", \"-y\", \"some-server\"]".to_owned();
                report.add(Some(command.span()), "`command` names no program", hint);
                return None;
            };
            let folder = server.cwd.map(|folder| folder.into_inner().into());
            Some(Endpoint::Stdio { program, arguments: words.collect(), environment: variables, folder })
        }
        (None, Some(url)) => {
            for variable in server.env.keys() {
                misplaced(report, variable, "variable", "a server elsewhere has none of ours; send it `headers`");
            }
            if let Some(folder) = &server.cwd {
                report.add(Some(folder.span()), "`cwd` is for programs that we start", None);
            }
            Some(Endpoint::Http { url: address(report, &url)?, headers })
        }
        (Some(_), Some(url)) => {
            let message = format!("the MCP server `{}` has a `command` and a `url`", name.get_ref());
            report.add(Some(url.span()), message, "it is started here or listens elsewhere: keep one".to_owned());
            None
        }
        (None, None) => {
            let message = format!("the MCP server `{}` has neither `command` nor `url`", name.get_ref());
            let hint = "give it the program to start, such as command = [\"npx\", \"-y\", \"some-server\"], or the address of \
                        one that runs, such as url = \"https://host/mcp\"";
            report.add(Some(name.span()), message, hint.to_owned());
            None
        }
    }
}

fn misplaced(report: &mut Report<'_>, name: &Text, what: &str, hint: &str) {
    report.add(Some(name.span()), format!("the {what} `{}` has no use here", name.get_ref()), hint.to_owned());
}

/// Names with values that may be secrets.
pub(super) fn pairs(
    report: &mut Report<'_>,
    environment: &Environment,
    pairs: &BTreeMap<Text, Text>,
    unfit: fn(&str, &str) -> Option<&'static str>,
) -> BTreeMap<String, SecretString> {
    let mut checked = BTreeMap::new();
    for (name, value) in pairs {
        let Some(secret) = secret::secret(report, environment, value) else { continue };
        match unfit(name.get_ref(), secret.expose_secret()) {
            // Without the value.
            Some(reason) => report.add(Some(name.span()), format!("`{}` {reason}", name.get_ref()), None),
            None => {
                checked.insert(name.get_ref().clone(), secret);
            }
        }
    }
    checked
}

fn unfit_variable(name: &str, value: &str) -> Option<&'static str> {
    if name.is_empty() || name.contains(['=', '\0']) {
        Some("cannot be the name of a variable")
    } else if value.contains('\0') {
        Some("has a value that no variable can hold")
    } else {
        None
    }
}

fn unfit_header(name: &str, value: &str) -> Option<&'static str> {
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        Some("cannot be the name of a header")
    } else if RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)) {
        Some("is a header that MCP sets itself")
    } else if HeaderValue::from_str(value).is_err() {
        Some("has a value that no header can carry")
    } else {
        None
    }
}

fn address(report: &mut Report<'_>, text: &Text) -> Option<String> {
    let usable = text.get_ref().parse::<http::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri
                .authority()
                .is_some_and(|authority| !authority.as_str().contains('@') && !authority.host().is_empty())
    });
    if !usable {
        // The URL may hold a password.
        let hint =
            "write it like \"https://host/mcp\", without a user and a password; those go into `headers`".to_owned();
        report.add(Some(text.span()), "`url` is not an HTTP address", hint);
        return None;
    }
    Some(text.get_ref().clone())
}

#[cfg(test)]
mod tests {
    use everturn_mcp::effect_word;

    use super::*;

    #[test]
    fn classes_have_one_name() {
        for (word, effect) in EffectClass::WORDS {
            assert_eq!(*word, effect_word(*effect));
        }
    }
}
