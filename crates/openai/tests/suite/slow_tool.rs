//! A tool of the server's that takes as long as it is told.

use std::sync::Arc;

use everturn_core::{EffectClass, Json, ToolSpec};
use everturn_tools::{Tool, ToolContext, ToolFailure, ToolOutput};
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

/// The tool `slow`.
#[derive(Clone, Debug)]
pub(crate) struct SlowTool {
    /// Has a permit for each call that was begun.
    pub(crate) begun: Arc<Semaphore>,
    /// A call ends once this has a permit.
    pub(crate) gate: Arc<Semaphore>,
    spec: ToolSpec,
}

impl Default for SlowTool {
    fn default() -> Self {
        let none = || Arc::new(Semaphore::new(0));
        let input_schema = Json::parse(r#"{"type":"object"}"#).unwrap();
        let (name, description) = ("slow".to_owned(), "Takes its time".to_owned());
        Self { begun: none(), gate: none(), spec: ToolSpec { name, title: None, description, input_schema } }
    }
}

impl Tool for SlowTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> EffectClass {
        EffectClass::ReadOnly
    }

    fn is_builtin(&self) -> bool {
        true
    }

    fn call(&self, _: ToolContext, _: Json) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        self.begun.add_permits(1);
        let gate = Arc::clone(&self.gate);
        Box::pin(async move {
            gate.acquire().await.unwrap().forget();
            Ok(ToolOutput::text("at last"))
        })
    }
}
