//! Checks what MCP servers are kept from, and finds what all of them are kept from.

use std::path::{Path, PathBuf};

use everturn_mcp::{Confinement, Endpoint, Sandbox, ServerConfig, guard::User};
use everturn_store::SqliteStore;
use toml::Spanned;

use super::{
    Environment,
    choice::{Choice, choose},
    file::{self, File, Text},
    problem::Report,
    settings::{Config, Source, StoreLocation},
};

/// What stands beside a database, by what follows its name: SQLite's own files, our lock, and the socket of `everturn keys`.
const BESIDE_DATABASE: [&str; 6] = ["", "-wal", "-shm", "-journal", ".lock", ".sock"];
/// What stands in its folder: the key that secrets are sealed with.
const SECRET_KEY: &str = "secret.key";
/// What follows the name of that key for the one that takes its place.
const NEW_KEY: &str = ".new";

impl Choice for Sandbox {
    const WHAT: &'static str = "sandbox";
    const WORDS: &'static [(&'static str, Self)] = Self::WORDS;
}

/// What a server is kept from, as far as its table says.
pub(super) fn check(report: &mut Report<'_>, server: &file::McpServer) -> Confinement {
    if server.command.is_none() {
        let paths = [("paths", &server.paths), ("read_paths", &server.read_paths)];
        let paths = paths.into_iter().filter_map(|(name, paths)| Some((name, paths.as_ref()?.span())));
        let words = [("sandbox", &server.sandbox), ("user", &server.user)];
        let words = words.into_iter().filter_map(|(name, word)| Some((name, word.as_ref()?.span())));
        for (name, span) in words.chain(paths) {
            report.add(Some(span), format!("`{name}` is for programs that we start"), None);
        }
        return Confinement::default();
    }
    let sandbox = server.sandbox.as_ref().map(|word| choose::<Sandbox>(report, Some(word.span()), word.get_ref()));
    let mut paths = |name: &str, paths: &Option<Spanned<Vec<Text>>>| -> Vec<PathBuf> {
        let Some(paths) = paths else { return Vec::new() };
        // A word that is wrong may have been meant as this one.
        if !matches!(sandbox, Some(None | Some(Sandbox::Strict))) {
            let message = format!("`{name}` has a meaning in a strict sandbox only");
            let hint = "set sandbox = \"strict\", which opens nothing else but the files of the system".to_owned();
            report.add(Some(paths.span()), message, hint);
        }
        paths.get_ref().iter().map(|path| PathBuf::from(path.get_ref())).collect()
    };
    let (read_write, read) = (paths("paths", &server.paths), paths("read_paths", &server.read_paths));
    if let Some(name) = &server.user {
        user(report, name);
    }
    Confinement {
        sandbox: sandbox.flatten().unwrap_or_default(),
        user: server.user.as_ref().map(|name| name.get_ref().clone()),
        paths: read_write,
        read_paths: read,
        protected: Vec::new(),
    }
}

/// Whether a server can be started as this user.
fn user(report: &mut Report<'_>, name: &Text) {
    let text = name.get_ref();
    if !User::may_be_changed() {
        let message = format!("`user`: a program cannot be started as `{text}`: only root can do so, on Linux");
        report.add(Some(name.span()), message, "start Everturn as root, or leave `user` out".to_owned());
        return;
    }
    match User::find(text) {
        Ok(Some(_)) => {}
        Ok(None) => {
            let hint = format!("make it: useradd --system --create-home {text}");
            report.add(Some(name.span()), format!("`user`: there is no user `{text}` on this machine"), hint);
        }
        Err(error) => report.add(Some(name.span()), format!("`user`: cannot find `{text}`: {error}"), None),
    }
}

/// The files of a configuration that hold secrets: `file:PATH`.
pub(super) fn secret_files(file: &File, environment: &Environment) -> Vec<PathBuf> {
    let keys = file.keys.iter().map(|key| &key.key);
    let providers =
        file.providers.values().flat_map(|provider| provider.api_key.iter().chain(provider.headers.values()));
    let servers = file.mcp.values().flat_map(|server| server.env.values().chain(server.headers.values()));
    let webhooks = file.webhooks.values().map(|webhook| &webhook.secret);
    let texts = keys.chain(providers).chain(servers).chain(webhooks).chain(&file.metrics.key);
    let texts = texts.map(|text| text.get_ref().as_str());
    let secret_key = environment.get("EVERTURN_SECRET_KEY").and_then(|text| text.strip_prefix("file:"));
    let secret_key = secret_key.into_iter().flat_map(|path| [PathBuf::from(path), beside(Path::new(path), NEW_KEY)]);
    texts.filter_map(|text| text.strip_prefix("file:")).map(PathBuf::from).chain(secret_key).collect()
}

