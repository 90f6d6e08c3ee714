//! Hosted providers that variables of the environment are enough for.

use everturn_models::{OpenAiWire, anthropic_base};
use secrecy::SecretString;

use super::{
    Environment,
    settings::{Provider, ProviderKind},
};

/// A provider that the environment has a key for.
pub(super) struct HostedProvider {
    /// Our name for it.
    pub(super) name: &'static str,
    pub(super) provider: Provider,
    /// One of its models.
    pub(super) model: String,
}

/// A provider that a key is enough for.
struct Hosted {
    /// The variables that may hold the key; the first that is set counts.
    keys: &'static [&'static str],
    name: &'static str,
    kind: ProviderKind,
    /// Where it is, if not at the usual place of its kind.
    address: Option<Address>,
    /// A model that every account may use.
    model: &'static str,
}

/// The address of a provider that is compatible with OpenAI.
struct Address {
    /// The variable with another address, such as a proxy's, which leads to the same provider.
    variable: &'static str,
    /// The provider's host, whose rules hold at the other address too.
    host: &'static str,
    path: &'static str,
}

const HOSTED: [Hosted; 8] = [
    hosted(&["OPENAI_API_KEY"], "openai", ProviderKind::OpenAi, "gpt-6-sol"),
    hosted(&["ANTHROPIC_API_KEY"], "anthropic", ProviderKind::Anthropic, "claude-sonnet-5-5"),
    // In the order of Google's SDK.
    hosted(&["GOOGLE_API_KEY", "GEMINI_API_KEY"], "gemini", ProviderKind::Gemini, "gemini-3.8-flash"),
    compatible(&["OPENROUTER_API_KEY"], "openrouter", "openrouter/auto", OPENROUTER),
    compatible(&["DEEPSEEK_API_KEY"], "deepseek", "deepseek-flash", DEEPSEEK),
    compatible(&["MISTRAL_API_KEY"], "mistral", "mistral-medium-latest", MISTRAL),
    compatible(&["XAI_API_KEY"], "xai", "grok-4.5", XAI),
    compatible(&["GROQ_API_KEY"], "groq", "openai/gpt-oss-120b", GROQ),
];

const fn hosted(keys: &'static [&'static str], name: &'static str, kind: ProviderKind, model: &'static str) -> Hosted {
    Hosted { keys, name, kind, address: None, model }
}

/// A provider that is compatible with OpenAI.
const fn compatible(
    keys: &'static [&'static str],
    name: &'static str,
    model: &'static str,
    address: Address,
) -> Hosted {
    Hosted { keys, name, kind: ProviderKind::OpenAi, address: Some(address), model }
}

const OPENROUTER: Address = Address { variable: "OPENROUTER_BASE_URL", host: "openrouter.ai", path: "/api/v1" };
const DEEPSEEK: Address = Address { variable: "DEEPSEEK_BASE_URL", host: "api.deepseek.com", path: "/v1" };
const MISTRAL: Address = Address { variable: "MISTRAL_BASE_URL", host: "api.mistral.ai", path: "/v1" };
const XAI: Address = Address { variable: "XAI_BASE_URL", host: "api.x.ai", path: "/v1" };
const GROQ: Address = Address { variable: "GROQ_BASE_URL", host: "api.groq.com", path: "/openai/v1" };

/// The hosted providers that the environment has keys for.
pub(super) fn find(environment: &Environment) -> Vec<HostedProvider> {
    let hosted = HOSTED.iter().filter_map(|hosted| {
        let key = hosted.keys.iter().find_map(|variable| environment.get(variable))?.trim();
        let base_url = match hosted.name {
            "openai" => openai_address(environment),
            "anthropic" => anthropic_address(environment),
            "gemini" => gemini_address(environment),
            _ => None,
        };
        let mut provider = Provider { base_url, api_key: Some(SecretString::from(key)), ..Provider::new(hosted.kind) };
        if let Some(Address { variable, host, path }) = &hosted.address {
            let usual = format!("https://{host}{path}");
            let other = address(environment, variable, &usual);
            provider.rules_of = other.is_some().then(|| (*host).to_owned());
            provider.base_url = Some(other.unwrap_or(usual));
        }
        Some(HostedProvider { name: hosted.name, provider, model: hosted.model.to_owned() })
    });
    hosted.chain(azure(environment)).collect()
}

/// The address in a variable, unless it is the usual one, where models are known to be the vendor's own.
fn address(environment: &Environment, variable: &str, usual: &str) -> Option<String> {
    let address = environment.get(variable)?.trim().trim_end_matches('/');
    (!address.is_empty() && address != usual).then(|| address.to_owned())
}

fn openai_address(environment: &Environment) -> Option<String> {
    address(environment, "OPENAI_BASE_URL", "https://api.openai.com/v1")
}

/// Anthropic's SDK adds the version to the address itself.
fn anthropic_address(environment: &Environment) -> Option<String> {
    let address = anthropic_base(&address(environment, "ANTHROPIC_BASE_URL", "https://api.anthropic.com")?);
    (address != "https://api.anthropic.com/v1").then_some(address)
}

/// Google's SDK adds the version to the address itself.
fn gemini_address(environment: &Environment) -> Option<String> {
    let address = address(environment, "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com")?;
    Some(if address.ends_with("/v1beta") { address } else { format!("{address}/v1beta") })
}

/// Azure's OpenAI: a deployment is called by the name that its owner gave it, so that nothing can be guessed.
fn azure(environment: &Environment) -> Option<HostedProvider> {
    let key = environment.get("AZURE_OPENAI_API_KEY")?.trim();
    let endpoint = environment.get("AZURE_OPENAI_ENDPOINT")?.trim().trim_end_matches('/');
    let model = environment.get("AZURE_OPENAI_DEPLOYMENT")?.to_owned();
    let base_url = if endpoint.contains("/openai") { endpoint.to_owned() } else { format!("{endpoint}/openai/v1") };
    let provider = Provider {
        headers: vec![("api-key".to_owned(), SecretString::from(key))],
        // Azure's own addresses show which wire a deployment has; a gateway's do not.
        wire: (!is_azure(&base_url)).then_some(OpenAiWire::Responses),
        base_url: Some(base_url),
        ..Provider::new(ProviderKind::OpenAi)
    };
    Some(HostedProvider { name: "azure", provider, model })
}

/// Whether an address is one of Azure's own.
fn is_azure(address: &str) -> bool {
    let host = address.split_once("://").map_or(address, |(_, rest)| rest);
    host.split(['/', ':', '?']).next().is_some_and(|host| host.to_ascii_lowercase().ends_with(".azure.com"))
}
