//! Artifacts: what agents write for people to keep, shown while it is being written.

use everturn_core::{ArtifactId, Event, Message, TenantId, TurnId};
use everturn_models::ModelRequest;
use expect_test::expect;

use super::harness::*;

pub(super) const CREATE: &str = "create_artifact";
const UPDATE: &str = "update_artifact";
pub(super) const POEM: &str = r#"{"title":"Poem","type":"markdown","content":"Roses\nare \"red\""}"#;

pub(super) fn writes(scripts: impl IntoIterator<Item = Script>) -> Setup {
    Setup::new(scripts).builtin(CREATE).builtin(UPDATE)
}

/// A model that makes up its script when it is called, from the last result that it was given.
fn writes_by(brain: impl FnMut(Option<&str>) -> Script + Send + 'static) -> Setup {
    let mut brain = brain;
    let last = |request: &ModelRequest| match request.messages.last() {
        Some(Message::Tool { content, .. }) => Some(content.text()),
        _ => None,
    };
    let model = ScriptedModel::thinking("test/one", move |request| brain(last(request).as_deref()));
    Setup::with_models([model]).builtin(CREATE).builtin(UPDATE)
}

pub(super) fn done() -> Script {
    vec![say("Done."), stop()]
}

/// A call whose input comes in these pieces.
pub(super) fn streamed(part: u32, name: &str, pieces: &[&str]) -> Script {
    let mut script = vec![call_begins(part, name)];
    script.extend(pieces.iter().map(|piece| input(part, piece)));
    script.push(call_ends(part, name, &pieces.concat()));
    script
}

pub(super) fn answer(calls: impl IntoIterator<Item = Script>) -> Script {
    calls.into_iter().flatten().chain([stop()]).collect()
}

/// What was shown of each artifact of a turn while it was written, in order of appearance.
pub(super) async fn shown(world: &World, turn: &TurnId) -> Vec<(ArtifactId, u32, String)> {
    let mut shown: Vec<(ArtifactId, u32, String)> = Vec::new();
    let mut pieces = 0;
    for (_, event) in world.log_of(turn).await {
        match event {
            Event::ArtifactStarted(started) => {
                shown.push((started.id, started.version, String::new()));
                pieces = 0;
            }
            Event::ArtifactDelta(delta) => {
                let (id, _, text) = shown.last_mut().expect("announced before it is shown");
                assert_eq!((&delta.id, delta.index), (&*id, pieces), "pieces are counted");
                assert!(!delta.text.is_empty() && delta.text.len() <= 16 * 1024, "{} bytes", delta.text.len());
                text.push_str(&delta.text);
                pieces += 1;
            }
            _ => {}
        }
    }
    shown
}

/// The id that a result names.
fn named(result: &str) -> String {
    let id = result.split_whitespace().find(|word| word.starts_with("art_")).expect("the result names the artifact");
    id.trim_end_matches(',').to_owned()
}

