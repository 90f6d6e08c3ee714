//! Reads the configuration again while the server runs, and takes over what can change without a new start.

use std::{path::PathBuf, sync::Arc};

use everturn_engine::Engine;
use everturn_http::Keys;
use everturn_mcp::{Mcp, Reloaded};
use futures_util::{FutureExt as _, future::BoxFuture};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::mpsc;

use crate::{
    compose::{self, CurrentProviders},
    config::{self, Config, Environment, LoadError, Overrides, Source},
    telemetry::{DEFAULT_LEVEL, LogLevel},
};

/// Where a configuration comes from, so that it can be read again.
pub struct Origin {
    /// The file, if one was named.
    pub file: Option<PathBuf>,
    /// What wins over the file.
    pub overrides: Overrides,
    /// The variables, which stay what they were at the start.
    pub environment: Environment,
    /// What is logged, if a flag or variable says so; it wins over the file.
    pub log_level: Option<String>,
    /// Changes what is logged.
    pub log: LogLevel,
}

impl Origin {
    /// The configuration as it is now.
    pub fn load(&self) -> BoxFuture<'_, Result<Config, LoadError>> {
        config::load(self.file.as_deref(), &self.overrides, &self.environment).boxed()
    }

    /// Logs what the configuration asks for.
    pub(crate) fn log_as_configured(&self, config: &Config) {
        let level = self.log_level.as_deref().or(config.log_level.as_deref()).unwrap_or(DEFAULT_LEVEL);
        if let Err(error) = self.log.set(level) {
            tracing::warn!(level, error = format!("{error:#}"), "what is logged stays as it was");
        }
    }
}

/// What a new configuration changes while the server runs.
pub(crate) struct Reloadable {
    pub(crate) keys: Arc<Keys>,
    pub(crate) providers: Arc<CurrentProviders>,
    pub(crate) engine: Engine,
    pub(crate) mcp: Mcp,
    /// Told to look at the certificates.
    pub(crate) renew: mpsc::Sender<()>,
}

impl Reloadable {
    /// Reads the configuration again whenever it is told to.
    pub(crate) async fn follow(self, origin: Origin, mut current: Config, mut told: mpsc::Receiver<()>) {
        while told.recv().await.is_some() {
            // One that waits is as good as two.
            let _ = self.renew.try_send(());
            let next = match origin.load().await {
                Ok(next) => next,
                Err(error) => {
                    tracing::error!("SIGHUP: the configuration is refused, and the one before stays in force: {error}");
                    continue;
                }
            };
            match self.apply(&current, &next, &origin.environment).boxed().await {
                Ok(servers) => {
                    origin.log_as_configured(&next);
                    tell(&current, &next, &servers);
                    current = next;
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!("SIGHUP: the configuration is refused, and the one before stays in force: {error}");
                }
            }
        }
    }

    /// Takes over what can change. Nothing changes unless all of it can be made.
    async fn apply(&self, current: &Config, next: &Config, environment: &Environment) -> anyhow::Result<Reloaded> {
        if let (Source::File(file), Source::Defaults) = (&current.source, &next.source) {
            anyhow::bail!("the file {} is not there any more", file.display());
        }
        let former = self.providers.now();
        let providers = compose::providers_after(next, |name, provider| {
            let is_same = current.providers.get(name).is_some_and(|before| before.is_same(provider));
            former.get(name).filter(|_| is_same).cloned()
        })?;
        let agents = compose::agents(next, &providers)?;
        // First what takes something away from somebody.
        self.keys.reconfigure(compose::configured_keys(next), next.quotas.clone()).await;
        self.providers.replace(providers);
        self.engine.agents().replace(agents);
        Ok(self.mcp.reload(config::confined_servers(next, environment)).await)
    }
}

/// Says what has changed, and what does not before the next start.
fn tell(current: &Config, next: &Config, servers: &Reloaded) {
    let names = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let agents: Vec<_> = next.agents.iter().map(|agent| agent.name.to_string()).collect();
    tracing::info!(
        keys = next.keys.len(),
        agents = names(&agents),
        mcp_added = names(&servers.added),
        mcp_started_anew = names(&servers.changed),
        mcp_removed = names(&servers.removed),
        "SIGHUP: the configuration was read again"
    );
    if next.keys.is_empty() && !current.keys.is_empty() {
        tracing::warn!("the configuration has no keys any more; without one in the store nobody is let in");
    }
    let kept = kept_until_restart(current, next);
    if !kept.is_empty() {
        let settings = kept.join(", ");
        tracing::warn!(settings, "SIGHUP: these settings have changed and are taken over at the next start");
    }
}

/// The settings that differ and cannot change while the server runs.
fn kept_until_restart(current: &Config, next: &Config) -> Vec<&'static str> {
    let secret = |key: &Option<SecretString>| key.as_ref().map(|key| key.expose_secret().to_owned());
    let differs = |of: fn(&Config) -> String| of(current) != of(next);
    let settings = [
        ("listen", current.listen != next.listen),
        ("store", current.store != next.store),
        ("durability", current.durability != next.durability),
        ("[limits]", differs(|config| format!("{:?}", config.limits))),
        ("[retention]", differs(|config| format!("{:?}", config.retention))),
        ("[prices]", differs(|config| format!("{:?}", config.prices))),
        ("[recipes], [goose]", differs(|config| format!("{:?}", config.goose))),
        ("[openai]", differs(|config| format!("{:?}", config.openai))),
        ("[tls]", differs(|config| format!("{:?}", config.tls))),
        ("[proxy]", differs(|config| format!("{:?}", config.proxies))),
        ("[cors]", current.origins != next.origins),
        ("[metrics]", secret(&current.metrics_key) != secret(&next.metrics_key)),
        ("[[webhooks]]", current.webhooks != next.webhooks),
    ];
    settings.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}
