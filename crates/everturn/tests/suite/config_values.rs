//! Configurations that are right, and what they say.

use std::{
    collections::BTreeSet,
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
    time::Duration,
};

use everturn::config::{
    Config, Durability, Environment, Found, Goose, Limits, Overrides, Problems, ProviderKind, Scope, Source,
    StoreLocation, parse,
};
use everturn_core::{EffectClass, Effort, Quota, Thinking, Timestamp, Usage};
use everturn_engine::{ClientTrust, NoticeKind};
use everturn_http::{Quotas, TlsFiles};
use everturn_mcp::{Endpoint, ServerConfig};
use everturn_models::OpenAiWire;
use everturn_webhooks::Hook;
use secrecy::ExposeSecret as _;

pub(super) fn read(text: &[u8], overrides: &Overrides, environment: &Environment) -> Result<Config, Problems> {
    let tools = BTreeSet::from(["calculator".to_owned(), "clock".to_owned()]);
    parse(Source::File(PathBuf::from("everturn.toml")), text, overrides, environment, &tools, Found::default())
}

fn read_example() -> Config {
    let text = include_str!("../../everturn.example.toml");
    let environment = Environment::from([
        ("EVERTURN_KEY", "0123456789abcdef"),
        ("LOCAL_KEY", "local-secret"),
        ("LOCAL_TEAM", "team-secret"),
        ("FILES_TOKEN", "files-secret"),
        ("SEARCH_AUTHORIZATION", "Bearer search-secret"),
        ("METRICS_KEY", "metrics-secret-0123456789"),
        ("EVERTURN_WEBHOOK_SECRET", "webhook-secret-0123456789"),
    ]);
    read(text.as_bytes(), &Overrides::default(), &environment).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Zero for no bound.
fn quota(requests_per_second: u32, concurrent_turns: u32, tokens_per_day: u64) -> Quota {
    Quota {
        requests_per_second: NonZeroU32::new(requests_per_second),
        concurrent_turns: NonZeroU32::new(concurrent_turns),
        tokens_per_day: NonZeroU64::new(tokens_per_day),
        storage: None,
    }
}

#[test]
fn the_example_has_every_setting() {
    let config = read_example();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.store, StoreLocation::Sqlite(PathBuf::from("everturn-data/everturn.db")));
    assert_eq!(config.durability, Durability::Fsync);

    let [key] = config.keys.as_slice() else { panic!("one key") };
    assert_eq!(key.key.expose_secret(), "0123456789abcdef");
    assert_eq!(key.tenant.as_str(), "acme");
    assert_eq!(key.scopes, BTreeSet::from([Scope::Chat, Scope::Read]));
    assert_eq!((key.id.as_str(), key.name.as_str()), ("key_config_laptop", "laptop"));
    assert_eq!(key.expires_at, Some(Timestamp(2_085_393_600_000)));
    assert_eq!(key.quota, quota(20, 8, 0));
    let tenants = [(key.tenant.clone(), quota(0, 0, 100_000_000))].into();
    let tenant = Quota { storage: NonZeroU64::new(10_000_000_000), ..quota(200, 100, 50_000_000) };
    let expected = Quotas { tenant, key: quota(50, 20, 10_000_000), tenants };
    assert_eq!(config.quotas, expected);

    let provider = &config.providers["local"];
    assert_eq!(provider.kind, ProviderKind::OpenAi);
    assert_eq!(provider.base_url.as_deref(), Some("http://127.0.0.1:8000/v1"));
    assert_eq!(provider.api_key.as_ref().unwrap().expose_secret(), "local-secret");
    assert_eq!(provider.context_window, Some(32768));
    assert_eq!(provider.wire, Some(OpenAiWire::Chat));
    assert_eq!(provider.rules_of.as_deref(), Some("api.deepseek.com"));
    let [(name, value)] = provider.headers.as_slice() else { panic!("one header") };
    assert_eq!((name.as_str(), value.expose_secret()), ("X-Team", "team-secret"));
    assert_eq!(provider.body.as_ref().unwrap().as_str(), r#"{"seed":7}"#);

    let usage =
        Usage { input: 3_000_000, output: 1_000_000, cached_input: 1_000_000, cache_write: 1_000_000, reasoning: 7 };
    let cost = |model: &str| config.prices.of(model).map(|price| price.cost(usage).to_string());
    assert_eq!(cost("local/qwen3").as_deref(), Some("3.175"));
    assert_eq!((cost("local/other").as_deref(), cost("other/qwen3")), (Some("0"), None));

    let [agent] = config.agents.as_slice() else { panic!("one agent") };
    assert_eq!(agent.name.as_str(), "assistant");
    assert_eq!(agent.model.to_string(), "local/qwen3");
    assert_eq!(agent.fallback[0].to_string(), "local/qwen3-small");
    assert_eq!(agent.turn_timeout, Duration::from_secs(3600));
    assert_eq!(agent.max_output_tokens, Some(4096));
    let options = &agent.model_options;
    assert_eq!((options.effort, options.thinking), (Some(Effort::Medium), Some(Thinking::Summary)));
    assert_eq!((options.temperature, options.top_p), (Some(700), Some(900)));
    assert_eq!(agent.body.as_ref().unwrap().as_str(), r#"{"chat_template_kwargs":{"enable_thinking":true}}"#);
    assert_eq!(agent.options.len(), 3);
    assert_eq!(
        (agent.tools.as_slice(), agent.trusted.as_slice()),
        (&["clock", "files/*"].map(str::to_owned)[..], &["files/read_file".to_owned()][..])
    );

    assert_eq!(agent.client_trust, ClientTrust::Any);
    assert_eq!(config.metrics_key.as_ref().unwrap().expose_secret(), "metrics-secret-0123456789");
    assert_eq!(config.origins, ["https://app.example".parse().unwrap()]);

    let files = TlsFiles { cert: PathBuf::from("fullchain.pem"), key: PathBuf::from("privkey.pem") };
    assert_eq!(config.tls, Some(files));

    let [files, search] = config.mcp.as_slice() else { panic!("two servers") };
    let Endpoint::Stdio { program, arguments, environment, folder } = &files.endpoint else { panic!("a program") };
    assert_eq!((program.as_str(), arguments.len(), folder), ("npx", 3, &Some(PathBuf::from("files"))));
    assert_eq!(environment["TOKEN"].expose_secret(), "files-secret");
    assert_eq!(files.effects["write_file"], EffectClass::Idempotent);
    let Endpoint::Http { url, headers } = &search.endpoint else { panic!("an address") };
    assert_eq!(url, "https://mcp.example.org/mcp");
    assert_eq!(headers["Authorization"].expose_secret(), "Bearer search-secret");
}

#[test]
fn the_example_shows_the_defaults_of_mcp_servers() {
    let config = read_example();
    let [files, search] = config.mcp.as_slice() else { panic!("two servers") };
    for server in [files, search] {
        let plain = ServerConfig::new("x", server.endpoint.clone());
        assert_eq!((server.timeout, server.max_timeout), (plain.timeout, plain.max_timeout));
        assert_eq!(server.start_timeout, plain.start_timeout);
        assert_eq!((server.output_cap, server.max_message), (plain.output_cap, plain.max_message));
        assert!(server.enabled);
        assert_eq!(server.confinement.sandbox, plain.confinement.sandbox);
        assert!(server.confinement.user.is_none() && server.confinement.paths.is_empty());
    }
}

#[test]
fn the_example_shows_the_default_limits() {
    assert_eq!(read_example().limits, Limits::default());
    let recipes = Some(PathBuf::from("recipes"));
    assert_eq!(read_example().goose, Goose { recipes, ..Goose::default() });
}

#[test]
fn the_example_shows_the_defaults_of_webhooks() {
    let [hook] = &read_example().webhooks[..] else { panic!("one hook") };
    assert_eq!((hook.tenant.as_str(), hook.receiver.host().as_str()), ("acme", "example.org"));
    assert_eq!((hook.timeout, hook.retry_for), (Hook::TIMEOUT, Hook::RETRY_FOR));
    assert_eq!(hook.events, BTreeSet::from(NoticeKind::ALL));
}

#[test]
fn printing_shows_no_secret() {
    let printed = format!("{:?}", read_example());
    for secret in [
        "0123456789abcdef",
        "local-secret",
        "team-secret",
        "files-secret",
        "search-secret",
        "webhook-secret",
        "hooks/everturn",
    ] {
        assert!(!printed.contains(secret), "{printed}");
    }
    let environment = Environment::from([("A_KEY", "a-secret")]);
    assert_eq!(format!("{environment:?}"), "{\"A_KEY\"}");
}

#[test]
fn an_agent_needs_only_a_name_and_a_model() {
    let text = "[providers.demo]\nkind = 'demo'\n[[agents]]\nname = 'a'\nmodel = 'demo/assistant'";
    let config = read(text.as_bytes(), &Overrides::default(), &Environment::default()).unwrap();
    let agent = &config.agents[0];
    assert_eq!(agent.version, "1.0.0");
    assert_eq!(agent.max_steps, 25);
    assert_eq!(agent.turn_timeout, Duration::from_secs(3600));
    assert!(agent.tools.is_empty() && agent.options.is_empty());
    assert!(agent.model_options.is_empty() && agent.body.is_none());
}

#[test]
fn flags_win_over_the_file() {
    let text = "listen = '127.0.0.1:1'\nstore = 'sqlite:a'\ndurability = 'fsync'\n[tls]\ncert = 'a'\nkey = 'b'";
    let overrides = Overrides {
        listen: Some("localhost:2".to_owned()),
        store: Some("sqlite:///b".to_owned()),
        durability: Some("process".to_owned()),
        tls_cert: Some("cert.pem".to_owned()),
        tls_key: None,
    };
    let config = read(text.as_bytes(), &overrides, &Environment::default()).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:2");
    assert_eq!(config.store, StoreLocation::Sqlite(PathBuf::from("/b")));
    assert_eq!(config.durability, Durability::Process);
    assert_eq!(config.tls, Some(TlsFiles { cert: PathBuf::from("cert.pem"), key: PathBuf::from("b") }));
}

#[test]
fn the_secret_key_comes_from_the_environment() {
    let environment = Environment::from([("EVERTURN_SECRET_KEY", "sealing")]);
    let config = read(b"", &Overrides::default(), &environment).unwrap();
    assert_eq!(config.secret_key.unwrap().expose_secret(), "sealing");
}

#[test]
fn without_a_file_a_variable_holds_the_key() {
    let environment = Environment::from([("EVERTURN_KEY", "0123456789abcdef")]);
    let overrides = Overrides { listen: Some("0.0.0.0:8080".to_owned()), ..Overrides::default() };
    let config = parse(Source::Defaults, b"", &overrides, &environment, &BTreeSet::new(), Found::default()).unwrap();
    assert_eq!(config.keys[0].tenant.as_str(), "default");
    assert_eq!(config.keys[0].scopes, BTreeSet::from(Scope::ALL));
}
