//! Finds the tools whose declarations a provider refuses without saying which.
//!
//! The tools are tried in halves, with a short question of our own instead of the conversation: nothing that a user wrote
//! decides what is left out, and a trial costs next to nothing.

use std::time::Duration;

use bytes::Bytes;
use everturn_core::{Message, ModelOptions, ToolSpec};
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use super::{Attempt, adapting::shows};
use crate::{
    model::{ModelError, ModelErrorKind, ModelRequest},
    provider::{
        call::{AnswerStream, Origin},
        learned::declaration,
        wire::Written,
    },
};

/// The most trials of one search. One bad tool among 128 takes at most 15.
const MAX_TRIALS: usize = 40;

/// How long a search may take. It is a part of the time that a call may take to begin.
const LONGEST: Duration = Duration::from_secs(25);

/// The most searches of one call.
const MAX_SEARCHES: usize = 2;

/// The question of a trial.
const QUESTION: &str = "Say ok.";

/// Tokens of a trial's answer. OpenAI takes no fewer.
const ANSWER: u64 = 16;

impl Attempt {
    /// Leaves those tools out whose declarations are refused, where a refusal names none. `true` if there are any. What has
    /// not been tried when the search must end is left out too: the agent goes on without it. Where each half of the tools
    /// is taken, they are too many together.
    pub(super) async fn leave_refused_tools_out(&mut self) -> bool {
        if self.searches == MAX_SEARCHES {
            return false;
        }
        self.searches += 1;
        let sent: Vec<ToolSpec> = self.sent_tools().cloned().collect();
        let mut search = Search { attempt: self, trials: 0, end: Instant::now() + LONGEST };
        // Otherwise it is not the tools.
        if sent.is_empty() || search.trial(&sent).await != Some(true) {
            return false;
        }
        let (first, second) = sent.split_at(sent.len() / 2);
        if !first.is_empty() && search.trial(first).await == Some(false) && search.trial(second).await == Some(false) {
            self.changes.count += 1;
            self.learned.max_tools = Some(first.len());
            return true;
        }
        let refused = search.culprits(&sent).await;
        tracing::debug!(model = self.from, count = refused.len(), "found the tools that are refused");
        self.changes.count += 1;
        for tool in &refused {
            self.learned.declarations.insert(declaration(tool));
            self.learned.tools.insert(tool.name.clone());
        }
        !refused.is_empty()
    }
}

struct Search<'a> {
    attempt: &'a Attempt,
    trials: usize,
    end: Instant,
}

impl Search<'_> {
    /// The tools to leave out of some that are refused together.
    async fn culprits<'t>(&mut self, refused: &'t [ToolSpec]) -> Vec<&'t ToolSpec> {
        let (mut culprits, mut groups) = (Vec::new(), vec![refused]);
        while let Some(group) = groups.pop() {
            if group.len() == 1 || self.is_over() {
                culprits.extend(group);
                continue;
            }
            let (first, second) = group.split_at(group.len() / 2);
            if !self.is_refused(first).await {
                groups.push(second);
                continue;
            }
            if self.is_over() || self.is_refused(second).await {
                groups.push(second);
            }
            groups.push(first);
        }
        culprits
    }

    fn is_over(&self) -> bool {
        self.trials >= MAX_TRIALS || Instant::now() >= self.end
    }

    /// Whether tools are refused. Those of which it cannot be found out count as refused, so that the agent goes on.
    async fn is_refused(&mut self, tools: &[ToolSpec]) -> bool {
        self.trial(tools).await.unwrap_or(true)
    }

    /// Whether a short question with these tools is refused for good. `None` if it is neither refused nor answered in time.
    async fn trial(&mut self, tools: &[ToolSpec]) -> Option<bool> {
        self.trials += 1;
        let attempt = self.attempt;
        let request = ModelRequest {
            messages: [Message::user(QUESTION)].into(),
            tools: tools.into(),
            options: ModelOptions { max_output_tokens: Some(ANSWER), ..ModelOptions::default() },
            body: attempt.request.body.clone(),
            ..ModelRequest::default()
        };
        let Written { body, .. } = attempt.write_request(&request).ok()?;
        let is_rejected = |error: &ModelError| (error.kind == ModelErrorKind::Rejected).then_some(true);
        let trial = async {
            let response = match attempt.caller.send(attempt.wire, &attempt.model, Bytes::from(body)).await {
                Ok(response) => response,
                Err(refused) => return is_rejected(&refused.error),
            };
            let failures = attempt.caller.failures.clone();
            let mut answer = AnswerStream::new(attempt.wire, response, failures, Origin::default());
            loop {
                match answer.next().await? {
                    Ok(event) if shows(&event) => return Some(false),
                    Ok(_) => {}
                    Err(error) => return is_rejected(&error),
                }
            }
        };
        timeout_at(self.end, trial).await.ok().flatten()
    }
}
