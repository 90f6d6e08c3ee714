//! Two tenants on one server: whatever the API document offers, neither sees, changes or even learns of anything that is
//! the other's.

mod document;
mod fill;
mod names;
mod things;
mod walk;

use std::collections::BTreeMap;

use self::{
    document::operations,
    things::{Names, Things, made_up},
    walk::{Shape, Told, shapes},
};
use super::{
    harness::{Client, key},
    native::world::{World, config},
};

/// The tenants, each with a key that may do everything.
const WHO: [&str; 3] = ["ann", "bob", "cleo"];

fn world() -> World {
    let keys = WHO.map(|who| format!("[[keys]]\nkey = '{}'\ntenant = '{who}'\nscopes = ['admin']\n", key(who)));
    // The model is silent for as long as the walk takes.
    World::with(&(config("step_idle_timeout = '10m'") + &keys.concat()))
}

/// The lists that are empty for somebody who has nothing.
const LISTS: [(&str, &str); 10] = [
    ("/sessions", "sessions"),
    ("/aap/v1/sessions", "sessions"),
    ("/aap/v3/sessions", "sessions"),
    ("/goose/sessions", "sessions"),
    ("/api/v1/sessions", "sessions"),
    ("/api/v1/forms", "forms"),
    ("/api/v1/artifacts", "artifacts"),
    ("/api/v1/documents", "documents"),
    ("/api/v1/permissions", "permissions"),
    ("/api/v1/usage", "usage"),
];

fn clients(world: &World) -> [Client; 3] {
    WHO.map(|who| world.client().with_key(&key(who)))
}

/// All that the owner of things can look at, answer by answer.
fn seen(things: &Things, shapes: &[Shape<'_>]) -> BTreeMap<String, Told> {
    let looks = shapes.iter().filter(|shape| shape.operation.method == "GET");
    // What is everybody's goes on, and streams of what has not ended have no end.
    let looks = looks.filter(|shape| !shape.operation.id.starts_with("ops_") && !shape.operation.streams);
    let all = looks.flat_map(|shape| {
        shape.sessions(&things.sessions).iter().map(move |names| {
            let request = shape.request(names);
            (format!("{shape}: {request:?}"), Told::new(&request.send(&things.client), &Names::new()))
        })
    });
    all.collect()
}

/// Whoever names what is another's is told the same, to the letter, as if it had never been.
#[test]
fn whatever_is_asked_it_is_not_there() {
    let world = world();
    let [ann, bob, _] = clients(&world);
    let operations = operations(&world.client());
    let mut shapes: Vec<Shape<'_>> = operations.iter().flat_map(shapes).collect();
    // What makes something comes last, so that lists are empty before.
    shapes.sort_by_key(Shape::makes);
    let things = Things::new(&ann, "all");
    let mut stream = things.running.open();
    stream.until("Once");
    let before = seen(&things, &shapes);
    for (path, list) in LISTS {
        let listed = bob.send("GET", path, "").json();
        assert_eq!(listed[list], serde_json::json!([]), "{path}: {listed}");
    }
    let mut problems = Vec::new();
    for shape in &shapes {
        let mut expected = None;
        for names in shape.sessions(&things.sessions) {
            let request = shape.request(names);
            let told = Told::new(&request.send(&bob), &shape.given(names));
            if told.status != shape.status() {
                problems.push(format!("{shape}: {request:?}\n    is told {told:?}"));
            }
            if let Some(what) = told.tells_of(&things.sessions) {
                problems.push(format!("{shape}: {request:?}\n    learns of {what}: {told:?}"));
            }
            // What is refused is refused in the same words each time.
            if expected.is_none() || shape.makes() {
                let unknown = made_up(names);
                expected = Some(Told::new(&shape.request(&unknown).send(&bob), &shape.given(&unknown)));
            }
            if shape.operation.id != "ops_metrics" && Some(&told) != expected.as_ref() {
                problems.push(format!("{shape}: {request:?}\n    is told {told:?}\n    instead of {expected:?}"));
            }
        }
    }
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));

    // Nothing has changed for her.
    let after = seen(&things, &shapes);
    for (request, told) in &before {
        assert_eq!(&after[request], told, "{request}");
    }
    things.let_go();
    stream.until("\"complete\"");
    assert_eq!(things.waiting.say("blue").kind, "form_answer");
    assert_eq!(things.waiting.complete()["final_response"], "Thanks.");
}

