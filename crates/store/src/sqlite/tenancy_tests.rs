//! Every row of every table belongs to a tenant.

use std::{collections::BTreeMap, sync::Arc};

use everturn_core::{Day, KeyId, TurnId};
use rusqlite::Connection;

use super::{
    SqliteStore,
    failure_tests::{Place, crash, large},
    log,
};
use crate::{
    BeginTurn, Command, RecordKind, Store, UsageCount, UsageRow, UsageSlot, Write,
    contract::fixture::{
        Talk, accept, append, append_rest, ended, key, keyed, over, put, record, replace_log, rest, segment, waiting,
        with_writes,
    },
};

/// What a row names another by, and the table of that one. Most say so themselves, by `REFERENCES`. These do not, because
/// a check would cost a lookup for every append: rows of `log` may outlive their turn until they are trimmed, chunks
/// and legs may not.
const UNDECLARED: &[(&str, &str, &str)] =
    &[("log", "row.turn", "turns"), ("chunks", "row.id >> 30", "turns"), ("legs", "row.id >> 30", "turns")];

/// The tables whose rows may outlive their tenant's things for a while, because `trim.rs` takes them away later.
const WAIT_TO_BE_TRIMMED: &[&str] = &["log"];

#[derive(Debug)]
struct Link {
    /// What names the other, as it is written of `row`.
    name: String,
    target: String,
    /// Whether every row has it.
    is_needed: bool,
}

type Links = BTreeMap<String, Vec<Link>>;

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let mut select = connection.prepare(sql).expect("a statement");
    let rows = select.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<Result<_, _>>().expect("texts")
}

/// What the rows of every table are linked by. Fails on one that does not lead to a tenant.
fn links(connection: &Connection) -> Links {
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut all = Links::new();
    for table in texts(connection, tables) {
        let mut links: Vec<Link> = Vec::new();
        let sql = format!(
            "SELECT f.\"from\", f.\"table\", c.\"notnull\" OR c.pk FROM pragma_foreign_key_list('{table}') f
             JOIN pragma_table_info('{table}') c ON c.name = f.\"from\""
        );
        let mut select = connection.prepare(&sql).expect("a statement");
        let found = select.query_map([], |row| {
            Ok(Link { name: format!("row.{}", row.get::<_, String>(0)?), target: row.get(1)?, is_needed: row.get(2)? })
        });
        links.extend(found.expect("rows").map(|link| link.expect("a link")));
        for (_, name, target) in UNDECLARED.iter().filter(|(of, ..)| *of == table) {
            links.push(Link { name: (*name).to_owned(), target: (*target).to_owned(), is_needed: true });
        }
        all.insert(table, links);
    }
    let leads = |table: &str| -> bool {
        fn leads(all: &Links, table: &str, depth: usize) -> bool {
            let links = all.get(table).into_iter().flatten();
            table == "tenants"
                || (depth > 0 && links.filter(|link| link.is_needed).any(|link| leads(all, &link.target, depth - 1)))
        }
        leads(&all, table, 5)
    };
    let astray: Vec<&String> = all.keys().filter(|table| !leads(table)).collect();
    assert!(astray.is_empty(), "tables whose rows belong to no tenant: {astray:?}");
    all
}

/// The tenant that a row belongs to, by one of its links; null if a link leads nowhere.
fn owner(links: &Links, link: &Link, of: &str) -> String {
    let name = link.name.replace("row.", &format!("{of}."));
    let (target, alias) = (&link.target, format!("{of}_{}", link.target));
    let next = match links[target].iter().find(|link| link.is_needed) {
        Some(link) => owner(links, link, &alias),
        None => format!("{alias}.id"),
    };
    format!("(SELECT {next} FROM {target} {alias} WHERE {alias}.id = {name})")
}

/// How many rows there are by table, and how many of them have lost their tenant. Fails if links of a row lead to
/// different ones.
fn count(connection: &Connection) -> BTreeMap<String, (u64, u64)> {
    let links = links(connection);
    let number = |sql: String| connection.query_row(&sql, [], |row| row.get::<_, u64>(0)).expect("a number");
    let tables = links.iter().map(|(table, of)| {
        let rows = number(format!("SELECT count(*) FROM {table}"));
        let mut lost = 0;
        for link in of {
            let owner = owner(&links, link, "row");
            let unset = if link.is_needed { "0".to_owned() } else { format!("{} IS NULL", link.name) };
            lost += number(format!("SELECT count(*) FROM {table} row WHERE NOT ({unset}) AND {owner} IS NULL"));
            for other in of {
                let second = self::owner(&links, other, "row");
                let differing = number(format!("SELECT count(*) FROM {table} row WHERE {owner} <> {second}"));
                assert_eq!(differing, 0, "rows of {table} that belong to two tenants, by {link:?} and {other:?}");
            }
        }
        (table.clone(), (rows, lost))
    });
    tables.collect()
}

