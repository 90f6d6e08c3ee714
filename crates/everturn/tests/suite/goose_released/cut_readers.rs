//! Readers and senders that know a conversation as it was before it was cut, or its log shortened.

use serde_json::{Value, json};

use super::world::{Chat, Frame, World, kinds, said, text, uuid};
use crate::suite::harness::{Reply, eventually, script};

/// Cuts the conversation before a message of the user's, the first counted as zero.
#[track_caller]
fn cut(chat: &Chat, user: usize) {
    let all = chat.conversation();
    let is_said = |message: &&Value| message["role"] == "user";
    let id = all.iter().filter(is_said).nth(user).unwrap()["id"].clone();
    let answer = chat.send("POST", "/fork", &json!({ "message_id": id, "truncate": true, "copy": false }));
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn what_came_after_the_cut_is_shown_to_who_was_in_a_turn_that_is_gone() {
    for (name, word) in [("cut-one", "One."), ("cut-two", "Two."), ("cut-three", "Three.")] {
        script(name, [Reply::says(&[word])]);
    }
    let world = World::start();
    let chat = Chat::start(&world.client());
    chat.run(1, "play cut-one");
    let seen = chat.run(2, "play cut-two");
    cut(&chat, 1);
    chat.run(3, "play cut-three");
    let id = seen[0].id.clone().unwrap();
    let frames = chat.events_after(&id).until_finish_of(3);
    // First what has become of the conversation, then the turn that took the place of the one that is gone.
    assert_eq!(kinds(&frames), ["UpdateConversation", "Message", "Finish"]);
    let conversation = frames[0].data["conversation"].as_array().unwrap();
    assert_eq!(conversation.len(), 4, "{conversation:?}");
    assert_eq!(text(&frames[1..]), "Three.");
}

#[test]
fn a_message_that_was_cut_away_can_be_sent_again_under_its_name() {
    script("again-one", [Reply::says(&["One."])]);
    script("again-two", [Reply::says(&["Two."])]);
    script("again-three", [Reply::says(&["Three."])]);
    let world = World::start();
    let chat = Chat::start(&world.client());
    let reply = |id: &str, words: &str| {
        let mut message = said(words);
        message["id"] = json!(id);
        let body = json!({ "session_id": chat.id, "user_message": message });
        chat.client.send("POST", "/reply", &body.to_string())
    };
    assert!(reply("m1", "play again-one").body.contains("One."));
    assert!(reply("m2", "play again-two").body.contains("Two."));
    // Sent again it joins its turn; there is one answer.
    assert!(reply("m2", "play again-two").body.contains("Two."));
    cut(&chat, 1);
    let edited = reply("m2", "play again-three");
    assert!(edited.status == 200 && edited.body.contains("Three."), "{edited:?}");
    assert!(reply("m2", "play again-three").body.contains("Three."));
    assert_eq!(chat.conversation().len(), 4);
}

#[test]
fn without_a_place_a_stream_begins_with_the_last_turn() {
    script("last-one", [Reply::says(&["One."])]);
    script("last-two", [Reply::says(&["Two."])]);
    let world = World::start();
    let chat = Chat::start(&world.client());
    chat.run(1, "play last-one");
    chat.run(2, "play last-two");
    assert_eq!(text(&chat.events().until("Finish")), "Two.");
    // A number is another server's place: nothing is left out.
    let all = chat.events_after("0").until_finish_of(2);
    assert_eq!(text(&all), "One.Two.");
    assert_eq!(all.last().unwrap().data["request_id"], uuid(2));
    for wrong in ["x", "turn_1", "turn_1:", ":1", "turn_1:01", "1.5"] {
        let answer = chat.client.send_with("GET", &chat.path("/events"), &[("last-event-id", wrong)], "");
        assert_eq!(answer.status, 400, "{wrong}: {answer:?}");
    }
}

/// What a client has when it goes by the ids: pieces of one message are put together, and a conversation replaces all.
fn kept(frames: &[Frame]) -> Vec<(String, String)> {
    let mut kept: Vec<(String, String)> = Vec::new();
    let piece = |message: &Value| {
        let texts = message["content"].as_array().unwrap().iter().filter_map(|item| item["text"].as_str());
        (message["id"].as_str().unwrap().to_owned(), texts.collect::<String>())
    };
    for frame in frames {
        match frame.kind() {
            "UpdateConversation" => kept = frame.data["conversation"].as_array().unwrap().iter().map(piece).collect(),
            "Message" => {
                let (id, text) = piece(&frame.data["message"]);
                match kept.last_mut() {
                    Some((last, so_far)) if *last == id => so_far.push_str(&text),
                    _ => kept.push((id, text)),
                }
            }
            _ => {}
        }
    }
    kept.retain(|(id, text)| id.contains(".a") && !text.is_empty());
    kept
}

#[test]
fn a_shortened_log_doubles_nothing() {
    for level in ["deltas", "logs"] {
        let look = Reply::new().text("Let me ").text("see.").call("box__look", "{}").finish("tool_calls");
        let name = format!("shortened-{level}");
        script(&name, [look, Reply::says(&["It ", "is ", "fine."])]);
        let world = World::with(&format!("[retention]\ninterval = '100ms'\n{level} = '1s'\n"));
        let chat = Chat::start(&world.client());
        let before = chat.run(1, &format!("play {name}"));
        let whole = kept(&before);
        assert_eq!(whole.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["Let me see.", "It is fine."]);
        let after = eventually("the log is shortened", || {
            let frames = chat.events().until_finish_of(1);
            (frames.len() < before.len()).then_some(frames)
        });
        assert_eq!(kept(&after).last(), whole.last(), "{level}: {after:#?}");
        // Whoever saw a part and comes back has in the end what the others have.
        for (at, frame) in before.iter().enumerate().take(before.len() - 1) {
            let rest = chat.events_after(frame.id()).until_finish_of(1);
            let all: Vec<_> = before[..=at].iter().chain(&rest).cloned().collect();
            assert_eq!(kept(&all).last(), whole.last(), "{level}, after {frame:?}: {rest:#?}");
        }
    }
}
