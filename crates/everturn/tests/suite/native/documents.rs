//! What people give agents to read: taken for what it is, whatever it is called, and kept whole or not at all.

use std::{io::Write as _, net::TcpStream};

use expect_test::expect;
use serde_json::{Value, json};

use super::world::World;
use crate::suite::harness::{Answer, Client, Talk};

const PATH: &str = "/api/v1/documents";

/// One page that says "Hello from a page".
pub(super) const PDF: &[u8] = b"%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj
3 0 obj <</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>> endobj
4 0 obj <</Length 53>>
stream
BT /F1 12 Tf 72 720 Td (Hello from) Tj ( a page) Tj ET
endstream
endobj
5 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica>> endobj
trailer <</Root 1 0 R>>
%%EOF
";

/// One pixel.
pub(super) const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\
    \x9cc\xf8\xff\xff?\0\x05\xfe\x02\xfe\xa75\x81\x84\0\0\0\0IEND\xaeB`\x82";

/// Opens only with a password.
const LOCKED: &[u8] = include_bytes!("../../../../documents/tests/fixtures/locked-aes-256.pdf");

/// A form with these files in fields of these names.
pub(super) fn form(boundary: &str, files: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (field, name, content) in files {
        let name = name.replace('"', "\\\"");
        let head = format!("Content-Disposition: form-data; name=\"{field}\"; filename=\"{name}\"");
        body.extend(format!("--{boundary}\r\n{head}\r\nContent-Type: image/gif\r\n\r\n").bytes());
        body.extend(*content);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{boundary}--\r\n").bytes());
    body
}

/// The head of a request whose form has so many bytes.
pub(super) fn head_for(length: usize) -> String {
    let kind = "content-type: multipart/form-data; boundary=b";
    format!("POST {PATH} HTTP/1.1\r\nhost: localhost\r\n{kind}\r\ncontent-length: {length}\r\n\r\n")
}

fn post(client: &Client, boundary: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
    let kind = format!("multipart/form-data; boundary={boundary}");
    let headers: Vec<_> = headers.iter().copied().chain([("content-type", kind.as_str())]).collect();
    client.send_with("POST", PATH, &headers, body)
}

/// Uploads a document.
pub(super) fn upload(client: &Client, name: &str, content: &[u8]) -> Answer {
    post(client, "b0undary", &[], form("b0undary", &[("file", name, content)]))
}

/// Uploads a document, which is taken; gives its id.
#[track_caller]
pub(super) fn uploaded(client: &Client, name: &str, content: &[u8]) -> String {
    let answer = upload(client, name, content);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["document_id"].as_str().unwrap().to_owned()
}

fn listed(client: &Client) -> Vec<Value> {
    client.send("GET", PATH, "").json()["documents"].as_array().unwrap().clone()
}

/// The content tells what a document is. Its name helps only between kinds of text.
#[test]
fn they_are_what_their_content_is() {
    let world = World::start("");
    let client = world.client();
    let documents: [(&str, &[u8]); 8] = [
        ("photo.png", "Plain words. Ça va?".as_bytes()),
        ("notes.txt", b"# Notes\n\n- one\n- **two**\n"),
        ("table.bin", b"name,age\nAnn,31\nBob,42\n"),
        ("page.md", b"{\"a\": [1, 2]}"),
        ("data.csv", b"<!doctype html><html><body><h1>Hi</h1></body></html>"),
        ("readme.txt", PDF),
        ("report.pdf", PNG),
        ("C:\\evil\\..\\caf\u{e9}\u{202e}.exe", b"still text"),
    ];
    let mut talk = Talk::new(client.clone());
    for (name, content) in documents {
        let answer = upload(&client, name, content);
        talk.say(&format!("{name:?}: "));
        talk.note(&answer, &[]);
        // It is given back as it was, as a file.
        let id = answer.json()["document_id"].as_str().unwrap().to_owned();
        let shown = client.send("GET", &format!("{PATH}/{id}"), "");
        assert_eq!((shown.status, shown.json()), (200, answer.json()));
        let back = client.send("GET", &format!("{PATH}/{id}/content"), "");
        assert_eq!((back.status, &back.bytes[..]), (200, content), "{name}");
        assert_eq!(back.header("content-type"), answer.json()["content_type"]);
        assert_eq!(back.header("x-content-type-options"), "nosniff");
        assert_eq!(back.header("content-security-policy"), "sandbox");
        talk.say(&format!("{}\n\n", back.header("content-disposition")));
    }
    talk.check(expect![[r#"
        "photo.png": 201
        {"bytes":20,"content_type":"text/plain","created_at":"<time>","document_id":"doc#1","name":"photo.png"}

        attachment; filename="photo.png"; filename*=UTF-8''photo.png

        "notes.txt": 201
        {"bytes":25,"content_type":"text/markdown","created_at":"<time>","document_id":"doc#2","name":"notes.txt"}

        attachment; filename="notes.txt"; filename*=UTF-8''notes.txt

        "table.bin": 201
        {"bytes":23,"content_type":"text/csv","created_at":"<time>","document_id":"doc#3","name":"table.bin"}

        attachment; filename="table.bin"; filename*=UTF-8''table.bin

        "page.md": 201
        {"bytes":13,"content_type":"application/json","created_at":"<time>","document_id":"doc#4","name":"page.md"}

        attachment; filename="page.md"; filename*=UTF-8''page.md

        "data.csv": 201
        {"bytes":52,"content_type":"text/html","created_at":"<time>","document_id":"doc#5","name":"data.csv"}

        attachment; filename="data.csv"; filename*=UTF-8''data.csv

        "readme.txt": 201
        {
          "bytes": 390,
          "content_type": "application/pdf",
          "created_at": "<time>",
          "document_id": "doc#6",
          "name": "readme.txt",
          "pages": 1
        }

        attachment; filename="readme.txt"; filename*=UTF-8''readme.txt

        "report.pdf": 201
        {"bytes":69,"content_type":"image/png","created_at":"<time>","document_id":"doc#7","name":"report.pdf"}

        attachment; filename="report.pdf"; filename*=UTF-8''report.pdf

        "C:\\evil\\..\\café\u{202e}.exe": 201
        {"bytes":10,"content_type":"text/plain","created_at":"<time>","document_id":"doc#8","name":"café.exe"}

        attachment; filename="caf_.exe"; filename*=UTF-8''caf%C3%A9.exe

    "#]]);
    let newest_first: Vec<_> = listed(&client).iter().map(|document| document["bytes"].clone()).collect();
    let lengths: Vec<_> = documents.iter().rev().map(|(_, content)| json!(content.len())).collect();
    assert_eq!(newest_first, lengths);
    let page = client.send("GET", &format!("{PATH}?limit=5"), "").json();
    let rest = client.send("GET", &format!("{PATH}?limit=5&cursor={}", page["next_cursor"].as_str().unwrap()), "");
    assert_eq!(rest.json()["documents"].as_array().unwrap().len(), 3);
}

#[test]
fn what_is_not_taken() {
    let world = World::start("document_bytes = 2048");
    let client = world.client();
    let mut talk = Talk::new(client.clone());
    let files: [(&str, &str, &[u8]); 6] = [
        ("too long", "long.txt", &[b'x'; 2049]),
        ("an archive", "words.txt", b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0"),
        ("no UTF-8", "words.txt", b"caf\xe9 au lait"),
        ("locked", "locked.pdf", LOCKED),
        ("broken", "broken.pdf", b"%PDF-1.4\nnothing"),
        ("empty", "empty.txt", b""),
    ];
    for (what, name, content) in files {
        talk.say(&format!("{what}: "));
        talk.note(&upload(&client, name, content), &[]);
    }
    for (what, fields) in [
        ("no file", vec![("document", "a.txt", b"words".as_slice())]),
        ("two files", vec![("file", "a.txt", b"words".as_slice()), ("file", "b.txt", b"words")]),
        ("nothing at all", vec![]),
    ] {
        talk.say(&format!("{what}: "));
        talk.note(&post(&client, "b", &[], form("b", &fields)), &[]);
    }
    talk.say("another boundary: ");
    talk.note(&post(&client, "a", &[], form("b", &[("file", "a.txt", b"words")])), &[]);
    talk.send(r#"POST /api/v1/documents {"file":"words"}"#);
    talk.check(expect![[r#"
        too long: 413
        {
          "detail": {
            "code": "DOCUMENT_SIZE_EXCEEDED",
            "hint": "split it, or leave out what is not needed",
            "message": "the document has more than 2048 bytes, which is the limit"
          }
        }

        an archive: 415
        {
          "detail": {
            "code": "DOCUMENT_FORMAT_UNSUPPORTED",
            "message": "the document seems to be a ZIP archive, which cannot be read; send plain text (UTF-8), Markdown, CSV, JSON, HTML, PDF, or a PNG, JPEG, GIF or WebP image"
          }
        }

        no UTF-8: 415
        {
          "detail": {
            "code": "DOCUMENT_FORMAT_UNSUPPORTED",
            "message": "the document seems to be text in an encoding other than UTF-8 and UTF-16 (byte 0xe9 at 3), which cannot be read; send plain text (UTF-8), Markdown, CSV, JSON, HTML, PDF, or a PNG, JPEG, GIF or WebP image"
          }
        }

        locked: 422
        {
          "detail": {
            "code": "DOCUMENT_PASSWORD_PROTECTED",
            "message": "the PDF opens only with a password; save it without one and send it again"
          }
        }

        broken: 422
        {
          "detail": {
            "code": "DOCUMENT_UNREADABLE",
            "message": "the document cannot be read: the PDF has no pages that can be found; it may be damaged"
          }
        }

        empty: 422
        {"detail":{"code":"DOCUMENT_UNREADABLE","message":"the document is empty"}}

        no file: 422
        {"detail":{"code":"VALIDATION_FAILED","message":"the field \"file\" is missing; send the document in it"}}

        two files: 422
        {"detail":{"code":"VALIDATION_FAILED","message":"there are two fields \"file\"; send one document at a time"}}

        nothing at all: 422
        {"detail":{"code":"VALIDATION_FAILED","message":"the field \"file\" is missing; send the document in it"}}

        another boundary: 422
        {
          "detail": {
            "code": "VALIDATION_FAILED",
            "message": "the body is not valid multipart/form-data: incomplete multipart stream"
          }
        }

        > POST /api/v1/documents {"file":"words"}
        415
        content-type: application/json
        {
          "detail": {
            "code": "MEDIA_TYPE_UNSUPPORTED",
            "hint": "send the document as the field \"file\" of multipart/form-data",
            "message": "Invalid `boundary` for `multipart/form-data` request"
          }
        }

    "#]]);
    // Much beside the file is refused too, whatever it is.
    let around = form("b", &[("other", "a.txt", &vec![b'x'; 2 * 1024 * 1024]), ("file", "a.txt", b"words")]);
    let answer = post(&client, "b", &[], around);
    assert_eq!((answer.status, &answer.json()["detail"]["code"]), (413, &json!("BODY_TOO_LARGE")), "{answer:?}");
    assert_eq!(listed(&client), [] as [Value; 0]);
    // The longest that is taken.
    assert_eq!(upload(&client, "long.txt", &[b'x'; 2048]).status, 201);
}

#[test]
fn what_is_not_there() {
    let world = World::start("");
    let client = world.client();
    let id = uploaded(&client, "a.txt", b"words");
    let path = format!("{PATH}/{id}");
    assert_eq!(client.send("DELETE", &path, "").status, 204);
    let unknown = [path.as_str(), "/api/v1/documents/doc_no", "/api/v1/documents/%ff", "/api/v1/documents/a%20b"];
    for path in unknown {
        for (method, path) in
            [("GET", path.to_owned()), ("GET", format!("{path}/content")), ("DELETE", path.to_owned())]
        {
            let answer = client.send(method, &path, "");
            assert_eq!(
                (answer.status, &answer.json()["detail"]["code"]),
                (404, &json!("DOCUMENT_NOT_FOUND")),
                "{path}"
            );
        }
    }
    for id in [id.as_str(), "doc_no", "a b", ""] {
        let body = json!({ "agent_id": "writer", "message": "hello", "document_ids": [id] });
        let answer = client.send("POST", "/api/v1/sessions/stream", &body.to_string());
        assert_eq!((answer.status, &answer.json()["detail"]["code"]), (404, &json!("DOCUMENT_NOT_FOUND")), "{id}");
    }
    assert_eq!(client.send("GET", "/api/v1/sessions", "").json()["sessions"], json!([]), "nothing was begun");
}

/// A client that lost the answer sends its form again, with whatever boundary its library makes up this time.
#[test]
fn sent_again_it_is_the_same_document() {
    let world = World::start("");
    let client = world.client();
    let send = |key: &str, boundary: &str, name: &str, content: &[u8]| {
        post(&client, boundary, &[("idempotency-key", key)], form(boundary, &[("file", name, content)]))
    };
    let first = send("one", "b1", "a.txt", b"words");
    let again = send("one", "another-b0undary", "a.txt", b"words");
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.json(), again.json());
    for (name, content) in [("a.txt", b"other".as_slice()), ("b.txt", b"words")] {
        let reused = send("one", "b1", name, content);
        assert_eq!((reused.status, &reused.json()["detail"]["code"]), (409, &json!("IDEMPOTENCY_KEY_REUSED")));
    }
    assert_ne!(send("two", "b1", "a.txt", b"words").json()["document_id"], first.json()["document_id"]);
    // Many at once are one as well.
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let client = client.clone();
            std::thread::spawn(move || {
                let boundary = format!("b{number}");
                let body = form(&boundary, &[("file", "many.txt", b"many")]);
                post(&client, &boundary, &[("idempotency-key", "many")], body).json()["document_id"].clone()
            })
        })
        .collect();
    let ids: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && id.is_string()), "{ids:?}");
    assert_eq!(listed(&client).len(), 3);
    // What the key stands for is gone, and does not come back.
    let path = format!("{PATH}/{}", first.json()["document_id"].as_str().unwrap());
    assert_eq!(client.send("DELETE", &path, "").status, 204);
    let gone = send("one", "b1", "a.txt", b"words");
    assert_eq!((gone.status, &gone.json()["detail"]["code"]), (404, &json!("DOCUMENT_NOT_FOUND")));
}

/// An upload that breaks off, wherever, leaves nothing.
#[test]
fn cut_in_the_middle_it_is_not_there() {
    let world = World::start("");
    let client = world.client();
    let body = form("b", &[("file", "long.txt", &vec![b'x'; 3 * 1024 * 1024])]);
    for cut in [0, 10, 120, body.len() / 2, body.len() - 4] {
        let sent = [head_for(body.len()).as_bytes(), &body[..cut]].concat();
        let answer = world.server.raw_cut(&sent);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
        assert_eq!(listed(&client), [] as [Value; 0], "cut after {cut} bytes");
    }
    // A form that ends before its last boundary is cut too, whatever its length says.
    let answer = post(&client, "b", &[], body[..body.len() / 2].to_vec());
    assert_eq!(answer.status, 422, "{answer:?}");
    assert_eq!(listed(&client), [] as [Value; 0]);
    assert_eq!(post(&client, "b", &[], body).status, 201);
    assert_eq!(listed(&client).len(), 1);
}

/// Killed at any point of an upload, the document is there as a whole or not at all.
#[test]
fn killed_in_the_middle_it_is_whole_or_not_there() {
    const ROUNDS: usize = 5;
    let mut world = World::start("");
    let content: Vec<u8> = (0..4 * 1024 * 1024_u32).map(|n| b'a' + (n % 23) as u8).collect();
    let body = form("b", &[("file", "long.txt", &content)]);
    for round in 1..=ROUNDS {
        let before = listed(&world.client()).len();
        let sent = body.len() * round / ROUNDS;
        let mut socket = TcpStream::connect(world.server.address).unwrap();
        socket.write_all(head_for(body.len()).as_bytes()).unwrap();
        socket.write_all(&body[..sent]).unwrap();
        world.crash();
        let documents = listed(&world.client());
        let most = if sent == body.len() { before + 1 } else { before };
        assert!((before..=most).contains(&documents.len()), "{documents:?}");
        for document in documents {
            let path = format!("{PATH}/{}/content", document["document_id"].as_str().unwrap());
            let back = world.client().send("GET", &path, "");
            assert!(back.bytes == content, "{} bytes", back.bytes.len());
        }
    }
    // What was acknowledged is kept.
    let id = uploaded(&world.client(), "long.txt", &content);
    world.crash();
    assert!(world.client().send("GET", &format!("{PATH}/{id}/content"), "").bytes == content);
}
