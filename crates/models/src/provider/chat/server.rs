//! Which server is spoken to, and in what it differs from the others.
//!
//! The host tells for public services. Servers on other hosts are known by the model that they serve: its chat template
//! has rules of its own wherever it runs.

use crate::provider::{
    call_ids::Shape,
    is_this_machine,
    learned::WantsReasoning,
    openai::{OFFICIAL_HOST, is_azure},
    wire::{Ask, Settings},
};

/// A server that speaks chat completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    OpenAi,
    Azure,
    Cerebras,
    DashScope,
    DeepSeek,
    Gemini,
    Groq,
    Kimi,
    MiniMax,
    Mistral,
    OpenRouter,
    Xai,
    Zai,
    /// Any other: vLLM, SGLang, llama.cpp, LM Studio, gateways.
    Other,
}

impl Server {
    fn at(settings: &Settings) -> Self {
        let host = settings.host.as_str();
        let is = |domain: &str| settings.is_at(domain);
        match host {
            _ if settings.is_official || host == OFFICIAL_HOST => Self::OpenAi,
            _ if is_azure(host) => Self::Azure,
            _ if is("cerebras.ai") => Self::Cerebras,
            _ if host.starts_with("dashscope") && is("aliyuncs.com") => Self::DashScope,
            _ if is("deepseek.com") => Self::DeepSeek,
            _ if is("googleapis.com") => Self::Gemini,
            _ if is("groq.com") => Self::Groq,
            _ if ["moonshot.ai", "moonshot.cn", "moonshotai.cn", "kimi.com"].into_iter().any(is) => Self::Kimi,
            _ if is("minimax.io") || is("minimaxi.com") => Self::MiniMax,
            _ if is("mistral.ai") => Self::Mistral,
            _ if is("openrouter.ai") => Self::OpenRouter,
            _ if is("x.ai") => Self::Xai,
            _ if is("z.ai") || is("bigmodel.cn") => Self::Zai,
            _ => Self::Other,
        }
    }
}

/// The family of a model whose template has rules of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    DeepSeek,
    Glm,
    GptOss,
    Kimi,
    MiniMax,
    Mistral,
    Other,
}

impl Family {
    fn of(name: &str) -> Self {
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        match name {
            _ if has(&["deepseek"]) => Self::DeepSeek,
            _ if has(&["kimi", "moonshot"]) => Self::Kimi,
            _ if has(&["mistral", "ministral", "magistral", "devstral", "codestral", "pixtral", "mixtral"]) => {
                Self::Mistral
            }
            _ if has(&["gpt-oss"]) => Self::GptOss,
            _ if has(&["minimax"]) => Self::MiniMax,
            _ if has(&["glm-"]) => Self::Glm,
            _ => Self::Other,
        }
    }
}

/// The model's reasoning in history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replay {
    /// Refused, or of no use.
    Never,
    /// Sent back under the name that it arrived in, with answers that made calls.
    WithCalls,
    /// Sent back under the name that it arrived in, with all answers of turns that made calls, and refused without: an
    /// answer whose reasoning is not known is sent with this instead.
    InTurnsWithCalls(&'static str),
    /// As `InTurnsWithCalls`, with all answers.
    Everywhere(&'static str),
    /// Sent back under the name that it arrived in, with all answers.
    Always,
    /// As its details, unmodified.
    Details,
    /// As parts of the content.
    Parts,
}

/// How well a server forces the shape of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Structure {
    /// Not at all.
    Asked,
    /// It is JSON.
    Object,
    /// It fits a schema.
    Schema,
}

/// What a request to a server looks like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) server: Server,
    pub(super) family: Family,
    pub(super) ids: Shape,
    pub(super) replay: Replay,
    pub(super) structure: Structure,
    /// Whether the cap on the answer is `max_completion_tokens`, which older servers do not know.
    pub(super) completion_cap: bool,
    /// Whether usage in streams must be asked for.
    pub(super) usage_option: bool,
    /// Whether it takes `prompt_cache_key`.
    pub(super) cache_key: bool,
    /// Whether the provider behind it takes reasoning back only after the same request as when it was given.
    pub(super) binds_thinking: bool,
    /// Whether the cache of the provider behind it keeps only what requests mark.
    pub(super) cache_marks: bool,
    /// Whether it takes `parallel_tool_calls`.
    pub(super) parallel_option: bool,
    /// Whether the content of an answer that only made calls is `""` rather than `null`.
    pub(super) empty_text: bool,
    /// Whether an answer must stand between the results of tools and a user's message.
    pub(super) bridge: bool,
    /// Whether it reads PDF files.
    pub(super) files: bool,
    /// Whether calls in history must be signed.
    pub(super) signs_calls: bool,
}

