//! What the server prints once it listens: where it is, where data is kept, and commands to paste.

use std::{fmt::Write as _, net::SocketAddr};

use everturn_http::Keys;

use crate::config::{Config, Durability};

/// The text. The commands in it work as they stand.
pub(crate) fn text(config: &Config, keys: &Keys, address: SocketAddr) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text, config, keys, address);
    text
}

fn write(out: &mut String, config: &Config, keys: &Keys, address: SocketAddr) -> std::fmt::Result {
    let url = format!("{}://{address}", if config.tls.is_some() { "https" } else { "http" });
    let durability = match config.durability {
        Durability::Fsync => "survives a crash of the machine",
        Durability::Process => "survives a crash of the server, not of the machine",
    };
    writeln!(out, "everturn {} is listening on {url}\n", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "  data    {} ({durability})", config.store)?;
    let access = match (keys.is_open(), keys.count()) {
        (true, _) => {
            "open to everybody on this machine, web pages in its browsers included; `everturn keys create` closes it"
                .to_owned()
        }
        (false, 0) => "closed, and no key is valid; make one with `everturn keys create`".to_owned(),
        (false, 1) => "1 key; callers send Authorization: Bearer <key>".to_owned(),
        (false, count) => format!("{count} keys; callers send Authorization: Bearer <key>"),
    };
    writeln!(out, "  access  {access}")?;
    if let Some(tls) = &config.tls {
        writeln!(out, "  tls     {}; call this server by a name that is in it", tls.cert.display())?;
    }
    let agents: Vec<_> = config.agents.iter().map(|agent| agent.name.as_str()).collect();
    writeln!(out, "  agents  {}\n", agents.join(", "))?;
    let Some(agent) = config.agents.first() else { return Ok(()) };
    let key = if keys.is_open() { "" } else { " -H \"Authorization: Bearer $EVERTURN_KEY\"" };
    let json = "-H 'Content-Type: application/json'";
    writeln!(out, "What it offers:\n")?;
    writeln!(out, "  curl {url}/meta\n")?;
    writeln!(out, "A session whose answer is streamed:\n")?;
    writeln!(out, "  curl -N -X PUT {url}/session{key} {json} \\")?;
    writeln!(
        out,
        "    -d '{{\"agent\":{{\"name\":\"{}\"}},\"stream\":\"delta\",\"messages\":[{{\"role\":\"user\",\"content\":\"hello\"}}]}}'\n",
        agent.name
    )?;
    // What a pattern names is not known before its server has started.
    let named = || agent.tools.iter().filter(|tool| !tool.contains('/'));
    if let Some(tool) = named().find(|tool| *tool == "clock").or_else(|| named().next()) {
        writeln!(out, "One that uses a tool of the server, answered in one piece:\n")?;
        writeln!(out, "  curl -X PUT {url}/session{key} {json} \\")?;
        writeln!(
            out,
            "    -d '{{\"agent\":{{\"name\":\"{}\",\"tools\":[{{\"name\":\"{tool}\",\"trust\":true}}]}},\"messages\":[{{\"role\":\"user\",\"content\":\"use {tool}\"}}]}}'\n",
            agent.name
        )?;
    }
    writeln!(out, "Your sessions:\n")?;
    writeln!(out, "  curl {url}/sessions{key}\n")
}
