//! Lines of an MCP server: this program is started as one, and answers a call with the input before its result.

use std::{
    io::{BufRead as _, Write as _},
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context as _, bail};
use everturn_core::{CallId, EffectId, Json, SessionId, TenantId, TurnId};
use everturn_mcp::{Backoff, Launcher, Mcp, Metrics, Parts, ServerConfig};
use everturn_tools::{Reporter, ToolContext, ToolSet};
use serde_json::{Value, json};

use super::Reading;

/// How long a call may take: what is sent may break the connection, and then the server is started again.
const PATIENCE: Duration = Duration::from_secs(8);
/// Largest message that is taken. Small, so that the limit is met.
const MAX_MESSAGE: usize = 16 * 1024;

/// The server's tool, as models know it.
const TOOL: &str = "fuzz__write";

/// This program, for tests, which are another one.
pub static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

pub(super) fn start() -> anyhow::Result<Reading> {
    // Fails only if there is one already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let program = PROGRAM.get().cloned().map_or_else(std::env::current_exe, Ok)?;
    let text = program.to_str().context("this program has a name that is no text")?.to_owned();
    let launcher = Launcher {
        program,
        arguments: vec!["mcp-guard".into()],
        environment: Vec::new(),
        temporary: std::env::temp_dir(),
    };
    let tools = Arc::new(ToolSet::new([])?);
    let mut config = ServerConfig::stdio("fuzz", text, ["mcp-server".to_owned()]);
    config.max_message = MAX_MESSAGE;
    config.timeout = Duration::from_secs(5);
    let backoff = Backoff { first: Duration::from_millis(1), most: Duration::from_millis(20), ..Backoff::default() };
    let parts = Parts { tools: Arc::clone(&tools), launcher, metrics: Metrics::default(), backoff, lists: None };
    let mcp = {
        let _entered = runtime.enter();
        Mcp::start([config], parts)
    };
    runtime.block_on(mcp.settled());
    if tools.get(TOOL).is_none() {
        bail!("the server for the target mcp does not start: {:?}", mcp.health());
    }
    Ok(Box::new(move |input| {
        let _servers = &mcp;
        runtime.block_on(async {
            tokio::time::timeout(PATIENCE, call(&tools, input)).await.map_err(|_| "the call does not end".to_owned())?
        })
    }))
}

/// Has the server write the input before its answer.
async fn call(tools: &ToolSet, input: &[u8]) -> Result<(), String> {
    let Some(tool) = tools.get(TOOL) else {
        // It is being started again. Whatever it wrote must not keep it from that.
        tools.started(&["fuzz"], PATIENCE).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        return Ok(());
    };
    let bytes: Vec<Value> = input.iter().map(|byte| json!(byte)).collect();
    let input = Json::of(&json!({ "bytes": bytes })).map_err(|error| error.to_string())?;
    let context = ToolContext {
        tenant: TenantId::local(),
        session: SessionId::mint(),
        turn: TurnId::mint(),
        call: CallId::mint(),
        effect_id: EffectId::mint(),
        reporter: Reporter::default(),
    };
    // What comes of it is the server's affair; that it comes to an end is ours.
    let _ = tool.call(context, input).await;
    Ok(())
}

/// The server: one tool, which writes the bytes that it is given, and then answers.
pub fn serve() -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let Some(id) = request.get("id").filter(|_| request.get("method").is_some()) else { continue };
        let result = match request["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "fuzz", "version": "1" },
            }),
            Some("tools/list") => json!({ "tools": [{ "name": "write", "inputSchema": { "type": "object" } }] }),
            Some("tools/call") => {
                let bytes = request["params"]["arguments"]["bytes"].as_array().into_iter().flatten();
                let bytes: Vec<u8> = bytes.filter_map(|byte| u8::try_from(byte.as_u64()?).ok()).collect();
                // `$ID` is the id of this call.
                let text = bytes.split(|byte| *byte == b'$').collect::<Vec<_>>();
                for (number, part) in text.into_iter().enumerate() {
                    match part.strip_prefix(b"ID").filter(|_| number > 0) {
                        Some(rest) => {
                            output.write_all(id.to_string().as_bytes())?;
                            output.write_all(rest)?;
                        }
                        None => output.write_all(part)?,
                    }
                }
                json!({ "content": [{ "type": "text", "text": "done" }] })
            }
            _ => json!({}),
        };
        writeln!(output, "\n{}", json!({ "jsonrpc": "2.0", "id": id, "result": result }))?;
        output.flush()?;
    }
    Ok(())
}
