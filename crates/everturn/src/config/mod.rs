//! Configuration: from one TOML file, a few flags and variables, or none of them.
//!
//! [`load`] finds the file, reads it and checks it whole, so that a mistake is told before anything starts and all
//! mistakes are told at once. Without providers and agents of its own, a configuration gets the demo agent and one
//! agent for every provider that is found at start. Only this module knows what a file looks like; the rest of the
//! server sees [`Config`].
//!
//! Every setting is described in `everturn.example.toml`.

mod agent;
mod body;
mod capabilities;
mod check;
mod choice;
mod confinement;
mod detect;
pub(crate) mod duration;
mod environment;
mod file;
mod goose;
mod hosted;
mod keys;
mod limits;
mod load;
mod mcp;
mod model_options;
pub(crate) mod moment;
mod openai;
mod option;
mod origins;
mod prices;
mod problem;
mod provider;
mod proxy;
mod quota;
mod retention;
mod secret;
mod settings;
mod suggest;
mod surroundings;
mod tls;
mod webhooks;

pub(crate) use confinement::confined_servers;
pub use detect::{Found, OLLAMA_ADDRESS, find_agents};
pub use environment::Environment;
pub use goose::Goose;
pub use limits::Limits;
pub use load::{LoadError, Overrides, load, load_store, parse};
pub use openai::OpenAi;
pub use problem::{Place, Problem, Problems};
pub(crate) use secret::find as find_secret;
pub use settings::{
    Agent, AgentName, ApiKey, Config, Durability, ModelName, Provider, ProviderKind, Scope, Source, StoreLocation,
};
pub(crate) use surroundings::missing as missing_surroundings;
