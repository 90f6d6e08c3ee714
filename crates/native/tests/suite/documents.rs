//! Documents: uploaded, read by an agent, downloaded, deleted.

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::{sync::mpsc, time::Instant};

use super::harness::{Answer, DOCUMENT_BYTES, Server};

/// A form with a file, as a client sends it whose boundary is this.
fn form(boundary: &str, field: &str, name: &str, content: &[u8]) -> Vec<u8> {
    let mut body = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nignored\r\n--{boundary}\r\n\
         Content-Disposition: form-data; name=\"{field}\"; filename=\"{name}\"\r\nContent-Type: text/plain\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(content);
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    body
}

async fn upload(server: &Server, boundary: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
    let kind = format!("multipart/form-data; boundary={boundary}");
    let headers: Vec<_> = headers.iter().copied().chain([("content-type", kind.as_str())]).collect();
    server.send("POST", "/api/v1/documents", &headers, body).await
}

#[tokio::test]
async fn a_document_is_taken_read_and_deleted() {
    let server = Server::start().await;
    let taken = upload(&server, "b1", &[], form("b1", "file", "Notes é.txt", b"Tea is hot.")).await.json(201);
    let id = taken["document_id"].as_str().unwrap();
    assert_eq!((&taken["name"], &taken["bytes"]), (&json!("Notes é.txt"), &json!(11)));
    assert_eq!(taken["content_type"], "text/plain");
    assert!(taken.get("pages").is_none() && taken.get("text_cut").is_none());
    let path = format!("/api/v1/documents/{id}");
    assert_eq!(server.get(&path).await.json(200), taken);
    assert_eq!(server.get("/api/v1/documents").await.json(200), json!({ "documents": [taken] }));

    let content = server.get(&format!("{path}/content")).await;
    assert_eq!(&content.body[..], b"Tea is hot.");
    assert_eq!(content.header("content-type"), "text/plain");
    assert_eq!(content.header("x-content-type-options"), "nosniff");
    assert_eq!(content.header("content-security-policy"), "sandbox");
    let name = "attachment; filename=\"Notes _.txt\"; filename*=UTF-8''Notes%20%C3%A9.txt";
    assert_eq!(content.header("content-disposition"), name);

    let spawn = json!({ "document_ids": [id] });
    let headers = [("content-type", "application/json"), ("idempotency-key", "k1")];
    let send = async || server.send("POST", "/api/v1/sessions/stream", &headers, spawn.to_string()).await;
    let accepted = send().await.json(202);
    let (session, message) = (accepted["session_id"].as_str().unwrap(), accepted["message_id"].as_str().unwrap());
    assert_eq!(server.rest_of(session, message).await["type"], "complete");
    let shown = server.get(&format!("/api/v1/sessions/{session}/messages/{message}")).await.json(200);
    assert_eq!((&shown["input"], &shown["document_ids"]), (&json!(""), &json!([id])));

    server.bare("DELETE", &path).await.is_empty(204);
    assert_eq!(server.bare("DELETE", &path).await.code(404), "DOCUMENT_NOT_FOUND");
    assert_eq!(server.get(&path).await.code(404), "DOCUMENT_NOT_FOUND");
    assert_eq!(server.spawn(spawn.clone()).await.code(404), "DOCUMENT_NOT_FOUND");
    // What was accepted stays accepted.
    assert_eq!(send().await.json(202), accepted);
}

