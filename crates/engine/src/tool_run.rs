//! Tool calls of a turn: who answers them, and running those that the server answers.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use everturn_core::{CallId, CallRoute, CallState, Content, EffectId, Event, Json, Resolution, Timestamp, ToolUse};
use everturn_tools::{FormRequest, Pause, Reporter, Tool, ToolContext, ToolKind, WaitRequest, cap_output};
use futures_util::FutureExt as _;
use tokio::sync::watch;

use crate::{
    artifacts::Written,
    metrics::ToolLabels,
    running::Running,
    turn::{Stopped, Turn},
};

/// How long calls wait for tool servers that have not told their tools yet, as after a restart.
const ARRIVAL: Duration = Duration::from_secs(30);

/// A call that is going to run.
struct Run {
    call: ToolUse,
    tool: Arc<dyn Tool>,
    effect_id: EffectId,
}

/// What came of a call.
pub(crate) struct Outcome {
    pub(crate) call_id: CallId,
    name: String,
    content: Content,
    is_error: bool,
    duration_ms: u64,
    label: &'static str,
}

impl Turn {
    /// Who answers a call, by the session's settings.
    pub(crate) async fn route(&self, name: &str, input: &Json) -> CallRoute {
        if let Some(tool) = self.config.client_tools.iter().find(|tool| tool.name == name) {
            let is_strict = self.state.options.strict_tools.iter().any(|strict| strict == name);
            if !is_strict {
                return CallRoute::Client;
            }
            let schemas = self.shared.tools.schemas();
            // A schema that cannot be compiled holds no call up.
            let Ok(schema) = schemas.compile(self.tenant.as_str(), &tool.input_schema).await else {
                return CallRoute::Client;
            };
            return match schemas.validate(self.tenant.as_str(), &schema, input).await {
                Ok(()) => CallRoute::Client,
                Err(reason) => CallRoute::Refused { reason },
            };
        }
        let internal = self.agent.internal(&self.shared.tools).iter().any(|tool| tool == name);
        let enabled = self.agent.enabled(&self.config, &self.shared.tools).into_iter().find(|tool| tool.name == name);
        let route = match enabled {
            Some(tool) => match self.standing_word(name) {
                Some(false) => {
                    let reason = format!("Tool call denied: somebody has said that {name} may never run");
                    return CallRoute::Refused { reason };
                }
                Some(true) => CallRoute::Inline,
                None if tool.trust => CallRoute::Inline,
                None => CallRoute::Permission,
            },
            None if internal || self.may_read_results(name) => CallRoute::Inline,
            None => {
                let reason = match self.shared.tools.awaited(name) {
                    Some(trouble) => format!("Tool call not run: {name} cannot be used at the moment: {trouble}"),
                    None => format!("There is no tool {name:?} in this session"),
                };
                return CallRoute::Refused { reason };
            }
        };
        // Nobody should be asked to allow a call that cannot run.
        if let Err(reason) = self.shared.tools.validate(self.tenant.as_str(), name, input).await {
            return CallRoute::Refused { reason };
        }
        let kind = self.shared.tools.get(name).map(|tool| tool.kind());
        let checked = match kind {
            // To ask somebody whether somebody may be asked would be one question too many.
            Some(ToolKind::Form) => self.check_form(input).await.map(|()| CallRoute::Form),
            Some(ToolKind::Timer) => {
                let now = self.shared.settings.clock.wall();
                WaitRequest::parse(input).and_then(|wait| wait.wake_at(now)).map(|_| route)
            }
            Some(ToolKind::Runs | ToolKind::Artifact | ToolKind::Result) | None => Ok(route),
        };
        checked.unwrap_or_else(|reason| CallRoute::Refused { reason })
    }

    /// Whether a model asks for a form that can be shown and answered.
    async fn check_form(&self, input: &Json) -> Result<(), String> {
        let form = FormRequest::parse(input)?;
        let compiled = self.shared.tools.schemas().compile(self.tenant.as_str(), &form.schema).await;
        compiled.map(drop).map_err(|error| error.to_string())
    }

    /// Whether a call is one of the application's tools, be it one that cannot be run.
    pub(crate) fn is_applications(&self, name: &str, route: &CallRoute) -> bool {
        match route {
            CallRoute::Client => true,
            CallRoute::Refused { .. } => self.config.client_tools.iter().any(|tool| tool.name == name),
            CallRoute::Inline | CallRoute::Permission | CallRoute::Form => false,
        }
    }

    /// How long a call has run, in milliseconds.
    pub(crate) fn ran_for(&self, call: &CallState) -> u64 {
        match (&call.timer, self.begun.get(&call.call.id)) {
            (Some(timer), _) => timer.ran_until(self.shared.timelines.now(self.log.turn())),
            (None, Some(begun)) => millis_since(*begun),
            (None, None) => 0,
        }
    }

