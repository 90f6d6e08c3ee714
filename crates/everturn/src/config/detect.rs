//! The agents of a server that was told of none: one for every provider that is at hand, and the demo. The first one answers
//! requests that name none, so that a real model is never behind the demo.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    time::Duration,
};

use everturn_core::OptionSpec;
use everturn_models::ProviderConfig;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

use super::{
    Environment,
    hosted::{self, HostedProvider},
    settings::{Agent, AgentName, ModelName, Provider, ProviderKind},
};

/// Where Ollama listens unless told otherwise.
pub const OLLAMA_ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 11434));

/// How long the start may wait for an Ollama that may not be there.
const OLLAMA_BUDGET: Duration = Duration::from_millis(200);
/// How long the start may wait for a compatible server's list of models.
const LIST_BUDGET: Duration = Duration::from_secs(1);
/// A longer list of models is not read.
const OLLAMA_LIST_BYTES: usize = 1024 * 1024;

/// Most models of an Ollama that get an agent.
const MAX_OLLAMA_AGENTS: usize = 100;

/// Providers and agents that nobody configured.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Providers, by name.
    pub providers: BTreeMap<String, Provider>,
    /// Agents.
    pub agents: Vec<Agent>,
}

/// The hosted providers whose keys are in the environment, the models of Ollama if it answers at once (the one that
/// `OLLAMA_HOST` names, else the one at `usual_ollama`), and the demo.
pub async fn find_agents(environment: &Environment, usual_ollama: SocketAddr) -> Found {
    let mut found = Found::default();
    for HostedProvider { name, provider, model } in hosted::find(environment) {
        let model = if name == "openai" { model_there(&provider, model).await } else { model };
        let agent = plain_agent(&found, name, &model);
        found.add(name, provider, agent);
    }
    let ollama = match environment.get("OLLAMA_HOST") {
        Some(host) => ollama_host(host),
        None => {
            Some(OllamaHost { host: usual_ollama.ip().to_string(), port: usual_ollama.port(), path: String::new() })
        }
    };
    if let Some(ollama) = ollama
        && let Ok(models) = tokio::time::timeout(OLLAMA_BUDGET, ollama_models(&ollama)).await
    {
        let OllamaHost { host, port, path } = &ollama;
        let is_usual = (host.as_str(), *port, path.as_str()) == ("127.0.0.1", OLLAMA_ADDRESS.port(), "");
        let base_url = (!is_usual).then(|| format!("http://{}:{port}{path}", in_url(host)));
        for model in models {
            let agent = plain_agent(&found, "ollama", &model);
            let base_url = base_url.clone();
            found.add("ollama", Provider { base_url, ..Provider::new(ProviderKind::Ollama) }, agent);
        }
    }
    found.add("demo", Provider::new(ProviderKind::Demo), demo_agent());
    found
}

impl Found {
    fn add(&mut self, name: &str, provider: Provider, agent: Agent) {
        self.providers.insert(name.to_owned(), provider);
        self.agents.push(agent);
    }
}

/// A model that a compatible server has. One that lists its models, and not the usual one among them, is asked for its first.
async fn model_there(provider: &Provider, usual: String) -> String {
    let Provider { base_url: base_url @ Some(_), api_key, .. } = provider else { return usual };
    let (base_url, api_key) = (base_url.clone(), api_key.clone());
    let config = ProviderConfig { base_url, api_key, ..ProviderConfig::new(everturn_models::ProviderKind::OpenAi) };
    let Ok(provider) = everturn_models::Provider::new("openai", config) else { return usual };
    let Ok(Ok(models)) = tokio::time::timeout(LIST_BUDGET, provider.models()).await else { return usual };
    if models.iter().any(|model| model.id == usual) {
        return usual;
    }
    models.into_iter().find(|model| model.is_for_chat).map_or(usual, |model| model.id)
}

/// Where an Ollama is.
struct OllamaHost {
    host: String,
    port: u16,
    /// Begins with a slash, if there is any.
    path: String,
}

