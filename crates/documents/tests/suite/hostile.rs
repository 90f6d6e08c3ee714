//! Inputs that are made to take forever, or to break the reader. That these tests end is a part of what they test: with
//! work that grows as the square of the input, none of the large ones would.

use everturn_documents::{Bounds, Kind, for_model, read};
use proptest::prelude::*;

use super::sample::{PDF, PNG};

const MEGABYTE: usize = 1 << 20;

#[test]
fn large_texts_are_read_in_one_pass() {
    for (begin, filling) in [
        ("<html>", "<"),
        ("<html>", "<a<"),
        ("<html>", "<a href='"),
        ("<html>", "<a href=\" "),
        ("<html>", "<!-"),
        ("<html>", "<!--"),
        ("<html>", "<script>"),
        ("<html>", "</"),
        ("<html>", "<div>"),
        ("<html>", "&"),
        ("<html>", "&#"),
        ("<html>", "<img alt=<"),
        ("", "<"),
        ("", "["),
        ("", "{\"a\":"),
        ("", "\""),
        ("", "a,"),
        ("", "**"),
        ("", "]("),
        ("", "|-"),
    ] {
        let mut text = begin.to_owned();
        let length = if filling == "<" { 10 * MEGABYTE } else { MEGABYTE };
        while text.len() < length {
            text.push_str(filling);
        }
        let document = read("hostile", text.as_bytes(), Bounds::default()).unwrap();
        let kept = document.text.unwrap();
        assert!(kept.len() <= MEGABYTE, "{begin}{filling}");
        let shown = for_model("hostile", document.media_type, &kept, document.cut, MEGABYTE);
        assert!(shown.len() <= MEGABYTE + 500, "{begin}{filling}");
    }
}

#[test]
fn deep_json_is_known_or_is_text() {
    let deep = format!("{}{}", "[".repeat(MEGABYTE), "]".repeat(MEGABYTE));
    let document = read("deep.json", deep.as_bytes(), Bounds::default()).unwrap();
    assert!(matches!(document.kind, Kind::Json | Kind::Text));
    let shallow = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert_eq!(read("a.json", shallow.as_bytes(), Bounds::default()).unwrap().kind, Kind::Json);
}

#[test]
fn large_pdfs_are_looked_through_once() {
    for filling in
        ["1 0 obj ", "1 0 obj<<", "1 0 obj<<>>stream\n", "1 0 obj(", "1 0 obj[", "trailer<<", "%", "(", "<", "<<", " "]
    {
        let mut bytes = b"%PDF-1.7\n1 0 obj\n".to_vec();
        while bytes.len() < MEGABYTE {
            bytes.extend(filling.as_bytes());
        }
        // There is no page in any of them.
        assert!(read("hostile.pdf", &bytes, Bounds::default()).is_err(), "{filling}");
    }
}

#[test]
fn pdfs_that_are_cut_off_give_what_there_is() {
    let samples: [&[u8]; 4] = [
        PDF,
        include_bytes!("../fixtures/opens-aes-256.pdf"),
        include_bytes!("../fixtures/opens-rc4-40.pdf"),
        include_bytes!("../fixtures/opens-aes-128.pdf"),
    ];
    for sample in samples {
        for length in 5..sample.len() {
            // Whatever it says, it says it without a panic.
            let _ = read("cut.pdf", &sample[..length], Bounds::default());
        }
    }
    let without_end = &PDF[..PDF.len() - 30];
    assert_eq!(read("cut.pdf", without_end, Bounds::default()).unwrap().text.as_deref(), Some("Hello from a page"));
}

/// A sample with some of its bytes changed.
fn changed(sample: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let change = (0..sample.len(), prop_oneof![any::<u8>(), proptest::sample::select(&b"<>[]()/ 0R"[..])]);
    proptest::collection::vec(change, 1..12).prop_map(|changes| {
        let mut bytes = sample.to_vec();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = read("any", &bytes, Bounds::default());
    }

    #[test]
    fn anything_after_a_known_beginning_is_read_or_refused(
        begin in proptest::sample::select(vec![
            &b"%PDF-1.7\n"[..], b"<html>", b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", b"\xff\xd8\xff", b"GIF89a",
            b"RIFF\0\0\0\0WEBPVP8X", b"RIFF\0\0\0\0WEBPVP8L", b"RIFF\0\0\0\0WEBPVP8 ", b"\xff\xfe", b"PK\x03\x04",
        ]),
        rest in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let _ = read("any", &[begin, &rest].concat(), Bounds::default());
    }

    #[test]
    fn any_text_is_read(text in "[ -~\n\té<>&;\"',|#*]{1,300}", limit in 0..100_usize) {
        let bounds = Bounds { text_bytes: limit, ..Bounds::default() };
        if let Ok(document) = read("any", text.as_bytes(), bounds) {
            prop_assert!(document.text.is_none_or(|text| text.len() <= limit));
        }
        let _ = read("any", format!("<html>{text}").as_bytes(), bounds);
    }

    #[test]
    fn damaged_pdfs_are_read_or_refused(
        bytes in prop_oneof![
            changed(PDF),
            changed(include_bytes!("../fixtures/opens-aes-128.pdf")),
            changed(include_bytes!("../fixtures/opens-aes-256.pdf")),
        ],
    ) {
        let _ = read("damaged.pdf", &bytes, Bounds::default());
    }

    #[test]
    fn damaged_images_are_taken_or_refused(bytes in changed(PNG)) {
        let _ = read("damaged.png", &bytes, Bounds::default());
    }
}