/// The rules for one call.
pub(super) fn rules(ask: &Ask<'_>) -> Rules {
    let name = short_name(ask.model);
    let server = Server::at(ask.settings);
    // A name of somebody's own does not show the family; a service that has but one family does.
    let family = match (server, Family::of(&name)) {
        (Server::DeepSeek, Family::Other) => Family::DeepSeek,
        (Server::Kimi, Family::Other) => Family::Kimi,
        (Server::MiniMax, Family::Other) => Family::MiniMax,
        (Server::Mistral, Family::Other) => Family::Mistral,
        (_, family) => family,
    };
    let is_claude = server == Server::OpenRouter && ask.model.trim_start_matches('~').starts_with("anthropic/");
    let is_mistral = server == Server::Mistral || family == Family::Mistral;
    Rules {
        server,
        family,
        ids: if is_mistral || ask.learned.wants_short_ids { Shape::Nine } else { Shape::AtMost(40) },
        replay: match ask.learned.wants_reasoning {
            WantsReasoning::AsUsual => replay(server, family, &name, ask.settings),
            WantsReasoning::InTurnsWithCalls => Replay::InTurnsWithCalls(" "),
            WantsReasoning::Everywhere => Replay::Everywhere(" "),
        },
        structure: structure(server, family, !ask.request.tools.is_empty()),
        completion_cap: matches!(
            server,
            Server::OpenAi
                | Server::Azure
                | Server::Cerebras
                | Server::Groq
                | Server::Kimi
                | Server::MiniMax
                | Server::Xai
        ),
        usage_option: server != Server::Mistral,
        cache_key: matches!(server, Server::OpenAi | Server::Azure | Server::Cerebras | Server::Mistral | Server::Xai),
        binds_thinking: is_claude,
        cache_marks: is_claude && !ask.learned.fields.contains("cache_control"),
        parallel_option: !matches!(server, Server::Cerebras | Server::MiniMax),
        empty_text: is_mistral || server == Server::Gemini || ask.learned.wants_empty_text,
        bridge: is_mistral,
        files: matches!(server, Server::OpenAi | Server::Azure | Server::OpenRouter),
        signs_calls: server == Server::Gemini && !["gemini-1", "gemini-2"].iter().any(|old| name.starts_with(old)),
    }
}

/// Whether a host looks like one that people run themselves: this machine, an address, or a name of a private network.
pub(super) fn is_own(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    is_this_machine(host)
        || address.parse::<std::net::IpAddr>().is_ok()
        || !host.contains('.')
        || [".local", ".internal", ".lan"].iter().any(|domain| host.ends_with(domain))
}

/// A model's name in lower case, without a gateway's prefix.
pub(super) fn short_name(model: &str) -> String {
    model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase()
}

fn replay(server: Server, family: Family, name: &str, settings: &Settings) -> Replay {
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let required = match family {
        // Models before V3.2 do not think, or refuse to be shown their own thoughts.
        Family::DeepSeek if has(&["-r1", "-v2", "-v3"]) && !has(&["-v3.2"]) => None,
        Family::DeepSeek => Some(Replay::InTurnsWithCalls("")),
        // Models that do not think. For the others an empty text counts as none.
        Family::Kimi if has(&["moonshot-v1", "k2-0", "k2-turbo", "k2-instruct"]) => None,
        Family::Kimi => Some(Replay::InTurnsWithCalls(" ")),
        Family::Glm | Family::GptOss | Family::MiniMax | Family::Mistral | Family::Other => None,
    };
    match server {
        Server::OpenAi | Server::Azure | Server::Groq | Server::Xai | Server::Gemini => Replay::Never,
        Server::OpenRouter => Replay::Details,
        Server::Mistral => Replay::Parts,
        Server::Zai => Replay::Always,
        // Takes it under the name that it gives it, which is not DeepSeek's.
        Server::Cerebras => Replay::WithCalls,
        Server::DeepSeek | Server::Kimi | Server::DashScope | Server::MiniMax => required.unwrap_or(Replay::Never),
        Server::Other => match (required, family) {
            (Some(required), _) => required,
            (None, Family::Glm | Family::GptOss | Family::MiniMax) => Replay::WithCalls,
            (None, Family::DeepSeek | Family::Mistral) => Replay::Never,
            // The servers that people run themselves all take it.
            (None, _) if is_own(&settings.host) => Replay::WithCalls,
            (None, _) => Replay::Never,
        },
    }
}

fn structure(server: Server, family: Family, has_tools: bool) -> Structure {
    match server {
        Server::MiniMax => Structure::Asked,
        Server::DeepSeek | Server::Zai | Server::DashScope => Structure::Object,
        Server::Groq if has_tools => Structure::Asked,
        // Refused in streams of models that think.
        Server::Cerebras if family != Family::Other => Structure::Asked,
        _ => Structure::Schema,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_known_by_their_host() {
        for (host, server) in [
            ("api.openai.com", Server::OpenAi),
            ("res.openai.azure.com", Server::Azure),
            ("res.services.ai.azure.com", Server::Azure),
            ("api.deepseek.com", Server::DeepSeek),
            ("api.moonshot.ai", Server::Kimi),
            ("api.z.ai", Server::Zai),
            ("api.x.ai", Server::Xai),
            ("max.ai", Server::Other),
            ("openrouter.ai", Server::OpenRouter),
            ("dashscope-intl.aliyuncs.com", Server::DashScope),
            ("generativelanguage.googleapis.com", Server::Gemini),
            ("evil-mistral.ai", Server::Other),
            ("127.0.0.1", Server::Other),
        ] {
            assert_eq!(Server::at(&Settings { host: host.into(), ..Settings::default() }), server, "{host}");
        }
    }
}
