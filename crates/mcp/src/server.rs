//! Keeps one server running.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use everturn_core::Json;
use everturn_tools::{Reporter, Tool, ToolContext, ToolFailure, ToolOutput, ToolSet};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    Backoff, Confined, Endpoint, KeptLists, Launcher, LeftOut, Metrics, ServerConfig, ServerHealth, ServerReport,
    ServerState,
    calls::{Calls, OpenCall, Purpose},
    chatter::Chatter,
    connection::Connection,
    habits::Habits,
    http, kept_lists,
    link::Link,
    listing::{self, Listing},
    metrics::{CallLabels, ServerLabel},
    peek::Peeked,
    process::{Guarded, end, retire},
    stdio,
    tap::Ears,
    tool::McpTool,
    words::{Secrets, shortened},
};

/// Processes of one server that have been replaced and still work on calls.
const MAX_REPLACED: usize = 4;
/// Between two lists of a server that changes them often.
const BETWEEN_LISTS: Duration = Duration::from_secs(1);
/// Longest trouble that is told, in bytes.
const TROUBLE_BYTES: usize = 3000;

/// What tenants are shown of a server that has failed. Why it failed may name its address or have its own words, so that is in the log
/// and in [`ServerHealth::trouble`].
const DOWN: &str = "it does not work at the moment and is being started again";

/// Why a server has ended that had no fault.
const STOPPED: &str = "it was told to stop";

/// A server, in whatever state.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) config: ServerConfig,
    chatter: Chatter,
    /// Hidden in results.
    pub(crate) secrets: Secrets,
    metrics: Metrics,
    habits: Habits,
    present: Mutex<Present>,
    state: watch::Sender<ServerState>,
    /// How often a connection was to be replaced by another.
    replaced: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Present {
    connection: Option<Arc<Connection>>,
    trouble: Option<String>,
    restarts: u64,
    software: Option<(String, String)>,
    confined: Option<Confined>,
    tools: Vec<Arc<McpTool>>,
    left_out: Vec<LeftOut>,
}

/// What a server is run with.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) tools: Arc<ToolSet>,
    pub(crate) launcher: Launcher,
    pub(crate) backoff: Backoff,
    pub(crate) lists: Option<Arc<dyn KeptLists>>,
    pub(crate) stop: CancellationToken,
}

impl Server {
    pub(crate) fn new(config: ServerConfig, metrics: Metrics) -> Self {
        let chatter = Chatter::new(&config.name, Secrets::of(&config), Secrets::sure(&config));
        let (state, secrets) = (watch::Sender::new(ServerState::Starting), Secrets::sure(&config));
        let (present, replaced) = (Mutex::default(), watch::Sender::new(0));
        Self { config, chatter, secrets, metrics, habits: Habits::default(), present, state, replaced }
    }

    pub(crate) fn health(&self) -> ServerHealth {
        let state = *self.state.borrow();
        self.present(|present| ServerHealth {
            name: self.config.name.clone(),
            // Once its connection is gone it may take a while until all that it has started is, too.
            state: if state == ServerState::Ready && present.connection.is_none() {
                ServerState::Failed
            } else {
                state
            },
            tools: present.tools.len(),
            trouble: present.trouble.clone(),
            restarts: present.restarts,
        })
    }

    pub(crate) fn report(&self) -> ServerReport {
        let health = self.health();
        self.present(|present| ServerReport {
            health,
            software: present.software.clone(),
            confined: present.confined.clone(),
            tools: present.tools.iter().map(|tool| tool.report()).collect(),
            left_out: present.left_out.clone(),
        })
    }

    /// Waits until its first start has ended, one way or the other.
    pub(crate) async fn settled(&self) {
        let _ = self.state.subscribe().wait_for(|state| *state != ServerState::Starting).await;
    }

    /// Calls a tool.
    pub(crate) async fn call(
        self: Arc<Self>,
        tool: String,
        context: ToolContext,
        input: Json,
    ) -> Result<ToolOutput, ToolFailure> {
        let mut count = Count { server: &self, begun: Instant::now(), outcome: "cancelled" };
        let ToolContext { tenant, turn, effect_id, reporter, .. } = context;
        let purpose = Purpose { tenant, turn, tool };
        let result = match while_alive(&reporter, self.begin_call(&purpose, &reporter)).await {
            Ok((connection, open)) => connection.call(&self.config.name, &purpose.tool, &input, effect_id, open).await,
            Err(failure) => Err(failure),
        };
        count.outcome = match &result {
            Ok(output) if output.is_error => "error",
            Ok(_) => "ok",
            Err(_) => "failed",
        };
        // What a person or a model is shown of it, and what is kept.
        match result {
            Ok(output) => Ok(ToolOutput { content: self.secrets.hide_in(output.content), ..output }),
            Err(ToolFailure(text)) => Err(ToolFailure(self.secrets.hide(text))),
        }
    }

