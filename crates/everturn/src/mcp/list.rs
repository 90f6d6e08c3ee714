//! `everturn mcp list`.

use std::{fmt::Write as _, process::ExitCode};

use everturn_mcp::{ServerReport, ServerState, effect_word};
use serde_json::{Value, json};

use crate::{
    config::{Config, Environment, confined_servers},
    terminal::{Lines, visible, visible_json},
};

pub(super) async fn run(config: &Config, environment: &Environment, as_json: bool) -> anyhow::Result<ExitCode> {
    let started = super::start(confined_servers(config, environment), environment).await?;
    let reports = started.mcp.report();
    started.mcp.shutdown().await;
    let disabled: Vec<&str> = config.mcp.iter().filter(|server| !server.enabled).map(|server| &*server.name).collect();
    let text = if as_json { visible_json(&to_json(&reports, &disabled)) } else { to_text(&reports, &disabled) };
    anstream::println!("{}", text.trim_end());
    let all_ready = reports.iter().all(|report| report.health.state == ServerState::Ready);
    Ok(if all_ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn to_json(reports: &[ServerReport], disabled: &[&str]) -> String {
    let server = |report: &ServerReport| {
        let tool = |tool: &everturn_mcp::ToolReport| {
            json!({
                "name": tool.name, "tool": tool.tool, "effect": effect_word(tool.effect), "title": tool.title,
                "description": tool.description,
            })
        };
        let confinement = |confined: &everturn_mcp::Confined| {
            json!({
                "sandbox": confined.sandbox.as_str(), "landlock": confined.landlock.as_str(),
                "seccomp": confined.seccomp, "user": confined.user, "cwd": confined.folder,
            })
        };
        let left_out = |left_out: &everturn_mcp::LeftOut| json!({ "tool": left_out.tool, "reason": left_out.reason });
        json!({
            "name": report.health.name,
            "state": report.health.state.as_str(),
            "trouble": report.health.trouble,
            "software": report.software.as_ref().map(|(name, version)| json!({ "name": name, "version": version })),
            "confinement": report.confined.as_ref().map(confinement),
            "tools": report.tools.iter().map(tool).collect::<Vec<_>>(),
            "left_out": report.left_out.iter().map(left_out).collect::<Vec<_>>(),
        })
    };
    let off = |name: &&str| json!({ "name": name, "state": "disabled" });
    let servers: Vec<Value> = reports.iter().map(server).chain(disabled.iter().map(off)).collect();
    format!("{:#}", json!({ "servers": servers }))
}

fn to_text(reports: &[ServerReport], disabled: &[&str]) -> String {
    if reports.is_empty() && disabled.is_empty() {
        return "There are no MCP servers in the configuration; add a table [mcp.NAME] with a command or a url"
            .to_owned();
    }
    let mut text = String::new();
    for report in reports {
        let _ = write!(text, "{}  {}", report.health.name, report.health.state.as_str());
        if let Some((name, version)) = &report.software {
            let _ = write!(text, "  {} {}", line(name), line(version));
        }
        text.push('\n');
        if let Some(trouble) = &report.health.trouble {
            let _ = writeln!(text, "  {}", line(trouble));
        }
        if let Some(confined) = &report.confined {
            let _ = writeln!(text, "  {}", line(&confined.to_string()));
        }
        let names: Vec<String> = report.tools.iter().map(|tool| line(&tool.tool)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or_default().min(40);
        for (tool, name) in report.tools.iter().zip(&names) {
            let about = match (&tool.title, tool.description.lines().next()) {
                (Some(title), Some(first)) if title != first => format!("{title}: {first}"),
                (_, Some(first)) => first.to_owned(),
                (title, None) => title.clone().unwrap_or_default(),
            };
            let effect = effect_word(tool.effect);
            let entry = format!("  {name:width$}  {effect:10}  {}", cut(&line(&about)));
            let _ = writeln!(text, "{}", entry.trim_end());
        }
        for left_out in &report.left_out {
            let _ = writeln!(text, "  left out: {}: {}", line(&left_out.tool), line(&left_out.reason));
        }
        text.push('\n');
    }
    for name in disabled {
        let _ = writeln!(text, "{name}  disabled");
    }
    text
}

/// What a server says of itself, within a line.
fn line(text: &str) -> String {
    visible(text, Lines::Shown)
}

/// Enough of a line to know what a tool does.
fn cut(line: &str) -> String {
    const CHARACTERS: usize = 100;
    if line.chars().count() <= CHARACTERS {
        return line.to_owned();
    }
    line.chars().take(CHARACTERS).chain(['…']).collect()
}
