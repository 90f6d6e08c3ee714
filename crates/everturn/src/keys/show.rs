//! What the commands print: the asked-for to stdout, hints to stderr.

use everturn_core::{Quota, Timestamp};
use everturn_http::{KeyInfo, Scope};
use serde_json::{Value, json};

use crate::config::moment;

/// How a new key is printed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Readable,
    Json,
    /// The secret alone.
    Quiet,
}

impl Form {
    pub(super) fn new(json: bool, quiet: bool) -> Self {
        match (json, quiet) {
            (true, _) => Self::Json,
            (false, true) => Self::Quiet,
            (false, false) => Self::Readable,
        }
    }
}

pub(super) fn created(key: &KeyInfo, secret: &str, first: bool, form: Form) {
    match form {
        Form::Quiet => anstream::println!("{secret}"),
        Form::Json => {
            let mut told = in_json(key);
            told["secret"] = secret.into();
            anstream::println!("{told:#}");
        }
        Form::Readable => {
            anstream::println!("key      {} ({})", key.id, key.name);
            anstream::println!("tenant   {}", key.tenant);
            anstream::println!("scopes   {}", scopes(key));
            anstream::println!("expires  {}", key.expires_at.map_or_else(|| "never".to_owned(), moment::shown));
            if !key.quota.is_unbounded() {
                anstream::println!("quota    {}", bounds(&key.quota));
            }
            anstream::println!("secret   {secret}");
        }
    }
    anstream::eprintln!("\nThe secret is shown this once. Callers send it as: Authorization: Bearer <secret>");
    if first {
        anstream::eprintln!("It is the first key in this store: from now on every caller of the server needs one.");
        if !key.scopes.contains(&Scope::Admin) {
            anstream::eprintln!("It does not allow to make further keys by HTTP; `everturn keys create` always does.");
        }
    }
}

pub(super) fn revoked(key: &KeyInfo) {
    let at = key.revoked_at.map_or_else(String::new, |at| format!(" at {}", moment::shown(at)));
    anstream::println!("the key {} ({}) of {} was revoked{at}", key.id, key.name, key.tenant);
}

pub(super) fn list(keys: &[KeyInfo], as_json: bool) {
    if as_json {
        let keys: Vec<_> = keys.iter().map(in_json).collect();
        anstream::println!("{:#}", json!({ "keys": keys }));
        return;
    }
    if keys.is_empty() {
        anstream::eprintln!("There are no keys. Make one with `everturn keys create`.");
        return;
    }
    let head = ["ID", "TENANT", "NAME", "SECRET", "SCOPES", "STATUS", "EXPIRES", "LAST USED", "QUOTA"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(keys.iter().map(row));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 9] = std::array::from_fn(width);
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        anstream::println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

fn row(key: &KeyInfo) -> [String; 9] {
    let time = |at: Option<Timestamp>| at.map_or_else(|| "never".to_owned(), moment::shown);
    [
        key.id.to_string(),
        key.tenant.to_string(),
        key.name.clone(),
        key.prefix.as_ref().map_or_else(String::new, |prefix| format!("{prefix}…")),
        scopes(key),
        key.status(Timestamp::now()).as_str().to_owned(),
        time(key.expires_at),
        time(key.last_used_at),
        bounds(&key.quota),
    ]
}

fn scopes(key: &KeyInfo) -> String {
    key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(",")
}

/// A quota in words.
pub(crate) fn bounds(quota: &Quota) -> String {
    let bounds = [
        quota.requests_per_second.map(|limit| format!("{limit} requests/s")),
        quota.concurrent_turns.map(|limit| format!("{limit} turns")),
        quota.tokens_per_day.map(|limit| format!("{limit} tokens/day")),
    ];
    bounds.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// As `/api/v1/keys` tells it.
fn in_json(key: &KeyInfo) -> Value {
    let time = |at: Option<Timestamp>| at.map(moment::exact);
    json!({
        "key_id": key.id,
        "tenant": key.tenant,
        "name": key.name,
        "prefix": key.prefix,
        "scopes": key.scopes,
        "status": key.status(Timestamp::now()),
        "quota": key.quota,
        "created_at": time(key.created_at),
        "expires_at": time(key.expires_at),
        "revoked_at": time(key.revoked_at),
        "last_used_at": time(key.last_used_at),
    })
}