#[tokio::test]
async fn an_upload_sent_twice_is_one_document() {
    let server = Server::start().await;
    let key = [("idempotency-key", "u1")];
    let first = upload(&server, "b1", &key, form("b1", "file", "a.txt", b"Tea")).await.json(201);
    let again = upload(&server, "b2", &key, form("b2", "file", "a.txt", b"Tea")).await.json(201);
    assert_eq!(again, first);
    for (name, content) in [("b.txt", b"Tea"), ("a.txt", b"Cup")] {
        let other = upload(&server, "b1", &key, form("b1", "file", name, content)).await;
        assert_eq!(other.code(409), "IDEMPOTENCY_KEY_REUSED");
    }
    let list = server.get("/api/v1/documents").await.json(200);
    assert_eq!(list["documents"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_taken_is_refused() {
    let server = Server::start().await;
    let long = upload(&server, "b", &[], form("b", "file", "a.txt", &[b'x'; DOCUMENT_BYTES + 1])).await;
    assert_eq!(long.code(413), "DOCUMENT_SIZE_EXCEEDED");
    assert!(long.json(413)["detail"]["message"].as_str().unwrap().contains("more than 10 kB"));
    upload(&server, "b", &[], form("b", "file", "a.txt", &[b'x'; DOCUMENT_BYTES])).await.json(201);
    let other = upload(&server, "b", &[], form("b", "upload", "a.txt", &vec![b'x'; DOCUMENT_BYTES + (2 << 20)])).await;
    assert_eq!(other.code(413), "BODY_TOO_LARGE");
    let missing = upload(&server, "b", &[], form("b", "upload", "a.txt", b"Tea")).await;
    assert_eq!(missing.code(422), "VALIDATION_FAILED");
    let binary =
        upload(&server, "b", &[], form("b", "file", "a.txt", b"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00")).await;
    assert_eq!(binary.code(415), "DOCUMENT_FORMAT_UNSUPPORTED");
    let empty = upload(&server, "b", &[], form("b", "file", "a.txt", b"")).await;
    assert_eq!(empty.code(422), "DOCUMENT_UNREADABLE");
    let cut = form("b", "file", "a.txt", b"Tea");
    let cut = upload(&server, "b", &[], cut[..cut.len() - 8].to_vec()).await;
    assert_eq!(cut.code(422), "VALIDATION_FAILED");
    let json = server.json("POST", "/api/v1/documents", json!({})).await;
    assert_eq!(json.code(415), "MEDIA_TYPE_UNSUPPORTED");
}

/// The beginning of a form, after which nothing comes. Says when it is asked for what comes.
fn silent_after(beginning: Vec<u8>, asked: mpsc::UnboundedSender<()>) -> Body {
    let beginning = (!beginning.is_empty()).then(|| Ok::<_, std::io::Error>(Bytes::from(beginning)));
    let silence = stream::poll_fn(move |_| {
        let _ = asked.send(());
        std::task::Poll::Pending
    });
    Body::from_stream(stream::iter(beginning).chain(silence))
}

/// In time that passes only when nothing else can happen.
#[tokio::test(start_paused = true)]
async fn silent_uploads_of_one_tenant_keep_no_other_tenant_out() {
    let server = Server::locked().await;
    let whole = form("b", "file", "a.txt", b"Tea");
    let to_the_file = whole.iter().position(|byte| *byte == b'T').unwrap();
    // Nothing, a field that is passed over, and a part of the file.
    for length in [0, 70, to_the_file + 1] {
        let begun = Instant::now();
        let mut silent = Vec::new();
        for _ in 0..8 {
            let (asked, mut is_asked) = mpsc::unbounded_channel();
            let (server, body) = (server.by("admin"), silent_after(whole[..length].to_vec(), asked));
            silent.push(tokio::spawn(async move { upload(&server, "b", &[], body).await }));
            // The third and those after it that have sent something wait for a slot.
            if length == 0 || silent.len() <= 2 {
                is_asked.recv().await.expect("the server waits for more");
            }
        }
        upload(&server.by("stranger"), "b", &[], whole.clone()).await.json(201);
        assert_eq!(begun.elapsed().as_secs(), 0, "after {length} bytes");
        for upload in silent {
            let answer = upload.await.unwrap();
            assert!([408, 503].contains(&answer.status.as_u16()), "{answer:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn silence_ends_an_upload_in_every_field() {
    let server = Server::start().await;
    let whole = form("b", "file", "a.txt", b"Tea");
    for length in [0, 10, 70, whole.len() - 20, whole.len() - 3] {
        let begun = Instant::now();
        let (asked, _is_asked) = mpsc::unbounded_channel();
        let answer = upload(&server, "b", &[], silent_after(whole[..length].to_vec(), asked)).await;
        assert_eq!(answer.code(408), "BODY_TOO_SLOW");
        let message = answer.json(408)["detail"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("nothing was sent for 30 s"), "{message}");
        assert_eq!(begun.elapsed().as_secs(), 30, "after {length} bytes");
    }
}
