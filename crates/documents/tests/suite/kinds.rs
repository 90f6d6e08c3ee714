//! Which kind bytes are, and what text they give.

use everturn_documents::{Bounds, DocumentError, ImageFormat, Kind, read};

use super::sample::{PDF, PNG};

/// The kind of each, and its text where that is not simply the bytes.
#[test]
fn the_bytes_decide() {
    let same = None;
    let cases: &[(&str, &[u8], Kind, Option<&str>)] = &[
        ("notes.txt", b"Just a note.\n", Kind::Text, same),
        ("no ending", "Grüße, 世界\n".as_bytes(), Kind::Text, same),
        ("bom.txt", b"\xef\xbb\xbfHello", Kind::Text, Some("Hello")),
        ("utf16.txt", b"\xff\xfeH\0i\0=\xd8\0\xde", Kind::Text, Some("Hi😀")),
        ("utf16be.txt", b"\xfe\xff\0H\0i", Kind::Text, Some("Hi")),
        ("colours.log", b"\x1b[32mok\x1b[0m\n", Kind::Text, same),
        ("main.rs", b"# not Markdown\n- not either\n", Kind::Text, same),
        ("config.yaml", b"# settings\n- a\n- b\n", Kind::Text, same),
        ("letter.txt", b"Dear Ann, how are you?\nI am well, thanks.\nYours, Bo\n", Kind::Text, same),
        ("about.txt", b"A PDF begins with %PDF-1.7, they say.\n", Kind::Text, same),
        ("one.json", b" {\"a\": [1, 2, {\"b\": null}]}\n", Kind::Json, same),
        ("list.txt", b"[1, 2, 3]", Kind::Json, same),
        ("bom.json", b"\xef\xbb\xbf{}", Kind::Json, Some("{}")),
        ("broken.json", b"{\"a\": ", Kind::Text, same),
        ("word.json", b"true", Kind::Text, same),
        ("data.csv", b"a,b\n1,2\n", Kind::Csv, same),
        ("one column.csv", b"name\nAnn\n", Kind::Csv, same),
        ("export", b"id;name;note\n1;Ann;\"x;\ny\"\n2;Bo;\"say \"\"hi\"\"\"\n", Kind::Csv, same),
        ("export.dat", b"id\tname\r\n1\tAnn\r\n2\tBo\r\n", Kind::Csv, same),
        ("readme.md", b"Only words.\n", Kind::Markdown, same),
        ("README", b"# Title\n\n* one\n* two\n", Kind::Markdown, same),
        ("table.txt", b"| a | b |\n|---|:-:|\n| 1 | 2 |\n", Kind::Markdown, same),
        ("code.txt", b"Look:\n```sh\nls\n```\n", Kind::Markdown, same),
        ("readme.md", b"<div align=\"center\">\n\n# Title\n\n</div>\n", Kind::Markdown, same),
        ("page.txt", b"<!DOCTYPE html><title>T</title><p>Hi &amp; bye", Kind::Html, Some("T\n\nHi & bye")),
        ("part.html", b"<p>x</p><script>y()</script>", Kind::Html, Some("x")),
        ("p.html", b"<?xml version='1.0'?>\n<html lang=en><body>x</body></html>", Kind::Html, Some("x")),
        ("a.txt", PDF, Kind::Pdf, Some("Hello from a page")),
        ("a.csv", PNG, Kind::Image(ImageFormat::Png), same),
    ];
    for (name, bytes, kind, text) in cases {
        let document = read(name, bytes, Bounds::default()).unwrap();
        let as_sent = std::str::from_utf8(bytes).ok();
        let text = if matches!(kind, Kind::Image(_)) { None } else { text.or(as_sent) };
        assert_eq!((document.kind, document.text.as_deref(), document.cut), (*kind, text, false), "{name}: {bytes:?}");
        assert_eq!(document.media_type, kind.media_type());
        assert_eq!(document.pages, (*kind == Kind::Pdf).then_some(1));
    }
}

#[test]
fn a_pdf_may_begin_a_little_later() {
    let late = [b"\x00\xff junk \n", PDF].concat();
    let document = read("x", &late, Bounds::default()).unwrap();
    assert_eq!((document.kind, document.text.as_deref()), (Kind::Pdf, Some("Hello from a page")));
}

#[test]
fn what_cannot_be_read_is_named() {
    let cases: &[(&[u8], &str)] = &[
        (b"MZ\x90\0\x03\0\0\0", "a Windows program"),
        (b"\x7fELF\x02\x01\x01\0", "a program (ELF)"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "a gzip archive"),
        (b"PK\x03\x04\x14\0\x06\0....[Content_Types].xml word/document.xml", "a Word document (.docx)"),
        (b"PK\x03\x04\x14\0....xl/workbook.xml", "an Excel workbook (.xlsx)"),
        (b"PK\x03\x04\x14\0....hello.txt", "a ZIP archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", "an old Office document (.doc, .xls or .ppt)"),
        (b"\0\0\0\x18ftypheic\0\0", "a HEIC image"),
        (b"II*\0\x08\0\0\0", "a TIFF image"),
        (b"{\\rtf1\\ansi Hello}", "an RTF document"),
        (b"text with a \0 in it", "binary data (control character 0x00 at byte 12)"),
        (b"caf\xe9 au lait", "text in an encoding other than UTF-8 and UTF-16 (byte 0xe9 at 3)"),
        (b"\x01\x02\xff\x03", "binary data (byte 0xff at 2)"),
        (b"\xff\xfeH\0i", "broken UTF-16 text"),
        (b"\xff\xfe\0\xd8a\0", "broken UTF-16 text"),
    ];
    for (bytes, expected) in cases {
        for name in ["a.txt", "a.md", "a.csv", "a.pdf", "a.png"] {
            let error = read(name, bytes, Bounds::default()).unwrap_err();
            assert_eq!(error, DocumentError::Unsupported { found: (*expected).to_owned() }, "{bytes:?}");
        }
    }
    expect_test::expect![[r#"the document seems to be a ZIP archive, which cannot be read; send plain text (UTF-8), Markdown, CSV, JSON, HTML, PDF, or a PNG, JPEG, GIF or WebP image"#]]
        .assert_eq(&read("a.txt", b"PK\x05\x06\0\0", Bounds::default()).unwrap_err().to_string());
}

#[test]
fn nothing_is_no_document() {
    for bytes in [&b""[..], b" \r\n\t", b"\xef\xbb\xbf", b"\xff\xfe"] {
        assert_eq!(read("a.txt", bytes, Bounds::default()), Err(DocumentError::Empty), "{bytes:?}");
    }
}

#[test]
fn bounds_are_kept() {
    let bounds = Bounds { bytes: 10, text_bytes: 4 };
    assert_eq!(read("a", b"12345678901", bounds), Err(DocumentError::TooLarge { bytes: 11, limit: 10 }));
    let document = read("a", "aé€€".as_bytes(), bounds).unwrap();
    assert_eq!((document.text.as_deref(), document.cut), (Some("aé"), true));
    let bounds = Bounds { text_bytes: 4, ..Bounds::default() };
    for (bytes, text) in [(&b"<html><p>ab<p>cd"[..], "ab"), (PDF, "Hell")] {
        let document = read("a", bytes, bounds).unwrap();
        assert_eq!((document.text.as_deref(), document.cut), (Some(text), true));
    }
}
