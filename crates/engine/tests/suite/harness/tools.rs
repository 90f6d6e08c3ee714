//! Tools that behave as a test needs them, and count their runs.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use everturn_core::{EffectClass, EffectId, Json, ToolSpec};
use everturn_tools::{Origin, TimeLimit, Tool, ToolContext, ToolFailure, ToolOutput, ToolSet};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::sync::watch;

use super::gate::{Counted, Gate, in_time};

/// What a tool does when it is called.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// Gives its name and input back.
    Echo,
    /// Waits at a gate first.
    Gated(Gate),
    /// Takes its time first.
    Slow(Duration),
    /// Gives so many bytes.
    Huge(usize),
    /// Gives this, however long it is.
    Dumps(Arc<str>),
    /// Cannot.
    Fails(&'static str),
    /// Whatever the test says.
    Does(Deed),
    /// Panics while it runs.
    Panics,
    /// Panics before it gives a future at all.
    PanicsAtOnce,
}

/// What a tool does that a test wrote.
#[derive(Clone)]
pub(crate) struct Deed(Arc<dyn Fn(ToolContext) -> BoxFuture<'static, String> + Send + Sync>);

impl fmt::Debug for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deed")
    }
}

impl Behaviour {
    /// Does this, and gives its text.
    pub(crate) fn does<F>(deed: impl Fn(ToolContext) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = String> + Send + 'static,
    {
        Self::Does(Deed(Arc::new(move |context| deed(context).boxed())))
    }
}

type Probe = Arc<dyn Fn(&ToolContext) + Send + Sync>;

/// What tools did, across all engines of a test.
#[derive(Clone)]
pub(crate) struct Ledger {
    runs: Arc<Mutex<Vec<(String, EffectId)>>>,
    running: watch::Sender<usize>,
    probe: Arc<Mutex<Option<Probe>>>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { runs: Arc::default(), running: watch::Sender::new(0), probe: Arc::default() }
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ledger").field(&self.runs()).finish()
    }
}

impl Ledger {
    /// Every run that was begun, in order.
    pub(crate) fn runs(&self) -> Vec<(String, EffectId)> {
        self.runs.lock().unwrap().clone()
    }

    /// How often each effect was begun.
    pub(crate) fn runs_by_effect(&self) -> BTreeMap<(String, EffectId), usize> {
        let mut counts = BTreeMap::new();
        for run in self.runs() {
            *counts.entry(run).or_default() += 1;
        }
        counts
    }

    /// The tools that ran, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.runs().into_iter().map(|(name, _)| name).collect()
    }

    /// How many runs have neither ended nor been dropped.
    pub(crate) fn running(&self) -> usize {
        *self.running.borrow()
    }

    /// Waits until so many run.
    pub(crate) async fn until_running(&self, count: usize) {
        let mut running = self.running.subscribe();
        let outcome = in_time("for tools to run", running.wait_for(|running| *running == count)).await;
        outcome.expect("the ledger outlives this borrow");
    }

    /// Has something done at the beginning of every run.
    pub(crate) fn on_run(&self, probe: impl Fn(&ToolContext) + Send + Sync + 'static) {
        *self.probe.lock().unwrap() = Some(Arc::new(probe));
    }
}

#[derive(Debug)]
struct TestTool {
    spec: ToolSpec,
    /// The server that it comes from, and what it is called there.
    origin: Option<(String, String)>,
    effect: EffectClass,
    behaviour: Behaviour,
    ledger: Ledger,
}

/// A tool. Its input may have a `text`, which must be a string.
pub(crate) fn tool(name: &str, effect: EffectClass, behaviour: Behaviour, ledger: &Ledger) -> Arc<dyn Tool> {
    Arc::new(TestTool { spec: spec(name), origin: None, effect, behaviour, ledger: ledger.clone() })
}

/// A read-only tool of a server, called `server__name` here.
pub(crate) fn server_tool(server: &str, name: &str, behaviour: Behaviour, ledger: &Ledger) -> Arc<dyn Tool> {
    let (spec, origin) = (spec(&format!("{server}__{name}")), Some((server.to_owned(), name.to_owned())));
    Arc::new(TestTool { spec, origin, effect: EffectClass::ReadOnly, behaviour, ledger: ledger.clone() })
}

/// Tools of one set.
pub(crate) fn tool_set(tools: Vec<Arc<dyn Tool>>) -> ToolSet {
    ToolSet::new(tools).expect("test tools have good names and schemas")
}

pub(crate) fn spec(name: &str) -> ToolSpec {
    let schema = r#"{"type": "object", "properties": {"text": {"type": "string"}}}"#;
    ToolSpec {
        name: name.to_owned(),
        title: None,
        description: format!("The test tool {name}"),
        input_schema: Json::parse(schema).expect("a valid schema"),
    }
}

impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> EffectClass {
        self.effect
    }

    fn origin(&self) -> Option<Origin<'_>> {
        self.origin.as_ref().map(|(server, tool)| Origin { server, tool })
    }

    fn time_limit(&self) -> TimeLimit {
        TimeLimit { silence: Duration::from_secs(30), total: Duration::from_secs(120) }
    }

    fn output_cap(&self) -> usize {
        if matches!(self.behaviour, Behaviour::Dumps(_)) { 1024 * 1024 } else { 100 }
    }

    fn call(&self, context: ToolContext, input: Json) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        let probe = self.ledger.probe.lock().unwrap().clone();
        if let Some(probe) = probe {
            probe(&context);
        }
        self.ledger.runs.lock().unwrap().push((self.spec.name.clone(), context.effect_id.clone()));
        let (name, behaviour) = (self.spec.name.clone(), self.behaviour.clone());
        if matches!(behaviour, Behaviour::PanicsAtOnce) {
            panic!("the tool panics at once, as the test wants it");
        }
        let counted = Counted::new(&self.ledger.running);
        async move {
            let _counted = counted;
            match behaviour {
                Behaviour::Echo => {}
                Behaviour::Gated(gate) => gate.pass().await,
                Behaviour::Slow(time) => tokio::time::sleep(time).await,
                Behaviour::Does(Deed(deed)) => return Ok(ToolOutput::text(deed(context).await)),
                Behaviour::Dumps(text) => return Ok(ToolOutput::text(text.as_ref())),
                Behaviour::Huge(bytes) => return Ok(ToolOutput::text("x".repeat(bytes))),
                Behaviour::Fails(reason) => return Err(ToolFailure(reason.to_owned())),
                Behaviour::Panics | Behaviour::PanicsAtOnce => panic!("the tool panics, as the test wants it"),
            }
            Ok(ToolOutput::text(format!("{name} ran with {}", input.as_str())))
        }
        .boxed()
    }
}
