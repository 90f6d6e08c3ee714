//! Turns the words of a file into a configuration, and notes every word that means nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    ops::Range,
    path::PathBuf,
    time::Duration,
};

use secrecy::SecretString;

use super::{
    Environment, Found, Limits, Overrides,
    agent::{self, Surroundings},
    choice::choose,
    confinement, duration as human_duration,
    file::{File, Text},
    goose::Goose,
    keys, mcp,
    openai::OpenAi,
    origins, prices,
    problem::Report,
    provider, proxy, quota, retention,
    settings::{Config, Durability, Provider, Source, StoreLocation},
    tls, webhooks,
};
use crate::telemetry::log_filter;

/// The store of those who name none.
const USUAL_STORE: &str = "sqlite:everturn-data/everturn.db";

/// What a file is checked with.
pub(super) struct Context<'c> {
    pub(super) source: Source,
    pub(super) environment: &'c Environment,
    pub(super) overrides: &'c Overrides,
    /// The names of all tools.
    pub(super) tools: &'c BTreeSet<String>,
    /// The providers and agents of a file that has none.
    pub(super) found: Found,
}

/// A setting that a flag or variable may override, and where it stands if that is in the file.
struct Setting {
    text: String,
    at: Option<Range<usize>>,
}

impl Setting {
    fn new(file: Option<Text>, flag: Option<&String>, default: &str) -> Self {
        match (flag, file) {
            (Some(flag), _) => Self { text: flag.clone(), at: None },
            (None, Some(text)) => Self { at: Some(text.span()), text: text.into_inner() },
            (None, None) => Self { text: default.to_owned(), at: None },
        }
    }
}

/// The configuration, as far as it holds up.
pub(super) fn check(report: &mut Report<'_>, file: File, context: Context<'_>) -> Option<Config> {
    let Context { source, environment, overrides, tools, found } = context;
    let own_agents = file.has_own_agents();
    let secret_files = confinement::secret_files(&file, environment);
    let listen_setting = Setting::new(file.listen, overrides.listen.as_ref(), "127.0.0.1:8080");
    let store_setting = Setting::new(file.store, overrides.store.as_ref(), USUAL_STORE);
    let durability = Setting::new(file.durability, overrides.durability.as_ref(), "fsync");
    let listen = listen(report, &listen_setting);
    let store = store(report, &store_setting);
    let durability = choose::<Durability>(report, durability.at, &durability.text);
    let log_level = file.log_level.and_then(|level| log_level(report, level));

    let mut keys = keys::check(report, environment, file.keys);
    if source == Source::Defaults {
        keys.extend(keys::from_environment(report, environment));
    }
    let quotas = quota::check(report, &file.quotas, file.tenants);

    let mut providers: BTreeMap<String, Option<Provider>> = BTreeMap::new();
    for (name, provider) in file.providers {
        let checked = provider::check(report, environment, &name, provider);
        providers.insert(name.into_inner(), checked);
    }
    let names: Vec<&str> = providers.keys().map(String::as_str).collect();
    let prices = prices::check(report, own_agents.then_some(names.as_slice()), file.prices);
    let servers: BTreeSet<String> = file.mcp.keys().map(|name| name.get_ref().clone()).collect();
    let mcp =
        file.mcp.into_iter().filter_map(|(name, server)| mcp::check(report, environment, &name, server)).collect();
    let mut agents = Vec::with_capacity(file.agents.len());
    let mut names = BTreeSet::new();
    if own_agents && file.agents.is_empty() {
        report.add(None, "there is no agent", "add a table [[agents]] with a name and a model".to_owned());
    }
    for agent in file.agents {
        if !names.insert(agent.name.get_ref().clone()) {
            let message = format!("there are two agents `{}`", agent.name.get_ref());
            report.add(Some(agent.name.span()), message, None);
        }
        agents.extend(agent::check(report, &Surroundings { providers: &providers, tools, servers: &servers }, agent));
    }
    let limits = Limits::check(report, &file.limits);
    let retention = retention::check(report, &file.retention);
    let goose = Goose::check(report, &file.recipes, &file.goose);
    let tls = tls::check(report, file.tls, overrides);
    let proxies = proxy::check(report, &file.proxy);
    let metrics_key = keys::single(report, environment, file.metrics.key.as_ref());
    let origins = origins::check(report, &file.cors);
    let webhooks = webhooks::check(report, environment, file.webhooks);

    let mut providers: BTreeMap<_, _> = providers.into_iter().filter_map(|(name, it)| Some((name, it?))).collect();
    if !own_agents {
        providers = found.providers;
        agents = found.agents;
    }
    let mut openai = OpenAi::check(report, &file.openai, agents.iter().map(|agent| agent.name.as_str()));
    if !own_agents {
        openai.add_models_of(&agents);
    }
    Some(Config {
        source,
        listen: listen?,
        store: store?,
        log_level,
        durability: durability?,
        secret_key: environment.get("EVERTURN_SECRET_KEY").map(SecretString::from),
        keys,
        quotas,
        providers,
        prices,
        agents,
        mcp,
        secret_files,
        limits,
        retention,
        goose,
        openai,
        tls,
        proxies,
        metrics_key,
        origins,
        webhooks,
    })
}