    pub(crate) fn connection(&self) -> Result<Arc<Connection>, ToolFailure> {
        let name = &self.config.name;
        self.present(|present| match (&present.connection, &present.trouble) {
            (Some(connection), _) => Ok(Arc::clone(connection)),
            (None, Some(trouble)) if trouble == STOPPED => {
                Err(ToolFailure(format!("MCP server {name:?} is not running: {STOPPED}")))
            }
            (None, Some(_)) => {
                Err(ToolFailure(format!("MCP server {name:?} is not running; it is being started again")))
            }
            (None, None) => {
                Err(ToolFailure(format!("MCP server {name:?} is still being started; try again in a while")))
            }
        })
    }

    /// Begins a call on a connection on which its questions can be told from questions of other calls. If there is none, it
    /// waits for other calls that may ask.
    async fn begin_call(
        &self,
        purpose: &Purpose,
        reporter: &Reporter,
    ) -> Result<(Arc<Connection>, OpenCall), ToolFailure> {
        // Its tools may be known from before it was started.
        let _ = tokio::time::timeout(self.config.start_timeout, self.settled()).await;
        for _ in 0..=MAX_REPLACED {
            let mut replaced = self.replaced.subscribe();
            let connection = self.connection()?;
            let ears = &connection.ears;
            if !ears.one_channel {
                let open = ears.calls.begin(purpose, reporter);
                return Ok((connection, open));
            }
            if let Some(open) = ears.calls.begin_apart(purpose, reporter) {
                return Ok((connection, open));
            }
            if !ears.calls.are_crowded(purpose) {
                break;
            }
            ears.link.want_another();
            let _ = tokio::time::timeout(self.config.start_timeout, replaced.changed()).await;
        }
        let connection = self.connection()?;
        let open = connection.ears.calls.begin_alone(purpose.clone(), reporter.clone()).await;
        Ok((connection, open))
    }

    /// Runs it until it is told to stop, however often it fails.
    pub(crate) async fn run(self: Arc<Self>, around: Surroundings) {
        let name = self.config.name.clone();
        let label = ServerLabel { server: name.clone() };
        let up = self.metrics.up.get_or_create_owned(&label);
        let restarts = self.metrics.restarts.get_or_create_owned(&label);
        around.tools.start_server(&name);
        self.offer_kept_list(&around).await;
        let mut failures = 0;
        loop {
            let begun = Instant::now();
            let ended = Arc::clone(&self).live(&around, &up).await;
            up.set(0);
            let Some(trouble) = ended else { break };
            // The time until it was ready does not count much; a start that takes a minute is no health.
            let was_healthy = self.state.borrow().eq(&ServerState::Ready) && begun.elapsed() >= around.backoff.healthy;
            failures = if was_healthy { 1 } else { failures + 1 };
            let delay = around.backoff.delay(failures);
            tracing::warn!(target: "everturn::mcp", server = name, failures, ?delay, "an MCP server failed: {trouble}");
            around.tools.set_server(&name, Err(DOWN.to_owned()));
            self.present(|present| present.trouble = Some(trouble));
            self.state.send_replace(ServerState::Failed);
            tokio::select! {
                biased;
                () = around.stop.cancelled() => break,
                () = tokio::time::sleep(delay) => {}
            }
            restarts.inc();
            self.present(|present| present.restarts += 1);
        }
        around.tools.set_server(&name, Err(STOPPED.to_owned()));
        self.present(|present| present.trouble = Some(STOPPED.to_owned()));
        self.state.send_replace(ServerState::Failed);
    }

    /// Offers what it offered when it last ran. Calls wait until it runs.
    async fn offer_kept_list(self: &Arc<Self>, around: &Surroundings) {
        let Some(lists) = &around.lists else { return };
        let Some(kept) = lists.load(kept_lists::key(&self.config)).await else { return };
        let Some(listing) = kept_lists::read(&kept, self) else { return };
        let listed: Vec<Arc<dyn Tool>> = listing.tools.into_iter().map(|tool| tool as Arc<dyn Tool>).collect();
        let (tools, name) = (Arc::clone(&around.tools), self.config.name.clone());
        let offer = move || {
            tools.set_server(&name, Ok(listed));
            tools.set_server(&name, Err("it is being started".to_owned()));
        };
        drop(tokio::task::spawn_blocking(offer).await);
    }

