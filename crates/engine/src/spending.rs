//! Counts what turns use, in the same commit as the events that tell it: so the sums are exact, whatever becomes of the
//! turn or the process.

use everturn_core::{Day, Event, Finish, KeyId, StepFinished, TenantId, Timestamp, Usage};
use everturn_store::{CommandKey, StoreError, UsageCount, UsageRow, UsageSlot, Write};

use crate::{Agent, Engine, turn::Turn};

/// What an event says was used: model calls, and their tokens.
fn spent(event: &Event) -> Option<UsageCount> {
    // A step that was ended between two attempts: the next call was not made.
    let unmade = |finished: &StepFinished| finished.finish == Finish::Aborted && finished.usage.is_zero();
    if matches!(event, Event::StepFinished(finished) if unmade(finished)) {
        return None;
    }
    // Made without a model.
    if matches!(event, Event::HistoryCompacted(made) if made.usage.is_zero()) {
        return None;
    }
    let tokens = match event {
        Event::StepFinished(finished) => finished.usage,
        Event::StepRestarted { usage, .. } => *usage,
        Event::HistoryCompacted(compaction) => compaction.usage,
        _ => return None,
    };
    Some(UsageCount { turns: 0, calls: 1, tokens })
}

/// A turn of an agent begins. It counts for the model that the agent prefers.
pub(crate) fn turn_begun(agent: &Agent, key: Option<KeyId>, at: Timestamp) -> Write {
    let model = agent.models.first().map(|model| model.name().to_owned()).unwrap_or_default();
    let slot = UsageSlot { day: at.day(), agent: agent.name.clone(), model, key };
    Write::Usage(UsageRow { slot, count: UsageCount { turns: 1, ..UsageCount::default() } })
}

impl Turn {
    /// What is to be written for what these events use.
    pub(crate) fn spending(&self, events: &[Event]) -> Vec<Write> {
        events.iter().filter_map(spent).map(|count| self.spend(count)).collect()
    }

    /// What is to be written for tokens that no event tells of.
    pub(crate) fn spend(&self, count: UsageCount) -> Write {
        let model = self.current_model().name().to_owned();
        self.shared.metrics.count_tokens(&model, count.tokens);
        let (agent, key) = (self.agent.name.clone(), self.state.by.clone());
        Write::Usage(UsageRow { slot: UsageSlot { day: Timestamp::now().day(), agent, model, key }, count })
    }
}

impl Engine {
    /// Counts a model call that no turn made.
    pub(crate) async fn spend(&self, tenant: &TenantId, agent: &str, model: &str, key: Option<KeyId>, tokens: Usage) {
        self.0.metrics.count_tokens(model, tokens);
        let slot = UsageSlot { day: Timestamp::now().day(), agent: agent.to_owned(), model: model.to_owned(), key };
        let used = Write::Usage(UsageRow { slot, count: UsageCount { turns: 0, calls: 1, tokens } });
        // It may be sent to the store twice, and must count once.
        let key = format!("usage:{}", everturn_core::CommandId::mint());
        let key = CommandKey { key, fingerprint: String::new(), outcome: String::new() };
        if let Err(error) = self.put(tenant, vec![used], Some(key)).await {
            tracing::warn!(%error, input = tokens.input, output = tokens.output, "cannot count the tokens of a title");
        }
    }

    /// What a tenant used from a day to another, both included, by day, agent, model and key, after one of these if one
    /// is given.
    pub async fn usage(
        &self,
        tenant: &TenantId,
        days: (Day, Day),
        after: Option<&UsageSlot>,
        limit: usize,
    ) -> Result<Vec<UsageRow>, StoreError> {
        self.0.store.usage(tenant, days, after, limit).await
    }
}
