//! Applications in browsers call from anywhere.

use expect_test::{Expect, expect};

use crate::suite::harness::{Client, Talk, key, shared};

const CORS: [&str; 5] = [
    "access-control-allow-origin",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-expose-headers",
    "access-control-max-age",
];

#[track_caller]
fn check(method: &str, path: &str, headers: &[(&str, &str)], body: &str, expected: Expect) {
    let shared = shared();
    let client: Client = shared.server.client();
    let mut headers = headers.to_vec();
    headers.push(("origin", "https://app.example"));
    if !body.is_empty() {
        headers.push(("content-type", "application/json"));
    }
    let mut answer = client.send_with(method, path, &headers, body.to_owned());
    answer.body.clear();
    let mut talk = Talk::new(client);
    talk.note(&answer, &CORS);
    talk.check(expected);
}

#[test]
fn preflights_need_no_key() {
    let asks = [("access-control-request-method", "PUT"), ("access-control-request-headers", "authorization")];
    check(
        "OPTIONS",
        "/session",
        &asks,
        "",
        expect![[r#"
            204
            access-control-allow-origin: *
            access-control-allow-headers: authorization, content-type, last-event-id, idempotency-key, if-none-match, x-secret-key, openai-organization, openai-project, x-stainless-arch, x-stainless-helper-method, x-stainless-lang, x-stainless-os, x-stainless-package-version, x-stainless-retry-count, x-stainless-runtime, x-stainless-runtime-version, x-stainless-timeout
            access-control-allow-methods: GET, POST, PUT, PATCH, DELETE, OPTIONS
            access-control-expose-headers: x-session-id, x-message-id, x-request-id, retry-after, content-disposition, etag, x-should-retry
            access-control-max-age: 86400

        "#]],
    );
    check(
        "OPTIONS",
        "/aap/v1/session/x",
        &asks,
        "",
        expect![[r#"
            204
            access-control-allow-origin: *
            access-control-allow-headers: authorization, content-type, last-event-id, idempotency-key, if-none-match, x-secret-key, openai-organization, openai-project, x-stainless-arch, x-stainless-helper-method, x-stainless-lang, x-stainless-os, x-stainless-package-version, x-stainless-retry-count, x-stainless-runtime, x-stainless-runtime-version, x-stainless-timeout
            access-control-allow-methods: GET, POST, PUT, PATCH, DELETE, OPTIONS
            access-control-expose-headers: x-session-id, x-message-id, x-request-id, retry-after, content-disposition, etag, x-should-retry
            access-control-max-age: 86400

        "#]],
    );
}

#[test]
fn answers_of_every_kind() {
    let bearer = format!("Bearer {}", key("acme"));
    let authorized = [("authorization", bearer.as_str())];
    let message = |mode| {
        format!(
            r#"{{"agent":{{"name":"demo"}},"stream":"{mode}","messages":[{{"role":"user","content":"stream 1"}}]}}"#
        )
    };
    check(
        "GET",
        "/meta",
        &[],
        "",
        expect![[r#"
            200
            access-control-allow-origin: *
            access-control-expose-headers: x-session-id, x-message-id, x-request-id, retry-after, content-disposition, etag, x-should-retry

        "#]],
    );
    check(
        "PUT",
        "/session",
        &authorized,
        &message("none"),
        expect![[r#"
            201
            access-control-allow-origin: *
            access-control-expose-headers: x-session-id, x-message-id, x-request-id, retry-after, content-disposition, etag, x-should-retry

        "#]],
    );
    check(
        "PUT",
        "/session",
        &authorized,
        &message("delta"),
        expect![[r#"
            200
            access-control-allow-origin: *
            access-control-expose-headers: x-session-id, x-message-id, x-request-id, retry-after, content-disposition, etag, x-should-retry

        "#]],
    );
    check(
        "PUT",
        "/session",
        &authorized,
        &message("fast"),
        expect![[r#"
            400
            access-control-allow-origin: *
            access-control-expose-headers: x-session-id, x-message-id, x-request-id, retry-after, content-disposition, etag, x-should-retry

        "#]],
    );
    check(
        "PUT",
        "/session",
        &[],
        &message("none"),
        expect![[r#"
            401
            access-control-allow-origin: *
            access-control-expose-headers: x-session-id, x-message-id, x-request-id, retry-after, content-disposition, etag, x-should-retry

        "#]],
    );
    check(
        "GET",
        "/session/nothing",
        &authorized,
        "",
        expect![[r#"
            404
            access-control-allow-origin: *
            access-control-expose-headers: x-session-id, x-message-id, x-request-id, retry-after, content-disposition, etag, x-should-retry

        "#]],
    );
    check(
        "PATCH",
        "/session/nothing",
        &authorized,
        "",
        expect![[r#"
            405
            access-control-allow-origin: *
            access-control-expose-headers: x-session-id, x-message-id, x-request-id, retry-after, content-disposition, etag, x-should-retry

        "#]],
    );
    check(
        "GET",
        "/nothing",
        &[],
        "",
        expect![[r#"
            404
            access-control-allow-origin: *
            access-control-expose-headers: x-session-id, x-message-id, x-request-id, retry-after, content-disposition, etag, x-should-retry

        "#]],
    );
}
