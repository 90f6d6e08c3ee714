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
        let Culprits { mut refused, untried } = culprits(&mut trials, &sent).await;
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
        // Of a server that fails, nothing is left out that it was not asked about.
        let untried = if symptom == Symptom::Fault { Vec::new() } else { untried };
        let (count, untried_count) = (refused.len(), untried.len());
        tracing::debug!(model = self.from, count, untried_count, "found the tools that are refused");
        self.changes.count += 1;
        for tool in &untried {
            self.learned.untried_declarations.insert(declaration(tool));
        }
        for tool in refused.into_iter().chain(untried) {
            self.learned.declarations.insert(declaration(tool));
            self.learned.tools.insert(tool.name.clone());
        }
        count + untried_count > 0
    }
}

/// The tools to leave out of some that are refused together.
#[derive(Default)]
struct Culprits<'t> {
    /// Those that are refused each by itself.
    refused: Vec<&'t ToolSpec>,
    /// Those of which it could not be found out in time. They are left out too, so that the agent goes on.
    untried: Vec<&'t ToolSpec>,
}

/// Finds the tools to leave out of some that are refused together.
async fn culprits<'t>(trials: &mut Trials<'_>, refused: &'t [ToolSpec]) -> Culprits<'t> {
    // Each group with whether it is known to be refused.
    let (mut culprits, mut groups) = (Culprits::default(), vec![(refused, true)]);
    while let Some((group, is_refused)) = groups.pop() {
        if let ([tool], true) = (group, is_refused) {
            culprits.refused.push(tool);
            continue;
        }
        if group.len() == 1 || trials.are_over() {
            culprits.untried.extend(group);
            continue;
        }
        let (first, second) = group.split_at(group.len() / 2);
        let is_first = trials.with(Suspect::Tools(first)).await;
        if is_first == Some(false) {
            groups.push((second, is_refused));
            continue;
        }
        let is_second = if trials.are_over() { None } else { trials.with(Suspect::Tools(second)).await };
        if is_second != Some(false) {
            groups.push((second, is_second == Some(true)));
        }
        groups.push((first, is_first == Some(true)));
    }
    culprits
}
