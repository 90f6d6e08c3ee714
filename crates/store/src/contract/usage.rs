//! What tenants use is summed up, and every command that tells of it counts once.

use std::sync::Arc;

use everturn_core::{Day, KeyId, TenantId, TurnId, Usage};

use super::{
    Harness,
    fixture::{
        Talk, accept, append, append_rest, commit, ended, key, keyed, put, put_if, receipt, record, repeated, rest,
        segment, submit, tenant, usage, waiting, with_writes,
    },
};
use crate::{Command, RecordKind, Refusal, Store, UsageCount, UsageRow, UsageSlot, Write};

/// Sums stop here.
const MOST: u64 = 1 << 60;

const ALL_DAYS: (Day, Day) = (Day(i32::MIN), Day(i32::MAX));

pub(crate) fn slot(day: i32, agent: &str, model: &str, by: Option<&str>) -> UsageSlot {
    let key = by.map(|by| by.parse().expect("a key id"));
    UsageSlot { day: Day(day), agent: agent.to_owned(), model: model.to_owned(), key }
}

/// One turn, two calls, and so many tokens.
fn count(tokens: u64) -> UsageCount {
    UsageCount { turns: 1, calls: 2, tokens: usage(tokens) }
}

fn used(slot: &UsageSlot, tokens: u64) -> Write {
    Write::Usage(UsageRow { slot: slot.clone(), count: count(tokens) })
}

async fn all(store: &Arc<dyn Store>, owner: &TenantId) -> Vec<UsageRow> {
    store.usage(owner, ALL_DAYS, None, usize::MAX).await.expect("a page")
}

async fn on(store: &Arc<dyn Store>, owner: &TenantId, day: i32, by: Option<&str>) -> u64 {
    let by = by.map(|by| by.parse::<KeyId>().expect("a key id"));
    let found = store.used_on(owner, Day(day), by.as_ref()).await.expect("a sum");
    assert_eq!(found, usage(found.input));
    found.input
}

/// By day, agent, model and key, whichever command tells it, and after a restart as before.
pub async fn usage_is_summed_up(harness: &impl Harness) {
    let mut store = harness.open().await;
    let (talk, stranger) = (Talk::new("acme"), tenant("evil"));
    let turn = TurnId::mint();
    let slots = [
        slot(1, "a", "m", None),
        slot(1, "a", "m", Some("key_1")),
        slot(1, "a", "n", Some("key_1")),
        slot(1, "b", "m", Some("key_2")),
        slot(2, "a", "m", Some("key_1")),
    ];
    let commands = [
        talk.begin(&turn, None, 1),
        append(&turn, 1, segment(2, 1)),
        append_rest(&turn, 1, segment(3, 1), rest(waiting(), 1)),
        talk.resume(&turn, 2, segment(4, 1)),
        append_rest(&turn, 2, segment(5, 1), rest(waiting(), 1)),
        talk.end(&turn, 4, segment(6, 1)),
        put(&talk.tenant, Vec::new()),
    ];
    // Every command tells of every slot, of the first one twice.
    let told = commands.len() as u64;
    for command in commands {
        let writes = slots.iter().chain([&slots[0]]).zip(1..).map(|(slot, tokens)| used(slot, tokens)).collect();
        accept(&store, with_writes(command, writes)).await;
    }
    accept(&store, put(&stranger, vec![used(&slots[0], 1000)])).await;

    let times = |times: u64, tokens: u64| UsageCount { turns: times, calls: 2 * times, tokens: usage(tokens) };
    let expected: Vec<UsageRow> = slots
        .iter()
        .zip(1..)
        .map(|(slot, tokens)| {
            let count = if tokens == 1 { times(2 * told, told * (1 + 6)) } else { times(told, told * tokens) };
            UsageRow { slot: slot.clone(), count }
        })
        .collect();
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        assert_eq!(all(&store, &talk.tenant).await, expected);
        assert_eq!(all(&store, &stranger).await, [UsageRow { slot: slots[0].clone(), count: count(1000) }]);
        assert_eq!(all(&store, &tenant("nobody")).await, []);
        let owner = &talk.tenant;
        assert_eq!(on(&store, owner, 1, None).await, told * (7 + 2 + 3 + 4));
        assert_eq!(on(&store, owner, 1, Some("key_1")).await, told * (2 + 3));
        assert_eq!(on(&store, owner, 1, Some("key_2")).await, told * 4);
        assert_eq!(on(&store, owner, 1, Some("key_3")).await, 0);
        assert_eq!(on(&store, owner, 2, None).await, told * 5);
        assert_eq!(on(&store, owner, 2, Some("key_2")).await, 0);
        assert_eq!(on(&store, owner, 3, None).await, 0);
        // A key of the same name is another's.
        assert_eq!(on(&store, &stranger, 1, Some("key_1")).await, 0);
        assert_eq!(on(&store, &stranger, 1, None).await, 1000);
        assert_eq!(on(&store, &tenant("nobody"), 1, None).await, 0);
    }
}

