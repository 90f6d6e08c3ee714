//! Checks the keys that callers show, and finds secrets that variables hold.

use std::collections::BTreeSet;

use everturn_core::TenantId;
use secrecy::{ExposeSecret, SecretString};

use super::{
    Environment,
    choice::choose,
    file::{self, Text},
    problem::Report,
    settings::{ApiKey, Scope},
};

/// A text that is a secret, or `env:NAME` for one that a variable holds.
pub(super) fn secret(report: &mut Report<'_>, environment: &Environment, text: &Text) -> Option<SecretString> {
    let Some(name) = text.get_ref().strip_prefix("env:") else {
        return Some(SecretString::from(text.get_ref().as_str()));
    };
    let value = environment.get(name).map(SecretString::from);
    if value.is_none() {
        let hint = format!("set it before the start: export {name}=…");
        report.add(Some(text.span()), format!("the variable `{name}` is not set"), hint);
    }
    value
}

/// Why a text cannot be a key that callers show. Never holds the key.
fn unfit_key(key: &SecretString) -> Option<&'static str> {
    let key = key.expose_secret();
    if key.len() < 16 {
        Some("the key is shorter than 16 characters")
    } else if key.len() > 512 {
        Some("the key is longer than 512 characters")
    } else if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        Some("the key has characters that no HTTP header can carry")
    } else {
        None
    }
}

const KEY_HINT: &str = "make one with `openssl rand -hex 32`";

/// The keys that hold up.
pub(super) fn check(report: &mut Report<'_>, environment: &Environment, keys: Vec<file::Key>) -> Vec<ApiKey> {
    let mut checked: Vec<ApiKey> = Vec::with_capacity(keys.len());
    for entry in keys {
        let at = Some(entry.key.span());
        let key = secret(report, environment, &entry.key);
        if let Some(key) = &key {
            if let Some(reason) = unfit_key(key) {
                report.add(at, reason, KEY_HINT.to_owned());
            } else if checked.iter().any(|other| other.key.expose_secret() == key.expose_secret()) {
                report.add(at, "the key is there twice", "give each holder a key of its own".to_owned());
            }
        }
        let tenant = entry.tenant.get_ref().parse::<TenantId>();
        if let Err(error) = &tenant {
            let message = format!("`{}` cannot be a tenant: {error}", entry.tenant.get_ref());
            report.add(Some(entry.tenant.span()), message, None);
        }
        let scopes = scopes(report, entry.scopes);
        if let (Some(key), Ok(tenant)) = (key, tenant) {
            checked.push(ApiKey { key, tenant, scopes });
        }
    }
    checked
}

fn scopes(report: &mut Report<'_>, scopes: Option<toml::Spanned<Vec<Text>>>) -> BTreeSet<Scope> {
    let Some(scopes) = scopes else { return BTreeSet::from([Scope::Chat, Scope::Read]) };
    if scopes.get_ref().is_empty() {
        let hint = "name some of `chat`, `read` and `admin`, or leave `scopes` out for `chat` and `read`".to_owned();
        report.add(Some(scopes.span()), "the key allows nothing", hint);
    }
    scopes.get_ref().iter().filter_map(|scope| choose(report, Some(scope.span()), scope.get_ref())).collect()
}

/// Without a file, `EVERTURN_KEY` is the one key, and opens everything.
pub(super) fn from_environment(report: &mut Report<'_>, environment: &Environment) -> Option<ApiKey> {
    let key = environment.get("EVERTURN_KEY").map(SecretString::from)?;
    if let Some(reason) = unfit_key(&key) {
        report.add(None, format!("in EVERTURN_KEY, {reason}"), KEY_HINT.to_owned());
        return None;
    }
    let tenant = "default".parse().ok()?;
    Some(ApiKey { key, tenant, scopes: BTreeSet::from(Scope::ALL) })
}
