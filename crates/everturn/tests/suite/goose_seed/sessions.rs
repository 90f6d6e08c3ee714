//! Sessions and turns: which one a message is for, what is said twice, and who may say it.

use serde_json::{Value, json};

use super::{
    transcript::tokens,
    world::{Door, Stream, World, frames, kinds, logged, refusal, rest, says, text, until},
};
use crate::suite::harness::{Client, Gate, Reply, asked, eventually, key, script};

fn named(mut body: Value, id: &str) -> Value {
    body["user_message"]["id"] = json!(id);
    body
}

#[test]
fn one_that_is_not_there_is_made() {
    let world = World::start();
    script("seed-made", (0..6).map(|_| Reply::says(&["Hello."])));
    for (door, ids) in Door::BOTH.into_iter().zip([["session-abc123", "A.b_c-9"], ["20260304_1", "x"]]) {
        for id in ids {
            let missing = world.client().send("GET", &format!("/goose/sessions/{id}"), "");
            assert_eq!(refusal(&missing).0, 404);
            let stream = world.post(door, &says(id, "play seed-made"));
            assert_eq!((stream.session.as_str(), stream.text().as_str()), (id, "Hello."));
            assert_eq!((&world.session(id)["id"], &world.session(id)["agent"]), (&json!(id), &json!("goose")));
        }
        // Without a name it gets one, and each is its own.
        let body = json!({ "user_message": { "content": "play seed-made" } });
        let stream = world.post(door, &body);
        assert!(stream.session.starts_with("sess_"), "{stream:?}");
        assert_eq!(world.session(&stream.session)["message_count"], 2);
    }
    let longest = "s".repeat(128);
    script("seed-longest", [Reply::says(&["Hello."])]);
    assert_eq!(world.post(Door::Described, &says(&longest, "play seed-longest")).session, longest);
    // Another tenant has sessions of its own by the same names.
    let bob = world.server.client().with_key(&key("bob"));
    assert_eq!(refusal(&bob.send("GET", "/goose/sessions/x", "")).0, 404);
    script("seed-bob", [Reply::says(&["Hello, Bob."])]);
    let stream = Stream::of(bob.send("POST", "/reply", &says("x", "play seed-bob").to_string()));
    assert_eq!(stream.text(), "Hello, Bob.");
    assert_eq!(asked("seed-bob")[0]["messages"].as_array().unwrap().len(), 1);
    assert_eq!(world.session("x")["message_count"], 2);
}

#[test]
fn keys_at_both_doors() {
    let world = World::start();
    script("seed-keys", (0..4).map(|_| Reply::says(&["Hello."])));
    let nobody = world.server.client();
    let send = |client: &Client, door: Door, headers: &[(&str, &str)]| {
        let headers = [&[("content-type", "application/json")], headers].concat();
        client.send_with("POST", door.path(), &headers, says("s", "play seed-keys").to_string())
    };
    for door in Door::BOTH {
        let (secret, bearer) = (key("acme"), format!("Bearer {}", key("acme")));
        assert_eq!(send(&nobody, door, &[("x-secret-key", &secret)]).status, 200);
        assert_eq!(send(&nobody, door, &[("authorization", &bearer)]).status, 200);
        let (status, message) = refusal(&send(&nobody, door, &[]));
        assert!(status == 401 && message.contains("X-Secret-Key") && message.contains("Bearer"), "{message}");
        assert_eq!(refusal(&send(&nobody, door, &[("x-secret-key", "wrong")])).0, 401);
        assert_eq!(
            refusal(&send(
                &world.server.client(),
                door,
                &[("authorization", "Bearer wrong"), ("x-secret-key", &secret)]
            ))
            .0,
            401
        );
        let (status, message) = refusal(&world.client().send("GET", door.path(), ""));
        assert_eq!(status, 405, "{message}");
        let (status, _) =
            refusal(&world.client().send_with("POST", door.path(), &[("content-type", "text/plain")], "{}"));
        assert_eq!(status, 415);
        assert_eq!(refusal(&world.client().send("POST", door.path(), "{")).0, 400);
    }
    assert_eq!(asked("seed-keys").len(), 4);
}