fn used(by: Option<&KeyId>) -> Write {
    let slot = UsageSlot { day: Day(1), agent: "a".to_owned(), model: "m".to_owned(), key: by.cloned() };
    Write::Usage(UsageRow { slot, count: UsageCount { turns: 1, ..UsageCount::default() } })
}

/// One of everything that a tenant can have, in a session that stays and in one that does not.
async fn live(store: &Arc<dyn Store>, owner: &str) {
    let (talk, doomed) = (Talk::new(owner), Talk::new(owner));
    let by: KeyId = "key_1".parse().expect("a key id");
    let kinds = [RecordKind::Form, RecordKind::Artifact, RecordKind::Key, RecordKind::Notice];
    for talk in [&talk, &doomed] {
        talk.converse(store, 3).await;
        let turn = TurnId::mint();
        let mut begin = BeginTurn { by: Some(by.clone()), ..talk.begin_turn(&turn, Some(7), 2) };
        begin.writes = vec![used(Some(&by)), used(None)];
        let command = Command::BeginTurn(Box::new(begin));
        accept(store, keyed(command, &key(turn.as_str(), "begun"), 20)).await;
        accept(store, append(&turn, 1, large(3, 300 << 10))).await;
        accept(store, append_rest(&turn, 1, segment(4, 1), rest(waiting(), 1))).await;
        accept(store, talk.resume(&turn, 9, segment(5, 1))).await;
        accept(store, append_rest(&turn, 2, segment(6, 1), rest(ended(), 1))).await;
        for (kind, id) in kinds.into_iter().zip(0..) {
            let (id, session) = (format!("{} {id}", talk.session), Some(&talk.session));
            let blob = Write::Blob { kind, id: id.clone(), part: 0, bytes: bytes::Bytes::from_static(b"content") };
            let writes = vec![Write::Record(record(kind, &id, session, "open", "x")), blob];
            accept(store, put(&talk.tenant, writes)).await;
            accept(store, put(&talk.tenant, vec![Write::Record(record(kind, &format!("loose {id}"), None, "", ""))]))
                .await;
        }
        accept(
            store,
            put(&talk.tenant, vec![Write::Remove { kind: kinds[0], id: format!("loose {} 0", talk.session) }]),
        )
        .await;
    }
    let (fork, twin) = (talk.another(), talk.another());
    accept(store, fork.fork_with(&talk, 11, 4, vec![over(&TurnId::mint(), 3)])).await;
    accept(store, twin.fork(&doomed, 11, 2)).await;
    accept(store, talk.truncate_to(11, 1, Some(over(&TurnId::mint(), 2)))).await;
    accept(store, doomed.truncate(11, 3)).await;
    accept(store, replace_log(&twin.told(store).await.turns[0].id, vec![segment(1, 3)], 1)).await;
    // Both have a turn that runs and one that is queued.
    for (talk, version) in [(&talk, 12), (&doomed, 12)] {
        let (running, queued) = (TurnId::mint(), TurnId::mint());
        accept(store, with_writes(talk.begin(&running, Some(version), 2), vec![used(None)])).await;
        accept(store, append(&running, 1, segment(3, 40))).await;
        accept(store, talk.queue(&queued, version + 1)).await;
    }
    accept(store, keyed(doomed.delete(), &key("delete", "deleted"), 60)).await;
}

fn both(place: &Place) -> (Arc<SqliteStore>, Arc<dyn Store>) {
    let sqlite = place.open();
    let store = Arc::clone(&sqlite) as Arc<dyn Store>;
    (sqlite, store)
}

