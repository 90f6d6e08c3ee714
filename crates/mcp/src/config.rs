//! What an MCP server is told to be.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use everturn_core::EffectClass;
use secrecy::{ExposeSecret, SecretString};

use crate::Confinement;

/// Longest name of a server.
pub const MAX_NAME: usize = 32;

/// One MCP server. Printing it shows no secret.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What it is called here; see [`is_server_name`].
    pub name: String,
    /// How it is reached.
    pub endpoint: Endpoint,
    /// How long one call may go without a sign of life: progress, or another notification that is about it.
    pub timeout: Duration,
    /// How long one call may take in all.
    pub max_timeout: Duration,
    /// How long it may take until it has told its tools.
    pub start_timeout: Duration,
    /// How many bytes of text of one result a model is given.
    pub output_cap: usize,
    /// Largest message that is taken from it, in bytes.
    pub max_message: usize,
    /// What a repetition of a tool would do, by the server's name for the tool; wins over what the server says.
    pub effects: BTreeMap<String, EffectClass>,
    /// Values that are hidden in what its tools give back, too: secrets for sure, not just settings.
    pub secrets: Vec<SecretString>,
    /// What a program is kept from.
    pub confinement: Confinement,
    /// Whether it is used at all.
    pub enabled: bool,
}

/// How a server is reached.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// A program that we start and talk to over its standard input and output.
    Stdio {
        /// The program.
        program: String,
        /// What it is started with.
        arguments: Vec<String>,
        /// Its variables, beside those that every server gets.
        environment: BTreeMap<String, SecretString>,
        /// Where it runs, if not in an empty folder of its own.
        folder: Option<PathBuf>,
    },
    /// A server that listens elsewhere, by streamable HTTP.
    Http {
        /// Where: an `http:` or `https:` URL.
        url: String,
        /// What we send with every request, by the names of headers.
        headers: BTreeMap<String, SecretString>,
    },
}

impl ServerConfig {
    /// A server with the usual bounds.
    pub fn new(name: impl Into<String>, endpoint: Endpoint) -> Self {
        Self {
            name: name.into(),
            endpoint,
            // Many servers say nothing while they work: a build of five minutes must come through.
            timeout: Duration::from_secs(10 * 60),
            max_timeout: Duration::from_secs(60 * 60),
            start_timeout: Duration::from_secs(30),
            output_cap: 64 * 1024,
            max_message: 16 * 1024 * 1024,
            effects: BTreeMap::new(),
            secrets: Vec::new(),
            confinement: Confinement::default(),
            enabled: true,
        }
    }

    /// A program, started with these words.
    pub fn stdio(
        name: impl Into<String>,
        program: impl Into<String>,
        arguments: impl IntoIterator<Item = String>,
    ) -> Self {
        let arguments = arguments.into_iter().collect();
        let endpoint =
            Endpoint::Stdio { program: program.into(), arguments, environment: BTreeMap::new(), folder: None };
        Self::new(name, endpoint)
    }

    /// A server at this URL.
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self::new(name, Endpoint::Http { url: url.into(), headers: BTreeMap::new() })
    }

    /// Whether a server that runs with this need not be started again to run with the other.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        // Printed without secrets, so these are compared beside it.
        let secrets = |config: &Self| -> Vec<String> {
            let sure = config.secrets.iter().map(ExposeSecret::expose_secret);
            config.possible_secrets().chain(sure).map(str::to_owned).collect()
        };
        format!("{self:?}") == format!("{other:?}") && secrets(self) == secrets(other)
    }

    /// All values in it that may be secrets.
    pub(crate) fn possible_secrets(&self) -> impl Iterator<Item = &str> {
        let values = match &self.endpoint {
            Endpoint::Stdio { environment, .. } => environment,
            Endpoint::Http { headers, .. } => headers,
        };
        values.values().map(ExposeSecret::expose_secret)
    }
}

/// Whether this can be the name of a server: 1 to 32 characters of `a-z 0-9 _ -`, and no `__`, which stands between the
/// names of a server and of its tool.
pub fn is_server_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(allowed) && !name.contains("__")
}

/// How soon a server that failed is started again.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// After the first failure; each further one doubles it.
    pub first: Duration,
    /// At most.
    pub most: Duration,
    /// After so long without a failure, the next one is a first one again.
    pub healthy: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), most: Duration::from_secs(60), healthy: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// How long to wait after so many failures in a row, without jitter.
    pub(crate) fn after(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        self.first.saturating_mul(1 << doublings).min(self.most)
    }

    /// The same with jitter, so that servers that failed together do not return together.
    pub(crate) fn delay(&self, failures: u32) -> Duration {
        self.after(failures).mul_f64(rand::random_range(0.8..1.0))
    }
}

/// A class of effects, in the words of a configuration.
pub fn effect_word(effect: EffectClass) -> &'static str {
    match effect {
        EffectClass::ReadOnly => "read_only",
        EffectClass::Idempotent => "idempotent",
        EffectClass::Effectful => "effectful",
    }
}

/// Bytes, as people write them.
pub(crate) struct Bytes(pub(crate) usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const KIB: usize = 1024;
        const MIB: usize = 1024 * KIB;
        match self.0 {
            bytes if bytes >= MIB && bytes % MIB == 0 => write!(f, "{} MiB", bytes / MIB),
            bytes if bytes >= KIB && bytes % KIB == 0 => write!(f, "{} KiB", bytes / KIB),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_servers() {
        for name in ["files", "a", "my-files_2", "_x", &"a".repeat(32)] {
            assert!(is_server_name(name), "{name}");
        }
        for name in ["", "Files", "a__b", "a/b", "é", &"a".repeat(33)] {
            assert!(!is_server_name(name), "{name}");
        }
    }

    #[test]
    fn waits_double_and_end() {
        let backoff = Backoff::default();
        let seconds: Vec<_> = (1..=8).map(|failures| backoff.after(failures).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.after(u32::MAX).as_secs(), 60);
        let delay = backoff.delay(3);
        assert!(delay > Duration::from_secs(3) && delay <= Duration::from_secs(4), "{delay:?}");
    }

    #[test]
    fn no_secret_is_printed() {
        let secret = BTreeMap::from([("TOKEN".to_owned(), SecretString::from("hunter2"))]);
        let endpoint = Endpoint::Stdio {
            program: "x".to_owned(),
            arguments: Vec::new(),
            environment: secret.clone(),
            folder: None,
        };
        let printed = format!("{:?}", ServerConfig::new("a", endpoint));
        assert!(printed.contains("TOKEN") && !printed.contains("hunter2"), "{printed}");
        let endpoint = Endpoint::Http { url: "http://localhost/mcp".to_owned(), headers: secret };
        let printed = format!("{:?}", ServerConfig::new("a", endpoint));
        assert!(printed.contains("TOKEN") && !printed.contains("hunter2"), "{printed}");
    }

    #[test]
    fn sizes_in_words() {
        let words = [Bytes(16 * 1024 * 1024), Bytes(64 * 1024), Bytes(1000)].map(|bytes| bytes.to_string());
        assert_eq!(words, ["16 MiB", "64 KiB", "1000 bytes"]);
    }
}
