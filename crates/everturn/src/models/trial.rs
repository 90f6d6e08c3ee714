//! `everturn models try`.

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail};
use everturn_core::{Json, Usage};
use everturn_models::{Model, ModelError, ModelEvent, ModelRequest};
use futures_util::StreamExt as _;

use super::{
    checks::{Answer, Check},
    tokens,
};
use crate::{
    compose::{self, Providers},
    config::Config,
};

/// How long one call may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to try.
struct Subject {
    model: Arc<dyn Model>,
    /// What the agent adds to the body of its calls.
    body: Option<Json>,
}

/// How a call went.
struct Outcome {
    /// What works, or why it does not.
    verdict: Result<String, String>,
    notices: Vec<String>,
    first_token: Option<Duration>,
    usage: Option<Usage>,
    /// Whether the model answered at all.
    is_answered: bool,
}

pub(super) async fn run(config: &Config, name: Option<&str>) -> anyhow::Result<ExitCode> {
    let providers = compose::providers(config)?;
    let Subject { model, body } = subject(config, &providers, name)?;
    model.prepare(0).await;
    anstream::println!("{}{}\n", model.name(), limits(&*model));
    let mut spent = Usage::default();
    let mut works = false;
    for check in Check::ALL {
        let outcome = call(&*model, check, check.request(body.as_ref())?).await;
        anstream::println!("{}", shown(check, &outcome));
        if let Some(usage) = outcome.usage {
            spent.input += usage.input;
            spent.cached_input += usage.cached_input;
            spent.output += usage.output;
            spent.reasoning += usage.reasoning;
        }
        if check == Check::Answer {
            works = outcome.verdict.is_ok();
            if !outcome.is_answered {
                anstream::println!("\nThe other calls are not made: they would fail in the same way");
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    anstream::println!("\nIn all {}", used(&spent));
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The model of an agent, or one that is named by its provider.
fn subject(config: &Config, providers: &Providers, name: Option<&str>) -> anyhow::Result<Subject> {
    let agent = match name {
        None => Some(config.agents.first().ok_or_else(|| anyhow!("the configuration has no agents"))?),
        Some(name) => config.agents.iter().find(|agent| agent.name.as_str() == name),
    };
    let (named, body) = match (agent, name) {
        (Some(agent), _) => (agent.model.to_string(), agent.body.clone()),
        (None, name) => (name.unwrap_or_default().to_owned(), None),
    };
    if let Some(model) = providers.find(&named) {
        return Ok(Subject { model, body });
    }
    let agents: Vec<_> = config.agents.iter().map(|agent| format!("`{}`", agent.name)).collect();
    let known: Vec<_> = providers.iter().map(|provider| format!("`{}/…`", provider.name())).collect();
    bail!(
        "there is no agent `{named}`, nor such a model\n\nhint: the agents are {}; a model is written {}",
        agents.join(", "),
        known.join(" or ")
    )
}

fn limits(model: &dyn Model) -> String {
    let window = model.context_window().map(|window| format!("window {}", tokens(window)));
    let answer = model.max_output().map(|answer| format!("answers of up to {}", tokens(answer)));
    let known: Vec<_> = window.into_iter().chain(answer).collect();
    if known.is_empty() { String::new() } else { format!(": {} tokens", known.join(", ")) }
}

async fn call(model: &dyn Model, check: Check, request: ModelRequest) -> Outcome {
    let begun = Instant::now();
    let mut outcome = Outcome {
        verdict: Err(format!("no end of the answer within {} seconds", PATIENCE.as_secs())),
        notices: Vec::new(),
        first_token: None,
        usage: None,
        is_answered: false,
    };
    let mut answer = Answer::default();
    let listen = async {
        let mut stream = model.stream(request).await?;
        while let Some(event) = stream.next().await {
            let event = event?;
            if is_token(&event) {
                outcome.first_token.get_or_insert_with(|| begun.elapsed());
            }
            match event {
                ModelEvent::Alive
                | ModelEvent::ThinkingSignature(_)
                | ModelEvent::ToolCallStarted { .. }
                | ModelEvent::ToolInputDelta { .. } => {}
                ModelEvent::Notice(notice) => outcome.notices.push(notice),
                ModelEvent::Text(text) => answer.text.push_str(&text),
                ModelEvent::Thinking(_) => answer.has_thought = true,
                ModelEvent::ToolCall { name, .. } | ModelEvent::BadToolCall { name, .. } => answer.calls.push(name),
                ModelEvent::Used(usage) => outcome.usage = Some(usage),
                ModelEvent::Finished { finish, usage } => {
                    answer.finish = Some(finish);
                    outcome.usage = usage.or(outcome.usage);
                }
            }
        }
        Ok::<_, ModelError>(())
    };
    match tokio::time::timeout(PATIENCE, listen).await {
        Err(_) => {}
        Ok(Err(error)) => outcome.verdict = Err(error.message),
        Ok(Ok(())) => {
            outcome.is_answered = true;
            answer.has_thought |= outcome.usage.is_some_and(|usage| usage.reasoning > 0);
            outcome.verdict = check.judge(&answer);
        }
    }
    outcome
}

/// Whether an event shows that the model has begun to write.
fn is_token(event: &ModelEvent) -> bool {
    matches!(
        event,
        ModelEvent::Text(_)
            | ModelEvent::Thinking(_)
            | ModelEvent::ToolCallStarted { .. }
            | ModelEvent::ToolCall { .. }
            | ModelEvent::BadToolCall { .. }
    )
}

fn shown(check: Check, outcome: &Outcome) -> String {
    let (word, why) = match &outcome.verdict {
        Ok(why) => ("works", why),
        Err(why) => ("fails", why),
    };
    let mut lines = vec![format!("{:11}  {word}: {why}", check.name())];
    let first = outcome.first_token.map(|time| format!("first token after {:.1} s", time.as_secs_f64()));
    let measured: Vec<_> = first.into_iter().chain(outcome.usage.map(|usage| used(&usage))).collect();
    if !measured.is_empty() {
        lines.push(format!("{:11}  {}", "", measured.join("; ")));
    }
    lines.extend(outcome.notices.iter().map(|notice| format!("{:11}  note: {notice}", "")));
    lines.join("\n")
}

fn used(usage: &Usage) -> String {
    let part = |tokens: u64, of: &str| if tokens == 0 { String::new() } else { format!(" ({tokens} {of})") };
    format!(
        "{} tokens read{}, {} written{}",
        usage.input,
        part(usage.cached_input, "from the cache"),
        usage.output,
        part(usage.reasoning, "of them thinking")
    )
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn notes_and_cached_tokens_are_shown() {
        let outcome = Outcome {
            verdict: Ok("the model answers".to_owned()),
            notices: vec!["temperature is not sent".to_owned()],
            first_token: Some(Duration::from_millis(1250)),
            usage: Some(Usage { input: 2000, output: 40, cached_input: 1500, cache_write: 0, reasoning: 30 }),
            is_answered: true,
        };
        expect![[r#"
            answer       works: the model answers
                         first token after 1.2 s; 2000 tokens read (1500 from the cache), 40 written (30 of them thinking)
                         note: temperature is not sent"#]]
        .assert_eq(&shown(Check::Answer, &outcome));
    }
}
