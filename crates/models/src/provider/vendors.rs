//! The vendor of a model, by the model's name, and the hosts on which that vendor serves its models itself.
//!
//! A host of somebody else may serve the same model with a smaller window, or through another of OpenAI's wires.

use super::openai;

/// One vendor of models.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Vendor {
    /// The beginnings of its models' names.
    begins: &'static [&'static str],
    /// The domains of its own services.
    domains: &'static [&'static str],
}

const fn vendor(begins: &'static [&'static str], domains: &'static [&'static str]) -> Vendor {
    Vendor { begins, domains }
}

/// OpenAI's models that only OpenAI and Azure serve.
const OPENAI: Vendor = vendor(
    &["gpt-", "chatgpt-", "codex-", "computer-use-", "o1", "o3", "o4"],
    &["openai.com", "openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com"],
);

/// The other vendors. Open models that anybody serves have the domain of their vendor's service, or none.
const OTHERS: &[Vendor] = &[
    // OpenAI's open models do not run at OpenAI.
    vendor(&["gpt-oss"], &[]),
    vendor(&["gpt-j", "gpt-neo"], &[]),
    vendor(&["claude"], &["anthropic.com"]),
    vendor(&["gemini", "gemma"], &["googleapis.com"]),
    vendor(&["deepseek", "mai-ds"], &["deepseek.com"]),
    vendor(&["kimi", "moonshot"], &["moonshot.ai", "moonshot.cn", "moonshotai.cn", "kimi.com"]),
    vendor(&["glm", "chatglm"], &["z.ai", "bigmodel.cn"]),
    vendor(&["minimax", "abab"], &["minimax.io", "minimaxi.com"]),
    vendor(&["qwen", "qwq", "qvq"], &["aliyuncs.com"]),
    vendor(&["grok"], &["x.ai"]),
    vendor(
        &["mistral", "ministral", "magistral", "devstral", "codestral", "pixtral", "mixtral", "open-mi", "voxtral"],
        &["mistral.ai"],
    ),
    vendor(&["llama", "meta-llama"], &[]),
    vendor(&["command", "cohere", "c4ai"], &["cohere.com", "cohere.ai"]),
    vendor(&["jais", "jamba", "ai21"], &["ai21.com"]),
    vendor(&["phi-", "phi3", "phi4"], &[]),
    vendor(&["granite", "nemotron", "yi-", "hermes", "falcon"], &[]),
];

/// The vendor of a model. `None` for a name that shows none, such as that of a deployment.
pub(super) fn of(model: &str) -> Option<&'static Vendor> {
    // A gateway's prefix and suffix are passed over: `deepseek/deepseek-chat:free`, `us.anthropic.claude-…`.
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let name = name.rsplit_once("anthropic.").map_or(name.as_str(), |(_, name)| name);
    let is = |vendor: &&Vendor| vendor.begins.iter().any(|begins| name.starts_with(begins));
    OTHERS.iter().find(is).or_else(|| Some(&OPENAI).filter(is))
}

impl Vendor {
    /// Whether a host is one of the vendor's own.
    pub(super) fn serves(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        self.domains
            .iter()
            .any(|domain| host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    }

    /// Whether its models are OpenAI's, which have the Responses API.
    pub(super) fn is_openai(&self) -> bool {
        *self == OPENAI
    }
}

/// Whether what a model's name tells holds at a host: its vendor serves it there.
pub(super) fn is_at_home(model: &str, host: &str) -> bool {
    // Azure's list names models rather than deployments, and no windows.
    openai::is_azure(host) || of(model).is_some_and(|vendor| vendor.serves(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_at_home_with_its_vendor_only() {
        for (model, host, is_home) in [
            ("gpt-6-sol", "api.openai.com", true),
            ("gpt-oss-120b", "api.openai.com", false),
            ("gpt-6-sol", "openai.com.example.com", false),
            ("my-deployment", "some.openai.azure.com", true),
            ("claude-opus-5", "api.anthropic.com", true),
            ("claude-opus-5", "gateway.example.com", false),
            ("us.anthropic.claude-opus-5", "bedrock-runtime.us-east-1.amazonaws.com", false),
            ("deepseek-chat", "api.deepseek.com", true),
            ("deepseek-ai/DeepSeek-V3", "127.0.0.1", false),
            ("grok-4.5", "API.X.AI", true),
            ("grok-4.5", "fax.ai", false),
            ("something", "api.openai.com", false),
        ] {
            assert_eq!(is_at_home(model, host), is_home, "{model} at {host}");
        }
    }
}