/// In the order of the slots, within the days that were asked for, from wherever one goes on.
pub async fn usage_is_read_in_pages(harness: &impl Harness) {
    let store = harness.open().await;
    let owner = tenant("acme");
    let mut slots = Vec::new();
    for day in [-3, 0, 1, 2, 400] {
        for agent in ["", "a", "a b", "ä", "日本"] {
            for by in [None, Some("key_1"), Some("key_10"), Some("key_2")] {
                slots.push(slot(day, agent, if day % 2 == 0 { "" } else { "p/m" }, by));
            }
        }
    }
    for (index, slot) in slots.iter().enumerate().rev() {
        accept(&store, put(&owner, vec![used(slot, index as u64)])).await;
        accept(&store, put(&tenant("evil"), vec![used(slot, 7)])).await;
    }
    assert!(slots.is_sorted());
    let strange = [
        slot(i32::MIN, "", "", None),
        slot(0, "", "", None),
        slot(0, "a", "", Some("key_0")),
        slot(1, "a", "zzz", None),
        slot(1, "zzz", "", Some("key_9")),
        slot(i32::MAX, "zzz", "zzz", Some("key_9")),
    ];
    let days = [(-3, 400), (0, 0), (1, 2), (2, 399), (3, 399), (2, 1), (i32::MIN, i32::MAX), (i32::MAX, i32::MAX)];
    for (from, to) in days {
        let days = (Day(from), Day(to));
        let wanted = |after: Option<&UsageSlot>| -> Vec<&UsageSlot> {
            let days = slots.iter().filter(|slot| (from..=to).contains(&slot.day.0));
            days.filter(|slot| after.is_none_or(|after| *slot > after)).collect()
        };
        for after in slots.iter().chain(&strange).map(Some).chain([None]) {
            let found = store.usage(&owner, days, after, 3).await.expect("a page");
            let expected: Vec<_> = wanted(after).into_iter().take(3).collect();
            assert_eq!(found.iter().map(|row| &row.slot).collect::<Vec<_>>(), expected, "{days:?} after {after:?}");
        }
        for limit in [1, 7, usize::MAX] {
            let mut seen: Vec<UsageRow> = Vec::new();
            loop {
                let page = store.usage(&owner, days, seen.last().map(|row| &row.slot), limit).await.expect("a page");
                if page.is_empty() {
                    break;
                }
                assert!(page.len() <= limit);
                seen.extend(page);
            }
            assert_eq!(seen.iter().map(|row| &row.slot).collect::<Vec<_>>(), wanted(None), "{days:?}");
            for row in seen {
                let index = slots.iter().position(|slot| *slot == row.slot).expect("a slot");
                assert_eq!(row.count, count(index as u64));
            }
        }
        assert_eq!(store.usage(&owner, days, None, 0).await, Ok(Vec::new()));
    }
}

/// Whoever does not know what became of a command sends it again.
pub async fn recognised_commands_count_once(harness: &impl Harness) {
    let mut store = harness.open().await;
    let talk = Talk::new("acme");
    let (turn, next, third) = (TurnId::mint(), TurnId::mint(), TurnId::mint());
    let commands = [
        talk.begin(&turn, None, 1),
        append(&turn, 1, segment(2, 1)),
        append_rest(&turn, 1, segment(3, 1), rest(waiting(), 1)),
        talk.resume(&turn, 2, segment(4, 1)),
        append_rest(&turn, 2, segment(5, 1), rest(waiting(), 1)),
        talk.queue(&next, 4),
        talk.end(&next, 5, segment(1, 1)),
        talk.replace(&third, 6, &turn, segment(6, 1)),
    ];
    let today = slot(1, "a", "m", Some("key_1"));
    let told = commands.len() as u64;
    for (index, command) in commands.into_iter().enumerate() {
        let command = with_writes(command, vec![used(&today, 1)]);
        let first = accept(&store, command.clone()).await;
        assert_eq!(accept(&store, command.clone()).await, first);
        assert_eq!(commit(&store, vec![command.clone(), command]).await, [Ok(first), Ok(first)]);
        assert_eq!(on(&store, &talk.tenant, 1, None).await, index as u64 + 1, "command {index}");
    }
    // A change of records is recognised by its key alone.
    let command = keyed(put(&talk.tenant, vec![used(&today, 1)]), &key("k", "x"), 70);
    assert_eq!(commit(&store, vec![command.clone(), command.clone()]).await, [receipt(0, 0), repeated("x")]);
    drop(store);
    store = harness.open().await;
    assert_eq!(submit(&store, command).await, repeated("x"));
    assert_eq!(on(&store, &talk.tenant, 1, Some("key_1")).await, told + 1);
    let bare = put(&talk.tenant, vec![used(&today, 1)]);
    assert_eq!(commit(&store, vec![bare.clone(), bare]).await, [receipt(0, 0), receipt(0, 0)]);
    assert_eq!(on(&store, &talk.tenant, 1, Some("key_1")).await, told + 3);
}

