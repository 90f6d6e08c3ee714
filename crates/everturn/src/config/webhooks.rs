//! Checks who is told of turns.

use std::collections::BTreeSet;

use everturn_core::TenantId;
use everturn_engine::NoticeKind;
use everturn_webhooks::{Hook, Receiver, ReceiverError, SigningSecret};
use secrecy::ExposeSecret as _;

use super::{
    Environment,
    check::duration,
    choice::{Choice, choose},
    file::{self, Text},
    problem::Report,
    secret,
};

/// Most hooks. Each has connections of its own.
const MOST: usize = 1000;

impl Choice for NoticeKind {
    const WHAT: &'static str = "event";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("turn.completed", Self::Completed),
        ("turn.failed", Self::Failed),
        ("turn.cancelled", Self::Cancelled),
        ("turn.waiting", Self::Waiting),
    ];
}

/// The hooks that hold up, one for each tenant.
pub(super) fn check(
    report: &mut Report<'_>,
    environment: &Environment,
    hooks: std::collections::BTreeMap<Text, file::Webhook>,
) -> Vec<Hook> {
    if let Some(name) = hooks.keys().nth(MOST) {
        let message = format!("there are {} webhooks, and {MOST} at most", hooks.len());
        report.add(Some(name.span()), message, None);
    }
    hooks.into_iter().filter_map(|(name, hook)| one(report, environment, &name, hook)).collect()
}

fn one(report: &mut Report<'_>, environment: &Environment, name: &Text, hook: file::Webhook) -> Option<Hook> {
    let tenant = name.get_ref().parse::<TenantId>();
    if let Err(error) = &tenant {
        let message = format!("`{}` cannot be a tenant: {error}", name.get_ref());
        report.add(Some(name.span()), message, "write [webhooks.TENANT], with the tenant of a key".to_owned());
    }
    let receiver = Receiver::parse(hook.url.get_ref(), hook.allow_private.unwrap_or_default());
    if let Err(error) = &receiver {
        let hint = match error {
            ReceiverError::Private { .. } => "hooks go to the internet only, unless `allow_private` says otherwise",
            ReceiverError::NotUrl | ReceiverError::Long | ReceiverError::Scheme | ReceiverError::User => {
                "write where the receiver is, such as \"https://example.org/hooks/everturn\""
            }
        };
        report.add(Some(hook.url.span()), error.to_string(), hint.to_owned());
    }
    let text = secret::secret(report, environment, &hook.secret);
    let secret = text.as_ref().map(|text| SigningSecret::parse(text.expose_secret()));
    if let Some(Err(error)) = &secret {
        let hint = "make one with `echo whsec_$(openssl rand -base64 32)`, and give it to the receiver".to_owned();
        report.add(Some(hook.secret.span()), error.to_string(), hint);
    }
    let events = match hook.events {
        None => BTreeSet::from(NoticeKind::ALL),
        Some(events) => {
            if events.get_ref().is_empty() {
                let hint = "name some events, or leave `events` out for all".to_owned();
                report.add(Some(events.span()), "the webhook tells of nothing", hint);
            }
            let events = events.get_ref().iter();
            events.filter_map(|word| choose(report, Some(word.span()), word.get_ref())).collect()
        }
    };
    let timeout = duration(report, "timeout", hook.timeout.as_ref()).unwrap_or(Hook::TIMEOUT);
    let retry_for = duration(report, "retry_for", hook.retry_for.as_ref()).unwrap_or(Hook::RETRY_FOR);
    Some(Hook { tenant: tenant.ok()?, receiver: receiver.ok()?, secret: secret?.ok()?, events, timeout, retry_for })
}
