//! Finds the tools whose declarations a provider refuses without saying which: they are tried in halves.

use everturn_core::ToolSpec;

use super::{
    Attempt,
    trial::{Suspect, Symptom, Trials},
};
use crate::provider::learned::declaration;

/// The most searches of one call.
const MAX_SEARCHES: usize = 2;

impl Attempt {
    /// Leaves those tools out whose declarations are refused, where a refusal names none. `true` if there are any. What has
    /// not been tried when time or trials run out is left out too, so that the call goes on.
    pub(super) async fn leave_refused_tools_out(&mut self, symptom: Symptom) -> bool {
        if self.tool_searches == MAX_SEARCHES {
            return false;
        }
        self.tool_searches += 1;
        let sent: Vec<ToolSpec> = self.sent_tools().cloned().collect();
        let mut trials = Trials::new(self, symptom);
        // Otherwise it is not the tools.
        if sent.is_empty()
            || !trials.is_provider_well().await
            || trials.surely_with(Suspect::Tools(&sent)).await != Some(true)
        {
            return false;
        }
        let (first, second) = sent.split_at(sent.len() / 2);
        if !first.is_empty()
            && trials.with(Suspect::Tools(first)).await == Some(false)
            && trials.with(Suspect::Tools(second)).await == Some(false)
            && trials.surely_with(Suspect::Tools(&sent)).await == Some(true)
        {
            self.changes.count += 1;
            self.learned.max_tools = Some(first.len());
            return true;
        }
        let mut refused = culprits(&mut trials, &sent).await;
        if symptom == Symptom::Fault {
            let mut certain = Vec::new();
            for tool in refused {
                let tools = std::slice::from_ref(tool);
                if trials.surely_with(Suspect::Tools(tools)).await == Some(true) {
                    certain.push(tool);
                }
            }
            refused = certain;
        }
        tracing::debug!(model = self.from, count = refused.len(), "found the tools that are refused");
        self.changes.count += 1;
        for tool in &refused {
            self.learned.declarations.insert(declaration(tool));
            self.learned.tools.insert(tool.name.clone());
        }
        !refused.is_empty()
    }
}

/// The tools to leave out of some that are refused together.
async fn culprits<'t>(trials: &mut Trials<'_>, refused: &'t [ToolSpec]) -> Vec<&'t ToolSpec> {
    let (mut culprits, mut groups) = (Vec::new(), vec![refused]);
    while let Some(group) = groups.pop() {
        if group.len() == 1 || trials.are_over() {
            culprits.extend(group);
            continue;
        }
        let (first, second) = group.split_at(group.len() / 2);
        // Tools of which it cannot be found out count as refused, so that the agent goes on.
        if !trials.with(Suspect::Tools(first)).await.unwrap_or(true) {
            groups.push(second);
            continue;
        }
        if trials.are_over() || trials.with(Suspect::Tools(second)).await.unwrap_or(true) {
            groups.push(second);
        }
        groups.push(first);
    }
    culprits
}
