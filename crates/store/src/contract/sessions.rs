//! Who sees which sessions, and in which order.

use everturn_core::TurnId;

use super::{
    Harness,
    fixture::{
        Talk, accept, append, append_rest, commit, ended, read_all, receipt, rest, segment, submit, tenant, waiting,
    },
};
use crate::Refusal;

/// What belongs to another tenant is not there, even by its name.
pub async fn tenants_do_not_see_each_other(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    talk.wait(&store, &turn).await;
    let stranger = Talk { tenant: tenant("evil"), ..talk.clone() };

    assert_eq!(store.session(&stranger.tenant, &talk.session).await, Ok(None));
    assert_eq!(store.sessions(&stranger.tenant, None, 10).await, Ok(Vec::new()));
    assert_eq!(store.turns(&stranger.tenant, &talk.session).await, Ok(Vec::new()));
    assert_eq!(store.turn(&stranger.tenant, &talk.session, &turn).await, Ok(None));
    assert_eq!(submit(&store, stranger.begin(&TurnId::mint(), Some(2), 1)).await, Err(Refusal::NotFound));
    assert_eq!(submit(&store, stranger.resume(&turn, 2, segment(3, 1))).await, Err(Refusal::NotFound));
    let replace = stranger.replace(&TurnId::mint(), 2, &turn, segment(3, 1));
    assert_eq!(submit(&store, replace).await, Err(Refusal::NotFound));
    assert_eq!(submit(&store, stranger.delete()).await, Err(Refusal::NotFound));

    // The same name is free for every tenant.
    assert_eq!(submit(&store, stranger.create()).await, receipt(0, 1));
    accept(&store, stranger.delete()).await;
    let session = store.session(&talk.tenant, &talk.session).await.expect("a read").expect("a session");
    assert_eq!(session.version, 2);
}

/// From every read at once and after a restart; the name stays taken.
pub async fn what_was_deleted_is_gone(harness: &impl Harness) {
    let mut store = harness.open().await;
    let (talk, other) = (Talk::new("acme"), Talk::new("acme"));
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    accept(&store, talk.begin(&turn, None, 500)).await;
    accept(&store, append_rest(&turn, 1, segment(501, 1), rest(ended(), 1))).await;
    accept(&store, talk.begin(&next, Some(2), 1)).await;
    accept(&store, append_rest(&next, 1, segment(2, 1), rest(waiting(), 1))).await;
    accept(&store, other.create()).await;
    assert_eq!(submit(&store, talk.delete()).await, receipt(0, 0));
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        assert_eq!(store.session(&talk.tenant, &talk.session).await, Ok(None));
        assert_eq!(store.turns(&talk.tenant, &talk.session).await, Ok(Vec::new()));
        let listed = store.sessions(&talk.tenant, None, 10).await.expect("a list");
        assert_eq!(
            listed.into_iter().map(|row| row.session.id).collect::<Vec<_>>(),
            std::slice::from_ref(&other.session)
        );
        for turn in [&turn, &next] {
            assert_eq!(store.turn(&talk.tenant, &talk.session, turn).await, Ok(None));
            assert_eq!(read_all(&store, turn, 1000).await, Vec::new());
        }
        assert_eq!(submit(&store, append(&next, 1, segment(3, 1))).await, Err(Refusal::NotFound));
        assert_eq!(submit(&store, talk.resume(&next, 4, segment(3, 1))).await, Err(Refusal::NotFound));
        assert_eq!(submit(&store, talk.create()).await, Err(Refusal::Exists));
        assert_eq!(submit(&store, talk.begin(&TurnId::mint(), None, 1)).await, Err(Refusal::Exists));
    }
}

/// Its owner finds it gone; nobody claims it.
pub async fn a_running_turn_can_be_deleted(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, other) = (Talk::new("acme"), Talk::new("acme"));
    let (turn, running) = (TurnId::mint(), TurnId::mint());
    accept(&store, other.begin(&running, None, 1)).await;
    accept(&store, talk.begin(&turn, None, 1)).await;
    accept(&store, append(&turn, 1, segment(2, 5))).await;
    let batch = vec![append(&turn, 1, segment(7, 1)), talk.delete(), append(&turn, 1, segment(8, 1))];
    assert_eq!(commit(&store, batch).await, [receipt(1, 0), receipt(0, 0), Err(Refusal::NotFound)]);
    assert_eq!(read_all(&store, &turn, 1000).await, Vec::new());
    assert_eq!(submit(&store, append(&turn, 1, segment(8, 1))).await, Err(Refusal::NotFound));
    drop(store);
    let store = harness.open().await;
    let claimed = store.claim(&super::fixture::node("node b"), 10).await.expect("claims");
    assert_eq!(claimed.into_iter().map(|claim| claim.turn).collect::<Vec<_>>(), [running]);
}

/// A session that is there all the time is on exactly one page, whatever comes and goes between the pages.
pub async fn pages_hold_under_inserts_and_deletes(harness: &impl Harness) {
    let store = harness.open().await;
    let talks: Vec<Talk> = (0..20).map(|_| Talk::new("acme")).collect();
    for talk in &talks {
        accept(&store, talk.create()).await;
        accept(&store, Talk::new("another").create()).await;
    }
    let mut below = None;
    let mut seen = Vec::new();
    loop {
        let page = store.sessions(&talks[0].tenant, below, 3).await.expect("a page");
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 3);
        assert!(page.windows(2).all(|pair| pair[0].position > pair[1].position));
        below = Some(last.position);
        // The one on which the page ended goes, and new ones come.
        let ended = talks.iter().find(|talk| talk.session == last.session.id).expect("one of ours");
        accept(&store, ended.delete()).await;
        accept(&store, Talk::new("acme").create()).await;
        seen.extend(page.into_iter().map(|row| row.session.id));
    }
    let expected: Vec<_> = talks.iter().rev().map(|talk| talk.session.clone()).collect();
    assert_eq!(seen, expected);
    assert_eq!(store.sessions(&talks[0].tenant, None, 0).await, Ok(Vec::new()));
    assert_eq!(store.sessions(&talks[0].tenant, Some(0), 10).await, Ok(Vec::new()));
    assert_eq!(store.sessions(&talks[0].tenant, Some(u64::MAX), 100).await.map(|page| page.len()), Ok(20));
}

/// Not even the position of the newest session, deleted before a restart.
pub async fn positions_are_not_given_twice(harness: &impl Harness) {
    let mut store = harness.open().await;
    let mut last = 0;
    for _ in 0..3 {
        let talk = Talk::new("acme");
        accept(&store, talk.create()).await;
        let newest = store.sessions(&talk.tenant, None, 1).await.expect("a page")[0].position;
        assert!(newest > last, "position {newest} after {last}");
        last = newest;
        accept(&store, talk.delete()).await;
        drop(store);
        store = harness.open().await;
    }
}
