//! Puts the parts together and runs the server.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use axum::{Router, middleware, response::Response};
use everturn_aap::Aap;
use everturn_engine::{Accounts, Agents, Engine, Metrics, Models, Parts};
use everturn_goose::Goose;
use everturn_http::{
    BodyLimits, Connections, HttpMetrics, Keys, MetricsKey, Operations, Origins, Report, Tls, TlsFiles, Views,
    count_answers, cross_origin, docs, end_with_key, operations, problem, request_id, serve, views,
};
use everturn_mcp::{Backoff, Mcp};
use everturn_native::Native;
use everturn_openai::OpenAi;
use everturn_recipes::Recipes;
use everturn_store::{SqliteStore, Store};
use everturn_webhooks::Webhooks;
use http::StatusCode;
use prometheus_client::registry::Registry;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use secrecy::ExposeSecret as _;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    api_document, banner,
    compose::{self, CurrentProviders},
    config::{Config, Source, StoreLocation, confined_servers},
    document_reader,
    keys::Door,
    mcp::StoredLists,
    reload::{Origin, Reloadable},
    secrets::{self, KeyPlace},
    space_metrics,
};

/// How long connections may take to finish once nothing more is written to them.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(2);

/// How often to look whether the certificate was renewed.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(60);

/// Runs the server until it is told to stop.
pub async fn run(config: Config, origin: Origin) -> anyhow::Result<()> {
    // First, so that a signal during a long start is not lost.
    let stop = stop_signal()?;
    let hangup = hangup_signal()?;
    let (renew, renewal) = mpsc::channel(1);
    origin.log_as_configured(&config);
    keep_memory_private();
    save_memory();
    let recipes = compose::recipes(&config)?;
    let tls = config.tls.clone().map(|files| open_tls(files, renewal)).transpose()?;
    let StoreLocation::Sqlite(path) = &config.store;
    let (path, durability) = (path.clone(), compose::durability(config.durability));
    let had_data = path.exists();
    // Before one is made for nothing.
    refuse_open_to_all(&config, config.keys.is_empty() && !had_data)?;
    let opened = path.clone();
    let store = tokio::task::spawn_blocking(move || SqliteStore::open(&opened, durability)).await??;
    let space = Arc::clone(store.space());
    let store: Arc<dyn Store> = Arc::new(store);
    let secrets = secrets::open(&store, &KeyPlace::find(config.secret_key.as_ref(), &path), had_data).await?;
    let keys = compose::keys(&config, Arc::clone(&store)).await?;
    refuse_open_to_all(&config, keys.is_open())?;
    let listener = TcpListener::bind(config.listen).await.with_context(|| {
        format!("failed to listen on {}; is another server running there? Choose another with --listen", config.listen)
    })?;
    let address = listener.local_addr()?;

    let metrics = Metrics::with_prices(Arc::new(config.prices.clone()));
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let http_metrics = HttpMetrics::default();
    http_metrics.register(&mut registry);
    let mcp_metrics = everturn_mcp::Metrics::default();
    mcp_metrics.register(&mut registry);
    let webhook_metrics = everturn_webhooks::Metrics::default();
    webhook_metrics.register(&mut registry);
    space_metrics::register(space, &mut registry);
    let notices = compose::notices(&config);
    let webhook_parts =
        everturn_webhooks::Parts { store: Arc::clone(&store), written: notices.written(), metrics: webhook_metrics };
    let tools = compose::tools()?;
    let mcp = Mcp::start(
        confined_servers(&config, &origin.environment),
        everturn_mcp::Parts {
            tools: Arc::clone(&tools),
            launcher: compose::launcher(&origin.environment),
            metrics: mcp_metrics,
            backoff: Backoff::default(),
            lists: Some(Arc::new(StoredLists(Arc::clone(&store)))),
        },
    );
    let providers = compose::providers(&config)?;
    let agents = Agents::new(compose::agents(&config, &providers)?);
    let providers = Arc::new(CurrentProviders::new(providers));
    let engine = Engine::start(Parts {
        store,
        secrets,
        agents,
        models: Arc::clone(&providers) as Arc<dyn Models>,
        tools,
        settings: compose::settings(&config, document_reader::start(&config.limits)?),
        accounts: Arc::clone(&keys) as Arc<dyn Accounts>,
        notices,
        metrics,
    })
    .await?;
    let webhooks = Webhooks::start(config.webhooks.clone(), webhook_parts).context("failed to set up webhooks")?;

    let app = app(&config, &engine, &keys, recipes, compose::mcp_health(&mcp), registry, http_metrics);
    let limit = allow_connections(config.limits.connections);
    let connections = Connections { limit, tls, proxies: config.proxies.clone() };
    let watched = tokio::spawn(watch(Arc::clone(&keys), open_door(&path), stop.clone()));
    let served = tokio::spawn(serve(listener, app, connections, stop.clone()));
    let reloadable = Reloadable { keys: Arc::clone(&keys), providers, engine: engine.clone(), mcp: mcp.clone(), renew };
    let followed = tokio::spawn(reloadable.follow(origin, config.clone(), hangup));
    let _ = std::io::stdout().write_all(banner::text(&config, &keys, address).as_bytes());
    tracing::info!(%address, "listening");

    stop.cancelled().await;
    followed.abort();
    tracing::info!("stopping: open steps may finish, then open turns are left to the next start");
    engine.shutdown(config.limits.shutdown_grace).await;
    let (served, (), (), _) = tokio::join!(
        tokio::time::timeout(CONNECTION_PATIENCE, served),
        mcp.shutdown(),
        webhooks.shutdown(),
        tokio::time::timeout(CONNECTION_PATIENCE, watched),
    );
    if served.is_err() {
        tracing::warn!("some clients did not take their last bytes in time");
    }
    Ok(())
}