    /// Starts it and follows it to its end. Says why it ended, if nobody told it to.
    async fn live(
        self: Arc<Self>,
        around: &Surroundings,
        up: &prometheus_client::metrics::gauge::Gauge,
    ) -> Option<String> {
        let mut guard = None;
        let mut replaced = JoinSet::new();
        let ended = match self.begin(around, &mut guard).await {
            None => None,
            Some(Err(trouble)) => Some(trouble),
            Some(Ok((mut connection, listing))) => {
                // Before its tools are told: somebody may wait for one of them, and call it at once.
                self.present(|present| {
                    present.software = connection.software.clone();
                    present.trouble = None;
                    present.connection = Some(Arc::clone(&connection));
                });
                self.take(listing, around).await;
                up.set(1);
                self.state.send_replace(ServerState::Ready);
                let ended = loop {
                    match self.follow(&connection, around).await {
                        Followed::Ended(ended) => break ended,
                        Followed::AnotherWanted => {
                            self.replace(around, &mut connection, &mut guard, &mut replaced).await;
                            self.replaced.send_modify(|times| *times += 1);
                        }
                    }
                };
                // First of all, so that no call begins on a connection that has ended.
                self.present(|present| {
                    present.connection = None;
                    present.trouble = Some(ended.clone().unwrap_or_else(|| STOPPED.to_owned()));
                });
                up.set(0);
                if ended.is_some() {
                    around.tools.set_server(&self.config.name, Err(DOWN.to_owned()));
                }
                connection.close().await;
                ended
            }
        };
        // Nobody of the first one shall be left when a second one starts.
        let code = end(guard).await;
        replaced.join_all().await;
        ended.map(|trouble| self.explain(&trouble, code))
    }

    /// Starts it within its time. `None` if it is told to stop meanwhile.
    async fn begin(
        self: &Arc<Self>,
        around: &Surroundings,
        guard: &mut Option<Guarded>,
    ) -> Option<Result<(Arc<Connection>, Listing), String>> {
        let ears = Ears {
            calls: Calls::new(self.habits.clone()),
            link: Link::default(),
            chatter: self.chatter.clone(),
            peeked: Peeked::default(),
            schemas: around.tools.schemas().clone(),
            server: format!("mcp/{}", self.config.name),
            one_channel: matches!(self.config.endpoint, Endpoint::Stdio { .. }),
        };
        tokio::select! {
            biased;
            () = around.stop.cancelled() => None,
            started = tokio::time::timeout(self.config.start_timeout, self.start(around, &ears, guard)) => {
                Some(started.unwrap_or_else(|_| {
                    Err(format!("it was not ready within {} s", self.config.start_timeout.as_secs_f64()))
                }))
            }
        }
    }

    /// Starts another process of it for the calls to come. The former one ends once the calls that it has are over.
    async fn replace(
        self: &Arc<Self>,
        around: &Surroundings,
        connection: &mut Arc<Connection>,
        guard: &mut Option<Guarded>,
        replaced: &mut JoinSet<()>,
    ) {
        while replaced.try_join_next().is_some() {}
        if replaced.len() >= MAX_REPLACED {
            return self.chatter.remark("too many processes of it still work on calls; no other is started");
        }
        let mut new_guard = None;
        match self.begin(around, &mut new_guard).await {
            Some(Ok((another, listing))) => {
                self.present(|present| present.connection = Some(Arc::clone(&another)));
                let former = std::mem::replace(connection, another);
                let former_guard = std::mem::replace(guard, new_guard);
                replaced.spawn(retire(former, former_guard, around.stop.clone()));
                self.take(listing, around).await;
            }
            Some(Err(trouble)) => {
                self.chatter.remark(&format!("another process of it could not be started: {trouble}"));
                end(new_guard).await;
            }
            None => {
                end(new_guard).await;
            }
        }
    }

    async fn start(
        self: &Arc<Self>,
        around: &Surroundings,
        ears: &Ears,
        guard: &mut Option<Guarded>,
    ) -> Result<(Arc<Connection>, Listing), String> {
        let connection = match &self.config.endpoint {
            Endpoint::Stdio { program, .. } => {
                let started = stdio::start(&self.config, &around.launcher, ears)
                    .map_err(|error| format!("cannot start {program:?}: {error}"))?;
                let mut transport = started.transport;
                *guard = Some((started.guard, started.errors));
                let confined = transport.confined(&self.config).await;
                self.present(|present| present.confined = confined);
                Connection::open(transport, ears.clone()).await?
            }
            Endpoint::Http { .. } => Connection::open(http::connect(&self.config, ears)?, ears.clone()).await?,
        };
        match listing::list(&connection, self).await {
            Ok(listing) => Ok((connection, listing)),
            Err(trouble) => {
                connection.close().await;
                Err(trouble)
            }
        }
    }