/// The same message again is shown what comes of the first: while it runs, when it is over, and after the server died.
#[test]
fn the_same_message_again_is_the_same_turn() {
    let mut world = World::start();
    for door in Door::BOTH {
        let (name, gate, never) = (format!("seed-same-{}", door.view()), Gate::default(), Gate::default());
        script(&name, [Reply::new().text("One ").hold(&gate).text("two.").stops()]);
        let body = named(says(&name, &format!("play {name}")), "m1");
        let mut first = world.open(door, &body);
        until(&mut first, "One ");
        let mut second = world.open(door, &body);
        assert_eq!(second.header("x-message-id"), first.header("x-message-id"));
        let seen = until(&mut second, "One ");
        gate.open();
        let seen = [logged(&seen), logged(&rest(&mut second))].concat();
        assert_eq!(text(&seen), "One two.", "from the beginning");
        let again = world.post(door, &body);
        assert_eq!(logged(&again.frames), seen);
        world.crash();
        assert_eq!(logged(&world.post(door, &body).frames), seen);
        assert_eq!(asked(&name).len(), 1);
        assert_eq!(world.session(&name)["message_count"], 2);

        // Killed in the middle: who asks again is shown all of it, and nobody is asked twice but the model.
        let killed = format!("{name}-killed");
        script(&killed, [Reply::new().text("Not ").hold(&never), Reply::says(&["All ", "of it."])]);
        let body = named(says(&name, &format!("play {killed}")), "m2");
        let mut stream = world.open(door, &body);
        until(&mut stream, "Not ");
        world.crash();
        let stream = world.post(door, &body);
        assert_eq!(stream.reason(), "stop");
        assert!(stream.text().ends_with("All of it."), "{:#?}", stream.frames);
        assert!(stream.frames.iter().any(|frame| frame.kind() == "UpdateConversation"), "{:#?}", stream.frames);
        assert_eq!(world.session(&name)["message_count"], 4);
        let kept = world.session(&name)["conversation"][3]["content"][0]["text"].clone();
        assert_eq!(kept, "All of it.");

        // Other words under the same name are refused; the same name in another session is another message.
        let (status, message) = world.refused(door, &named(says(&name, "other words"), "m2"));
        assert!(status == 409 && message.contains("\"m2\""), "{message}");
        let elsewhere = format!("{name}-elsewhere");
        script(&elsewhere, [Reply::says(&["Elsewhere."])]);
        assert_eq!(world.post(door, &named(says(&elsewhere, &format!("play {elsewhere}")), "m2")).text(), "Elsewhere.");
    }
}

#[test]
fn idempotency_keys() {
    let mut world = World::start();
    for door in Door::BOTH {
        let name = format!("seed-idem-{}", door.view());
        script(&name, [Reply::says(&["Once."]), Reply::says(&["Anew."])]);
        let body = says(&name, &format!("play {name}")).to_string();
        let idem = format!("{name}-key");
        let headers = [("content-type", "application/json"), ("idempotency-key", idem.as_str())];
        let send = |world: &World, door: Door, body: &str| {
            world.client().send_with("POST", door.path(), &headers, body.to_owned())
        };
        let first = Stream::of(send(&world, door, &body));
        let again = Stream::of(send(&world, door, &body));
        assert_eq!((&again.turn, logged(&again.frames)), (&first.turn, logged(&first.frames)));
        world.crash();
        let other = Stream::of(send(&world, door.other(), &body));
        assert_eq!((&other.turn, other.text().as_str()), (&first.turn, "Once."));
        let (status, message) = refusal(&send(&world, door, &says(&name, "other words").to_string()));
        assert!(status == 409 && message.contains(&idem), "{message}");
        // Without the key it is said again.
        let stream = Stream::of(world.client().send("POST", door.path(), &body));
        assert_eq!((stream.text().as_str(), stream.turn == first.turn), ("Anew.", false));
        let wrong = [("content-type", "application/json"), ("idempotency-key", "two words")];
        let refused = world.client().send_with("POST", door.path(), &wrong, body.clone());
        assert_eq!(refusal(&refused).0, 400);
        assert_eq!(asked(&name).len(), 2);
    }
}

