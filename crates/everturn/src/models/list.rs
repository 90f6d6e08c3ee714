//! `everturn models list`.

use std::{fmt::Write as _, process::ExitCode};

use anyhow::bail;
use everturn_models::{ListedModel, Provider};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::tokens;
use crate::{compose, config::Config};

/// What a provider offers.
struct Offer {
    provider: String,
    kind: &'static str,
    /// The models in the order of their names, else why there are none.
    models: Result<Vec<Offered>, String>,
    /// Models that agents use and that the list does not have.
    unlisted: Vec<Offered>,
}

/// A model, with the agents that use it.
struct Offered {
    model: ListedModel,
    agents: Vec<String>,
}

pub(super) async fn run(config: &Config, only: Option<&str>, as_json: bool) -> anyhow::Result<ExitCode> {
    let providers = compose::providers(config)?;
    if let Some(name) = only
        && providers.get(name).is_none()
    {
        let known: Vec<_> = providers.iter().map(|provider| format!("`{}`", provider.name())).collect();
        bail!("there is no provider `{name}`\n\nhint: there are {}", known.join(", "));
    }
    let asked = providers.iter().filter(|provider| only.is_none_or(|name| name == provider.name()));
    let offers = join_all(asked.map(|provider| ask(config, provider))).await;
    let text = if as_json { to_json(&offers) } else { to_text(&offers) };
    anstream::println!("{}", text.trim_end());
    let all_failed = !offers.is_empty() && offers.iter().all(|offer| offer.models.is_err());
    Ok(if all_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn ask(config: &Config, provider: &Provider) -> Offer {
    let models = provider.models().await.map_err(|error| error.to_string());
    let offered = |model: ListedModel| {
        let named = provider.model(&model.id);
        // What the configuration says is what costs are worked out with.
        let price = config.prices.of(&format!("{}/{}", provider.name(), model.id));
        Offered {
            agents: agents(config, provider.name(), &model.id),
            model: ListedModel {
                context_window: model.context_window.or_else(|| named.context_window()),
                max_output: model.max_output.or_else(|| named.max_output()),
                input_price: price.map(|price| price.input.dollars()).or(model.input_price),
                output_price: price.map(|price| price.output.dollars()).or(model.output_price),
                ..model
            },
        }
    };
    let models = models.map(|mut models| {
        models.sort_by(|one, other| one.id.cmp(&other.id));
        models.into_iter().map(offered).collect::<Vec<_>>()
    });
    let mut used: Vec<&str> = config
        .agents
        .iter()
        .flat_map(|agent| std::iter::once(&agent.model).chain(&agent.fallback))
        .filter(|model| model.provider == provider.name())
        .map(|model| model.model.as_str())
        .filter(|id| !models.iter().flatten().any(|offered| offered.model.id == *id))
        .collect();
    used.sort_unstable();
    used.dedup();
    let unlisted = used.into_iter().map(|id| offered(ListedModel { id: id.to_owned(), ..ListedModel::default() }));
    Offer { provider: provider.name().to_owned(), kind: provider.kind().as_str(), unlisted: unlisted.collect(), models }
}

/// The agents that use a model.
fn agents(config: &Config, provider: &str, model: &str) -> Vec<String> {
    let agents = config.agents.iter().filter(|agent| {
        let mut models = std::iter::once(&agent.model).chain(&agent.fallback);
        models.any(|name| name.provider == provider && name.model == model)
    });
    agents.map(|agent| agent.name.to_string()).collect()
}

fn to_json(offers: &[Offer]) -> String {
    let model = |Offered { model, agents }: &Offered, is_listed: bool| {
        json!({
            "id": model.id, "context_window": model.context_window, "max_output": model.max_output,
            "input_price": model.input_price, "output_price": model.output_price, "agents": agents,
            "listed": is_listed,
        })
    };
    let provider = |offer: &Offer| {
        let listed = offer.models.iter().flatten().map(|offered| model(offered, true));
        let models: Vec<Value> = listed.chain(offer.unlisted.iter().map(|offered| model(offered, false))).collect();
        json!({ "name": offer.provider, "kind": offer.kind, "error": offer.models.as_ref().err(), "models": models })
    };
    format!("{:#}", json!({ "providers": offers.iter().map(provider).collect::<Vec<_>>() }))
}

const HEADINGS: [&str; 5] = ["MODEL", "WINDOW", "ANSWER", "$ PER 1M IN/OUT", "AGENTS"];

fn to_text(offers: &[Offer]) -> String {
    let mut text = String::new();
    for offer in offers {
        let _ = write!(text, "{} ({})", offer.provider, offer.kind);
        match &offer.models {
            Ok(models) => {
                let _ = writeln!(text, ": {}", counted(models.len()));
            }
            Err(error) => {
                let _ = writeln!(text, ": its models cannot be listed\n  {error}");
            }
        }
        let listed = offer.models.iter().flatten().map(|offered| row(offered, true));
        let rows: Vec<_> =
            listed.chain(offer.unlisted.iter().map(|offered| row(offered, offer.models.is_err()))).collect();
        if !rows.is_empty() {
            table(&mut text, &rows);
        }
        text.push('\n');
    }
    text
}

fn counted(models: usize) -> String {
    if models == 1 { "1 model".to_owned() } else { format!("{models} models") }
}

fn row(Offered { model, agents }: &Offered, is_plain: bool) -> [String; 5] {
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), tokens);
    let price = match (model.input_price, model.output_price) {
        (None, None) => "-".to_owned(),
        (input, output) => format!("{}/{}", amount(input), amount(output)),
    };
    let mut agents = agents.join(", ");
    if !is_plain {
        agents.push_str(" (not in the provider's list)");
    }
    [model.id.clone(), number(model.context_window), number(model.max_output), price, agents]
}

fn amount(dollars: Option<f64>) -> String {
    match dollars {
        None => "?".to_owned(),
        Some(dollars) => format!("{dollars:.2}"),
    }
}

fn table(text: &mut String, rows: &[[String; 5]]) {
    let headings = HEADINGS.map(str::to_owned);
    let lines = || std::iter::once(&headings).chain(rows);
    let widths: [usize; 5] =
        std::array::from_fn(|at| lines().map(|row| row[at].chars().count()).max().unwrap_or_default());
    for row in lines() {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, " {cell:width$} ");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}
