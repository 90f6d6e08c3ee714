//! `/api/v1/forms`: what is open, over all sessions.

use serde_json::{Value, json};

use super::world::{Turn, World, config, play};
use crate::suite::harness::{Client, Reply, key, script};

fn list(client: &Client, query: &str) -> Value {
    let answer = client.send("GET", &format!("/api/v1/forms{query}"), "");
    assert_eq!(answer.status, 200, "{query}: {answer:?}");
    answer.json()
}

fn ids(list: &Value) -> Vec<&str> {
    list["forms"].as_array().unwrap().iter().map(|form| form["form_id"].as_str().unwrap()).collect()
}

/// Five sessions that each wait for an answer, and their forms, newest first.
fn five(client: &Client, name: &str) -> (Vec<Turn>, Vec<String>) {
    let ask = |n: usize| Reply::calls(&[("request_form", json!({ "kind": "approval", "title": format!("Form {n}") }))]);
    for n in 0..5 {
        script(&format!("{name}-{n}"), [ask(n), Reply::says(&["Thanks."])]);
    }
    let turns: Vec<_> = (0..5).map(|n| play(client, &format!("{name}-{n}"))).collect();
    let form = |turn: &Turn| turn.frames()[1].data["form_id"].as_str().unwrap().to_owned();
    let mut forms: Vec<_> = turns.iter().map(form).collect();
    forms.reverse();
    (turns, forms)
}

#[test]
fn in_pages_over_all_sessions() {
    let mut world = World::start("");
    // One after the other, so that their order is known.
    let ask = || Reply::calls(&[("request_form", json!({ "kind": "approval", "title": "Sure?" }))]);
    script("forms-paged", (0..5).map(|_| ask()));
    let mut forms: Vec<String> = Vec::new();
    for _ in 0..5 {
        let turn = play(&world.client(), "forms-paged");
        forms.insert(0, turn.frames()[1].data["form_id"].as_str().unwrap().to_owned());
    }
    for _ in 0..2 {
        let client = world.client();
        assert_eq!(ids(&list(&client, "")), forms, "newest first");
        let mut query = "?limit=2&status=open".to_owned();
        let mut pages = Vec::new();
        loop {
            let page = list(&client, &query);
            pages.push(ids(&page).into_iter().map(str::to_owned).collect::<Vec<_>>());
            match page["next_cursor"].as_str() {
                Some(next) => query = format!("?limit=2&status=open&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
        assert_eq!(pages.concat(), forms, "each once");
        world.crash();
    }
}

#[test]
fn by_where_they_stand_and_by_session() {
    let world = World::start("");
    let client = world.client();
    let (turns, _) = five(&client, "forms-status");
    let yes = json!({ "session_id": turns[0].session, "message": "yes" });
    assert_eq!(client.send("POST", "/api/v1/sessions/stream", &yes.to_string()).status, 202);
    assert_eq!(client.send("POST", &format!("/api/v1/sessions/{}/stop", turns[1].session), "").status, 204);
    assert_eq!(client.send("DELETE", &format!("/api/v1/sessions/{}", turns[2].session), "").status, 204);
    let sessions = |query: &str| -> Vec<String> {
        let list = list(&client, query);
        list["forms"].as_array().unwrap().iter().map(|form| form["session_id"].as_str().unwrap().to_owned()).collect()
    };
    let mut open = sessions("?status=open");
    open.sort();
    let mut expected = vec![turns[3].session.clone(), turns[4].session.clone()];
    expected.sort();
    assert_eq!(open, expected);
    assert_eq!(sessions("?status=answered"), [turns[0].session.clone()]);
    assert_eq!(sessions("?status=cancelled"), [turns[1].session.clone()]);
    assert!(sessions("?status=expired").is_empty());
    assert_eq!(sessions("").len(), 4, "those of a deleted session are gone");
    assert_eq!(sessions(&format!("?session_id={}", turns[0].session)), [turns[0].session.clone()]);
    assert!(sessions(&format!("?session_id={}&status=open", turns[0].session)).is_empty());
    assert!(sessions("?session_id=sess_no").is_empty());
    assert!(sessions("?session_id=a%20b").is_empty());
    for wrong in [
        "?status=Open",
        "?status=",
        "?limit=0",
        "?limit=201",
        "?limit=x",
        "?cursor=s1",
        "?cursor=f",
        "?status=open&status=open",
    ] {
        let answer = client.send("GET", &format!("/api/v1/forms{wrong}"), "");
        assert!(matches!(answer.status, 400 | 422), "{wrong}: {answer:?}");
        assert!(answer.json()["detail"]["code"].is_string(), "{wrong}: {answer:?}");
    }
}

#[test]
fn each_tenant_has_its_own() {
    let mut config = config("");
    for who in ["acme", "bob"] {
        config += &format!("[[keys]]\nkey = '{}'\ntenant = '{who}'\nscopes = ['chat']\n", key(who));
    }
    let world = World::with(&config);
    let (acme, bob) = (world.client().with_key(&key("acme")), world.client().with_key(&key("bob")));
    script("forms-tenant", [Reply::calls(&[("request_form", json!({ "kind": "approval", "title": "Sure?" }))])]);
    let turn = play(&acme, "forms-tenant");
    let form = turn.frames()[1].data["form_id"].as_str().unwrap().to_owned();
    assert_eq!(ids(&list(&acme, "?status=open")), [form.as_str()]);
    assert_eq!(list(&bob, ""), json!({ "forms": [] }));
    assert!(ids(&list(&bob, &format!("?session_id={}", turn.session))).is_empty());
    let hidden = bob.send("GET", &format!("/api/v1/forms/{form}"), "");
    assert_eq!((hidden.status, &hidden.json()["detail"]["code"]), (404, &json!("FORM_NOT_FOUND")));
    let answer = json!({ "session_id": turn.session, "form_id": form, "message": "yes" });
    assert_eq!(bob.send("POST", "/api/v1/sessions/stream", &answer.to_string()).status, 404);
    assert_eq!(acme.send("GET", &format!("/api/v1/forms/{form}"), "").json()["status"], "open");
    // Neither is it open in another session of one's own.
    script("forms-other", [Reply::says(&["Hi."])]);
    let other = play(&acme, "forms-other");
    let answer = json!({ "session_id": other.session, "form_id": form, "message": "yes" });
    let refused = acme.send("POST", "/api/v1/sessions/stream", &answer.to_string());
    assert_eq!((refused.status, &refused.json()["detail"]["code"]), (409, &json!("FORM_CLOSED")));
}
