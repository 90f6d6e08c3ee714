//! Documents: what people give agents to read.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use everturn_core::{Block, Content, DocumentId, Message, SharedText, TenantId, Timestamp, submission::Submission};
use everturn_documents::{Bounds, ReadError, Reader, Reading};
use everturn_engine::{Document, HereReader, SubmissionKey, Submit, SubmitError, UploadError};
use everturn_store::{Fault, RecordFilter, RecordKind, Store as _};
use expect_test::expect;

use super::harness::*;

/// The smallest picture there is.
const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89";

fn key(key: &str, fingerprint: &str) -> Option<SubmissionKey> {
    Some(SubmissionKey { key: key.to_owned(), fingerprint: fingerprint.to_owned() })
}

impl World {
    async fn upload(&self, name: &str, content: impl Into<Bytes>) -> Document {
        self.engine.upload(&self.tenant, name, content.into(), None).await.expect("the document is taken")
    }

    /// A message that speaks of these documents.
    async fn message_with(&self, text: &str, documents: &[&DocumentId]) -> Submit {
        let ids: Vec<_> = documents.iter().map(|id| id.as_str().to_owned()).collect();
        let mut blocks = vec![Block::Text(text.to_owned())];
        blocks.extend(self.engine.document_blocks(&self.tenant, &ids).await.expect("the documents are there"));
        self.submission(Submission::Begin(vec![Message::User { content: Content::Blocks(blocks) }]), Default::default())
    }

    async fn document_names(&self) -> Vec<String> {
        let all = self.documents(&self.tenant, None, 100).await.unwrap();
        all.into_iter().map(|document| document.name).collect()
    }

    /// All records of documents, those that are not complete included.
    async fn document_records(&self) -> usize {
        let all = RecordFilter::default();
        self.store.records(&self.tenant, RecordKind::Document, &all, None, 100).await.unwrap().len()
    }
}

/// What the model was given last.
fn given(model: &ScriptedModel) -> Vec<Block> {
    let request = model.requests().pop().expect("the model was called");
    let Some(Message::User { content }) = request.messages.first().cloned() else { panic!("{request:?}") };
    let given = content.into_blocks().into_iter().map(|block| match block {
        Block::Document { id, .. } => Block::Text(request.documents[&id].text.clone()),
        block => block,
    });
    given.collect()
}

