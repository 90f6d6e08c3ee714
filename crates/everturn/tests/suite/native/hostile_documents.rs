//! Documents that are made to break their reader. They break a process that has nothing else to do, and are told to be
//! unreadable.

use std::{io::Write as _, net::TcpStream};

use expect_test::expect;
use serde_json::json;

use super::{
    documents::{PDF, form, head_for, upload, uploaded},
    world::{World, config},
};
use crate::suite::harness::{Client, Talk, eventually, key};

/// A page that draws itself a hundred times, each time with all that it draws: hundreds of megabytes of work, whose limit is
/// the reader's own.
fn that_loops() -> Vec<u8> {
    let drawing = "/X Do ".repeat(100);
    let length = drawing.len();
    format!(
        "%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
2 0 obj <</Type/Pages/Kids[6 0 R]/Resources<</XObject<</X 5 0 R>>>>>> endobj
5 0 obj <</Subtype/Form/Resources<</XObject<</X 5 0 R>>>>/Length {length}>>
stream
{drawing}
endstream
endobj
6 0 obj <</Type/Page/Contents 5 0 R>> endobj
trailer <</Root 1 0 R>>
%%EOF
"
    )
    .into_bytes()
}

/// Thirty megabytes of spaces on one page, in thirty kilobytes.
fn that_unpacks() -> Vec<u8> {
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(&vec![b' '; 30 << 20], 6);
    let mut pdf = format!(
        "%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj
3 0 obj <</Type/Page/Parent 2 0 R/Contents 4 0 R>> endobj
4 0 obj <</Filter/FlateDecode/Length {}>>
stream
",
        packed.len()
    )
    .into_bytes();
    pdf.extend(packed);
    pdf.extend(b"\nendstream\nendobj\ntrailer <</Root 1 0 R>>\n%%EOF\n");
    pdf
}

/// Begins to upload a document, and does not wait for the answer.
fn begin_upload(world: &World, who: Option<&str>, content: &[u8]) -> TcpStream {
    let body = form("b", &[("file", "hostile.pdf", content)]);
    let mut head = head_for(body.len());
    if let Some(who) = who {
        head = head.replace("\r\n\r\n", &format!("\r\nauthorization: Bearer {}\r\n\r\n", key(who)));
    }
    let mut socket = TcpStream::connect(world.server.address).unwrap();
    socket.write_all(&[head.as_bytes(), &body].concat()).unwrap();
    socket
}

