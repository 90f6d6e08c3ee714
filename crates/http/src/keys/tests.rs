//! The book and the ring together, over a simulated store.

use std::num::NonZeroU32;

use everturn_engine::Whose;
use everturn_store::SimStore;
use http::{HeaderValue, header};
use secrecy::ExposeSecret as _;

use super::*;

fn headers(name: HeaderName, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(name, HeaderValue::from_bytes(value.as_bytes()).unwrap())])
}

fn shows(secret: &str) -> HeaderMap {
    headers(header::AUTHORIZATION, &format!("Bearer {secret}"))
}

fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

fn named(name: &str) -> NewKey {
    NewKey { name: name.to_owned(), scopes: vec![Scope::Chat], expires_at: None, quota: Quota::default() }
}

fn per_second(limit: u32) -> Quota {
    Quota { requests_per_second: NonZeroU32::new(limit), ..Quota::default() }
}

async fn load(store: &Arc<dyn Store>) -> Keys {
    Keys::load(Arc::clone(store), Vec::new(), Quotas::default()).await.unwrap()
}

fn store() -> Arc<dyn Store> {
    Arc::new(SimStore::default())
}

#[test]
fn a_key_gives_its_tenant_and_scopes() {
    let keys = Keys::of(vec![
        Key::new("other", TenantId::local(), vec![Scope::Admin]),
        Key::new("secret", tenant("acme"), vec![Scope::Read]),
    ]);
    let caller = keys.caller(&headers(header::AUTHORIZATION, "bearer secret")).unwrap();
    assert_eq!(caller.tenant, tenant("acme"));
    assert_eq!(caller.require(Scope::Read), Ok(()));
    assert_eq!(caller.require(Scope::Chat), Err(AuthError::Scope { needed: Scope::Chat }));
    let refused = |value: &str| keys.caller(&headers(header::AUTHORIZATION, value)).unwrap_err();
    assert_eq!(refused("Bearer wrong"), AuthError::Invalid);
    assert_eq!(refused("Bearer schlüssel"), AuthError::Invalid);
    assert_eq!(refused(&format!("Bearer {}", "x".repeat(10_000))), AuthError::Invalid);
    assert_eq!(refused("Basic secret"), AuthError::Missing);
    assert_eq!(keys.caller(&HeaderMap::new()).unwrap_err(), AuthError::Missing);
    assert!(!format!("{keys:?}").contains("secret\""));
}

#[test]
fn a_dialect_may_have_a_place_for_keys() {
    let keys = Keys::of(vec![Key::new("secret", TenantId::local(), vec![Scope::Read])]);
    let place = HeaderName::from_static("x-secret-key");
    let by = |headers: HeaderMap| keys.caller_by_header(&headers, &place).map(|_| ());
    assert_eq!(by(headers(place.clone(), "secret")), Ok(()));
    assert_eq!(by(shows("secret")), Ok(()));
    assert_eq!(by(headers(place.clone(), "wrong")), Err(AuthError::Invalid));
    assert_eq!(by(HeaderMap::new()), Err(AuthError::Missing));
    assert_eq!(keys.caller(&headers(place.clone(), "secret")).unwrap_err(), AuthError::Missing);
}

#[test]
fn without_keys_only_this_machines_names_count() {
    let keys = Keys::open();
    for host in ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "127.9.9.9"] {
        assert!(keys.caller(&headers(header::HOST, host)).is_ok(), "{host}");
    }
    for host in ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1"] {
        assert_eq!(keys.caller(&headers(header::HOST, host)).unwrap_err(), AuthError::Host, "{host}");
    }
}

#[tokio::test]
async fn the_first_key_closes_the_server_for_good() {
    let store = store();
    let keys = load(&store).await;
    assert!(keys.is_open() && keys.caller(&HeaderMap::new()).is_ok());
    let (info, secret) = keys.create(&tenant("acme"), named("laptop"), None).await.unwrap();
    assert!(secret.expose_secret().starts_with(info.prefix.as_deref().unwrap()));
    assert_eq!(keys.caller(&HeaderMap::new()).unwrap_err(), AuthError::Missing);
    let caller = keys.caller(&shows(secret.expose_secret())).unwrap();
    assert_eq!((caller.tenant, caller.account.key.clone()), (tenant("acme"), Some(info.id.clone())));

    let revoked = keys.revoke(&tenant("acme"), info.id.as_str()).await.unwrap();
    assert!(revoked.revoked_at.is_some() && revoked.created_at == info.created_at);
    assert_eq!(keys.revoke(&tenant("acme"), info.id.as_str()).await.unwrap(), revoked);
    assert_eq!(keys.caller(&shows(secret.expose_secret())).unwrap_err(), AuthError::Revoked);
    let again = load(&store).await;
    assert!(!again.is_open() && again.count() == 0);
    assert_eq!(again.caller(&shows(secret.expose_secret())).unwrap_err(), AuthError::Revoked);
    assert_eq!(again.caller(&HeaderMap::new()).unwrap_err(), AuthError::Missing);
}