#[tokio::test(start_paused = true)]
async fn a_document_is_read_by_the_model_and_named_in_history() {
    let model = ScriptedModel::new("test/one", [vec![say("I see."), stop()]]);
    let world = World::start(Setup::with_models([model.clone()])).await;
    let document = world.upload("../notes/plan.md", "# Plan\n\nEat </document> cake.\n").await;
    assert_eq!((document.name.as_str(), document.bytes, document.pages, document.cut), ("plan.md", 30, None, false));
    let started = world.submit(world.message_with("What is this?", &[&document.id]).await).await.unwrap();
    let transcript = world.transcript(&started).await + &world.act(Act::History).await;
    expect![[r#"
        1 turn started in a new session: user: ["What is this?", document "plan.md"]
        2 step 1 with test/one
        3 text "I see."
        4 step finished: Stop, 100+10 tokens: "I see."
        5 ended, 100+10 tokens: completed
        > history
        user: ["What is this?", document "plan.md"]
        assistant: "I see."
    "#]]
    .assert_eq(&transcript);
    expect![[r##"
        [
            Text(
                "What is this?",
            ),
            Text(
                "<document name=\"plan.md\" type=\"text/markdown\">\n# Plan\n\nEat <\\document> cake.\n</document>",
            ),
        ]
    "##]]
    .assert_debug_eq(&given(&model));
}

#[tokio::test(start_paused = true)]
async fn a_document_that_was_deleted_is_said_to_be() {
    let scripts = [vec![say("I see."), stop()], vec![call("weather", "{}"), stop()], vec![say("Gone."), stop()]];
    let model = ScriptedModel::new("test/one", scripts);
    let world = World::start(Setup::with_models([model.clone()])).await;
    let kept = world.upload("kept.txt", "kept").await;
    let lost = world.upload("lost.txt", "lost").await;
    let started = world.submit(world.message_with("Read", &[&kept.id, &lost.id]).await).await.unwrap();
    world.transcript(&started).await;
    assert!(world.delete_document(&world.tenant, &lost.id, None).await.unwrap());
    assert!(!world.delete_document(&world.tenant, &lost.id, None).await.unwrap(), "there is nothing left to delete");
    world.act(Act::User("And now?")).await;
    let blocks = given(&model);
    let told =
        |blocks: &[Block], text: &str| blocks.iter().any(|block| matches!(block, Block::Text(t) if t.contains(text)));
    assert!(told(&blocks, "\nkept\n") && told(&blocks, r#"[The document "lost.txt" was deleted.]"#), "{blocks:?}");
    // Also one that is deleted while the turn waits.
    world.delete_document(&world.tenant, &kept.id, None).await.unwrap();
    world.act(Act::Answers(vec![result("c1", "sun")])).await;
    assert!(told(&given(&model), r#"[The document "kept.txt" was deleted.]"#));
}

#[tokio::test(start_paused = true)]
async fn a_long_document_is_cut_with_a_note() {
    let model = ScriptedModel::new("test/one", [vec![say("I see."), stop()]]);
    let setup = Setup::with_models([model.clone()]).settings(|settings| settings.document_context_bytes = 11);
    let world = World::start(setup).await;
    let document = world.upload("long.txt", "word word wérd word").await;
    let started = world.submit(world.message_with("Read", &[&document.id]).await).await.unwrap();
    world.transcript(&started).await;
    expect![[r#"
        Text(
            "<document name=\"long.txt\" type=\"text/plain\">\nword word w\n[… cut: the first 11 of 19 characters]\n</document>",
        )
    "#]]
    .assert_debug_eq(&given(&model)[1]);
}

/// A PDF file goes whole to a provider that reads such files; other providers get its text.
#[tokio::test(start_paused = true)]
async fn a_pdf_is_given_whole_to_those_who_read_it() {
    const PDF: &[u8] =
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R>>endobj\n\
        trailer<</Root 1 0 R>>\n%%EOF\n";
    for reads in [true, false] {
        let model = ScriptedModel::new("test/one", [vec![say("I see."), stop()]]);
        let model = if reads { model.that_reads_pdf() } else { model };
        let world = World::start(Setup::with_models([model.clone()])).await;
        let document = world.upload("paper.pdf", PDF).await;
        let started = world.submit(world.message_with("Read", &[&document.id]).await).await.unwrap();
        world.transcript(&started).await;
        let content = model.requests()[0].documents[&document.id].clone();
        assert_eq!((content.name.as_str(), content.media_type.as_str()), ("paper.pdf", "application/pdf"));
        assert!(content.text.starts_with("<document name=\"paper.pdf\""), "{}", content.text);
        let whole = content.base64.map(|base64| base64.starts_with("JVBERi0xLjQK"));
        assert_eq!(whole, reads.then_some(true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_picture_is_shown() {
    let model = ScriptedModel::new("test/one", [vec![say("Nice."), stop()], vec![say("Large."), stop()]]);
    let world = World::start(Setup::with_models([model.clone()])).await;
    let picture = world.upload("dot.txt", PNG).await;
    assert_eq!(picture.media_type, "image/png", "its content tells what it is");
    let started = world.submit(world.message_with("Look", &[&picture.id]).await).await.unwrap();
    world.transcript(&started).await;
    assert_eq!(given(&model)[1], Block::Text("[The image \"dot.txt\":]".to_owned()));
    let Block::Image { url } = &given(&model)[2] else { panic!("{:?}", given(&model)) };
    assert_eq!(url.as_str(), "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ");
    // One that no provider takes is not sent to any.
    let mut large = PNG.to_vec();
    large.resize(5 * 1024 * 1024 + 1, 0);
    let large = world.upload("large.png", large).await;
    world.new_session();
    let started = world.submit(world.message_with("Look", &[&large.id]).await).await.unwrap();
    world.transcript(&started).await;
    let told = r#"[The image "large.png" has 5242881 bytes, too many to be shown; the limit is 5242880.]"#;
    assert_eq!(given(&model)[1], Block::Text(told.to_owned()));
}

/// The URLs of the images in the messages of a request.
fn images(model: &ScriptedModel, request: usize) -> Vec<SharedText> {
    let requests = model.requests();
    let blocks = requests[request].messages.iter().filter_map(|message| match message {
        Message::User { content } => Some(content.blocks().to_vec()),
        _ => None,
    });
    let urls = blocks.flatten().filter_map(|block| match block {
        Block::Image { url } => Some(url),
        _ => None,
    });
    urls.collect()
}

#[tokio::test(start_paused = true)]
async fn a_picture_is_encoded_once_for_all_steps_and_turns() {
    let look = || vec![call("look", "{}"), stop()];
    let model = ScriptedModel::new("test/one", [look(), vec![say("Nice."), stop()], vec![say("Still nice."), stop()]]);
    let world = World::start(Setup::with_models([model.clone()])).await;
    let picture = world.upload("dot.png", PNG).await;
    for text in ["Look", "Look again"] {
        let started = world.submit(world.message_with(text, &[&picture.id]).await).await.unwrap();
        world.transcript(&started).await;
    }
    let sent: Vec<SharedText> = (0..3).flat_map(|request| images(&model, request)).collect();
    assert_eq!(sent.len(), 4, "one in each step of the first turn, two in the second turn");
    assert!(sent.iter().all(|url| url.as_ptr() == sent[0].as_ptr()), "all of them are the same bytes in memory");
    // What was deleted is not there any more.
    assert!(world.engine.delete_document(&world.tenant, &picture.id, None).await.unwrap());
    let started = world.submit(world.message("And now?")).await.unwrap();
    world.transcript(&started).await;
    assert!(images(&model, 3).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_large_document_is_kept_in_parts() {
    let world = World::start(Setup::new([])).await;
    let content: Vec<u8> = (0..2_500_000).map(|n| b"abcdefgh \n"[n % 10]).collect();
    let document = world.upload("large.txt", content.clone()).await;
    assert_eq!((document.bytes, document.parts()), (content.len(), 3));
    let mut read = Vec::new();
    for part in 1..=document.parts() {
        read.extend(world.document_part(&world.tenant, &document.id, part).await.unwrap().expect("the part is there"));
    }
    assert!(read == content);
    assert_eq!(world.document_part(&world.tenant, &document.id, 4).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_refused() {
    let world = World::start(Setup::new([]).settings(|settings| settings.document_bytes = 100)).await;
    let upload = async |content: &'static [u8]| {
        let refused = world.engine.upload(&world.tenant, "x.txt", Bytes::from_static(content), None).await;
        refused.unwrap_err().to_string()
    };
    assert_eq!(upload(b"").await, "the document is empty");
    assert_eq!(
        upload(&[b'x'; 101]).await,
        "the document has 101 bytes, at most 100 are taken; split it or leave out what is not needed"
    );
    assert!(upload(b"PK\x03\x04 a package \x00\x01\x02").await.contains("cannot be read"));
    assert_eq!(world.document_records().await, 0, "nothing is left of it");
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_is_sent_again_is_kept_once() {
    let world = World::start(Setup::new([])).await;
    let upload = async |content: &'static [u8], key| {
        world.engine.upload(&world.tenant, "x.txt", Bytes::from_static(content), key).await
    };
    let first = upload(b"one", key("k", "one")).await.unwrap();
    let again = upload(b"one", key("k", "one")).await.unwrap();
    assert_eq!(first.id, again.id);
    let reused = upload(b"two", key("k", "two")).await.unwrap_err();
    assert!(matches!(reused, UploadError::KeyReused { .. }), "{reused:?}");
    let (a, b) = tokio::join!(upload(b"three", key("k3", "three")), upload(b"three", key("k3", "three")));
    assert_eq!(a.unwrap().id, b.unwrap().id, "two at once are one");
    assert_eq!((world.document_names().await.len(), world.document_records().await), (2, 2));
    world.delete_document(&world.tenant, &first.id, key("d", "delete")).await.unwrap();
    assert!(world.delete_document(&world.tenant, &first.id, key("d", "delete")).await.unwrap(), "said again");
    let gone = upload(b"one", key("k", "one")).await.unwrap_err();
    assert!(matches!(gone, UploadError::Gone), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_fails_half_way_is_no_document_and_is_cleared_away() {
    for fault in [Fault::Lost, Fault::Kept] {
        let world = World::start(Setup::new([])).await;
        world.store.faults().fail_next(1, fault);
        let content = Bytes::from(vec![b'x'; 2_500_000]);
        let failed = world.engine.upload(&world.tenant, "x.txt", content.clone(), None).await.unwrap_err();
        assert!(matches!(failed, UploadError::Store(_)), "{failed:?}");
        assert_eq!(world.document_names().await, [] as [String; 0]);
        world.upload("y.txt", content).await;
        let later = Timestamp(Timestamp::now().millis() + 59 * 60 * 1000);
        world.clear_once(later).await.unwrap();
        let before = world.document_records().await;
        world.clear_once(Timestamp(later.millis() + 2 * 60 * 1000)).await.unwrap();
        assert_eq!((before, world.document_records().await), (1 + usize::from(fault == Fault::Kept), 1));
        assert_eq!(world.document_names().await, ["y.txt"]);
    }
}

#[tokio::test(start_paused = true)]
async fn documents_belong_to_their_tenant() {
    let world = World::start(Setup::new([])).await;
    let document = world.upload("mine.txt", "mine").await;
    let other = TenantId::mint();
    assert!(world.document(&other, &document.id).await.unwrap().is_none());
    assert_eq!(world.document_part(&other, &document.id, 1).await, Ok(None));
    assert!(!world.delete_document(&other, &document.id, None).await.unwrap());
    for id in [document.id.as_str(), "doc_none", "no id"] {
        let tenant = if id == document.id.as_str() { &other } else { &world.tenant };
        let unknown = world.document_blocks(tenant, &[id.to_owned()]).await.unwrap_err();
        assert!(matches!(&unknown, SubmitError::UnknownDocument { id: named } if named == id), "{unknown:?}");
    }
    for number in 0..3 {
        world.upload(&format!("{number}.txt"), "x").await;
    }
    assert_eq!(world.document_names().await, ["2.txt", "1.txt", "0.txt", "mine.txt"], "newest first");
    let page = world.documents(&world.tenant, None, 2).await.unwrap();
    let next = world.documents(&world.tenant, Some(page[1].position), 2).await.unwrap();
    assert_eq!(next.iter().map(|document| document.name.as_str()).collect::<Vec<_>>(), ["0.txt", "mine.txt"]);
}

/// A store that does not answer while a document is looked up is waited for.
#[tokio::test(start_paused = true)]
async fn a_turn_is_not_lost_because_a_document_cannot_be_read_for_a_while() {
    let scripts = [vec![call("pay", "{}"), stop()], vec![say("I see."), stop()]];
    let model = ScriptedModel::new("test/one", scripts);
    let world = World::start(Setup::with_models([model.clone()])).await;
    let document = world.upload("x.txt", "words").await;
    let started = world.submit(world.message_with("Read", &[&document.id]).await).await.unwrap();
    world.transcript(&started).await;
    let store = world.store.clone();
    world.setup.ledger.on_run(move |_| store.faults().outage());
    let leg = world.submit(world.answers(vec![grant("c1")])).await.unwrap();
    world.setup.ledger.until_running(0).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(model.requests().len(), 1, "the model is not called without the document");
    world.store.faults().stop();
    assert!(world.transcript(&leg).await.ends_with("completed\n"));
    assert!(matches!(&given(&model)[1], Block::Text(text) if text.contains("words")));
}

/// All documents together get half of the model's context at most, however much of each is allowed. What the first is
/// given does not depend on the second.
#[tokio::test(start_paused = true)]
async fn documents_leave_room_in_the_context() {
    let model = ScriptedModel::new("test/one", [vec![say("Long."), stop()]]).with_window(2_000);
    let world = World::start(Setup::with_models([model.clone()])).await;
    let (one, two) =
        (world.upload("one.txt", "one ".repeat(10_000)).await, world.upload("two.txt", "two ".repeat(10_000)).await);
    let started = world.submit(world.message_with("Read", &[&one.id, &two.id]).await).await.unwrap();
    let transcript = world.transcript(&started).await;
    assert!(transcript.ends_with("completed\n"), "{transcript}");
    for (block, shown) in given(&model)[1..].iter().zip(["2,000", "948"]) {
        let Block::Text(text) = block else { panic!("{block:?}") };
        assert!(text.contains(&format!("[… cut: the first {shown} of 40,000 characters]")), "{text}");
    }
}

/// Never comes to an end with one document, and cannot begin with another.
#[derive(Debug)]
struct Stuck;

impl Reader for Stuck {
    fn read(&self, name: String, bytes: Bytes, bounds: Bounds) -> Reading {
        match &*name {
            "stuck.pdf" => Box::pin(std::future::pending()),
            "none.pdf" => Box::pin(std::future::ready(Err(ReadError::Failed("no processes are left".to_owned())))),
            _ => HereReader.read(name, bytes, bounds),
        }
    }
}

/// Two documents of a tenant are read at once. Its others wait, and are refused at last; those of other tenants do not notice.
#[tokio::test(start_paused = true)]
async fn readers_are_shared_between_tenants() {
    let mut setup = Setup::new([]);
    setup.settings.document_reader = Arc::new(Stuck);
    let world = World::start(setup).await;
    for _ in 0..2 {
        let (engine, tenant) = (world.engine.clone(), world.tenant.clone());
        tokio::spawn(async move { engine.upload(&tenant, "stuck.pdf", Bytes::from_static(b"words"), None).await });
    }
    tokio::task::yield_now().await;
    let words = || Bytes::from_static(b"words");
    let other: TenantId = "other".parse().unwrap();
    let before = tokio::time::Instant::now();
    world.engine.upload(&other, "good.txt", words(), None).await.expect("another tenant's is read");
    assert_eq!(before.elapsed(), Duration::ZERO);
    let refused = world.engine.upload(&world.tenant, "good.txt", words(), None).await;
    assert!(matches!(refused, Err(UploadError::Busy)), "{refused:?}");
    assert_eq!(before.elapsed(), Duration::from_secs(30));
    let failed = world.engine.upload(&other, "none.pdf", words(), None).await;
    assert!(matches!(failed, Err(UploadError::NoReader)), "{failed:?}");
}