#[test]
fn one_turn_at_a_time() {
    let world = World::start();
    for door in Door::BOTH {
        let (name, gate) = (format!("seed-busy-{}", door.view()), Gate::default());
        script(&name, [Reply::new().text("Wait").hold(&gate).text(" for me.").stops(), Reply::says(&["Now."])]);
        let body = says(&name, &format!("play {name}"));
        let mut stream = world.open(door, &body);
        until(&mut stream, "Wait");
        for other in Door::BOTH {
            let (status, message) = world.refused(other, &body);
            assert!(status == 409 && message.contains("active request"), "{message}");
        }
        gate.open();
        assert_eq!(text(&rest(&mut stream)), " for me.");
        assert_eq!(world.post(door, &body).text(), "Now.");
        assert_eq!(asked(&name).len(), 2);
    }
}

/// Who takes events is told in events that the session is busy, who does not in JSON; with the same status.
#[test]
fn a_busy_session_is_told_in_events() {
    let world = World::start();
    for door in Door::BOTH {
        let (name, gate) = (format!("seed-busy-events-{}", door.view()), Gate::default());
        let first = Reply::says(&["First."]);
        script(&name, [first, Reply::new().text("Wait").hold(&gate).text(" for me.").stops()]);
        let body = says(&name, &format!("play {name}"));
        world.post(door, &body);
        let mut stream = world.open(door, &body);
        until(&mut stream, "Wait");
        let ask = |accept: &str| {
            let headers = [("content-type", "application/json"), ("accept", accept)];
            world.client().send_with("POST", door.path(), &headers, body.to_string())
        };
        let answer = ask("text/event-stream");
        assert_eq!((answer.status, answer.header("content-type")), (409, "text/event-stream"), "{answer:?}");
        let seen = frames(&answer.body);
        assert_eq!(kinds(&seen), ["Error", "Finish"]);
        assert!(seen[0].data["error"].as_str().unwrap().contains("active request"), "{seen:#?}");
        assert_eq!(seen[1].data["reason"], "error");
        let used = tokens(door, &seen[1].data["token_state"]);
        // The described door tells what this turn used, which is nothing, the other what was used last.
        assert_eq!(used[3..], [10, 5, 15]);
        assert_eq!(used[..3], if door == Door::Described { [0, 0, 0] } else { [10, 5, 15] });
        assert_eq!(ask("*/*").header("content-type").contains("event-stream"), door == Door::Described);
        for accept in ["application/json", "application/json, text/plain, */*"] {
            let (status, message) = refusal(&ask(accept));
            assert!(status == 409 && message.contains("active request"), "{message}");
        }
        gate.open();
        assert_eq!(text(&rest(&mut stream)), " for me.");
        assert_eq!(asked(&name).len(), 2);
    }
}