/// Neither for the one who asked nor for anybody else.
pub async fn refused_commands_count_nothing(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, absent) = (Talk::new("acme"), Talk::new("acme"));
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    talk.wait(&store, &turn).await;
    accept(&store, keyed(put(&talk.tenant, Vec::new()), &key("k", "x"), 70)).await;
    let today = slot(1, "a", "m", None);
    let refused = [
        talk.begin(&next, Some(2), 1),
        talk.replace(&next, 2, &turn, segment(9, 1)),
        absent.begin(&next, Some(1), 1),
        talk.queue(&next, 7),
        talk.resume(&turn, 2, segment(9, 1)),
        talk.end(&turn, 7, segment(3, 1)),
        append(&turn, 1, segment(3, 1)),
        append(&turn, 7, segment(3, 1)),
        put_if(&talk.tenant, &record(RecordKind::Form, "x", None, "", ""), Some(1), Vec::new()),
        keyed(put(&talk.tenant, Vec::new()), &key("k", "y"), 71),
        keyed(talk.resume(&turn, 2, segment(3, 1)), &key("k", "z"), 72),
    ];
    for command in refused {
        let verdict = submit(&store, with_writes(command, vec![used(&today, 1)])).await;
        assert!(verdict.is_err(), "{verdict:?}");
    }
    // Also when only something else that it brings along is wrong.
    let title = Write::Title { session: absent.session.clone(), title: "x".to_owned() };
    let writes = vec![used(&today, 1), title];
    let commands = [talk.resume(&turn, 2, segment(3, 1)), talk.queue(&next, 2), put(&talk.tenant, Vec::new())];
    for command in commands {
        assert_eq!(submit(&store, with_writes(command, writes.clone())).await, Err(Refusal::NotFound));
    }
    accept(&store, talk.resume(&turn, 2, segment(3, 1))).await;
    // One that has lost the turn has lost what it would have counted.
    let rested = append_rest(&turn, 1, segment(4, 1), rest(ended(), 1));
    assert_eq!(submit(&store, with_writes(rested, vec![used(&today, 1)])).await, Err(Refusal::Fenced));
    assert_eq!(all(&store, &talk.tenant).await, []);
    assert_eq!(on(&store, &talk.tenant, 1, None).await, 0);
}

/// They do not turn around, and below that they are exact.
pub async fn sums_of_usage_stop(harness: &impl Harness) {
    let store = harness.open().await;
    let owner = tenant("acme");
    let (one, two) = (slot(1, "a", "m", None), slot(1, "b", "m", None));
    let each =
        |number| Usage { input: number, output: number, cached_input: number, cache_write: number, reasoning: number };
    let of = |slot: &UsageSlot, number: u64| {
        let count = UsageCount { turns: number, calls: number, tokens: each(number) };
        Write::Usage(UsageRow { slot: slot.clone(), count })
    };
    let sum = async || store.used_on(&owner, Day(1), None).await.expect("a sum");
    // More than a double holds.
    let large = (1 << 59) + 1;
    accept(&store, put(&owner, vec![of(&one, large), of(&two, 2)])).await;
    assert_eq!(sum().await, each(large + 2));
    for more in [large, u64::MAX, 1] {
        accept(&store, put(&owner, vec![of(&one, more)])).await;
        let rows = all(&store, &owner).await;
        let tokens = each(MOST);
        assert_eq!(rows[0].count, UsageCount { turns: MOST, calls: MOST, tokens });
        assert_eq!(sum().await, tokens);
    }
    // Many that are full, and one that is told of as such for the first time.
    let full: Vec<Write> = (0..40).map(|agent| of(&slot(1, &agent.to_string(), "m", None), u64::MAX)).collect();
    accept(&store, put(&owner, full)).await;
    assert_eq!(sum().await, each(MOST));
    assert_eq!(all(&store, &owner).await[0].count.turns, MOST);
}

/// It was used, whatever is kept of it.
pub async fn usage_outlives_its_session(harness: &impl Harness) {
    let mut store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    let today = slot(1, "a", "m", Some("key_1"));
    let begin = with_writes(talk.begin(&turn, None, 1), vec![used(&today, 1)]);
    accept(&store, begin.clone()).await;
    let last = append_rest(&turn, 1, segment(2, 1), rest(ended(), 1));
    accept(&store, with_writes(last.clone(), vec![used(&today, 2)])).await;
    let expected = all(&store, &talk.tenant).await;
    assert_eq!(on(&store, &talk.tenant, 1, Some("key_1")).await, 3);
    // What speaks of a turn that is gone is not recognised any more, and refused.
    let again = [begin, with_writes(last, vec![used(&today, 2)])];
    accept(&store, talk.truncate(2, 0)).await;
    let ends = [Command::ForgetDeleted { before: everturn_core::Timestamp(i64::MAX) }, talk.delete()];
    for end in ends.into_iter().rev() {
        for command in &again {
            assert!(submit(&store, command.clone()).await.is_err());
        }
        accept(&store, end).await;
        drop(store);
        store = harness.open().await;
        assert_eq!(all(&store, &talk.tenant).await, expected);
    }
}
