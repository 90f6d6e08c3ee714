//! Drafts: an artifact is shown while the model still writes it.

use everturn_core::Event;
use everturn_models::{ModelErrorKind, ModelFinish};
use expect_test::{Expect, expect};

use super::{
    artifacts::{CREATE, POEM, answer, done, shown, streamed, writes},
    harness::*,
};

async fn check_turn(setup: Setup, expect: Expect) -> World {
    let world = World::start(setup).await;
    expect.assert_eq(&world.act(Act::User("write")).await);
    world
}

#[tokio::test(start_paused = true)]
async fn an_artifact_is_shown_while_it_is_written() {
    let gate = Gate::closed();
    let mut script = vec![
        say("I write."),
        call_begins(0, CREATE),
        input(0, r#"{"title":"Po"#),
        input(0, r#"em","type":"markdown","content":"Ro"#),
        input(0, r#"ses\na"#),
        Beat::Gate(gate.clone()),
        input(0, r#"re \"red\""}"#),
        call_ends(0, CREATE, POEM),
    ];
    script.push(stop());
    let world = World::start(writes([script, done()])).await;
    let started = world.begin("write").await;
    gate.waiting(1).await;
    until(async || world.log().await.len() == 6).await;
    expect![[r#"
        1 turn started in a new session: user: "write"
        2 step 1 with test/one
        3 text "I write."
        4 artifact a1 version 1, markdown "Poem"
        5 artifact a1 piece 0 "Ro"
        6 artifact a1 piece 1 "ses\na"
    "#]]
    .assert_eq(&world.stored().await);
    assert_eq!(world.artifacts(&world.tenant, None, None, 10).await.unwrap().len(), 0, "nothing is kept yet");
    gate.open();
    expect![[r#"
        1 turn started in a new session: user: "write"
        2 step 1 with test/one
        3 text "I write."
        4 artifact a1 version 1, markdown "Poem"
        5 artifact a1 piece 0 "Ro"
        6 artifact a1 piece 1 "ses\na"
        7 artifact a1 piece 2 "re \"red\""
        8 call c1 create_artifact{"title":"Poem","type":"markdown","content":"Roses\nare \"red\""} (inline)
        9 step finished: ToolUse, 100+10 tokens: ["I write.", c1 create_artifact{"title":"Poem","type":"markdown","content":"Roses\nare \"red\""}]
        10 intent c1 as e1 (Idempotent)
        11 artifact a1 version 1 kept, text/markdown; charset=utf-8: "Poem"
        12 result c1: "Kept as artifact a1, version 1."
        13 step 2 with test/one
        14 text "Done."
        15 step finished: Stop, 100+10 tokens: "Done."
        16 ended, 200+20 tokens: completed, a1 version 1
    "#]]
    .assert_eq(&world.transcript(&started).await);
    let artifact = world.artifacts(&world.tenant, None, None, 10).await.unwrap().remove(0);
    assert_eq!((artifact.artifact_type.as_str(), artifact.session), ("markdown", started.session.clone()));
    let content = world.artifact_content(&world.tenant, &artifact.id, 1).await.unwrap();
    assert_eq!(content.as_deref(), Some(b"Roses\nare \"red\"".as_slice()));
}

#[tokio::test(start_paused = true)]
async fn the_input_may_be_cut_anywhere() {
    let whole =
        r#"{ "type" : "text", "title":"\u00c9t\u00e9 \ud83d\ude00", "content":"a\\b\n\"é\" \ud83d\ude00 \u0041/\/" }"#;
    let content = "a\\b\n\"é\" 😀 A//";
    let chars: Vec<_> = whole.char_indices().map(|(at, c)| &whole[at..at + c.len_utf8()]).collect();
    let setup = writes([answer([streamed(0, CREATE, &chars)]), done()]);
    let world = World::start(setup).await;
    let started = world.begin("write").await;
    assert!(world.transcript(&started).await.contains(r#"version 1, text "Été 😀""#));
    let all = shown(&world, &started.turn).await;
    assert_eq!(all.iter().map(|(_, version, text)| (*version, text.as_str())).collect::<Vec<_>>(), [(1, content)]);
    for cut in 1..whole.len() {
        if whole.is_char_boundary(cut) {
            let setup = writes([answer([streamed(0, CREATE, &[&whole[..cut], &whole[cut..]])]), done()]);
            let world = World::start(setup).await;
            let started = world.begin("write").await;
            world.transcript(&started).await;
            assert_eq!(shown(&world, &started.turn).await.remove(0).2, content, "cut at {cut}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn content_that_comes_first_is_shown_once_the_title_is_known() {
    let pieces = [r#"{"content":"Roses","#, r#""type":"text","ti"#, r#"tle":"Poem"}"#];
    let setup = writes([answer([streamed(0, CREATE, &pieces)]), done()]);
    check_turn(
        setup,
        expect![[r#"
            > write
            1 turn started in a new session: user: "write"
            2 step 1 with test/one
            3 artifact a1 version 1, text "Poem"
            4 artifact a1 piece 0 "Roses"
            5 call c1 create_artifact{"content":"Roses","type":"text","title":"Poem"} (inline)
            6 step finished: ToolUse, 100+10 tokens: [c1 create_artifact{"content":"Roses","type":"text","title":"Poem"}]
            7 intent c1 as e1 (Idempotent)
            8 artifact a1 version 1 kept, text/plain; charset=utf-8: "Poem"
            9 result c1: "Kept as artifact a1, version 1."
            10 step 2 with test/one
            11 text "Done."
            12 step finished: Stop, 100+10 tokens: "Done."
            13 ended, 200+20 tokens: completed, a1 version 1
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_does_not_stream_inputs_shows_it_in_one_piece() {
    check_turn(
        writes([vec![call(CREATE, POEM), stop()], done()]),
        expect![[r#"
            > write
            1 turn started in a new session: user: "write"
            2 step 1 with test/one
            3 artifact a1 version 1, markdown "Poem"
            4 artifact a1 piece 0 "Roses\nare \"red\""
            5 call c1 create_artifact{"title":"Poem","type":"markdown","content":"Roses\nare \"red\""} (inline)
            6 step finished: ToolUse, 100+10 tokens: [c1 create_artifact{"title":"Poem","type":"markdown","content":"Roses\nare \"red\""}]
            7 intent c1 as e1 (Idempotent)
            8 artifact a1 version 1 kept, text/markdown; charset=utf-8: "Poem"
            9 result c1: "Kept as artifact a1, version 1."
            10 step 2 with test/one
            11 text "Done."
            12 step finished: Stop, 100+10 tokens: "Done."
            13 ended, 200+20 tokens: completed, a1 version 1
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_announced_call_whose_input_never_streamed_is_shown_whole() {
    let setup = writes([vec![call_begins(0, CREATE), call_ends(0, CREATE, POEM), stop()], done()]);
    let world = World::start(setup).await;
    let started = world.begin("write").await;
    world.transcript(&started).await;
    assert_eq!(shown(&world, &started.turn).await.remove(0).2, "Roses\nare \"red\"");
}

#[tokio::test(start_paused = true)]
async fn a_long_piece_is_shown_in_parts() {
    let text = "é".repeat(20_000);
    let whole = format!(r#"{{"title":"Long","type":"text","content":"{text}"}}"#);
    for script in [answer([streamed(0, CREATE, &[&whole])]), vec![call(CREATE, &whole), stop()]] {
        let world = World::start(writes([script, done()])).await;
        let started = world.begin("write").await;
        world.transcript(&started).await;
        let all = shown(&world, &started.turn).await;
        assert_eq!(all.len(), 1);
        assert!(all[0].2 == text);
        let pieces = world.log().await.iter().filter(|(_, event)| matches!(event, Event::ArtifactDelta(_))).count();
        assert_eq!(pieces, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_void_attempt_leaves_nothing_behind() {
    let cut = vec![
        call_begins(0, CREATE),
        input(0, r#"{"title":"Poem","type":"text","content":"Half"#),
        fail(ModelErrorKind::Unavailable),
    ];
    check_turn(
        writes([cut, answer([streamed(0, CREATE, &[POEM])]), done()]),
        expect![[r#"
            > write
            1 turn started in a new session: user: "write"
            2 step 1 with test/one
            3 artifact a1 version 1, text "Poem"
            4 artifact a1 piece 0 "Half"
            5 step restarted after 1, 0+0 tokens: provider says Unavailable
            6 artifact a2 version 1, markdown "Poem"
            7 artifact a2 piece 0 "Roses\nare \"red\""
            8 call c2 create_artifact{"title":"Poem","type":"markdown","content":"Roses\nare \"red\""} (inline)
            9 step finished: ToolUse, 100+10 tokens: [c2 create_artifact{"title":"Poem","type":"markdown","content":"Roses\nare \"red\""}]
            10 intent c2 as e1 (Idempotent)
            11 artifact a2 version 1 kept, text/markdown; charset=utf-8: "Poem"
            12 result c2: "Kept as artifact a2, version 1."
            13 step 2 with test/one
            14 text "Done."
            15 step finished: Stop, 100+10 tokens: "Done."
            16 ended, 200+20 tokens: completed, a2 version 1
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_is_cut_off_for_good_is_not_kept() {
    let begins = || vec![call_begins(0, CREATE), input(0, r#"{"title":"Poem","type":"text","content":"Half"#)];
    let mut broken = begins();
    broken.extend([bad_call(CREATE, r#"{"title":"Poem","type":"text","content":"Half"#), stop()]);
    let mut short = begins();
    short.push(finish(ModelFinish::MaxTokens, None));
    let mut silent = begins();
    silent.push(Beat::Silence);
    for (script, expected) in [(broken, "completed\n"), (short, "max tokens\n"), (silent, "cancelled: UserStop\n")] {
        let world = World::start(writes([script, done()])).await;
        let started = world.begin("write").await;
        if expected.contains("Stop") {
            until(async || world.log().await.len() == 4).await;
            world.stop().await.unwrap();
        }
        let transcript = world.transcript(&started).await;
        assert!(transcript.contains(r#"artifact a1 piece 0 "Half""#) && transcript.ends_with(expected), "{transcript}");
        assert_eq!(world.artifacts(&world.tenant, None, None, 10).await.unwrap().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_without_the_tool_shows_no_drafts() {
    let mut setup = writes([answer([streamed(0, CREATE, &[POEM])]), done()]);
    setup.update.tools = Some(Vec::new());
    let world = World::start(setup).await;
    let transcript = world.act(Act::User("write")).await;
    assert!(!transcript.contains("artifact a") && transcript.contains("refused"), "{transcript}");
}