#[tokio::test]
async fn every_row_belongs_to_a_tenant() {
    let place = Place::new();
    let (mut sqlite, mut store) = both(&place);
    for round in 0..2 {
        for owner in ["acme", "globex"].map(|owner| format!("{owner}{round}")) {
            live(&store, &owner).await;
        }
        let tables = sqlite.on_writer(count).await.expect("a writer");
        for (table, (_, lost)) in &tables {
            assert!(*lost == 0 || WAIT_TO_BE_TRIMMED.contains(&table.as_str()), "{lost} rows of {table} are nobody's");
        }
        crash(store, sqlite).await;
        (sqlite, store) = both(&place);
    }
    // What waits to be trimmed is not long in waiting.
    while sqlite.on_writer(count).await.expect("a writer").values().any(|(_, lost)| *lost > 0) {
        tokio::task::yield_now().await;
    }
    // A table that is empty shows nothing. The one that is emptied by then is filled by a turn that runs.
    accept(&store, Talk::new("acme").begin(&TurnId::mint(), None, 2)).await;
    let tables = sqlite.on_writer(count).await.expect("a writer");
    let wrong: Vec<_> = tables.iter().filter(|(_, (rows, lost))| *rows == 0 || *lost > 0).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The test above finds what it is there to find.
#[tokio::test]
async fn rows_of_nobody_are_noticed() {
    let place = Place::new();
    let (sqlite, store) = both(&place);
    live(&store, "acme").await;
    let spoil = |connection: &Connection| {
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a number");
        let turn = number("SELECT max(id) FROM turns") + 1;
        log::write_chunks(connection, turn, &[segment(1, 1)]).expect("chunks");
        connection.execute("INSERT INTO legs (id, messages) VALUES (?1 << 30, '1')", [turn]).expect("a row");
        connection.execute("INSERT INTO tombstones (tenant, name, at) VALUES (77, 'x', 1)", []).expect("a row");
        connection.execute("INSERT INTO blobs (record, part, bytes) VALUES (777, 1, x'00')", []).expect("a row");
        count(connection)
    };
    connection_without_checks(&sqlite).await;
    let tables = sqlite.on_writer(spoil).await.expect("a writer");
    let lost: Vec<_> = tables
        .iter()
        .filter(|(table, (_, lost))| *lost > 0 && *table != "log")
        .map(|(table, _)| table.as_str())
        .collect();
    assert_eq!(lost, ["blobs", "chunks", "legs", "tombstones"]);
    // And a table that nobody has thought about.
    let panicked = sqlite.on_writer(|connection| {
        connection
            .execute_batch("CREATE TABLE more (id INTEGER PRIMARY KEY, tenant INTEGER REFERENCES tenants)")
            .expect("a table");
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(links(connection)))).is_err()
    });
    assert!(panicked.await.expect("a writer"), "a row of that table need not have a tenant");
}

/// Rows that the database itself would refuse are needed to see whether they are noticed.
async fn connection_without_checks(sqlite: &SqliteStore) {
    let off = |connection: &Connection| connection.pragma_update(None, "foreign_keys", false);
    sqlite.on_writer(off).await.expect("a writer").expect("a setting");
}

fn plan(connection: &Connection, sql: &str, parameters: usize) -> Vec<String> {
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a statement");
    let values = vec![rusqlite::types::Null; parameters];
    let rows = explain.query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(3)).expect("a plan");
    rows.collect::<Result<_, _>>().expect("steps")
}

/// The cost of a page depends on the page alone.
#[tokio::test]
async fn usage_and_records_of_all_are_found_by_indexes() {
    let place = Place::new();
    let (sqlite, _store) = both(&place);
    let plans = |connection: &Connection| {
        let tenant = "SEARCH tenants USING COVERING INDEX sqlite_autoindex_tenants_1 (name=?)";
        for (is_after, compare) in [(true, '>'), (false, '>')] {
            let steps = plan(connection, &super::usage::page_sql(is_after), 7);
            let range = format!("(tenant=? AND (day,agent,model,key){compare}(?,?,?,?) AND day<?)");
            let search = format!("SEARCH usage USING PRIMARY KEY {range}");
            assert_eq!(steps, [&search, "SCALAR SUBQUERY 1", tenant]);
        }
        let steps = plan(connection, super::usage::OF_TENANT, 2);
        assert_eq!(steps, ["SEARCH usage USING PRIMARY KEY (tenant=? AND day=?)", "SCALAR SUBQUERY 1", tenant]);
        let steps = plan(connection, super::usage::OF_KEY, 3);
        let search = "SEARCH usage USING INDEX usage_by_key (tenant=? AND day=? AND key=?)";
        assert_eq!(steps, [search, "SCALAR SUBQUERY 1", tenant]);
        for kind in [RecordKind::Key, RecordKind::Notice] {
            let steps = plan(connection, &super::records::of_all_sql(kind), 3);
            assert_eq!(steps[0], "SEARCH r USING INDEX records_of_all (kind=? AND state=? AND id>?)");
            assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE") || step.starts_with("SCAN")), "{steps:?}");
        }
    };
    sqlite.on_writer(plans).await.expect("a writer");
}