/// The servers of a configuration, each kept from the data, the configuration, and the files of secrets.
pub(crate) fn confined_servers(config: &Config, environment: &Environment) -> Vec<ServerConfig> {
    let confined = |server: &ServerConfig| {
        let mut server = server.clone();
        server.confinement.protected = protected(config, environment, &server);
        server
    };
    config.mcp.iter().map(confined).collect()
}

fn protected(config: &Config, environment: &Environment, server: &ServerConfig) -> Vec<PathBuf> {
    let Endpoint::Stdio { folder, .. } = &server.endpoint else { return Vec::new() };
    let StoreLocation::Sqlite(database) = &config.store;
    let database = SqliteStore::real_path(database).unwrap_or_else(|_| database.clone());
    let mut protected = data(&absolute(&database), environment, folder.as_deref());
    if let Source::File(file) = &config.source {
        protected.push(absolute(file));
    }
    protected.extend(config.tls.iter().map(|tls| absolute(&tls.key)));
    protected.extend(config.secret_files.iter().map(|file| absolute(file)));
    protected.sort();
    protected.dedup();
    protected
}

/// The folder of the data; only our files in it where other things are kept there too.
fn data(database: &Path, environment: &Environment, cwd: Option<&Path>) -> Vec<PathBuf> {
    let Some(folder) = database.parent() else { return vec![database.to_owned()] };
    let others = [environment.get("HOME"), environment.get("TMPDIR"), Some("."), Some("/tmp")];
    let others = others.into_iter().flatten().map(|path| absolute(Path::new(path)));
    let is_shared = others.into_iter().any(|path| path.starts_with(folder))
        || cwd.is_some_and(|cwd| absolute(cwd).components().eq(folder.components()));
    if !is_shared {
        return vec![folder.to_owned()];
    }
    let key = folder.join(SECRET_KEY);
    let new_key = beside(&key, NEW_KEY);
    BESIDE_DATABASE.iter().map(|suffix| beside(database, suffix)).chain([key, new_key]).collect()
}

/// The path of a file whose name has this at its end.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// A path from the root, without links as far as it is there.
fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{
        super::{Found, Overrides, parse},
        *,
    };

    #[test]
    fn programs_are_kept_from_all_that_is_secret() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        std::fs::write(here.join("metrics"), "0123456789abcdef").unwrap();
        let at = |name: &str| here.join(name).to_str().unwrap().to_owned();
        let text = format!(
            "store = 'sqlite:{}'\n[tls]\ncert = '{}'\nkey = '{}'\n[metrics]\nkey = 'file:{}'\n[mcp.x]\ncommand = ['x']\n\
             [mcp.y]\nurl = 'http://localhost/mcp'\n",
            at("data/a.db"),
            at("cert.pem"),
            at("key.pem"),
            at("metrics"),
        );
        let environment = Environment::from([("EVERTURN_SECRET_KEY", format!("file:{}", at("seal")).as_str())]);
        let (source, overrides) = (Source::File(here.join("everturn.toml")), Overrides::default());
        let config =
            parse(source, text.as_bytes(), &overrides, &environment, &BTreeSet::new(), Found::default()).unwrap();
        let servers = confined_servers(&config, &environment);
        let names = ["data", "everturn.toml", "key.pem", "metrics", "seal", "seal.new"];
        assert_eq!(servers[0].confinement.protected, names.map(|name| here.join(name)));
        assert!(servers[1].confinement.protected.is_empty(), "a server elsewhere opens nothing here");
    }

    #[test]
    fn a_folder_of_its_own_is_protected_whole() {
        let environment = Environment::from([("HOME", "/users/somebody")]);
        let of = |database: &str, cwd: Option<&str>| data(Path::new(database), &environment, cwd.map(Path::new));
        assert_eq!(of("/srv/data/everturn.db", None), [Path::new("/srv/data")]);
        assert_eq!(of("/srv/data/everturn.db", Some("/srv")), [Path::new("/srv/data")]);
        assert_eq!(of("/srv/data/everturn.db", Some("/srv/data/files")), [Path::new("/srv/data")]);
        let shared = |folder: &str| -> Vec<PathBuf> {
            let names = ["a.db", "a.db-wal", "a.db-shm", "a.db-journal", "a.db.lock", "a.db.sock", "secret.key"];
            names.into_iter().chain(["secret.key.new"]).map(|name| Path::new(folder).join(name)).collect()
        };
        assert_eq!(of("/users/somebody/a.db", None), shared("/users/somebody"));
        assert_eq!(of("/users/a.db", None), shared("/users"));
        assert_eq!(of("/srv/data/a.db", Some("/srv/data/")), shared("/srv/data"));
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(of(here.join("a.db").to_str().unwrap(), None), shared(here.to_str().unwrap()));
    }
}