fn app(
    config: &Config,
    engine: &Engine,
    keys: &Arc<Keys>,
    recipes: Option<Arc<Recipes>>,
    mcp: Report,
    registry: Registry,
    metrics: HttpMetrics,
) -> Router {
    let limits = BodyLimits { bytes: config.limits.body_bytes, depth: config.limits.json_depth };
    let silence = config.limits.heartbeat;
    let aap = everturn_aap::routes(Aap { engine: engine.clone(), keys: Arc::clone(keys), limits, silence });
    let document_bytes = config.limits.document_bytes;
    let prices = Arc::new(config.prices.clone());
    let native = Native { engine: engine.clone(), keys: Arc::clone(keys), limits, document_bytes, prices };
    let (patience, models) = (config.openai.wait, config.openai.models.clone());
    let openai = OpenAi { engine: engine.clone(), keys: Arc::clone(keys), limits, silence, patience, models };
    let (ping, snapshot) = (config.goose.ping, config.goose.snapshot);
    let goose = Goose { engine: engine.clone(), keys: Arc::clone(keys), limits, ping, snapshot, recipes };
    let projections = everturn_aap::projections().into_iter().chain(everturn_native::projections());
    let projections = projections.chain(everturn_goose::projections()).chain(everturn_openai::projections());
    let any_view = views(Views::new(engine.clone(), Arc::clone(keys), silence, projections));
    let metrics_key = config.metrics_key.as_ref().map(|key| MetricsKey::new(key.expose_secret()));
    let all = [
        operations(Operations {
            engine: engine.clone(),
            registry: Arc::new(registry),
            keys: Arc::clone(keys),
            metrics_key,
            mcp,
        }),
        any_view,
        everturn_native::routes(native),
        everturn_goose::routes(goose),
        everturn_openai::routes(openai),
        aap,
    ];
    let origins = Origins::new(Arc::clone(keys), config.origins.clone());
    api_document::served(api_document::join(all), Arc::clone(keys))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(Arc::clone(keys), end_with_key))
        .layer(middleware::from_fn_with_state(origins, cross_origin))
        // Pages that show what everybody may know, also to people who follow a link.
        .merge(docs())
        .layer(middleware::from_fn_with_state(metrics, count_answers))
        .layer(middleware::from_fn(request_id))
}

/// What a client is told when we crash over its request.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    let message = "the server met a fault; its log has the details under this answer's X-Request-Id";
    problem(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message)
}

