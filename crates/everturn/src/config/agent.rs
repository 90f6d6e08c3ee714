//! Checks an agent against the providers and tools that there are.

use std::collections::{BTreeMap, BTreeSet};

use everturn_core::OptionSpec;

use super::{
    body, capabilities,
    check::duration,
    choice::choose,
    file::{self, Number, Text},
    limits::number,
    model_options, option,
    problem::Report,
    settings::{Agent, AgentName, ModelName, Provider},
    suggest,
};

/// What agents may refer to.
pub(super) struct Surroundings<'s> {
    pub(super) providers: &'s BTreeMap<String, Option<Provider>>,
    pub(super) tools: &'s BTreeSet<String>,
    /// The names of the MCP servers.
    pub(super) servers: &'s BTreeSet<String>,
}

/// The agent, as far as it holds up.
pub(super) fn check(report: &mut Report<'_>, around: &Surroundings<'_>, agent: file::Agent) -> Option<Agent> {
    let name = AgentName::new(agent.name.get_ref());
    if name.is_none() {
        let message = format!("`{}` cannot be the name of an agent", agent.name.get_ref());
        report.add(Some(agent.name.span()), message, "use 1 to 64 characters of A-Z a-z 0-9 . _ -".to_owned());
    }
    if let Some(version) = &agent.version
        && let Err(error) = semver::Version::parse(version.get_ref())
    {
        let message = format!("`{}` is not a semantic version: {error}", version.get_ref());
        report.add(Some(version.span()), message, "write it like \"1.0.0\"".to_owned());
    }
    let model = model(report, around, &agent.model);
    let fallback: Vec<_> = agent.fallback.iter().filter_map(|name| self::model(report, around, name)).collect();

    let tools = tools(report, around, &agent.tools);
    let internal_tools = self::tools(report, around, &agent.internal_tools);
    for tool in &agent.trusted {
        if !tools.iter().any(|known| covers(known, tool.get_ref())) {
            let message = format!("the trusted tool `{}` is not one of the agent's tools", tool.get_ref());
            let hint = match suggest::nearest(tool.get_ref(), tools.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "add it to `tools` as well, or to `internal_tools` if clients shall not see it".to_owned(),
            };
            report.add(Some(tool.span()), message, hint);
        }
    }
    for tool in &agent.internal_tools {
        if tools.iter().any(|known| covers(known, tool.get_ref()) || covers(tool.get_ref(), known)) {
            let message = format!("the tool `{}` is in `tools` and in `internal_tools`", tool.get_ref());
            report.add(Some(tool.span()), message, "clients see it, or they do not: keep one".to_owned());
        }
    }

    let max_steps = number(report, "max_steps", agent.max_steps.as_ref(), 1..=1000);
    let turn_timeout = duration(report, "turn_timeout", agent.turn_timeout.as_ref());
    let max_output_tokens = tokens(report, "max_output_tokens", agent.max_output_tokens.as_ref());
    let context_window = tokens(report, "context_window", agent.context_window.as_ref());
    let model_options = model_options::check(report, &agent);
    let body = agent.body.as_ref().and_then(|body| body::check(report, body));
    let options = option::check(report, agent.options);
    let capabilities = capabilities::check(report, agent.capabilities);
    if let Some(instructions) = &agent.instructions {
        placeholders(report, instructions, &options);
    }

    let client_trust = agent.client_trust.as_ref();
    let client_trust =
        client_trust.and_then(|word| choose(report, Some(word.span()), word.get_ref())).unwrap_or_default();

    let plain = Agent::new(name?, model?);
    Some(Agent {
        version: agent.version.map_or(plain.version, Text::into_inner),
        title: agent.title,
        description: agent.description,
        instructions: agent.instructions.map(Text::into_inner).unwrap_or_default(),
        fallback,
        trusted: agent.trusted.into_iter().map(Text::into_inner).collect(),
        client_trust,
        tools,
        internal_tools,
        max_steps: max_steps.and_then(|n| u32::try_from(n).ok()).unwrap_or(plain.max_steps),
        turn_timeout: turn_timeout.unwrap_or(plain.turn_timeout),
        options,
        capabilities,
        max_output_tokens,
        model_options,
        body,
        context_window,
        titles: agent.titles.unwrap_or(plain.titles),
        name: plain.name,
        model: plain.model,
    })
}