/// Nobody has to listen for a turn to go on.
#[test]
fn a_client_that_goes_away_stops_nothing() {
    let world = World::start();
    for door in Door::BOTH {
        let (name, gate) = (format!("seed-gone-{}", door.view()), Gate::default());
        let call = Reply::new().text("I ").hold(&gate).call("calculator", r#"{"expression":"6*7"}"#);
        script(&name, [call.finish("tool_calls"), Reply::says(&["It is 42."])]);
        let body = named(says(&name, &format!("play {name}")), "m1");
        let mut stream = world.open(door, &body);
        until(&mut stream, "\"I \"");
        drop(stream);
        assert!(!gate.is_left(), "the model is still listened to");
        gate.open();
        let said = eventually("the turn is over", || {
            let session = world.session(&name);
            let last = session["conversation"].as_array().unwrap().last()?["content"][0]["text"].clone();
            (session["accumulated_total_tokens"] == 30).then_some((session["message_count"].clone(), last))
        });
        assert_eq!(said, (json!(4), json!("It is 42.")));
        let stream = world.post(door, &body);
        assert_eq!((stream.text().as_str(), stream.reason()), ("I It is 42.", "stop"));
        assert_eq!(asked(&name).len(), 2);
    }
}

#[test]
fn a_deleted_session_is_gone() {
    let world = World::start();
    script("seed-deleted", [Reply::says(&["Hello."])]);
    world.post(Door::Described, &says("gone", "play seed-deleted"));
    assert_eq!(world.client().send("DELETE", "/goose/sessions/gone", "").status, 200);
    for door in Door::BOTH {
        let (status, message) = world.refused(door, &says("gone", "play seed-deleted"));
        assert!(status == 410 && message.contains("deleted"), "{message}");
    }
}

/// A message's id names it within its session: what begins sessions may have the same id, also from two people of a tenant.
#[test]
fn a_name_without_a_session() {
    let world = World::start();
    for door in Door::BOTH {
        let name = format!("seed-sole-{}", door.view());
        script(&name, [Reply::says(&["Ann's."]), Reply::says(&["Bert's."]), Reply::says(&["Once."])]);
        let body = json!({ "user_message": { "id": name, "content": format!("play {name}") } });
        let (ann, bert) =
            (world.post(door, &body), Stream::of(world.admin().send("POST", door.path(), &body.to_string())));
        assert_eq!((ann.text().as_str(), bert.text().as_str()), ("Ann's.", "Bert's."));
        assert!(ann.session != bert.session && ann.turn != bert.turn, "they share nothing");
        // Who wants to send it again gives the request itself a name.
        let idem = format!("{name}-key");
        let headers = [("content-type", "application/json"), ("idempotency-key", idem.as_str())];
        let [first, again] =
            [(); 2].map(|()| Stream::of(world.client().send_with("POST", door.path(), &headers, body.to_string())));
        assert_eq!((&first.session, &first.turn, first.text()), (&again.session, &again.turn, again.text()));
        assert_eq!(asked(&name).len(), 3);
    }
}

/// An older message is shown again also while a newer one is worked on.
#[test]
fn an_older_message_again_while_the_session_is_busy() {
    let world = World::start();
    let gate = Gate::default();
    script("seed-older", [Reply::says(&["Old."]), Reply::new().text("New").hold(&gate).stops()]);
    let old = named(says("older", "play seed-older"), "m1");
    let first = world.post(Door::Described, &old);
    let mut stream = world.open(Door::Described, &named(says("older", "play seed-older"), "m2"));
    until(&mut stream, "New");
    for door in Door::BOTH {
        let again = world.post(door, &old);
        assert_eq!((&again.turn, again.text().as_str()), (&first.turn, "Old."));
    }
    gate.open();
    assert_eq!(rest(&mut stream).last().unwrap().kind(), "Finish");
    assert_eq!(asked("seed-older").len(), 2);
}

/// Sent many times at once, whoever comes first is taken, and all are shown the same.
#[test]
fn many_at_once() {
    let world = World::start();
    for door in Door::BOTH {
        let (name, gate) = (format!("seed-once-{}", door.view()), Gate::default());
        script(&name, [Reply::new().text("Only").hold(&gate).text(" once.").stops(), Reply::says(&["Never said."])]);
        let body = named(says(&name, &format!("play {name}")), "m1").to_string();
        let other = says(&name, &format!("play {name} otherwise")).to_string();
        let client = world.client();
        let streams: Vec<_> = std::thread::scope(|scope| {
            let posts: Vec<_> = (0..8).map(|_| scope.spawn(|| client.open("POST", door.path(), &body))).collect();
            posts.into_iter().map(|post| post.join().unwrap()).collect()
        });
        // The session is busy for all others, whichever of them comes first.
        let refused: Vec<_> = std::thread::scope(|scope| {
            let posts: Vec<_> = (0..4).map(|_| scope.spawn(|| client.send("POST", door.path(), &other))).collect();
            posts.into_iter().map(|post| refusal(&post.join().unwrap()).0).collect()
        });
        assert_eq!(refused, [409; 4]);
        gate.open();
        let turns: Vec<_> = streams.iter().map(|stream| stream.header("x-message-id").to_owned()).collect();
        assert!(turns.iter().all(|turn| !turn.is_empty() && *turn == turns[0]), "{turns:?}");
        for mut stream in streams {
            assert_eq!(text(&rest(&mut stream)), "Only once.");
        }
        assert_eq!(asked(&name).len(), 1);
        assert_eq!(world.session(&name)["message_count"], 2);
    }
}