fn listen(report: &mut Report<'_>, setting: &Setting) -> Option<SocketAddr> {
    let text = &setting.text;
    let numeric = text.strip_prefix("localhost:").map_or_else(|| text.clone(), |port| format!("127.0.0.1:{port}"));
    let address = numeric.parse().ok();
    if address.is_none() {
        let hint = "write an IP address and a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"".to_owned();
        report.add(setting.at.clone(), format!("cannot listen on `{text}`"), hint);
    }
    address
}

fn log_level(report: &mut Report<'_>, level: Text) -> Option<String> {
    let checked = log_filter(level.get_ref());
    if let Err(error) = &checked {
        let hint =
            "write a level (error, warn, info, debug, trace) or directives such as \"info,everturn_store=debug\"";
        report.add(Some(level.span()), format!("`{}` is no log level: {error}", level.get_ref()), hint.to_owned());
    }
    checked.ok()
}

/// Where everything is kept and what that means, whatever else is in the file.
pub(super) fn check_store(
    report: &mut Report<'_>,
    file: File,
    overrides: &Overrides,
) -> Option<(StoreLocation, Durability)> {
    let place = Setting::new(file.store, overrides.store.as_ref(), USUAL_STORE);
    let durability = Setting::new(file.durability, overrides.durability.as_ref(), "fsync");
    let place = store(report, &place);
    Some((place?, choose(report, durability.at, &durability.text)?))
}

fn store(report: &mut Report<'_>, setting: &Setting) -> Option<StoreLocation> {
    let text = setting.text.as_str();
    let (message, hint) = match text.split_once(':') {
        Some(("sqlite", path)) => {
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.is_empty() && path != ":memory:" {
                return Some(StoreLocation::Sqlite(PathBuf::from(path)));
            }
            (format!("the store `{text}` has no file"), "name one: \"sqlite:everturn-data/everturn.db\"".to_owned())
        }
        // The URL may hold a password.
        Some(("postgres" | "postgresql", _)) => (
            "PostgreSQL stores are not available in this version".to_owned(),
            "use an SQLite file: \"sqlite:everturn-data/everturn.db\"".to_owned(),
        ),
        Some(_) | None => {
            (format!("`{text}` is not a store"), format!("a store is a kind and a place: \"sqlite:{text}\""))
        }
    };
    report.add(setting.at.clone(), message, hint);
    None
}

/// A duration of at least a millisecond; a problem if it is none.
pub(super) fn duration(report: &mut Report<'_>, name: &str, text: Option<&Text>) -> Option<Duration> {
    let text = text?;
    let duration = human_duration::parse(text.get_ref()).filter(|duration| !duration.is_zero());
    if duration.is_none() {
        let message = format!("`{}` is not a duration for `{name}`", text.get_ref());
        report.add(Some(text.span()), message, human_duration::FORM.to_owned());
    }
    duration
}
