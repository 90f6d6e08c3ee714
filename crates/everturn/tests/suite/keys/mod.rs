//! Keys: made by the command line and by HTTP, what they open, when they end, and how much they may use.

mod api;
mod command;
mod door;
mod life;
mod metrics;
mod opening;
mod pace;
mod place;
mod quotas;
mod race;
mod scopes;
mod storage;
mod streams;

use std::process::Output;

use serde_json::Value;

use super::harness::{Client, Home, Server, shared_config};

/// A key, and its secret.
#[derive(Clone, Debug)]
struct Made {
    id: String,
    secret: String,
}

impl Made {
    fn of(told: &Value) -> Self {
        let text = |field: &str| told[field].as_str().unwrap_or_else(|| panic!("no {field}: {told}")).to_owned();
        Self { id: text("key_id"), secret: text("secret") }
    }

    fn client(&self, server: &Server) -> Client {
        server.client().with_key(&self.secret)
    }
}

/// A folder with the scripted agents, and these settings at the top and at the end.
fn home(settings: &str) -> Home {
    Home::new(&(shared_config("") + settings))
}

/// Runs `everturn keys`, which must succeed.
#[track_caller]
fn keys(home: &Home, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = home.run(&[&["keys"], arguments].concat());
    assert!(status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// Makes a key by the command line.
#[track_caller]
fn create(home: &Home, arguments: &[&str]) -> Made {
    let told = keys(home, &[&["create", "--json"], arguments].concat());
    Made::of(&serde_json::from_str(&told).unwrap())
}

/// Lists the keys by the command line.
#[track_caller]
fn list(home: &Home) -> Vec<Value> {
    let told: Value = serde_json::from_str(&keys(home, &["list", "--json"])).unwrap();
    told["keys"].as_array().unwrap().clone()
}

/// The status of a look at the sessions.
fn looks(client: &Client) -> u16 {
    client.send("GET", "/api/v1/sessions", "").status
}