/// Opens the certificate, and reads it again when it changes or at SIGHUP.
fn open_tls(files: TlsFiles, renew: mpsc::Receiver<()>) -> anyhow::Result<Tls> {
    let tls = Tls::open(files)?;
    tokio::spawn(tls.clone().renew(RENEWAL_INTERVAL, renew));
    Ok(tls)
}

/// Tells of each SIGHUP. Without anybody who listens, it must not end the process either: terminals and service managers send
/// it where they mean "read your files again".
fn hangup_signal() -> anyhow::Result<mpsc::Receiver<()>> {
    let mut hangup = signal(SignalKind::hangup())?;
    let (tell, told) = mpsc::channel(1);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            // One that waits is as good as two.
            let _ = tell.try_send(());
        }
    });
    Ok(told)
}

/// Keeps other processes of the same user, such as MCP servers, from reading this process's memory and environment.
fn keep_memory_private() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "other processes of this user can read this server's memory");
    }
}

/// Where the key lies that secrets are sealed with.
pub(crate) fn secret_file(database: &Path) -> PathBuf {
    database.parent().map_or_else(PathBuf::new, Path::to_owned).join("secret.key")
}

/// Follows what becomes of the keys, and lets the command line at them.
async fn watch(keys: Arc<Keys>, door: Option<Door>, stop: CancellationToken) {
    let answers = async {
        if let Some(door) = door {
            door.serve(Arc::clone(&keys), stop.clone()).await;
        }
    };
    tokio::join!(keys.watch(stop.clone()), answers);
}

/// Where the command line finds the keys while this server has the database.
fn open_door(database: &Path) -> Option<Door> {
    let door = Door::open(database);
    if let Err(error) = &door {
        let error = format!("{error:#}");
        tracing::warn!(error, "`everturn keys` does not work while this server runs");
    }
    door.ok()
}

/// A server without keys is for this machine alone.
fn refuse_open_to_all(config: &Config, is_open: bool) -> anyhow::Result<()> {
    let address = config.listen;
    if address.ip().is_loopback() || !is_open {
        return Ok(());
    }
    let or_else = match &config.source {
        Source::File(_) => {
            "add one to the file:\n\n    [[keys]]\n    key = \"env:EVERTURN_KEY\"\n    tenant = \"default\""
        }
        Source::Defaults => "set one that callers must show:\n\n    export EVERTURN_KEY=$(openssl rand -hex 32)",
    };
    bail!(
        "refusing to listen on {address} without keys: everybody who reaches this machine could use your agents and \
         read all sessions\n\nhint: make a key:\n\n    everturn keys create\n\nor {or_else}\n\nor listen on this \
         machine only: 127.0.0.1:{}",
        address.port()
    );
}

/// Huge pages make the untouched parts of each connection's buffers take memory too: ten kilobytes for every reader.
fn save_memory() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "cannot do without huge pages");
    }
}

/// Files that are not connections: those of the store, the log, providers, MCP servers, and a reserve for operators.
const OTHER_FILES: u64 = 1000;

/// Each connection is an open file, and most systems start programs with a low limit on those that they may raise. Gives how
/// many connections there may be: never so many that none is left for the rest.
fn allow_connections(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let files = wanted as u64 + OTHER_FILES;
    let raised = limit.maximum.map_or(files, |maximum| maximum.min(files));
    let mut now = limit.current.unwrap_or(u64::MAX);
    if now < raised {
        match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }) {
            Ok(()) => now = raised,
            Err(error) => tracing::warn!(%error, "cannot raise the limit on open files"),
        }
    }
    let allowed = wanted.min(usize::try_from(now - OTHER_FILES.min(now / 4)).unwrap_or(usize::MAX));
    if allowed < wanted {
        let told = "the limit on open files allows fewer connections than limits.connections; raise ulimit -n";
        tracing::warn!(files = now, connections = allowed, wanted, "{told}");
    }
    allowed
}

/// Cancelled by the first SIGTERM or SIGINT; a second one ends the process at once.
fn stop_signal() -> anyhow::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        for told in 0.. {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if told > 0 {
                std::process::exit(1);
            }
            token.cancel();
        }
    });
    Ok(stop)
}
