//! Results of servers, as models see them.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

#[track_caller]
fn check(result: Value, expected: Expect) {
    let result = serde_json::from_value(result).unwrap();
    let shown = match output(result) {
        Ok(output) => {
            let kind = if output.is_error { "error" } else { "ok" };
            match output.content {
                Content::Text(text) => format!("{kind}, text: {text}"),
                Content::Blocks(blocks) => {
                    let lines: Vec<_> = blocks
                        .iter()
                        .map(|block| match block {
                            Block::Text(text) => format!("text: {text}"),
                            Block::Image { url } => format!("image: {}", shortened(url, 40)),
                            other => format!("{other:?}"),
                        })
                        .collect();
                    format!("{kind}, blocks:\n{}", lines.join("\n"))
                }
            }
        }
        Err(failure) => format!("failure: {failure}"),
    };
    expected.assert_eq(&shown);
}

#[test]
fn texts() {
    check(json!({"content": [{"type": "text", "text": "hello"}]}), expect!["ok, text: hello"]);
    check(json!({"content": [{"type": "text", "text": "no"}], "isError": true}), expect!["error, text: no"]);
    check(json!({"content": []}), expect!["ok, text: (no output)"]);
    check(json!({}), expect!["ok, text: (no output)"]);
    check(json!({"content": [{"type": "text", "text": ""}]}), expect!["ok, text: (no output)"]);
    check(
        json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
        expect![[r#"
            ok, blocks:
            text: a
            text: b"#]],
    );
}

#[test]
fn structured_content_is_said_once() {
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    check(
        json!({"content": text("{ \"a\": 1 }"), "structuredContent": {"a": 1}}),
        expect![[r#"ok, text: { "a": 1 }"#]],
    );
    check(json!({"content": text("hi"), "structuredContent": {"result": "hi"}}), expect!["ok, text: hi"]);
    check(json!({"content": text("hi"), "structuredContent": {"content": "hi"}}), expect!["ok, text: hi"]);
    check(json!({"content": text("5"), "structuredContent": {"result": 5}}), expect!["ok, text: 5"]);
    check(json!({"structuredContent": {"a": [1, 2]}}), expect![[r#"ok, text: {"a":[1,2]}"#]]);
    check(json!({"content": [], "structuredContent": null}), expect!["ok, text: (no output)"]);
    check(
        json!({"content": text("sunny"), "structuredContent": {"sky": "clear"}}),
        expect![[r#"
            ok, blocks:
            text: sunny
            text: {"sky":"clear"}"#]],
    );
}

#[test]
fn media_and_resources() {
    check(
        json!({"content": [
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/svg+xml"},
            {"type": "image", "data": "not base64", "mimeType": "image/png"},
            {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///a.png", "blob": "aGVsbG8=", "mimeType": "image/png"}},
            {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "aGVsbG8="}},
            {"type": "resource_link", "uri": "file:///b.txt", "name": "b", "title": "B", "description": "The other", "mimeType": "text/plain"},
        ]}),
        expect![[r#"
            ok, blocks:
            image: data:image/png;base64,aGVsbG8=
            text: [an image of a kind that models do not see: image/svg+xml, 5 bytes]
            text: [an image that is not valid base64: image/png, 7 bytes]
            text: [audio that cannot be played: audio/wav, 5 bytes]
            text: Resource file:///a.txt:
            inside
            image: data:image/png;base64,aGVsbG8=
            text: [the resource file:///a.bin, which is no text: of unknown kind, 5 bytes]
            text: Resource file:///b.txt: B – The other (text/plain)"#]],
    );
}

#[test]
fn images_share_five_mebibytes() {
    let image = json!({"type": "image", "data": "AAAA".repeat(1024 * 1024), "mimeType": "image/png"});
    let small = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
    check(
        json!({"content": [image, image, small]}),
        expect![[r#"
            ok, blocks:
            image: data:image/png;base64,AAAAAAAAAAAAAAAAAA…
            text: [an image left out: image/png, 3145728 bytes; the images of one result may have 5 MiB together]
            image: data:image/png;base64,AAAA"#]],
    );
}

#[test]
fn parts_of_unknown_kinds_do_not_hide_the_others() {
    check(
        json!({"content": [{"type": "text", "text": "before"}, {"type": "video", "data": "x"}, 5], "isError": true}),
        expect![[r#"
            error, blocks:
            text: before
            text: [a part of kind "video" that cannot be shown]
            text: [a part of kind "unknown" that cannot be shown]"#]],
    );
}

#[test]
fn many_parts_are_cut() {
    let parts = vec![json!({"type": "text", "text": "x"}); 600];
    let Content::Blocks(blocks) = output(serde_json::from_value(json!({"content": parts})).unwrap()).unwrap().content
    else {
        panic!("many parts are blocks")
    };
    assert_eq!(blocks.len(), 513);
    assert_eq!(blocks[512], Block::Text("[88 more parts left out: at most 512 are shown]".to_owned()));
}

#[test]
fn what_is_no_result() {
    check(json!([1]), expect!["failure: the MCP server's result is not a JSON object"]);
    check(
        json!({"tools": []}),
        expect!["failure: the MCP server answered with something that is not the result of a tool"],
    );
}