    /// Follows a server that is ready. Says why it ended, if nobody told it to.
    async fn follow(self: &Arc<Self>, connection: &Connection, around: &Surroundings) -> Followed {
        let link = &connection.ears.link;
        loop {
            tokio::select! {
                biased;
                () = around.stop.cancelled() => return Followed::Ended(None),
                () = link.broken() => return Followed::Ended(Some(link.reason().unwrap_or_default())),
                () = link.another_wanted() => return Followed::AnotherWanted,
                () = link.tools_changed() => {}
            }
            let listed = tokio::select! {
                biased;
                () = around.stop.cancelled() => return Followed::Ended(None),
                () = link.broken() => continue,
                listed = tokio::time::timeout(self.config.start_timeout, listing::list(connection, self)) => listed,
            };
            match listed {
                Ok(Ok(listing)) => self.take(listing, around).await,
                Ok(Err(trouble)) => self.chatter.remark(&format!("its tools could not be listed again: {trouble}")),
                Err(_) => self.chatter.remark("its tools could not be listed again in time"),
            }
            tokio::select! {
                biased;
                () = around.stop.cancelled() => return Followed::Ended(None),
                () = link.broken() => {}
                () = tokio::time::sleep(BETWEEN_LISTS) => {}
            }
        }
    }

    /// Makes these its tools.
    async fn take(&self, mut listing: Listing, around: &Surroundings) {
        let listed: Vec<Arc<dyn Tool>> = listing.tools.iter().map(|tool| Arc::clone(tool) as Arc<dyn Tool>).collect();
        let (tools, name) = (Arc::clone(&around.tools), self.config.name.clone());
        if let (Some(lists), Some(list)) = (&around.lists, kept_lists::write(&listing)) {
            lists.keep(kept_lists::key(&self.config), list).await;
        }
        // Compiling hundreds of schemas takes a while.
        let refused =
            tokio::task::spawn_blocking(move || tools.set_server(&name, Ok(listed))).await.unwrap_or_default();
        listing.without(&refused);
        let server = &self.config.name;
        for LeftOut { tool, reason } in &listing.left_out {
            tracing::warn!(target: "everturn::mcp", server, tool, "a tool is left out: {reason}");
        }
        for tool in self.config.effects.keys().filter(|name| !listing.tools.iter().any(|tool| tool.tool == **name)) {
            tracing::warn!(target: "everturn::mcp", server, tool, "effects are configured for a tool that it does not have");
        }
        tracing::info!(target: "everturn::mcp", server, tools = listing.tools.len(), "an MCP server is ready");
        self.present(|present| {
            present.tools = listing.tools;
            present.left_out = listing.left_out;
        });
    }

    /// Why it ended, with all that is known.
    fn explain(&self, trouble: &str, code: Option<i32>) -> String {
        let mut text = trouble.to_owned();
        if let Some(code) = code.filter(|code| *code != 0) {
            text.push_str(&format!(" (exit code {code})"));
        }
        let last = self.chatter.last_lines();
        if !last.is_empty() {
            text.push_str("; it wrote: ");
            text.push_str(&last.join(" | "));
        }
        shortened(&text, TROUBLE_BYTES)
    }

    fn present<T>(&self, look: impl FnOnce(&mut Present) -> T) -> T {
        look(&mut self.present.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What comes of a server that is ready.
enum Followed {
    /// It has ended. Says why, if nobody told it to.
    Ended(Option<String>),
    /// Somebody needs another process of it.
    AnotherWanted,
}

/// Waits until a call can begin. Its time limits do not count yet: the server has not been asked.
async fn while_alive<T>(reporter: &Reporter, beginning: impl Future<Output = T>) -> T {
    const SIGN_EVERY: Duration = Duration::from_millis(250);
    let mut beginning = std::pin::pin!(beginning);
    loop {
        match tokio::time::timeout(SIGN_EVERY, &mut beginning).await {
            Ok(begun) => {
                reporter.give_sign();
                return begun;
            }
            Err(_elapsed) => reporter.give_sign(),
        }
    }
}

/// Counts a call when it is over, also if nobody waits for it any more.
struct Count<'s> {
    server: &'s Server,
    begun: Instant,
    outcome: &'static str,
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        let server = self.server.config.name.clone();
        let metrics = &self.server.metrics;
        metrics
            .call_seconds
            .get_or_create(&ServerLabel { server: server.clone() })
            .observe(self.begun.elapsed().as_secs_f64());
        metrics.calls.get_or_create(&CallLabels { server, outcome: self.outcome }).inc();
    }
}