    /// Whether the session has this server-side tool.
    pub(crate) fn may_call(&self, name: &str) -> bool {
        let enabled = self.agent.enabled(&self.config, &self.shared.tools);
        enabled.iter().any(|tool| tool.name == name)
            || self.agent.internal(&self.shared.tools).iter().any(|tool| tool == name)
    }

    /// Resolves calls, those that run in parallel. Intent is durable before anything runs.
    pub(crate) async fn resolve(&mut self, resolutions: Vec<Resolution>) -> Result<(), Stopped> {
        let mut runs = Vec::new();
        let patience = tokio::time::Instant::now() + ARRIVAL;
        for resolution in resolutions {
            if let Resolution::Run { call_id, .. } = &resolution
                && let Some(state) = self.state.calls.iter().find(|state| state.call.id == *call_id)
            {
                // A tool that does not come is told of below.
                let _ = tokio::time::timeout_at(patience, self.shared.tools.arrival(&state.call.name)).await;
            }
            match resolution {
                Resolution::Tell { call_id, text } => self.tell(call_id, text)?,
                Resolution::Elapsed { call_id } => self.elapsed(call_id)?,
                Resolution::Run { call_id, repeat, permitted } => match self.prepare(&call_id, repeat, permitted) {
                    Ok(run) => {
                        // What it asked when it ran before nobody waits for; it will ask again.
                        self.drop_question(&call_id)?;
                        runs.push(run);
                    }
                    Err(text) => self.tell(call_id, text)?,
                },
            }
        }
        let mut last = None;
        for run in &runs {
            let spec = run.tool.spec();
            last = Some(self.record(Event::ToolIntended {
                call_id: run.call.id.clone(),
                effect_id: run.effect_id.clone(),
                effect: run.tool.effect(),
                tool: spec.name.clone(),
                label: spec.title.clone().unwrap_or_else(|| spec.name.clone()),
                step: self.state.steps,
            })?);
            self.begun.insert(run.call.id.clone(), Instant::now());
        }
        if let Some(pushed) = last {
            self.log.durable(pushed.seq).await?;
        }
        let mut running = Running::new(Arc::clone(&self.shared.questions));
        let mut written = Vec::new();
        for run in runs {
            match run.tool.kind() {
                ToolKind::Timer => self.set_timer(&run)?,
                ToolKind::Artifact => written.push(run),
                ToolKind::Result => self.give_result(run).await?,
                ToolKind::Runs | ToolKind::Form => {
                    let call = run.call.id.clone();
                    running.add(&call, |reporter, asking| self.start(run, reporter, asking));
                }
            }
        }
        // One after the other: two may be versions of the same.
        for run in written {
            self.keep_artifact(run).await?;
        }
        self.follow(running).await
    }

    fn set_timer(&mut self, run: &Run) -> Result<(), Stopped> {
        let (call_id, wait) = (run.call.id.clone(), WaitRequest::parse(&run.call.input));
        let from = match &wait {
            Ok(WaitRequest { pause: Pause::Until(_), .. }) => {
                self.shared.timelines.follow_wall(self.log.turn());
                self.shared.settings.clock.wall()
            }
            Ok(_) | Err(_) => self.now(),
        };
        match wait.and_then(|wait| wait.wake_at(from)) {
            Ok(wake_at) => self.record(Event::TimerSet { call_id, from, wake_at }).map(drop),
            Err(text) => self.tell(call_id, text),
        }
    }

    fn elapsed(&mut self, call_id: CallId) -> Result<(), Stopped> {
        let state = self.state.calls.iter().find(|state| state.call.id == call_id);
        let Some((name, timer)) = state.and_then(|state| Some((state.call.name.clone(), state.timer?))) else {
            return self.tell(call_id, "Tool call not found".to_owned());
        };
        let now = self.shared.settings.clock.wall();
        let time = |at: Timestamp| {
            let at = jiff::Timestamp::from_millisecond(at.millis()).unwrap_or_default();
            format!("{at:.3}")
        };
        let content =
            Content::Text(format!("The wait is over. It was until {}; now it is {}.", time(timer.wake_at), time(now)));
        let duration_ms = timer.ran_until(self.shared.timelines.now(self.log.turn()));
        self.finished(Outcome { call_id, name, content, is_error: false, duration_ms, label: "ok" })
    }

    async fn give_result(&mut self, run: Run) -> Result<(), Stopped> {
        let begun = Instant::now();
        let (text, is_error) = match self.read_result(&run.call.input).await {
            Ok(text) => (text, false),
            Err(text) => (format!("Error: {text}"), true),
        };
        let (content, label) = (Content::Text(text), if is_error { "error" } else { "ok" });
        let ToolUse { id: call_id, name, .. } = run.call;
        self.finished(Outcome { call_id, name, content, is_error, duration_ms: millis_since(begun), label })
    }

