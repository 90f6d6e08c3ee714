//! What `/api/show` and `/api/tags` tell about models.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::provider::{describe::Described, model_list, wire::ListedModel};

/// The largest window that is asked of the operator's own machine unless configuration says more: windows take memory, and
/// models claim hundreds of thousands of tokens.
const MAX_WINDOW: u64 = 32_768;

#[derive(Deserialize)]
struct Show {
    /// Lines such as `num_ctx 8192`.
    parameters: Option<String>,
    model_info: Option<BTreeMap<String, Value>>,
    capabilities: Option<Vec<String>>,
    /// Where the model runs, if not on this server.
    remote_host: Option<String>,
}

/// Reads the description of one model. `is_cloud`: whether by Ollama's own service.
pub(super) fn read_description(body: &[u8], is_cloud: bool) -> Option<Described> {
    let show: Show = serde_json::from_slice(body).ok()?;
    // Older servers tell no capabilities.
    let capabilities = show.capabilities.as_ref().filter(|capabilities| !capabilities.is_empty());
    let has = |name: &str| capabilities.map(|capabilities| capabilities.iter().any(|capability| capability == name));
    let is_remote = is_cloud || show.remote_host.as_ref().is_some_and(|host| !host.is_empty());
    let described = Described {
        window: window(&show, is_remote),
        max_output: None,
        sees: has("vision"),
        thinks: has("thinking"),
        takes_tools: has("tools"),
    };
    (described != Described::default()).then_some(described)
}

/// A model that runs elsewhere takes no memory of the operator's, and has all of its window.
fn window(show: &Show, is_remote: bool) -> Option<u64> {
    let trained = show.model_info.as_ref().and_then(trained_window);
    if is_remote {
        return trained;
    }
    match (show.parameters.as_deref().and_then(chosen_window), trained) {
        (Some(chosen), trained) => Some(trained.map_or(chosen, |trained| chosen.min(trained))),
        (None, trained) => trained.map(|trained| trained.min(MAX_WINDOW)),
    }
}

/// The window that the model was trained with.
fn trained_window(info: &BTreeMap<String, Value>) -> Option<u64> {
    let architecture = info.get("general.architecture").and_then(Value::as_str);
    let named = architecture.and_then(|architecture| info.get(&format!("{architecture}.context_length")));
    let any = || info.iter().find(|(name, _)| name.ends_with(".context_length")).map(|(_, length)| length);
    named.or_else(any)?.as_u64().filter(|length| *length > 0)
}

/// The window that the model's author or operator has set.
fn chosen_window(parameters: &str) -> Option<u64> {
    let chosen = parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx"))?;
    chosen.trim().parse().ok().filter(|window| *window > 0)
}

/// Reads the list of models.
pub(super) fn read_list(body: &[u8]) -> Vec<ListedModel> {
    let listed = model_list::entries(body).into_iter().filter_map(|model| {
        let id = model["name"].as_str()?.to_owned();
        Some(ListedModel {
            is_for_chat: model_list::can_chat(&id),
            id,
            context_window: model_list::count(&model, &["/details/context_length"]),
            ..ListedModel::default()
        })
    });
    listed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: Option<Described>) {
        assert_eq!(read_description(body.as_bytes(), false), expected, "{body}");
    }

    #[test]
    fn windows_fit_the_machine_and_the_operators_choice() {
        let window = |window| Some(Described { window: Some(window), ..Described::default() });
        let trained = r#""model_info":{"clip.context_length":77,"general.architecture":"qwen3","qwen3.context_length":262144,"qwen3.rope.freq_base":1e6}"#;
        check(&format!("{{{trained}}}"), window(32_768));
        check(
            &format!(r#"{{"parameters":"temperature 0.6\nnum_ctx                        65536",{trained}}}"#),
            window(65_536),
        );
        check(&format!(r#"{{"parameters":"num_ctx 524288",{trained}}}"#), window(262_144));
        check(&format!(r#"{{"parameters":"stop \"x\"",{trained}}}"#), window(32_768));
        check(&format!(r#"{{"remote_host":"https://ollama.com:443",{trained}}}"#), window(262_144));
        assert_eq!(read_description(format!("{{{trained}}}").as_bytes(), true), window(262_144));
        check(r#"{"model_info":{"general.architecture":"a","b.context_length":4096}}"#, window(4096));
        check(r#"{"parameters":"num_ctx 16384"}"#, window(16_384));
        check(r#"{"model_info":{"general.architecture":"a","a.context_length":"long"}}"#, None);
        check("{}", None);
        check("no", None);
    }

    #[test]
    fn capabilities_are_told_or_unknown() {
        let described = |sees, thinks, takes_tools| {
            Some(Described {
                sees: Some(sees),
                thinks: Some(thinks),
                takes_tools: Some(takes_tools),
                ..Described::default()
            })
        };
        check(r#"{"capabilities":["completion","vision"]}"#, described(true, false, false));
        check(r#"{"capabilities":["completion","tools","thinking"]}"#, described(false, true, true));
        check(r#"{"capabilities":[]}"#, None);
    }

    #[test]
    fn lists_are_read() {
        let body = br#"{"models":[{"name":"qwen3:8b","model":"qwen3:8b","details":{"family":"qwen3","context_length":40960}},{"name":"old:latest","details":{}}]}"#;
        let listed: Vec<(String, Option<u64>)> =
            read_list(body).into_iter().map(|model| (model.id, model.context_window)).collect();
        assert_eq!(listed, [("qwen3:8b".to_owned(), Some(40_960)), ("old:latest".to_owned(), None)]);
        assert_eq!(read_list(b"{}"), []);
    }
}
