//! Webhooks, with real receivers.

mod delivery;
mod examples;
mod guard;
mod receiver;
mod retries;

use serde_json::{Value, json};

use super::harness::{Client, Home, Server, eventually, key, shared_config};
use receiver::{Delivery, Reaction, Receiver};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

const WRITER: &str = "
[[agents]]
name = 'writer'
model = 'script/model'
titles = false
tools = ['request_form']
";

/// A configuration with a key for each of these tenants, and these hooks.
fn config(tenants: &[&str], hooks: &str) -> String {
    let keys = tenants.iter().map(|who| format!("[[keys]]\nkey = '{}'\ntenant = '{who}'\n", key(who)));
    format!("{}{WRITER}{}{hooks}", shared_config(""), keys.collect::<String>())
}

/// The hook of a tenant, to this URL, with these lines.
fn hook(tenant: &str, url: &str, lines: &str) -> String {
    format!("[webhooks.{tenant}]\nurl = '{url}'\nsecret = '{SECRET}'\n{lines}\n")
}

/// As [`hook`], allowed to go to this machine.
fn local(tenant: &str, receiver: &Receiver, lines: &str) -> String {
    hook(tenant, &receiver.url(), &format!("allow_private = true\n{lines}"))
}

struct World {
    home: Home,
    server: Server,
}

impl World {
    fn start(config: &str) -> Self {
        let home = Home::new(config);
        Self { server: home.start_with(&["--log-level", "info,everturn_webhooks=debug"]), home }
    }

    /// Kills the server and starts it again on what it left.
    fn crash(&mut self) {
        self.server.kill();
        self.server = self.home.start_with(&["--log-level", "info,everturn_webhooks=debug"]);
    }

    fn client(&self, who: &str) -> Client {
        self.server.client().with_key(&key(who))
    }

    /// A turn in a new session of the demo.
    #[track_caller]
    fn turn(&self, who: &str, message: &str) -> Turn {
        self.spawn(who, json!({ "agent_id": "demo", "message": message }))
    }

    #[track_caller]
    fn spawn(&self, who: &str, body: Value) -> Turn {
        let answer = self.client(who).send("POST", "/api/v1/sessions/stream", &body.to_string());
        assert_eq!(answer.status, 202, "{answer:?}");
        let text = |field: &str| answer.json()[field].as_str().unwrap().to_owned();
        Turn { session: text("session_id"), message: text("message_id") }
    }

    /// What is counted under a name.
    fn count(&self, name: &str) -> u64 {
        let metrics = self.server.client().send("GET", "/metrics", "").body;
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("everturn_webhooks_{name} ")));
        line.unwrap_or_else(|| panic!("{name} is not counted:\n{metrics}")).parse().unwrap()
    }

    #[track_caller]
    fn logged(&self, what: &str) -> String {
        eventually(what, || self.home.log().lines().find(|line| line.contains(what)).map(str::to_owned))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Turn {
    session: String,
    message: String,
}

/// Which turn a message is about.
fn about(delivery: &Delivery) -> Turn {
    let data = &delivery.json()["data"];
    let text = |field: &str| data[field].as_str().unwrap().to_owned();
    Turn { session: text("session_id"), message: text("message_id") }
}