/// What `OLLAMA_HOST` says, as Ollama's own clients read it. An address to listen on everywhere is reached on this machine.
/// `None` for https, which the probe at start does not speak.
fn ollama_host(text: &str) -> Option<OllamaHost> {
    let (usual_port, rest) = match text.trim().split_once("://") {
        Some(("http", rest)) => (80, rest),
        Some(_) => return None,
        None => (OLLAMA_ADDRESS.port(), text.trim()),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = match authority.rsplit_once(':') {
        // The colons of a bare IPv6 address are its own.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, usual_port),
    };
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        "" | "0.0.0.0" | "::" => "127.0.0.1",
        host => host,
    };
    Some(OllamaHost { host: host.to_owned(), port, path: path.trim_end_matches('/').to_owned() })
}

/// A host as URLs write it.
fn in_url(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn model(provider: &str, model: &str) -> ModelName {
    ModelName { provider: provider.to_owned(), model: model.to_owned() }
}

/// An agent that is called by its model's name, with the provider's before it where another agent has that name.
fn plain_agent(found: &Found, provider: &str, name: &str) -> Agent {
    let own = AgentName::like(name);
    let is_taken = found.agents.iter().any(|agent| agent.name == own);
    let own = if is_taken { AgentName::like(&format!("{provider}-{name}")) } else { own };
    Agent {
        title: Some(name.to_owned()),
        description: Some(format!("The model {name} with the built-in tools")),
        instructions: "You are a helpful assistant.".to_owned(),
        tools: tools(),
        ..Agent::new(own, model(provider, name))
    }
}

/// All that are built in.
fn tools() -> Vec<String> {
    ["clock", "calculator", "request_form", "create_artifact", "update_artifact", "wait"].map(str::to_owned).to_vec()
}

/// Has one option of each type, so that all that clients can do can be tried without a model.
fn demo_agent() -> Agent {
    let options = vec![
        OptionSpec::Text {
            name: "name".to_owned(),
            title: Some("Your name".to_owned()),
            description: Some("What the agent calls you".to_owned()),
            default: "friend".to_owned(),
        },
        OptionSpec::Select {
            name: "language".to_owned(),
            title: Some("Language".to_owned()),
            description: Some("The language of the answers".to_owned()),
            options: vec!["English".to_owned(), "Japanese".to_owned()],
            default: "English".to_owned(),
        },
        OptionSpec::Secret {
            name: "token".to_owned(),
            title: Some("Token".to_owned()),
            description: Some("A secret that is kept sealed and never shown again".to_owned()),
            default: String::new(),
        },
    ];
    Agent {
        title: Some("Demo".to_owned()),
        description: Some("Works offline and shows what the server can do: ask it for help".to_owned()),
        instructions: "You are a demonstration. You talk with {{name}} and answer in {{language}}.".to_owned(),
        tools: tools(),
        options,
        ..Agent::new(AgentName::like("demo"), model("demo", "assistant"))
    }
}

#[derive(Deserialize)]
struct OllamaModels {
    models: Vec<serde_json::Value>,
}

/// The models that can chat, the one that was used or pulled last first, if there is an Ollama.
async fn ollama_models(ollama: &OllamaHost) -> Vec<String> {
    let models = ollama_list(ollama).await.unwrap_or_default();
    let names = models.iter().filter_map(|model| Some(model.get("name")?.as_str()?.to_owned()));
    names.filter(|name| everturn_models::can_chat(name)).take(MAX_OLLAMA_AGENTS).collect()
}

async fn ollama_list(ollama: &OllamaHost) -> Option<Vec<serde_json::Value>> {
    let OllamaHost { host, port, path } = ollama;
    let stream = TcpStream::connect((host.as_str(), *port)).await.ok()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    let request = http::Request::get(format!("{path}/api/tags"))
        .header(http::header::HOST, format!("{}:{port}", in_url(host)))
        .body(Empty::<bytes::Bytes>::new())
        .ok()?;
    let exchange = async {
        let response = sender.send_request(request).await.ok()?;
        let body = Limited::new(response.into_body(), OLLAMA_LIST_BYTES).collect().await.ok()?;
        serde_json::from_slice::<OllamaModels>(&body.to_bytes()).ok()
    };
    // The connection ends with this function, whoever is done first.
    tokio::select! {
        models = exchange => Some(models?.models),
        _ = connection => None,
    }
}
