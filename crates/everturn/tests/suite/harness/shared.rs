//! One server for all tests that do not mind each other, each under a key of its own where it matters.

use std::sync::{Arc, Mutex, Weak};

use super::{Client, Home, Server, model};

/// The key that the server shows the scripted model.
pub(crate) const PROVIDER_KEY: &str = "sk-of-the-provider";

/// A server with its folder.
pub(crate) struct Shared {
    pub(crate) server: Server,
    pub(crate) home: Home,
}

impl Shared {
    /// A client with a tenant's key.
    pub(crate) fn client(&self, who: &str) -> Client {
        self.server.client().with_key(&key(who))
    }
}

/// The key of somebody.
pub(crate) fn key(who: &str) -> String {
    format!("the-key-of-{who}-0123456789")
}

/// The shared server. It ends with the last test that uses it.
pub(crate) fn shared() -> Arc<Shared> {
    static SHARED: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(running) = shared.upgrade() {
        return running;
    }
    let mut config = shared_config("");
    for (who, tenant, scopes) in [
        ("acme", "acme", "'chat', 'read'"),
        ("acme-reader", "acme", "'read'"),
        ("acme-admin", "acme", "'admin'"),
        ("bob", "bob", "'chat'"),
        ("pager", "pager", "'chat'"),
        ("crowd", "crowd", "'chat'"),
        ("fuzz", "fuzz", "'chat'"),
        ("rubbish", "rubbish", "'chat'"),
    ] {
        config += &format!("[[keys]]\nkey = '{}'\ntenant = '{tenant}'\nscopes = [{scopes}]\n", key(who));
    }
    let home = Home::new(&config);
    let started = Arc::new(Shared { server: home.start(), home });
    *shared = Arc::downgrade(&started);
    started
}

/// A configuration with the demo and the scripted model, and these limits.
pub(crate) fn shared_config(limits: &str) -> String {
    let agent = "\
version = '1.2.3'
tools = ['clock', 'calculator']
[[agents.options]]
type = 'select'
name = 'language'
options = ['English', 'Japanese']
default = 'English'
[[agents.options]]
type = 'text'
name = 'nickname'
title = 'Nickname'
default = 'friend'
[[agents.options]]
type = 'secret'
name = 'token'
description = 'Of your account'
";
    format!(
        "\
durability = 'process'
[limits]
connections = 500
{limits}
[providers.demo]
kind = 'demo'
[providers.script]
kind = 'openai'
base_url = '{url}/v1'
api_key = '{PROVIDER_KEY}'
[[agents]]
name = 'demo'
title = 'Demo'
description = 'Shows what there is'
model = 'demo/load'
{agent}
[[agents]]
name = 'scripted'
model = 'script/model'
titles = false
instructions = 'Answer {{{{nickname}}}} in {{{{language}}}}.'
{agent}
[[agents]]
name = 'short'
model = 'script/model'
titles = false
max_steps = 2
internal_tools = ['calculator']
[[agents]]
name = 'small'
model = 'script/model'
titles = false
context_window = 400
max_output_tokens = 100
[providers.lines]
kind = 'ollama'
base_url = '{url}'
[[agents]]
name = 'lines'
model = 'lines/model'
titles = false
[[agents]]
name = 'hasty'
model = 'script/model'
titles = false
turn_timeout = '1s'
[[agents]]
name = 'plain'
model = 'demo/load'
capabilities = {{ history = ['full'], stream = ['message'], images = ['data'], application_tools = false }}
",
        url = model::base_url()
    )
}