/// A file of `/proc`.
fn proc(pid: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// The processes that read documents for this server.
fn readers(server: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_reader = |pid: &u32| {
        proc(*pid, "cmdline").contains("document-reader\0") && proc(*pid, "cmdline").ends_with(&format!("\0{server}\0"))
    };
    all.filter(is_reader).collect()
}

/// The readers of this server, as soon as there are so many that have begun.
#[track_caller]
fn reading(world: &World, count: usize) -> Vec<u32> {
    eventually(&format!("{count} readers"), || {
        let readers = readers(world.server.pid());
        // Fenced is a reader that has been given its document.
        let fenced = readers.iter().filter(|pid| proc(**pid, "status").contains("Seccomp:\t2")).count();
        (fenced >= count).then_some(readers)
    })
}

/// Sends a signal to a process.
fn kill(pid: u32) {
    let sent = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// What comes of a document; then that others are read, and that nothing is left of its reader.
#[track_caller]
fn note(talk: &mut Talk, world: &World, what: &str, content: &[u8]) {
    talk.say(&format!("{what}: "));
    talk.note(&upload(&world.client(), "hostile.pdf", content), &[]);
    assert_eq!(readers(world.server.pid()), [0; 0]);
}

/// Each is refused in words that name the limit, as every document that cannot be read.
#[test]
fn they_end_with_their_limits() {
    let mut world = World::start("document_time = '300ms'");
    let mut talk = Talk::new(world.client());
    note(&mut talk, &world, "too much time", &that_loops());
    drop(world);
    world = World::start("document_memory = 16777216");
    note(&mut talk, &world, "too much memory", &that_unpacks());
    let id = uploaded(&world.client(), "good.pdf", PDF);
    assert!(id.starts_with("doc_"));
    let page = format!("<!doctype html><html>{}", "<div><b><i>".repeat(100_000));
    note(&mut talk, &world, "a deep page", page.as_bytes());
    let arrays = format!("%PDF-1.4\n1 0 obj {}", "[".repeat(1_000_000));
    note(&mut talk, &world, "deep arrays", arrays.as_bytes());
    let dictionaries = format!("%PDF-1.4\n1 0 obj {}", "<</A".repeat(1_000_000));
    note(&mut talk, &world, "deep dictionaries", dictionaries.as_bytes());
    talk.check(expect![[r#"
        too much time: 422
        {
          "detail": {
            "code": "DOCUMENT_UNREADABLE",
            "message": "the document cannot be read: reading it takes longer than 300ms, which is the limit (limits.document_time); print it to a new PDF, or save it as text, and send that"
          }
        }

        too much memory: 422
        {
          "detail": {
            "code": "DOCUMENT_UNREADABLE",
            "message": "the document cannot be read: reading it takes more than 16777216 bytes of memory, which is the limit (limits.document_memory); print it to a new PDF, or save it as text, and send that"
          }
        }

        a deep page: 201
        {"bytes":1100021,"content_type":"text/html","created_at":"<time>","document_id":"doc#1","name":"hostile.pdf"}

        deep arrays: 422
        {
          "detail": {
            "code": "DOCUMENT_UNREADABLE",
            "message": "the document cannot be read: the PDF has no pages that can be found; it may be damaged"
          }
        }

        deep dictionaries: 422
        {
          "detail": {
            "code": "DOCUMENT_UNREADABLE",
            "message": "the document cannot be read: the PDF has no pages that can be found; it may be damaged"
          }
        }

    "#]]);
    // The log has what the process has said.
    assert!(world.home.log().contains("a document could not be read"), "{}", world.home.log());
}

/// A reader that crashes takes nothing with it but its document.
#[test]
fn a_reader_that_is_killed_is_told() {
    let world = World::start("document_time = '10m'");
    let client = world.client();
    let uploading = {
        let client = client.clone();
        std::thread::spawn(move || upload(&client, "hostile.pdf", &that_loops()))
    };
    let [reader] = reading(&world, 1)[..] else { panic!("there is more than one reader") };
    kill(reader);
    let answer = uploading.join().unwrap();
    assert_eq!((answer.status, &answer.json()["detail"]["code"]), (422, &json!("DOCUMENT_UNREADABLE")), "{answer:?}");
    let told = answer.json()["detail"]["message"].as_str().unwrap().to_owned();
    assert!(told.starts_with("the document cannot be read: its reader was ended by signal 9"), "{told}");
    uploaded(&client, "good.pdf", PDF);
}

/// What a reader has: three pipes, and nothing that leads anywhere.
#[test]
fn a_reader_has_nothing_but_its_document() {
    let home = crate::suite::harness::Home::new(&config("document_time = '10m'"));
    let server = home.start_in(
        &[
            ("EVERTURN_SECRET_KEY", "7777777777777777777777777777777777777777777777777777777777777777"),
            ("PATH", "/bin"),
        ],
        &[],
    );
    let world = World { home, server };
    let _upload = begin_upload(&world, None, &that_loops());
    let [reader] = reading(&world, 1)[..] else { panic!("there is more than one reader") };
    assert_eq!(proc(reader, "environ"), "MIMALLOC_ARENA_RESERVE=0\0");
    assert_eq!(std::fs::read_link(format!("/proc/{reader}/cwd")).unwrap().to_str(), Some("/"));
    let status = proc(reader, "status");
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    // The limit on open files is the last thing that it gives up.
    let limits = eventually("the reader is confined", || {
        let limits = proc(reader, "limits");
        limits.lines().any(|line| line.starts_with("Max open files") && line.contains(" 0 ")).then_some(limits)
    });
    for (limit, [soft, hard]) in [
        ("Max core file size", ["0", "0"]),
        ("Max file size", ["0", "0"]),
        ("Max processes", ["0", "0"]),
        ("Max cpu time", ["600", "601"]),
    ] {
        let line = limits.lines().find(|line| line.starts_with(limit)).unwrap();
        assert_eq!(line[limit.len()..].split_whitespace().take(2).collect::<Vec<_>>(), [soft, hard], "{line}");
    }
    assert!(
        !limits.lines().any(|line| line.starts_with("Max address space") && line.contains("unlimited")),
        "{limits}"
    );
    // It may have what the test runner has left open for its children; nothing of the server's.
    for file in std::fs::read_dir(format!("/proc/{reader}/fd")).unwrap().map(|file| file.unwrap().path()) {
        let is_ours = std::fs::read_link(&file).unwrap().starts_with(world.home.path());
        assert!(!is_ours, "{file:?}");
    }
}

#[test]
fn no_reader_outlives_the_server() {
    let mut world = World::start("document_time = '10m'");
    let _uploads = [(); 2].map(|()| begin_upload(&world, None, &that_loops()));
    let left = reading(&world, 2);
    let server = world.server.pid();
    world.server.kill();
    eventually("the readers have ended", || readers(server).is_empty().then_some(()));
    assert_eq!(left.len(), 2);
}

/// Many uploads of one tenant, each of which takes its reader for as long as it may.
#[test]
fn a_crowd_of_one_tenant_leaves_room_for_others() {
    let keys =
        ["ann", "bob"].map(|who| format!("[[keys]]\nkey = '{}'\ntenant = '{who}'\nscopes = ['chat']\n", key(who)));
    let world = World::with(&(config("document_time = '10m'") + &keys.concat()));
    let bob: Client = world.client().with_key(&key("bob"));
    let _uploads = [(); 12].map(|()| begin_upload(&world, Some("ann"), &that_loops()));
    let of_ann = reading(&world, 2);
    uploaded(&bob, "mine.pdf", PDF);
    uploaded(&bob, "page.html", b"<!doctype html><html><body>Hi</body></html>");
    // They are still at it, and there are no more of them.
    assert_eq!(of_ann.len(), 2);
    assert_eq!(readers(world.server.pid()), of_ann);
}
