//! Cuts at every place of a conversation: what stays, what the model is given of it, and that both sides go on.

use std::sync::{Arc, Mutex};

use everturn_core::{Block, Message, Said, SessionId};
use everturn_engine::{Cut, Submit};

use super::harness::*;

/// What the model was asked that no provider takes.
type Complaints = Arc<Mutex<Vec<String>>>;

/// A model that looks things up, asks, or answers, as the last message says, and notes what no provider would take.
pub(super) fn obliging(complaints: &Complaints) -> Arc<ScriptedModel> {
    let complaints = Arc::clone(complaints);
    ScriptedModel::thinking("test/one", move |request| {
        complaints.lock().unwrap().extend(complaint(&request.messages.to_vec()));
        if !request.system.contains("You are tested.") {
            return vec![say("A summary."), stop()];
        }
        match request.messages.last() {
            Some(Message::User { content }) => match content.text() {
                text if text.ends_with("look") => vec![say("I look."), call("look", "{}"), call("book", "{}"), stop()],
                text if text.ends_with("ask") => vec![call("look", "{}"), call("weather", "{}"), stop()],
                text => vec![think("Hm."), say(&format!("You say: {text}. {}", "word ".repeat(20))), stop()],
            },
            _ => vec![say("Done."), stop()],
        }
    })
}

pub(super) async fn conversation(world: &World, session: &SessionId) -> Vec<Said> {
    world.engine.conversation(&world.tenant, session).await.unwrap().value
}

pub(super) fn messages(said: &[Said]) -> Vec<Message> {
    said.iter().map(|said| said.message.clone()).collect()
}

/// Says something and waits for the end, answering what is asked.
pub(super) async fn talk(world: &World, submit: Submit) {
    let started = world.submit(submit).await.unwrap();
    let transcript = world.transcript(&started).await;
    if transcript.contains("waiting for result of") {
        let call = transcript.rsplit("result of ").next().and_then(|rest| rest.split(' ').next()).unwrap();
        let submit = world.answers(vec![result(Box::leak(call.to_owned().into_boxed_str()), "sun")]);
        let leg = world.submit(submit).await.unwrap();
        world.transcript(&leg).await;
    }
}

/// A session that has said all of this.
async fn world_of(complaints: &Complaints, texts: &[&str], change: impl FnOnce(Setup) -> Setup) -> World {
    let world = World::start(change(Setup::with_models([obliging(complaints)]))).await;
    for text in texts {
        let begins_history = text.starts_with("anew");
        talk(&world, Submit { begins_history, ..world.message(text) }).await;
    }
    world
}

/// Every cut that there is, with how many messages stay.
fn every_cut(said: &[Said]) -> Vec<(Cut, usize)> {
    let mut cuts = vec![(Cut::Nothing, said.len())];
    for (at, one) in said.iter().enumerate() {
        cuts.push((Cut::Before(one.id.clone()), at));
        if said.get(at + 1).is_none_or(|next| next.id.turn != one.id.turn) {
            cuts.push((Cut::Through(one.id.turn.clone()), at + 1));
        }
    }
    cuts
}

/// Forks at every place, and truncates another fork there; all of them go on, and so does a fork of the fork. Nobody else
/// sees anything of it.
async fn cut_everywhere(texts: &[&str], change: impl FnOnce(Setup) -> Setup) {
    let complaints = Complaints::default();
    let world = world_of(&complaints, texts, change).await;
    let parent = world.session();
    let said = conversation(&world, &parent).await;
    let before = world.turns().await;
    for (cut, stay) in every_cut(&said) {
        let fork = world.fork(cut.clone()).await.unwrap();
        let shortened = world.fork(Cut::Nothing).await.unwrap();
        let kept = messages(&said[..stay]);
        assert_eq!(messages(&conversation(&world, &fork).await), kept, "{cut:?}");

        let world_of_fork = |session: &SessionId| *world.session_in_view() = Some(session.clone());
        world_of_fork(&shortened);
        world.truncate(cut.clone()).await.unwrap();
        assert_eq!(messages(&conversation(&world, &shortened).await), kept, "{cut:?}");
        for session in [&fork, &shortened] {
            world_of_fork(session);
            talk(&world, world.message("go on, look")).await;
            let now = messages(&conversation(&world, session).await);
            assert_eq!(now[..stay], kept, "{cut:?}");
            assert_eq!(now[stay], Message::user("go on, look"), "{cut:?}");
            assert_eq!(now.len(), stay + 5);
        }
        // A fork of the fork, at its last word.
        let last = conversation(&world, &fork).await.pop().unwrap();
        world_of_fork(&fork);
        let second = world.fork(Cut::Before(last.id)).await.unwrap();
        assert_eq!(conversation(&world, &second).await.len(), stay + 4);
        world_of_fork(&second);
        talk(&world, world.message("and on")).await;
        assert_eq!(conversation(&world, &fork).await.len(), stay + 5);
        world_of_fork(&parent);
    }
    assert_eq!(conversation(&world, &parent).await, said);
    assert_eq!(world.turns().await, before);
    assert_eq!(*complaints.lock().unwrap(), [] as [String; 0], "the model was asked nonsense");
    // All that was made is there after a restart.
    let count = world.sessions(&world.tenant, None, 1000).await.unwrap().len();
    let world = world.restart().await;
    let rows = world.sessions(&world.tenant, None, 1000).await.unwrap();
    assert_eq!(rows.len(), count);
    for row in rows {
        world.check(&row.session.id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_conversation_can_be_cut_anywhere() {
    cut_everywhere(&["hello", "please look", "now ask", "thanks"], |setup| setup).await;
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_was_compacted_can_be_cut_anywhere() {
    let texts = ["hello", "please look", "now ask", "well", "please look", "then", "thanks"];
    let complaints = Complaints::default();
    let small = |setup: Setup| setup.agent(|agent| agent.context_window = Some(420));
    let world = world_of(&complaints, &texts, small).await;
    let given = world.engine.history(&world.tenant, &world.session()).await.unwrap().value.compacted;
    let is_summary = |block: &Block| matches!(block, Block::Text(text) if text.contains("A summary."));
    assert!(matches!(&given[0], Message::User { content } if content.blocks().iter().any(is_summary)), "{given:?}");
    cut_everywhere(&texts, small).await;
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_began_anew_can_be_cut_anywhere() {
    cut_everywhere(&["hello", "please look", "anew look", "now ask", "thanks"], |setup| setup).await;
    cut_everywhere(&["hello", "anew ask"], |setup| setup).await;
}