#[tokio::test]
async fn what_another_node_changes_is_seen() {
    let store = store();
    let (here, there) = (load(&store).await, load(&store).await);
    let (info, secret) = there.create(&tenant("acme"), named("a"), None).await.unwrap();
    assert!(here.is_open());
    here.refresh(false).await.unwrap();
    assert_eq!(here.caller(&HeaderMap::new()).unwrap_err(), AuthError::Missing);
    assert!(here.caller(&shows(secret.expose_secret())).is_ok());
    // Made and taken back between two looks.
    let (second, hidden) = there.create(&tenant("acme"), named("b"), None).await.unwrap();
    for id in [&info.id, &second.id] {
        there.revoke(&tenant("acme"), id.as_str()).await.unwrap();
    }
    assert!(here.caller(&shows(secret.expose_secret())).is_ok());
    here.refresh(false).await.unwrap();
    for secret in [&secret, &hidden] {
        assert_eq!(here.caller(&shows(secret.expose_secret())).unwrap_err(), AuthError::Revoked);
    }
    here.refresh(true).await.unwrap();
    assert_eq!(here.caller(&shows(secret.expose_secret())).unwrap_err(), AuthError::Revoked);
}

#[tokio::test]
async fn lists_have_the_live_ones_first_and_miss_none_in_pages() {
    let store = store();
    let keys = load(&store).await;
    let acme = tenant("acme");
    let mut made = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        made.push(keys.create(&acme, named(name), None).await.unwrap().0);
    }
    keys.create(&tenant("bob"), named("bobs"), None).await.unwrap();
    for index in [3, 1] {
        keys.revoke(&acme, made[index].id.as_str()).await.unwrap();
    }
    for limit in 1..=6 {
        let (mut names, mut after) = (String::new(), None);
        loop {
            let page = keys.list(&acme, after, limit).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.place);
            names.extend(page.iter().map(|key| key.name.as_str()));
        }
        assert_eq!(names, "ecabd", "{limit}");
    }
    assert_eq!(keys.find(&acme, made[0].id.as_str()).await.unwrap().unwrap().name, "a");
    assert_eq!(keys.find(&tenant("bob"), made[0].id.as_str()).await.unwrap(), None);
    let other = keys.revoke(&tenant("bob"), made[0].id.as_str()).await.unwrap_err();
    assert!(matches!(other, BookError::NotFound { .. }), "{other}");
    assert_eq!(keys.revoke_anywhere(made[0].id.as_str()).await.unwrap().tenant, acme);
    assert!(keys.revoke_anywhere("key_nobody's").await.is_err());
}