/// What is asked in the test above finds what it names if it is one's own: so it is nothing else that is refused there.
#[test]
fn its_owner_finds_it() {
    let world = world();
    let [ann, ..] = clients(&world);
    let operations = operations(&world.client());
    let mut shapes: Vec<Shape<'_>> = operations.iter().flat_map(shapes).collect();
    shapes.retain(|shape| !shape.kinds().is_empty() && !shape.is_named());
    // What takes something away comes last.
    shapes.sort_by_key(|shape| (shape.operation.method == "DELETE", shape.operation.method != "GET"));
    let things = Things::new(&ann, "own");
    let mut sessions = things.sessions.iter();
    let mut lost = Vec::new();
    for shape in &shapes {
        // Each of those that take a session away takes another.
        let is_end = shape.operation.method == "DELETE" && shape.kinds().contains("session");
        let names: Vec<&Names> =
            if is_end { sessions.next().into_iter().collect() } else { things.sessions.iter().collect() };
        let is_found = |names: &&Names| {
            let unknown = made_up(names);
            let told = shape.request(names).refusal(&ann, &shape.given(names));
            told.is_none() || told != shape.request(&unknown).refusal(&ann, &shape.given(&unknown))
        };
        if !names.iter().any(is_found) {
            let told = shape.request(names[0]).refusal(&ann, &shape.given(names[0]));
            lost.push(format!("{shape}: {told:?}"));
        }
    }
    things.let_go();
    assert!(lost.is_empty(), "{lost:#?}");
}

/// One name may be one's own, and another's thing is still none of it.
#[test]
fn what_is_ones_own_opens_nothing_else() {
    let world = world();
    let [ann, _, cleo] = clients(&world);
    let operations = operations(&world.client());
    let shapes: Vec<Shape<'_>> = operations.iter().flat_map(shapes).collect();
    let theirs = Things::new(&ann, "theirs");
    let own = Things::new(&cleo, "mixed");
    let before = seen(&theirs, &shapes);
    let mut problems = Vec::new();
    for shape in &shapes {
        // Names that clients give to what they send are nothing to look for.
        let is_sent = |kind: &&str| ["idempotency", "request", "message_name"].contains(kind);
        let kinds: Vec<_> = shape.kinds().into_iter().filter(|kind| !is_sent(kind)).collect();
        // Each way in which some are one's own, and some are not.
        for which in 1..(1_u32 << kinds.len()) - 1 {
            for (names, mine) in shape.sessions(&theirs.sessions).iter().zip(&own.sessions) {
                let mix = |theirs: &Names| {
                    let mut names = mine.clone();
                    let foreign = kinds.iter().enumerate().filter(|(at, _)| which >> at & 1 == 1);
                    names.extend(foreign.map(|(_, kind)| (*kind, theirs[kind].clone())));
                    names
                };
                let (mixed, unknown) = (mix(names), mix(&made_up(names)));
                let told = shape.request(&mixed).begin(&cleo, &shape.given(&mixed));
                let expected = shape.request(&unknown).begin(&cleo, &shape.given(&unknown));
                if told != expected {
                    problems.push(format!(
                        "{shape}: {:?}\n    is told {told:?}\n    instead of {expected:?}",
                        shape.request(&mixed)
                    ));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));
    let after = seen(&theirs, &shapes);
    for (request, told) in &before {
        assert_eq!(&after[request], told, "{request}");
    }
    theirs.let_go();
    own.let_go();
}
