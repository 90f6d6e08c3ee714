//! Puts the parts together and runs the server.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use axum::{
    Router, middleware,
    response::{IntoResponse as _, Response},
};
use everturn_aap::Aap;
use everturn_engine::{Engine, Metrics, Parts};
use everturn_goose::Goose;
use everturn_http::{
    BodyLimits, Connections, HttpMetrics, Operations, Report, Views, cors, count_answers, operations, request_id,
    serve, views,
};
use everturn_mcp::{Backoff, Mcp};
use everturn_native::Native;
use everturn_recipes::Recipes;
use everturn_store::{SecretBox, SqliteStore};
use http::StatusCode;
use prometheus_client::registry::Registry;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use secrecy::ExposeSecret as _;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    banner, compose,
    config::{Config, Environment, StoreLocation},
};

/// How long connections may take to finish once nothing more is written to them.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(2);

/// Runs the server until it is told to stop.
pub async fn run(config: Config, environment: &Environment) -> anyhow::Result<()> {
    // First, so that a signal during a long start is not lost.
    let stop = stop_signal()?;
    allow_many_connections(config.limits.connections);
    save_memory();
    let recipes = compose::recipes(&config)?;
    let StoreLocation::Sqlite(path) = &config.store;
    let (path, durability) = (path.clone(), compose::durability(config.durability));
    let had_data = path.exists();
    let opened = path.clone();
    let store = tokio::task::spawn_blocking(move || SqliteStore::open(&opened, durability)).await??;
    let secrets = secrets(&config, &path, had_data)?;
    let listener = TcpListener::bind(config.listen).await.with_context(|| {
        format!("failed to listen on {}; is another server running there? Choose another with --listen", config.listen)
    })?;
    let address = listener.local_addr()?;

    let metrics = Metrics::default();
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let http_metrics = HttpMetrics::default();
    http_metrics.register(&mut registry);
    let mcp_metrics = everturn_mcp::Metrics::default();
    mcp_metrics.register(&mut registry);
    let tools = compose::tools()?;
    let mcp = Mcp::start(
        config.mcp.clone(),
        everturn_mcp::Parts {
            tools: Arc::clone(&tools),
            launcher: compose::launcher(environment),
            metrics: mcp_metrics,
            backoff: Backoff::default(),
        },
    );
    let providers = compose::providers(&config)?;
    let engine = Engine::start(Parts {
        store: Arc::new(store),
        secrets,
        agents: compose::agents(&config, &providers)?,
        models: Arc::new(providers),
        tools,
        settings: compose::settings(&config),
        metrics,
    })
    .await?;

    let app = app(&config, &engine, recipes, compose::mcp_health(&mcp), registry, http_metrics);
    let connections = Connections { limit: config.limits.connections };
    let served = tokio::spawn(serve(listener, app, connections, stop.clone()));
    let _ = std::io::stdout().write_all(banner::text(&config, address).as_bytes());
    tracing::info!(%address, "listening");

    stop.cancelled().await;
    tracing::info!("stopping: open steps may finish, then open turns are left to the next start");
    engine.shutdown(config.limits.shutdown_grace).await;
    let (served, ()) = tokio::join!(tokio::time::timeout(CONNECTION_PATIENCE, served), mcp.shutdown());
    if served.is_err() {
        tracing::warn!("some clients did not take their last bytes in time");
    }
    Ok(())
}

fn app(
    config: &Config,
    engine: &Engine,
    recipes: Option<Arc<Recipes>>,
    mcp: Report,
    registry: Registry,
    metrics: HttpMetrics,
) -> Router {
    let limits = BodyLimits { bytes: config.limits.body_bytes, depth: config.limits.json_depth };
    let keys = Arc::new(compose::keys(config));
    let silence = config.limits.heartbeat;
    let aap = everturn_aap::routes(Aap { engine: engine.clone(), keys: Arc::clone(&keys), limits, silence });
    let document_bytes = config.limits.document_bytes;
    let native = Native { engine: engine.clone(), keys: Arc::clone(&keys), limits, document_bytes };
    let (ping, snapshot) = (config.goose.ping, config.goose.snapshot);
    let goose = Goose { engine: engine.clone(), keys: Arc::clone(&keys), limits, ping, snapshot, recipes };
    let projections = everturn_aap::projections().into_iter().chain(everturn_native::projections());
    let projections = projections.chain(everturn_goose::projections());
    let any_view = views(Views::new(engine.clone(), keys, silence, projections));
    operations(Operations { engine: engine.clone(), registry: Arc::new(registry), mcp })
        .merge(any_view)
        .merge(everturn_native::routes(native))
        .merge(everturn_goose::routes(goose))
        .nest("/aap/v1", aap.clone())
        .merge(aap)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn(cors))
        .layer(middleware::from_fn_with_state(metrics, count_answers))
        .layer(middleware::from_fn(request_id))
}

/// What a client is told when we crash over its request.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    let message = "the server met a fault; its log has the details under this answer's X-Request-Id";
    // In the words of every dialect: nobody knows any more which one it was.
    let detail = serde_json::json!({ "code": "INTERNAL", "message": message });
    let body = serde_json::json!({ "error": message, "message": message, "detail": detail });
    (StatusCode::INTERNAL_SERVER_ERROR, axum::Json(body)).into_response()
}

/// Seals secret options with the configured key, or with one that is kept beside the database.
fn secrets(config: &Config, database: &Path, had_data: bool) -> anyhow::Result<SecretBox> {
    match &config.secret_key {
        Some(key) => SecretBox::from_text(key.expose_secret()).context("EVERTURN_SECRET_KEY cannot be used"),
        None => {
            let folder = database.parent().map_or_else(PathBuf::new, Path::to_owned);
            let file = folder.join("secret.key");
            if had_data && !file.exists() {
                tracing::warn!(
                    file = %file.display(),
                    "the key that secret options are sealed with is gone; a new one is made, and secrets that were set \
                     before cannot be opened any more. Restore the file if you have a copy"
                );
            }
            Ok(SecretBox::from_file(&file)?)
        }
    }
}

/// Huge pages make the untouched parts of each connection's buffers take memory too: ten kilobytes for every reader.
fn save_memory() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "cannot do without huge pages");
    }
}

/// Each connection is an open file, and most systems start programs with a low limit on those that they may raise.
fn allow_many_connections(connections: usize) {
    let limit = getrlimit(Resource::Nofile);
    // The store, the log and the providers have files open too.
    let wanted = connections as u64 + 1000;
    let raised = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if limit.current.is_some_and(|current| current < raised)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum })
    {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
    if raised < connections as u64 {
        let told = "the limit on open files is below limits.connections; raise ulimit -n";
        tracing::warn!(allowed = raised, connections, "{told}");
    }
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
