//! The agents of a server that was told of none: the demo, and one for every provider that is at hand.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    time::Duration,
};

use everturn_core::OptionSpec;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use secrecy::SecretString;
use serde::Deserialize;
use tokio::net::TcpStream;

use super::{
    Environment,
    settings::{Agent, AgentName, ModelName, Provider, ProviderKind},
};

/// Where Ollama listens unless told otherwise.
pub const OLLAMA_ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 11434));

/// How long the start may wait for an Ollama that may not be there.
const OLLAMA_BUDGET: Duration = Duration::from_millis(200);
/// A longer list of models is not read.
const OLLAMA_LIST_BYTES: usize = 1024 * 1024;

/// Hosted providers: the variable that holds the key, our name for the provider, its kind and a good model of it.
const HOSTED: [(&str, &str, ProviderKind, &str); 3] = [
    ("OPENAI_API_KEY", "openai", ProviderKind::OpenAi, "gpt-5.6"),
    ("ANTHROPIC_API_KEY", "anthropic", ProviderKind::Anthropic, "claude-sonnet-5-5"),
    ("GEMINI_API_KEY", "gemini", ProviderKind::Gemini, "gemini-3.8-flash"),
];

/// Providers and agents that nobody configured.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Providers, by name.
    pub providers: BTreeMap<String, Provider>,
    /// Agents.
    pub agents: Vec<Agent>,
}

/// The demo, the hosted providers whose keys are in the environment, and Ollama if it answers at once.
pub async fn find_agents(environment: &Environment, ollama: SocketAddr) -> Found {
    let mut found = Found::default();
    found.add(
        "demo",
        Provider {
            kind: ProviderKind::Demo,
            base_url: None,
            api_key: None,
            context_window: None,
            thinking_budget: None,
        },
    );
    found.agents.push(demo_agent());
    for (variable, name, kind, model) in HOSTED {
        if let Some(key) = environment.get(variable) {
            let api_key = Some(SecretString::from(key));
            found.add(name, Provider { kind, base_url: None, api_key, context_window: None, thinking_budget: None });
            found.agents.push(plain_agent(name, model));
        }
    }
    if let Some(model) = tokio::time::timeout(OLLAMA_BUDGET, ollama_model(ollama)).await.ok().flatten() {
        let base_url = (ollama != OLLAMA_ADDRESS).then(|| format!("http://{ollama}"));
        found.add(
            "ollama",
            Provider {
                kind: ProviderKind::Ollama,
                base_url,
                api_key: None,
                context_window: None,
                thinking_budget: None,
            },
        );
        found.agents.push(plain_agent("ollama", &model));
    }
    found
}

impl Found {
    fn add(&mut self, name: &str, provider: Provider) {
        self.providers.insert(name.to_owned(), provider);
    }
}

fn model(provider: &str, model: &str) -> ModelName {
    ModelName { provider: provider.to_owned(), model: model.to_owned() }
}

fn plain_agent(provider: &str, name: &str) -> Agent {
    Agent {
        title: Some(name.to_owned()),
        description: Some(format!("The model {name} with the built-in tools")),
        instructions: "You are a helpful assistant.".to_owned(),
        tools: tools(),
        ..Agent::new(AgentName::like(name), model(provider, name))
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
    models: Vec<OllamaModel>,
}

#[derive(Deserialize)]
struct OllamaModel {
    name: String,
}

/// The model that was used or pulled last and can chat, if there is an Ollama and it has one.
async fn ollama_model(address: SocketAddr) -> Option<String> {
    let stream = TcpStream::connect(address).await.ok()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    let request = http::Request::get("/api/tags")
        .header(http::header::HOST, address.to_string())
        .body(Empty::<bytes::Bytes>::new())
        .ok()?;
    let exchange = async {
        let response = sender.send_request(request).await.ok()?;
        let body = Limited::new(response.into_body(), OLLAMA_LIST_BYTES).collect().await.ok()?;
        serde_json::from_slice::<OllamaModels>(&body.to_bytes()).ok()
    };
    // The connection ends with this function, whoever is done first.
    let models = tokio::select! {
        models = exchange => models?.models,
        _ = connection => return None,
    };
    models.into_iter().map(|model| model.name).find(|name| !name.is_empty() && !name.contains("embed"))
}
