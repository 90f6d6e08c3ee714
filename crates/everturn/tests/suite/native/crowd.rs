//! Many who speak to one session at the same moment: nobody is turned away who need not be.

use serde_json::json;

use super::world::{Turn, World, spawn};
use crate::suite::harness::{Reply, eventually, script};

const SPAWN: &str = "/api/v1/sessions/stream";
const CROWD: usize = 24;

/// A turn that waits for longer than the test takes.
fn resting(world: &World, name: &str) -> Turn {
    script(name, [Reply::calls(&[("wait", json!({ "seconds": 3600 }))])]);
    let turn = spawn(&world.client(), &json!({ "agent_id": "writer", "message": format!("play {name}") }));
    turn.paused();
    turn
}

/// What each of a crowd is answered that posts at once.
fn post_at_once(turn: &Turn, name: &str, on_busy: &str) -> Vec<(u16, String)> {
    script(name, (0..CROWD).map(|_| Reply::says(&["Hello."])));
    let body = |place: usize| {
        // Each says something else, so that none is taken for another.
        let message = format!("play {name}{}", " ".repeat(place));
        json!({ "session_id": turn.session, "message": message, "on_busy": on_busy })
    };
    std::thread::scope(|scope| {
        let posts: Vec<_> = (0..CROWD)
            .map(|place| scope.spawn(move || turn.client.send("POST", SPAWN, &body(place).to_string())))
            .collect();
        let answers = posts.into_iter().map(|post| post.join().unwrap());
        answers.map(|answer| (answer.status, answer.json()["kind"].to_string())).collect()
    })
}

#[test]
fn all_of_them_are_queued() {
    let world = World::start("");
    let turn = resting(&world, "crowd-rest-1");
    let answers = post_at_once(&turn, "crowd-queued", "enqueue");
    assert_eq!(answers, vec![(202, "\"queued\"".to_owned()); CROWD]);
    let shown = world.client().send("GET", &format!("/api/v1/sessions/{}", turn.session), "").json();
    assert_eq!(shown["queue"].as_array().map(Vec::len), Some(CROWD));
}

#[test]
fn the_last_of_them_has_the_word() {
    let world = World::start("");
    let turn = resting(&world, "crowd-rest-2");
    let answers = post_at_once(&turn, "crowd-interrupts", "interrupt");
    assert_eq!(answers, vec![(202, "\"new_turn\"".to_owned()); CROWD]);
    let path = format!("/api/v1/sessions/{}/messages?limit=100", turn.session);
    let ended = eventually("one turn completes, the others are superseded", || {
        let page = world.client().send("GET", &path, "").json();
        let turns = page["messages"].as_array().unwrap().clone();
        turns.iter().all(|turn| turn["ended_at"].is_string()).then_some(turns)
    });
    assert_eq!(ended.len(), CROWD + 1);
    assert!(ended.iter().any(|turn| turn["status"] == "completed"));
}

/// The second answer may come while the turn still works on the first.
#[test]
fn answers_come_right_after_each_other() {
    let world = World::start("");
    let client = world.client();
    for (round, in_words) in [(0, true), (1, false), (2, true), (3, false), (4, true), (5, false)] {
        let name = format!("crowd-answers-{round}");
        let calls: Vec<_> = (0..4).map(|_| ("calculator", json!({ "expression": "6*7" }))).collect();
        script(&name, [Reply::calls(&calls), Reply::says(&["All four."])]);
        let tools = json!([{ "name": "calculator", "trust": false }]);
        let turn = spawn(&client, &json!({ "agent_id": "writer", "message": format!("play {name}"), "tools": tools }));
        let asked = turn.frames();
        let forms: Vec<_> = asked.iter().filter(|frame| frame.kind() == "form_request").collect();
        assert_eq!(forms.len(), 4);
        for form in forms {
            let body = if in_words {
                json!({ "session_id": turn.session, "message": "yes" })
            } else {
                let (id, yes) = (&form.data["form_id"], json!({ "approved": true }));
                json!({ "session_id": turn.session, "form_id": id, "form_answer": yes })
            };
            let answer = client.send("POST", SPAWN, &body.to_string());
            assert_eq!((answer.status, &answer.json()["kind"]), (202, &json!("form_answer")), "{round}: {answer:?}");
        }
        assert_eq!(turn.complete()["final_response"], "All four.");
    }
}

/// A cursor within an event means the same in every view of it.
#[test]
fn a_cursor_moves_from_view_to_view() {
    let world = World::start("");
    let calls = Reply::new().text("Let me see.").call("clock", "{}").call("calculator", r#"{"expression":"1+1"}"#);
    script("crowd-views", [calls.finish("tool_calls"), Reply::says(&["So."])]);
    let turn = spawn(&world.client(), &json!({ "agent_id": "writer", "message": "play crowd-views" }));
    turn.complete();
    let read = |view: &str, id: &str| {
        let headers = [("last-event-id", id)];
        let path = format!("{}/stream?as={view}", turn.path());
        world.client().send_with("GET", &path, &headers, "").body
    };
    let whole = read("aap-message", "1");
    let text = whole.lines().skip_while(|line| *line != "event: text").nth(1).unwrap();
    let (event, part) = text.strip_prefix("id: ").unwrap().split_once('.').unwrap();
    assert_eq!(part, "1", "the text comes before the calls");
    for view in ["aap-delta", "aap-message"] {
        let rest = read(view, &format!("{event}.1"));
        assert_eq!(rest.matches("event: tool_call\n").count(), 2, "{view}: {rest}");
        let rest = read(view, &format!("{event}.2"));
        assert_eq!(rest.matches("event: tool_call\n").count(), 1, "{view}: {rest}");
    }
    for never in [format!("{event}.9"), "03".to_owned(), "3.0".to_owned(), format!("{event}.")] {
        assert!(read("native", &never).contains("CURSOR_INVALID"), "{never}");
    }
}