#[tokio::test]
async fn a_request_that_is_repeated_does_not_show_the_secret() {
    let keys = load(&store()).await;
    let acme = tenant("acme");
    let request =
        |fingerprint: &str| Some(SubmissionKey { key: "order-17".to_owned(), fingerprint: fingerprint.to_owned() });
    let (info, _) = keys.create(&acme, named("a"), request("x")).await.unwrap();
    let again = keys.create(&acme, named("a"), request("x")).await.unwrap_err();
    assert!(matches!(&again, BookError::MadeBefore { id } if *id == info.id.as_str()), "{again}");
    let other = keys.create(&acme, named("b"), request("y")).await.unwrap_err();
    assert!(matches!(other, BookError::KeyReused { .. }), "{other}");
    assert_eq!(keys.list(&acme, None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn uses_are_noted_and_survive() {
    let store = store();
    let keys = load(&store).await;
    let acme = tenant("acme");
    let (info, secret) = keys.create(&acme, named("a"), None).await.unwrap();
    assert_eq!(keys.find(&acme, info.id.as_str()).await.unwrap().unwrap().last_used_at, None);
    keys.caller(&shows(secret.expose_secret())).unwrap();
    let seen = keys.find(&acme, info.id.as_str()).await.unwrap().unwrap().last_used_at;
    assert!(seen >= info.created_at);
    let there = load(&store).await;
    assert_eq!(there.find(&acme, info.id.as_str()).await.unwrap().unwrap().last_used_at, None);
    keys.note_uses().await.unwrap();
    keys.note_uses().await.unwrap();
    let there = load(&store).await;
    assert_eq!(there.find(&acme, info.id.as_str()).await.unwrap().unwrap().last_used_at, seen);
    // What tells of a use is no key.
    assert_eq!(there.count(), 1);
    let told = format!("{}.use", info.id);
    assert_eq!(there.find(&acme, &told).await.unwrap(), None);
    assert!(there.revoke(&acme, &told).await.is_err());
    // Noting a use does not bring a key back.
    keys.caller(&shows(secret.expose_secret())).unwrap();
    there.revoke(&acme, info.id.as_str()).await.unwrap();
    keys.note_uses().await.unwrap();
    assert_eq!(load(&store).await.caller(&shows(secret.expose_secret())).unwrap_err(), AuthError::Revoked);
}

#[tokio::test]
async fn keys_expire_by_themselves() {
    let keys = Keys::of(vec![
        Key::new("over", TenantId::local(), vec![Scope::Read]).until(Some(Timestamp(1))),
        Key::new("not-yet", TenantId::local(), vec![Scope::Read]).until(Some(Timestamp(i64::MAX))),
    ]);
    assert_eq!(keys.caller(&shows("over")).unwrap_err(), AuthError::Expired);
    assert!(keys.caller(&shows("not-yet")).is_ok());
}

#[tokio::test]
async fn requests_are_counted_for_the_key_and_for_the_tenant() {
    let quotas = Quotas { tenants: [(tenant("acme"), per_second(3))].into(), ..Quotas::default() };
    let configured = vec![
        Key::new("one", tenant("acme"), vec![Scope::Read]).with_quota(per_second(2)),
        Key::new("two", tenant("acme"), vec![Scope::Read]),
        Key::new("bob", tenant("bob"), vec![Scope::Read]),
    ];
    let keys = Keys::load(store(), configured, quotas).await.unwrap();
    let refused = |secret: &str| match keys.caller(&shows(secret)) {
        Ok(_) => None,
        Err(AuthError::TooMany { whose, limit, retry_after }) => {
            assert!(retry_after.as_millis() <= 1000);
            Some((whose, limit))
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!((refused("one"), refused("one")), (None, None));
    assert_eq!(refused("one"), Some((Whose::Key, 2)));
    assert_eq!(refused("two"), None);
    assert_eq!(refused("two"), Some((Whose::Tenant, 3)));
    for _ in 0..100 {
        assert_eq!(refused("bob"), None);
    }
}

#[tokio::test]
async fn keys_of_the_configuration_stand_beside_the_stored_ones() {
    let id: KeyId = "key_config_ops".parse().unwrap();
    let configured = vec![Key::new("ops-secret", tenant("acme"), vec![Scope::Admin]).named(id.clone(), "ops")];
    let keys = Keys::load(store(), configured, Quotas::default()).await.unwrap();
    assert!(!keys.is_open());
    keys.create(&tenant("acme"), named("a"), None).await.unwrap();
    assert_eq!(keys.count(), 2);
    keys.refresh(true).await.unwrap();
    assert_eq!(keys.count(), 2);
    assert_eq!(keys.configured(&tenant("acme"))[0].id, id);
    assert_eq!(keys.configured(&tenant("bob")), []);
    assert_eq!(keys.find(&tenant("bob"), id.as_str()).await.unwrap(), None);
    let refused = keys.revoke(&tenant("acme"), id.as_str()).await.unwrap_err();
    assert!(matches!(refused, BookError::Configured { .. }), "{refused}");
}

#[tokio::test]
async fn a_tenant_has_so_many_keys_at_most() {
    let keys = load(&store()).await;
    let acme = tenant("acme");
    let mut last = None;
    for _ in 0..MAX_LIVE_KEYS {
        last = Some(keys.create(&acme, named("a"), None).await.unwrap().0);
    }
    let refused = keys.create(&acme, named("a"), None).await.unwrap_err();
    assert!(refused.to_string().contains("1000"), "{refused}");
    keys.create(&tenant("bob"), named("a"), None).await.unwrap();
    keys.revoke(&acme, last.unwrap().id.as_str()).await.unwrap();
    keys.create(&acme, named("a"), None).await.unwrap();
}

#[tokio::test]
async fn so_many_that_were_revoked_are_kept() {
    let store = store();
    let keys = load(&store).await;
    let acme = tenant("acme");
    let mut secrets = Vec::new();
    for _ in 0..=1000 {
        let (info, secret) = keys.create(&acme, named("a"), None).await.unwrap();
        keys.revoke(&acme, info.id.as_str()).await.unwrap();
        secrets.push(secret);
    }
    keys.refresh(true).await.unwrap();
    assert_eq!(keys.list(&acme, None, 2000).await.unwrap().len(), 1000);
    let told = |secret: &SecretString| keys.caller(&shows(secret.expose_secret())).unwrap_err();
    assert_eq!(told(&secrets[0]), AuthError::Invalid);
    assert!(secrets[1..].iter().all(|secret| told(secret) == AuthError::Revoked));
}

#[tokio::test(start_paused = true)]
async fn whoever_watches_sees_it_soon() {
    let store = store();
    let (here, there) = (Arc::new(load(&store).await), load(&store).await);
    let stop = tokio_util::sync::CancellationToken::new();
    let watched = tokio::spawn({
        let (here, stop) = (Arc::clone(&here), stop.clone());
        async move { here.watch(stop).await }
    });
    let moment = std::time::Duration::from_millis(2100);
    let (info, secret) = there.create(&tenant("acme"), named("a"), None).await.unwrap();
    tokio::time::sleep(moment).await;
    assert!(!here.is_open() && here.caller(&shows(secret.expose_secret())).is_ok());
    there.revoke(&tenant("acme"), info.id.as_str()).await.unwrap();
    tokio::time::sleep(moment).await;
    assert_eq!(here.caller(&shows(secret.expose_secret())).unwrap_err(), AuthError::Revoked);
    let used = || async { there.find(&tenant("acme"), info.id.as_str()).await.unwrap().unwrap().last_used_at };
    assert_eq!(used().await, None, "not at every request");
    stop.cancel();
    watched.await.unwrap();
    assert!(used().await.is_some());
}
