//! What runs a turn whose agent was taken out of the configuration: it ends the turn, saying so.

use std::{sync::Arc, time::Duration};

use everturn_models::{EventStream, Model, ModelError, ModelErrorKind, ModelRequest};
use futures_util::future::BoxFuture;

use crate::{Agent, Capabilities, ClientTrust};

/// An agent of this name that fails every call.
pub(crate) fn stand_in(name: &str) -> Agent {
    Agent {
        name: name.to_owned(),
        version: "0.0.0".to_owned(),
        title: None,
        description: None,
        instructions: String::new(),
        models: vec![Arc::new(Missing { agent: name.to_owned() })],
        tools: Vec::new(),
        trusted: Vec::new(),
        client_trust: ClientTrust::Never,
        internal_tools: Vec::new(),
        options: Vec::new(),
        capabilities: Capabilities::default(),
        max_steps: u32::MAX,
        turn_timeout: Duration::from_secs(60),
        context_window: None,
        model_options: everturn_core::ModelOptions::default(),
        body: None,
        titles: false,
    }
}

#[derive(Debug)]
struct Missing {
    agent: String,
}

impl Model for Missing {
    fn name(&self) -> &'static str {
        "missing"
    }

    fn context_window(&self) -> Option<u64> {
        None
    }

    fn stream(&self, _: ModelRequest) -> BoxFuture<'static, Result<EventStream, ModelError>> {
        let message = format!("agent {:?} is not configured on this server any more", self.agent);
        Box::pin(std::future::ready(Err(ModelError::new(ModelErrorKind::Rejected, message))))
    }
}
