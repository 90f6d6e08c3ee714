//! Checks the keys that callers show.

use std::collections::BTreeSet;

use everturn_core::{KeyId, Quota, TenantId, Timestamp};
use secrecy::{ExposeSecret, SecretString};

use super::{
    Environment,
    choice::choose,
    file::{self, Text},
    moment,
    problem::Report,
    quota,
    secret::secret,
    settings::{ApiKey, Scope},
};

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

/// The key of one route, if it holds up.
pub(super) fn single(report: &mut Report<'_>, environment: &Environment, text: Option<&Text>) -> Option<SecretString> {
    let text = text?;
    let key = secret(report, environment, text)?;
    if let Some(reason) = unfit_key(&key) {
        report.add(Some(text.span()), reason, KEY_HINT.to_owned());
        return None;
    }
    Some(key)
}

/// The keys that hold up.
pub(super) fn check(report: &mut Report<'_>, environment: &Environment, keys: Vec<file::Key>) -> Vec<ApiKey> {
    let mut checked: Vec<ApiKey> = Vec::with_capacity(keys.len());
    for (index, entry) in keys.into_iter().enumerate() {
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
        let quota = quota::of_key(report, entry.quota.as_ref());
        let expires_at = entry.expires.as_ref().and_then(|moment| expires(report, moment));
        let named = name(report, entry.name.as_ref(), entry.tenant.get_ref(), index + 1);
        if let (Some((id, _)), Some(name)) = (&named, &entry.name)
            && checked.iter().any(|other| other.id == *id)
        {
            let message = format!("there are two keys `{}`", name.get_ref());
            report.add(Some(name.span()), message, "give each key a name of its own".to_owned());
        }
        if let (Some(key), Ok(tenant), Some((id, name))) = (key, tenant, named) {
            checked.push(ApiKey { key, tenant, scopes, id, name, expires_at, quota });
        }
    }
    checked
}

/// How long the name of a key may be.
const MAX_NAME: usize = 64;

/// The key's name, for programs and for people. One that has none is called by its tenant and its place in the file.
fn name(report: &mut Report<'_>, name: Option<&Text>, tenant: &str, number: usize) -> Option<(KeyId, String)> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let text = match name {
        Some(name) => name.get_ref().clone(),
        None => format!("{}-{number}", tenant.chars().filter(|c| allowed(*c)).take(MAX_NAME).collect::<String>()),
    };
    if let Some(name) = name
        && (text.is_empty() || text.len() > MAX_NAME || !text.chars().all(allowed))
    {
        let hint = format!("use 1 to {MAX_NAME} characters of A-Z a-z 0-9 . _ -");
        report.add(Some(name.span()), format!("`{text}` cannot be the name of a key"), hint);
        return None;
    }
    Some((format!("key_config_{text}").parse().ok()?, text))
}

fn expires(report: &mut Report<'_>, moment: &toml::Spanned<toml::Value>) -> Option<Timestamp> {
    let text = match moment.get_ref() {
        toml::Value::String(text) => text.clone(),
        toml::Value::Datetime(at) => at.to_string(),
        _ => String::new(),
    };
    let parsed = moment::parse(&text);
    if parsed.is_none() {
        report.add(Some(moment.span()), "`expires` is not a point in time", moment::FORM.to_owned());
    }
    parsed
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
    Some(ApiKey {
        key,
        tenant: "default".parse().ok()?,
        scopes: BTreeSet::from(Scope::ALL),
        id: "key_config_default-1".parse().ok()?,
        name: "default-1".to_owned(),
        expires_at: None,
        quota: Quota::default(),
    })
}
