//! `everturn mcp call`.

use std::{io::IsTerminal as _, pin::pin, process::ExitCode, sync::Arc};

use anyhow::{Context as _, bail};
use everturn_core::{Block, CallId, Content, EffectId, Json, SessionId, TenantId, TurnId};
use everturn_tools::{Reply, Report, Reporter, TimedOut, Tool, ToolContext, ToolFailure, ToolOutput};
use tokio::sync::{mpsc, watch};

use super::{Started, ask};
use crate::{
    config::{Config, Environment},
    terminal::{Lines, visible},
};

/// Reports that wait to be shown.
const REPORTS: usize = 1000;

pub(super) async fn run(
    config: &Config,
    environment: &Environment,
    server: &str,
    tool: &str,
    input: &str,
) -> anyhow::Result<ExitCode> {
    let input = Json::parse(input).context("the input is not JSON")?;
    if !input.is_object() {
        bail!("the input is not a JSON object, such as {{\"path\": \"a.txt\"}}");
    }
    let started = super::start(vec![super::find(config, environment, server)?], environment).await?;
    let result = call(&started, server, tool, input).await;
    started.mcp.shutdown().await;
    let output = result?;
    anstream::println!("{}", visible(&shown(&output.content), Lines::Kept));
    Ok(if output.is_error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn call(started: &Started, server: &str, tool: &str, input: Json) -> anyhow::Result<ToolOutput> {
    for health in started.mcp.health() {
        if let Some(trouble) = health.trouble {
            bail!("the MCP server `{server}` does not work: {trouble}");
        }
    }
    let Some(tool) = find(started, server, tool) else {
        let reports = started.mcp.report();
        let known: Vec<_> =
            reports.iter().flat_map(|report| &report.tools).map(|tool| format!("`{}`", tool.tool)).collect();
        let hint = match known.as_slice() {
            [] => "it has no tools".to_owned(),
            known => format!("it has {}", known.join(", ")),
        };
        bail!("the MCP server `{server}` has no tool `{tool}`\n\nhint: {hint}");
    };
    if let Err(problem) = started.tools.validate(TenantId::local().as_str(), &tool.spec().name, &input).await {
        bail!("{problem}");
    }
    let (reporter, mut reports) = Reporter::new(REPORTS);
    let life = reporter.life();
    let (asking, is_asking) = watch::channel(false);
    let context = ToolContext {
        tenant: TenantId::local(),
        session: SessionId::mint(),
        turn: TurnId::mint(),
        call: CallId::mint(),
        effect_id: EffectId::mint(),
        reporter,
    };
    let mut calling = pin!(tool.time_limit().hold(&life, is_asking, tool.call(context, input)));
    let result: Result<Result<ToolOutput, ToolFailure>, TimedOut> = loop {
        let report = tokio::select! {
            biased;
            Some(report) = reports.recv() => report,
            result = &mut calling => break result,
        };
        // The call goes on while a person thinks; that time is not the call's.
        asking.send_replace(matches!(report, Report::Question(..)));
        let (mut shown, mut ended) = (pin!(show(report)), None);
        loop {
            tokio::select! {
                biased;
                result = &mut calling, if ended.is_none() => ended = Some(result),
                () = &mut shown => break,
            }
        }
        asking.send_replace(false);
        if let Some(result) = ended {
            break result;
        }
    };
    // What was reported with the last breath.
    drain(&mut reports).await;
    match result {
        Ok(result) => Ok(result?),
        Err(limit) => bail!("{}", limit.told(tool.effect())),
    }
}

fn find(started: &Started, server: &str, tool: &str) -> Option<Arc<dyn Tool>> {
    let named = started.tools.named(&[format!("{server}/{tool}")]);
    // All of them would be too many.
    named.into_iter().next().filter(|_| tool != "*")
}

async fn drain(reports: &mut mpsc::Receiver<Report>) {
    while let Ok(report) = reports.try_recv() {
        if matches!(report, Report::Notification { .. }) {
            show(report).await;
        }
    }
}

/// Shows a report, or asks what it asks.
async fn show(report: Report) {
    match report {
        Report::Notification { method, params } => {
            anstream::eprintln!("{}", visible(&news(&method, &params), Lines::Kept));
        }
        Report::Question(question, answer) => {
            let reply = if std::io::stdin().is_terminal() {
                tokio::task::spawn_blocking(move || ask::ask(&question)).await.unwrap_or(Reply::Cancelled)
            } else {
                anstream::eprintln!("declined, since nobody can be asked: {}", visible(&question.title, Lines::Kept));
                Reply::Declined
            };
            let _ = answer.send(reply);
        }
    }
}

fn news(method: &str, params: &Json) -> String {
    let params = params.to_value();
    match method {
        "notifications/progress" => {
            let mut text = format!("progress {}", params["progress"]);
            if !params["total"].is_null() {
                text.push_str(&format!(" of {}", params["total"]));
            }
            if let Some(message) = params["message"].as_str() {
                text.push_str(&format!(": {message}"));
            }
            text
        }
        "notifications/message" => {
            let data = params["data"].as_str().map_or_else(|| params["data"].to_string(), str::to_owned);
            format!("{}: {data}", params["level"].as_str().unwrap_or("log"))
        }
        other => format!("{other} {params}"),
    }
}

fn shown(content: &Content) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Blocks(blocks) => {
            let block = |block: &Block| match block {
                Block::Text(text) => text.clone(),
                Block::Image { url } => {
                    let kind = url.split([':', ';']).nth(1).unwrap_or_default();
                    format!("[an image: {kind}, {} bytes as text]", url.len())
                }
                Block::Thinking { .. } | Block::ToolUse(_) | Block::Document { .. } => String::new(),
            };
            blocks.iter().map(block).collect::<Vec<_>>().join("\n")
        }
    }
}
