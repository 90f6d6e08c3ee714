//! Paths of released Goose's API that this server does not have, each with the reason.

use crate::error::ApiError;

/// Paths by how they begin, and what to do without them. The longest come first.
const ABSENT: [(&str, &str); 26] = [
    (
        "config/extensions",
        "the extensions of this server are its MCP servers: add them as [mcp.NAME] to its configuration; \
        sessions take and leave them by POST /goose/agent/add_extension and /goose/agent/remove_extension",
    ),
    ("config/custom-providers", PROVIDERS),
    ("config/provider-catalog", PROVIDERS),
    ("config/check_provider", PROVIDERS),
    ("config/set_provider", PROVIDERS),
    ("config/providers", PROVIDERS),
    (
        "config/prompts",
        "prompts are the instructions of agents and recipes: change the server's configuration or its folder of \
        recipes",
    ),
    (
        "config",
        "this setting is made in the server's configuration file; POST /goose/config/read reads what clients may know",
    ),
    (
        "recipes",
        "recipes are files in the folder that [recipes] dir names: edit them there; GET /goose/recipes/list lists them",
    ),
    ("schedule", "this server has no schedules: let the system's own (cron, systemd) send POST /goose/reply"),
    ("dictation", "this server takes no speech: let the client turn it into text"),
    ("local-inference", "this server loads no models itself: name an Ollama or llama.cpp server under [providers]"),
    ("tunnel", "this server opens no tunnels: put it behind a reverse proxy with TLS, or give it a certificate"),
    ("telemetry", "this server takes no telemetry: set GOOSE_TELEMETRY_ENABLED to false in the client"),
    ("handle_openrouter", PROVIDERS),
    ("handle_tetrate", PROVIDERS),
    ("handle_nanogpt", PROVIDERS),
    ("features", "this server has none of the features that are told here"),
    ("diagnostics", "GET /goose/sessions/{id}/export gives a session; the server's own log has the rest"),
    ("system_info", "`everturn --version` and GET /readyz tell about the server"),
    ("agent/export_app", APPS),
    ("agent/import_app", APPS),
    ("mcp-ui-proxy", APPS),
    ("mcp-app-proxy", APPS),
    ("sessions", "sessions are shared as files: GET /goose/sessions/{id}/export and POST /goose/sessions/import"),
    ("agent", "docs/goose.md lists what there is under /goose/agent"),
];

const PROVIDERS: &str = "providers and their models are set in the server's configuration, under [providers] and [[agents]]; \
    GET /goose/config/providers lists them";
const APPS: &str =
    "apps come from MCP servers: GET /goose/agent/list_apps lists them, POST /goose/agent/read_resource reads them";

/// The answer to a request for a path that is not there.
pub(crate) fn answer(path: &str) -> ApiError {
    match reason(path) {
        Some(reason) => ApiError::not_found(format!("this server does not have this part of Goose's API: {reason}")),
        None => ApiError::not_found("there is nothing here; this server's Goose API is in docs/goose.md"),
    }
}

/// Why something of released Goose is not there, and what to do instead.
pub(crate) fn reason(path: &str) -> Option<&'static str> {
    let path = path.strip_prefix("/goose").unwrap_or(path).trim_start_matches('/');
    let is_under = |begin: &str| path.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    ABSENT.iter().find(|(begin, _)| is_under(begin)).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_path_counts() {
        assert!(reason("/goose/config/extensions/developer").unwrap().contains("[mcp.NAME]"));
        assert!(reason("/config/backup").unwrap().contains("configuration file"));
        assert!(reason("/schedule/list").unwrap().contains("cron"));
        assert_eq!(reason("/schedules"), None);
        assert_eq!(reason("/"), None);
    }
}