/// A number of tokens.
pub(super) fn tokens(report: &mut Report<'_>, name: &str, value: Option<&Number>) -> Option<u64> {
    number(report, name, value, 1..=1_000_000_000).and_then(|n| u64::try_from(n).ok())
}

fn model(report: &mut Report<'_>, around: &Surroundings<'_>, name: &Text) -> Option<ModelName> {
    let known = || around.providers.keys().map(String::as_str);
    let Some((provider, model)) = name.get_ref().split_once('/').filter(|(_, model)| !model.is_empty()) else {
        let example = known().next().unwrap_or("provider");
        let message = format!("`{}` does not say which provider's model it is", name.get_ref());
        report.add(Some(name.span()), message, format!("write it as \"{example}/{}\"", name.get_ref()));
        return None;
    };
    if !around.providers.contains_key(provider) {
        let message = format!("there is no provider `{provider}` for the model `{}`", name.get_ref());
        let hint = match suggest::nearest(provider, known()) {
            Some(near) => format!("did you mean `{near}/{model}`?"),
            None => format!("add a table [providers.{provider}] with its kind"),
        };
        report.add(Some(name.span()), message, hint);
        return None;
    }
    Some(ModelName { provider: provider.to_owned(), model: model.to_owned() })
}

fn tools(report: &mut Report<'_>, around: &Surroundings<'_>, names: &[Text]) -> Vec<String> {
    let mut tools: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        if tools.contains(name.get_ref()) {
            report.add(Some(name.span()), format!("the tool `{}` is listed twice", name.get_ref()), None);
            continue;
        }
        if let Some((server, tool)) = name.get_ref().split_once('/') {
            of_server(report, around, name, server, tool);
        } else if !around.tools.contains(name.get_ref()) {
            let hint = match name.get_ref().split_once("__") {
                Some((server, tool)) if around.servers.contains(server) => {
                    format!("a tool of an MCP server is written `{server}/{tool}` here")
                }
                _ => suggest::did_you_mean(name.get_ref(), "tools", around.tools.iter().map(String::as_str)),
            };
            report.add(Some(name.span()), format!("there is no tool `{}`", name.get_ref()), hint);
        }
        // An unknown one is kept, so that it is not told a second time as a trusted tool that is no tool.
        tools.push(name.get_ref().clone());
    }
    tools
}

/// A tool of an MCP server, or all of them. Which ones there are is known only when it runs.
fn of_server(report: &mut Report<'_>, around: &Surroundings<'_>, name: &Text, server: &str, tool: &str) {
    if !around.servers.contains(server) {
        let hint = match suggest::nearest(server, around.servers.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}/{tool}`?"),
            None => format!("add a table [mcp.{server}] with its command or url"),
        };
        report.add(Some(name.span()), format!("there is no MCP server `{server}` for `{}`", name.get_ref()), hint);
    }
    if tool.is_empty() || (tool != "*" && tool.contains('*')) {
        let hint = format!("write `{server}/*` for all of its tools, or `{server}/name` for one");
        report.add(Some(name.span()), format!("`{}` names no tool", name.get_ref()), hint);
    }
}

/// Whether the first names all that the second does.
fn covers(pattern: &str, name: &str) -> bool {
    pattern == name
        || matches!((pattern.strip_suffix("/*"), name.split_once('/')), (Some(all), Some((server, _))) if all == server)
}

/// `{{name}}` in the instructions must not name a secret, and a slip in a name would go unnoticed for long. Other text in
/// double braces is left alone.
fn placeholders(report: &mut Report<'_>, instructions: &Text, options: &[OptionSpec]) {
    for piece in instructions.get_ref().split("{{").skip(1) {
        let Some((name, _)) = piece.split_once("}}") else { continue };
        let name = name.trim();
        match options.iter().find(|option| option.name() == name) {
            Some(option) if option.is_secret() => {
                let message = format!("the instructions use the secret option `{name}`");
                let hint = "secrets are for tools; no model is ever given one".to_owned();
                report.add(Some(instructions.span()), message, hint);
            }
            Some(_) => {}
            None => {
                if let Some(near) = suggest::nearest(name, options.iter().map(OptionSpec::name)) {
                    let message = format!("the instructions use the unknown option `{name}`");
                    report.add(Some(instructions.span()), message, format!("did you mean `{near}`?"));
                }
            }
        }
    }
}
