//! Parts of completed turns that a provider refuses later: an image, a document, a tool result. None blocks its session.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use everturn_core::{Block, Content, EffectClass, Message, submission::Submission};
use everturn_models::{ModelErrorKind, ModelFinish, ModelRequest};

use super::{compaction::is_summary, harness::*};

/// What every part has in its name or text.
const MARK: &str = "odd";

/// Whether the conversation of a request has the part.
fn has_part(request: &ModelRequest) -> bool {
    request.messages.iter().any(|message| format!("{message:?}").contains(MARK))
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Image,
    Document,
    Result,
}

/// The first turn has the part, the second nothing of note. Then the provider changes its mind, and the server is started anew
/// between the turns that follow.
#[tokio::test(start_paused = true)]
async fn a_part_that_is_refused_later_does_not_block_its_session() {
    for part in [Part::Image, Part::Document, Part::Result] {
        let refuses = Arc::new(AtomicBool::new(false));
        let is_refused = Arc::clone(&refuses);
        let model = ScriptedModel::thinking("test/one", move |request| {
            let has_called = request.messages.iter().flat_map(Message::tool_uses).next().is_some();
            match () {
                () if is_refused.load(Ordering::Relaxed) && has_part(request) => vec![fail(ModelErrorKind::Rejected)],
                () if is_summary(request) => vec![say("They looked at something."), stop()],
                () if matches!(part, Part::Result) && !has_called && !is_refused.load(Ordering::Relaxed) => {
                    vec![call("peek", "{}"), stop()]
                }
                () => vec![say("Well."), stop()],
            }
        });
        let setup = Setup::with_models([model.clone()]).trusted(
            "peek",
            EffectClass::ReadOnly,
            Behaviour::Dumps("an odd result".to_owned().into()),
        );
        let mut world = World::start(setup).await;
        let mut blocks = vec![Block::Text("look".to_owned())];
        match part {
            Part::Image => blocks.push(Block::Image { url: "https://example.org/odd.png".into() }),
            Part::Document => {
                let document = world.engine.upload(&world.tenant, "odd.txt", "odd text".into(), None).await.unwrap();
                let ids = [document.id.as_str().to_owned()];
                blocks.extend(world.engine.document_blocks(&world.tenant, &ids).await.unwrap());
            }
            Part::Result => {}
        }
        let begin = Submission::Begin(vec![Message::User { content: Content::Blocks(blocks) }]);
        let started = world.submit(world.submission(begin, Default::default())).await.unwrap();
        assert!(world.transcript(&started).await.ends_with("completed\n"));
        assert!(world.act(Act::User("even")).await.ends_with("completed\n"));
        assert!(has_part(model.requests().last().unwrap()), "{part:?}");

        refuses.store(true, Ordering::Relaxed);
        let mut told = Vec::new();
        for message in ["third", "fourth"] {
            let session = world.session();
            world = world.restart_in(session).await;
            let transcript = world.act(Act::User(message)).await;
            assert!(transcript.ends_with("completed\n"), "{part:?} {message}: {transcript}");
            told.push(
                transcript.contains("earlier messages are summarised: the provider refuses one of them as it is"),
            );
        }
        assert_eq!(told, [true, false], "{part:?}: it is summarised once, for good");
        let last = model.requests().pop().unwrap();
        assert!(!has_part(&last) && format!("{:?}", last.messages).contains("even"), "{part:?}: {:?}", last.messages);
        assert!(world.act(Act::History).await.contains("third"), "people still see all of it");
    }
}

/// A provider that begins to answer and refuses then is not refusing what came before: the turn ends at once, and so do later ones.
#[tokio::test(start_paused = true)]
async fn a_refusal_within_a_call_ends_the_turn() {
    for (refused, end) in [
        (fail(ModelErrorKind::Rejected), "failed LLM_PROVIDER_ERROR (for good)"),
        (finish(ModelFinish::Refusal, None), "refused"),
    ] {
        let model = ScriptedModel::thinking("test/one", move |request| {
            let is_first = !request.messages.iter().any(|message| matches!(message, Message::Assistant { .. }));
            match is_first {
                true => vec![say("Well."), stop()],
                false => vec![call_begins(0, "peek"), refused.clone()],
            }
        });
        let setup = Setup::with_models([model.clone()]).trusted("peek", EffectClass::ReadOnly, Behaviour::Echo);
        let world = World::start(setup).await;
        assert!(world.act(Act::User("first")).await.ends_with("completed\n"));
        for message in ["second", "third", "fourth", "fifth"] {
            let before = model.requests().len();
            let transcript = world.act(Act::User(message)).await;
            let made = model.requests().len() - before;
            assert!(made <= 12, "{message}: {made} calls: {transcript}");
            assert!(transcript.contains(end), "{message}: {transcript}");
        }
    }
}