#[tokio::test(start_paused = true)]
async fn an_update_is_the_next_version() {
    let setup = writes_by(|last| match last {
        None => vec![call(CREATE, POEM), stop()],
        Some(result) if result.ends_with("version 1.") => {
            let id = named(result);
            let two = [format!(r#"{{"artifact_id":"{id}","#), r#""content":"Violets"}"#.to_owned()];
            let three = format!(r#"{{"title":"Song","artifact_id":"{id}","content":"are blue"}}"#);
            // Two versions in one answer: each has its number from the beginning.
            answer([streamed(1, UPDATE, &[&two[0], &two[1]]), streamed(2, UPDATE, &[&three])])
        }
        Some(_) => done(),
    });
    let world = World::start(setup).await;
    let started = world.begin("write").await;
    let transcript = world.transcript(&started).await;
    let kept: String =
        transcript.lines().filter(|line| line.contains("artifact a1")).map(|l| format!("{l}\n")).collect();
    expect![[r#"
        3 artifact a1 version 1, markdown "Poem"
        4 artifact a1 piece 0 "Roses\nare \"red\""
        8 artifact a1 version 1 kept, text/markdown; charset=utf-8: "Poem"
        9 result c1: "Kept as artifact a1, version 1."
        11 artifact a1 version 2, markdown "Poem"
        12 artifact a1 piece 0 "Violets"
        14 artifact a1 version 3, markdown "Song"
        15 artifact a1 piece 0 "are blue"
        20 artifact a1 version 2 kept, text/markdown; charset=utf-8: "Poem"
        21 result c2: "Kept as artifact a1, version 2."
        22 artifact a1 version 3 kept, text/markdown; charset=utf-8: "Song"
        23 result c3: "Kept as artifact a1, version 3."
    "#]]
    .assert_eq(&kept);
    assert!(transcript.ends_with("completed, a1 version 3\n"), "{transcript}");
    let id = world.artifacts(&world.tenant, None, None, 10).await.unwrap().remove(0).id;
    for (version, content) in [(1, "Roses\nare \"red\""), (2, "Violets"), (3, "are blue")] {
        let kept = world.artifact_content(&world.tenant, &id, version).await.unwrap();
        assert_eq!(kept.as_deref(), Some(content.as_bytes()), "version {version}");
    }
    assert_eq!(world.artifact_content(&world.tenant, &id, 4).await, Ok(None));
    let artifact = world.artifact(&world.tenant, &id).await.unwrap().expect("it is kept");
    assert_eq!(
        artifact.versions.iter().map(|version| version.title.as_str()).collect::<Vec<_>>(),
        ["Poem", "Poem", "Song"]
    );
}

#[tokio::test(start_paused = true)]
async fn what_there_is_not_cannot_be_updated() {
    for id in ["art_none", "no id at all", ""] {
        let update = format!(r#"{{"artifact_id":"{id}","content":"mine"}}"#);
        for script in [vec![call(UPDATE, &update), stop()], answer([streamed(0, UPDATE, &[&update])])] {
            let world = World::start(writes([script, done()])).await;
            let started = world.begin("change it").await;
            let transcript = world.transcript(&started).await;
            assert!(transcript.contains("result c1 error") && transcript.ends_with("completed\n"), "{transcript}");
            assert_eq!(shown(&world, &started.turn).await, [], "nothing is shown of it");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_artifact_belongs_to_its_session() {
    let id = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let setup = writes_by({
        let id = std::sync::Arc::clone(&id);
        move |last| match last {
            None if id.lock().unwrap().is_empty() => vec![call(CREATE, POEM), stop()],
            None => {
                let update = format!(r#"{{"artifact_id":"{}","content":"mine"}}"#, id.lock().unwrap());
                answer([streamed(0, UPDATE, &[&update])])
            }
            Some(result) => {
                if result.contains("Kept") {
                    *id.lock().unwrap() = named(result);
                }
                done()
            }
        }
    });
    let world = World::start(setup).await;
    world.act(Act::User("write")).await;
    world.new_session();
    let transcript = world.act(Act::User("change it")).await;
    assert!(transcript.contains(r#"error: "Error: there is no artifact a1 in this session""#), "{transcript}");
    let artifact = world.artifacts(&world.tenant, None, None, 10).await.unwrap().remove(0);
    assert_eq!(artifact.versions.len(), 1);
    let other = TenantId::mint();
    assert!(world.artifact(&other, &artifact.id).await.unwrap().is_none());
    assert_eq!(world.artifact_content(&other, &artifact.id, 1).await, Ok(None));
    assert_eq!(world.artifacts(&world.tenant, Some(world.session()), None, 10).await.unwrap().len(), 0);
    assert_eq!(world.artifacts(&world.tenant, Some(artifact.session.clone()), None, 10).await.unwrap().len(), 1);
    world.delete(&world.tenant, &artifact.session, None).await.unwrap();
    assert_eq!(world.artifact_content(&world.tenant, &artifact.id, 1).await, Ok(None), "it outlived its session");
}

#[tokio::test(start_paused = true)]
async fn content_that_is_too_large_is_not_kept_and_the_model_hears_why() {
    let large = format!(r#"{{"title":"Large","type":"text","content":"{}"}}"#, "x".repeat(200));
    let cut = 80;
    for script in [answer([streamed(0, CREATE, &[&large[..cut], &large[cut..]])]), vec![call(CREATE, &large), stop()]] {
        let setup = writes([script, done()]).settings(|settings| settings.artifact_bytes = 100);
        let world = World::start(setup).await;
        let transcript = world.act(Act::User("write")).await;
        let told = r#"error: "Error: the content has 200 bytes, the limit is 100; make it shorter""#;
        assert!(transcript.contains(told), "{transcript}");
        assert!(transcript.ends_with("completed\n"), "{transcript}");
        assert_eq!(world.artifacts(&world.tenant, None, None, 10).await.unwrap().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_allows_is_not_kept() {
    let mut setup = writes([answer([streamed(0, CREATE, &[POEM])]), done()]);
    for tool in setup.update.tools.iter_mut().flatten() {
        tool.trust = false;
    }
    let world = World::start(setup).await;
    world.act(Act::User("write")).await;
    let transcript = world.act(Act::Answers(vec![deny("c1", None)])).await;
    assert!(transcript.ends_with("completed\n"), "{transcript}");
    assert_eq!(world.artifacts(&world.tenant, None, None, 10).await.unwrap().len(), 0);
}

/// The process dies with each commit in turn, kept or not: in the end there is one version of each number, no more.
#[tokio::test(start_paused = true)]
async fn a_crash_at_every_point_keeps_each_version_once() {
    for commit in 1..22 {
        for kept in [false, true] {
            let setup = writes_by(|last| match last {
                None => vec![call(CREATE, POEM), stop()],
                Some(result) if result.ends_with("version 1.") => {
                    let update = format!(r#"{{"artifact_id":"{}","content":"Violets"}}"#, named(result));
                    answer([streamed(0, UPDATE, &[&update])])
                }
                Some(_) => done(),
            });
            let mut world = World::start(setup).await;
            let dying = CrashStore::new(world.store.clone(), Some(Death { commit, kept }));
            world.engine = world.setup.start(dying.clone()).await.unwrap();
            tokio::select! { _ = world.act(Act::User("write")) => {}, () = dying.dead() => {} }
            let sessions = world.sessions(&world.tenant, None, 10).await.unwrap();
            let Some(row) = sessions.first() else { continue };
            let world = world.restart_in(row.session.id.clone()).await;
            // The records are checked against the log.
            let transcript = world.rested().await;
            let at = format!("commit {commit}, kept: {kept}\n{transcript}");
            assert!(transcript.contains("completed, a") && transcript.ends_with("version 2\n"), "{at}");
            let artifacts = world.artifacts(&world.tenant, None, None, 10).await.unwrap();
            assert_eq!(artifacts.iter().map(|artifact| artifact.versions.len()).collect::<Vec<_>>(), [2], "{at}");
        }
    }
}