    async fn keep_artifact(&mut self, run: Run) -> Result<(), Stopped> {
        let begun = Instant::now();
        let ToolUse { id: call_id, name, input } = run.call;
        match self.write_artifact(&name, &call_id, &input).await {
            Err(text) => {
                let (content, duration_ms) = (Content::Text(format!("Error: {text}")), millis_since(begun));
                self.finished(Outcome { call_id, name, content, is_error: true, duration_ms, label: "error" })
            }
            Ok(Written { artifact, writes }) => {
                let text = format!("Kept as artifact {}, version {}.", artifact.id, artifact.version);
                self.count_call(&name, "ok");
                let finished = Event::ToolFinished {
                    call_id,
                    tool: name,
                    content: Content::Text(text),
                    is_error: false,
                    duration_ms: millis_since(begun),
                    never_began: None,
                    application: false,
                };
                // The version, its content and the word of it: all in one commit.
                let pushed = self.record_all(&[Event::ArtifactFinished(artifact), finished], writes)?;
                // The next version is counted from what is stored.
                self.log.durable(pushed.seq).await?;
                Ok(())
            }
        }
    }

    fn prepare(&self, call_id: &CallId, repeat: Option<EffectId>, permitted: bool) -> Result<Run, String> {
        let state = self.state.calls.iter().find(|state| state.call.id == *call_id);
        let call = state.map(|state| state.call.clone()).ok_or("Tool call not found")?;
        if let Some(trouble) = self.shared.tools.awaited(&call.name) {
            return Err(format!("Tool call not run: {} cannot be used at the moment: {trouble}", call.name));
        }
        // The settings may have changed between the call and the permission.
        let enabled = self.agent.enabled(&self.config, &self.shared.tools);
        if permitted && !enabled.iter().any(|tool| tool.name == call.name) {
            return Err(format!("Tool call not run: {} is not enabled in this session any more", call.name));
        }
        let Some(tool) = self.shared.tools.get(&call.name) else {
            return Err(format!("Tool call not run: this server has no tool {:?} any more", call.name));
        };
        Ok(Run { call, tool, effect_id: repeat.unwrap_or_else(EffectId::mint) })
    }

    fn start(
        &self,
        run: Run,
        reporter: Reporter,
        asking: watch::Receiver<bool>,
    ) -> impl Future<Output = Outcome> + use<> {
        let life = reporter.life();
        let context = ToolContext {
            tenant: self.tenant.clone(),
            session: self.session.clone(),
            turn: self.log.turn().clone(),
            call: run.call.id.clone(),
            effect_id: run.effect_id,
            reporter,
        };
        async move {
            let begun = Instant::now();
            let (limit, effect, cap) = (run.tool.time_limit(), run.tool.effect(), run.tool.output_cap());
            // The call itself is made inside, since it may panic as well as its future.
            let (tool, input) = (run.tool, run.call.input);
            let call = AssertUnwindSafe(async move { tool.call(context, input).await }).catch_unwind();
            let text = |text: String| cap_output(Content::Text(text), cap);
            let (content, label) = match limit.hold(&life, asking, call).await {
                Ok(Ok(Ok(output))) => (cap_output(output.content, cap), if output.is_error { "error" } else { "ok" }),
                Ok(Ok(Err(failure))) => (text(format!("Error: {failure}")), "error"),
                Ok(Err(_panic)) => (text("Error: the tool crashed; this is a fault of the tool".to_owned()), "error"),
                Err(limit) => (Content::Text(limit.told(effect)), "timeout"),
            };
            Outcome {
                call_id: run.call.id,
                name: run.call.name,
                content,
                is_error: label != "ok",
                duration_ms: millis_since(begun),
                label,
            }
        }
    }

    fn tell(&mut self, call_id: CallId, text: String) -> Result<(), Stopped> {
        let name = self.state.calls.iter().find(|state| state.call.id == call_id);
        let name = name.map(|state| state.call.name.clone()).unwrap_or_default();
        let content = Content::Text(text);
        self.finished(Outcome { call_id, name, content, is_error: true, duration_ms: 0, label: "told" })
    }

    pub(crate) fn finished(&mut self, outcome: Outcome) -> Result<(), Stopped> {
        let Outcome { call_id, name: tool, content, is_error, duration_ms, label } = outcome;
        self.drop_question(&call_id)?;
        self.count_call(&tool, label);
        self.begun.remove(&call_id);
        let state = self.state.calls.iter().find(|state| state.call.id == call_id);
        let never_began = state.and_then(|state| self.state.never_began(state));
        let application = state.is_some_and(|state| self.is_applications(&tool, &state.route));
        self.record(Event::ToolFinished { call_id, tool, content, is_error, duration_ms, never_began, application })?;
        Ok(())
    }

    fn count_call(&self, name: &str, outcome: &'static str) {
        // Models invent names; labels must stay few.
        let tool = if self.shared.tools.get(name).is_some() { name } else { "unknown" }.to_owned();
        self.shared.metrics.tool_calls.get_or_create(&ToolLabels { tool, outcome }).inc();
    }
}

fn millis_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}
