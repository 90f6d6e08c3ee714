//! YAML within bounds.

use serde_saphyr::{Error, Options, UserMessageFormatter, budget, budget::BudgetBreach, options};

use crate::{bounds, document::Document};

/// Reads a text of at most [`bounds::FILE`] bytes. An error is where it is wrong, and what is wrong.
pub(crate) fn read(text: &str) -> Result<Document, (String, String)> {
    let mut path = String::new();
    let document = serde_saphyr::with_deserializer_from_str_with_options(text, bounded(), |yaml| {
        serde_path_to_error::deserialize(yaml).map_err(|error| {
            path = error.path().to_string();
            error.into_inner()
        })
    });
    document.map_err(|error| {
        let message = error.render_with_formatter(&UserMessageFormatter);
        // The parser itself looks ahead, and has no other words for it.
        let is_deep = message.starts_with("recursion limit exceeded");
        match limit(&error).or_else(|| is_deep.then(too_deep)) {
            Some(limit) => (String::new(), limit),
            None => (path, message),
        }
    })
}

fn bounded() -> Options {
    options! {
        budget: budget! {
            max_depth: bounds::YAML_DEPTH,
            // A little more, so that the other bound is met first and says so.
            flow_nesting_limit: 2 * bounds::YAML_DEPTH,
            max_nodes: bounds::YAML_NODES,
            max_events: 4 * bounds::YAML_NODES,
            max_anchors: bounds::YAML_ALIASES,
            max_aliases: bounds::YAML_ALIASES,
            max_merge_keys: bounds::YAML_ALIASES,
            max_recorded_anchor_events: bounds::YAML_NODES,
            max_recorded_anchor_bytes: bounds::FILE,
            max_documents: 1,
            // What aliases repeat counts each time.
            max_total_scalar_bytes: bounds::FILE,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: bounds::YAML_REPEATED,
            max_replay_stack_depth: 16,
            max_alias_expansions_per_anchor: bounds::YAML_ALIASES,
        },
        // `no` and `off` are words, as they are for Goose.
        strict_booleans: true,
        // A message has to fit on a line, and not to show what else is in the file.
        with_snippet: false,
    }
}

fn too_deep() -> String {
    format!("it is nested more than {} deep", bounds::YAML_DEPTH)
}

/// Which bound was met.
fn limit(error: &Error) -> Option<String> {
    Some(match error {
        Error::AliasError { error, .. } => return limit(error),
        Error::Budget { breach, .. } => match breach {
            BudgetBreach::Depth { .. } => too_deep(),
            BudgetBreach::Documents { .. } => "it has more than one document".to_owned(),
            BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
                format!("it has more than {} values", bounds::YAML_NODES)
            }
            BudgetBreach::ScalarBytes { .. } => {
                format!("it has more than {} bytes of text, with what aliases repeat", bounds::FILE)
            }
            _ => format!("it has more than {} anchors or aliases, or they repeat too much", bounds::YAML_ALIASES),
        },
        Error::AliasReplayLimitExceeded { .. } | Error::AliasReplayCounterOverflow { .. } => {
            format!("its aliases repeat more than {} values", bounds::YAML_REPEATED)
        }
        Error::AliasExpansionLimitExceeded { .. } => {
            format!("it has more than {} anchors or aliases, or they repeat too much", bounds::YAML_ALIASES)
        }
        Error::AliasReplayStackDepthExceeded { .. } => "its aliases are inside of each other too often".to_owned(),
        _ => return None,
    })
}
