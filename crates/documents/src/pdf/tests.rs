//! PDFs made for what they test.

mod builder;

use expect_test::{Expect, expect};

use self::builder::{Builder, deflated, page_of, stream};
use super::{Budget, read, read_within};
use crate::DocumentError;

const LIMIT: usize = 1 << 16;

#[track_caller]
fn check(file: &[u8], expected: &Expect) {
    let pdf = read(file, LIMIT).expect("it can be read");
    assert!(!pdf.is_cut);
    expected.assert_eq(&format!("{} page(s)\n{}", pdf.pages, pdf.text));
}

/// Text by Helvetica, whose widths are not said, and by a font whose glyphs are all half as wide as high.
#[track_caller]
fn check_page(content: &str, expected: &Expect) {
    check(&page_of(content), expected);
}

#[test]
fn lines_end_where_the_next_text_is_lower() {
    let content = "BT /W 10 Tf 12 TL 50 700 Td (one) Tj 0 -12 Td (two) Tj T* (three) Tj (four) ' 1 0 (five) \" \
                   1 0 0 1 50 500 Tm (six) Tj 40 0 TD (seven) Tj ET";
    check_page(
        content,
        &expect![[r#"
            1 page(s)
            one
            two
            three
            four
            five

            six	seven"#]],
    );
}

#[test]
fn words_end_where_a_gap_is() {
    let content = "BT /W 10 Tf 50 700 Td [(W) 80 (ord) -300 (gap) -20 (less)] TJ 5 Tc ( spa) Tj (ced) Tj ET \
                   BT /H 10 Tf 50 650 Td (no) Tj 12 0 Td (widths) Tj ET";
    check_page(
        content,
        &expect![[r#"
            1 page(s)
            Word gapless spaced

            no widths"#]],
    );
}

#[test]
fn turned_and_scaled_pages_read_the_same() {
    let text = "BT /W 1 Tf 0 0 Td (first) Tj 3 0 Td (word) Tj 0 -1.2 Td (line) Tj ET";
    let expected = expect![[r#"
        1 page(s)
        first word
        line"#]];
    for matrix in ["1 0 0 1 0 0", "0 20 -20 0 500 100", "-8 0 0 -8 300 300", "0.01 0 0 0.01 5 5"] {
        check_page(&format!("q {matrix} cm {text} Q"), &expected);
    }
}

#[test]
fn glyphs_mean_what_the_encoding_says() {
    let file = Builder::new()
        .object(
            5,
            "<</Type/Font/Subtype/Type1/BaseFont/X/Encoding<</BaseEncoding/WinAnsiEncoding\
             /Differences[1/fi/uni20AC/a.alt/f_f/nonsense 65/Omega]>>/FirstChar 0/Widths[500]>>",
        )
        .object(6, "<</Type/Font/Subtype/Type1/BaseFont/ABCDEF+Symbol>>")
        .object(7, "<</Type/Font/Subtype/TrueType/BaseFont/Y/Encoding/MacRomanEncoding>>")
        .page(
            "/A 5 0 R/B 6 0 R/C 7 0 R",
            "BT /A 1 Tf (\\001\\002\\003\\004\\005AB\\223\\226) Tj 0 -2 Td /B 1 Tf (\\267abG) Tj 0 -2 Td \
             /C 1 Tf (\\200\\216\\245) Tj ET",
        );
    check(
        &file.bytes(),
        &expect![[r#"
            1 page(s)
            fi€aff�ΩB“–
            •αβΓ
            Äé•"#]],
    );
}

#[test]
fn codes_of_two_bytes_mean_what_the_map_says() {
    let map = "1 begincodespacerange <0000> <ffff> endcodespacerange 2 beginbfchar <0001> <00480069> <0002> <d83dde00> \
               endbfchar 2 beginbfrange <0010> <0012> <0061> <0020> <0021> [<0078> <0079>] endbfrange";
    let file = Builder::new()
        .object(5, "<</Type/Font/Subtype/Type0/Encoding/Identity-H/DescendantFonts[6 0 R]/ToUnicode 7 0 R>>")
        .object(6, "<</DW 500/W[1 [900 1000] 16 18 400]>>")
        .object(7, &stream("", map.as_bytes()))
        .object(8, "<</Type/Font/Subtype/Type0/Encoding/UniGB-UCS2-H/DescendantFonts[6 0 R]>>")
        .page("/A 5 0 R/B 8 0 R", "BT /A 1 Tf <00010002001000110012002000210099> Tj 0 -2 Td /B 1 Tf <4f60597d> Tj ET");
    check(
        &file.bytes(),
        &expect![[r#"
            1 page(s)
            Hi😀abcxy�
            你好"#]],
    );
}

#[test]
fn packed_content_is_unpacked() {
    let text = b"BT /H 1 Tf (packed) Tj ET";
    let zlib = deflated(text);
    let hex: Vec<u8> = zlib.iter().flat_map(|byte| format!("{byte:02X}").into_bytes()).chain(*b">").collect();
    let run: Vec<u8> = [&[text.len() as u8 - 1], &text[..], &[128]].concat();
    // Rows of five, each with the filter that says "as the row above".
    let mut above = [b' '; 5];
    let mut rows = b"\x00     ".to_vec();
    for row in text.chunks_exact(5) {
        rows.push(2);
        rows.extend(row.iter().zip(above).map(|(byte, above)| byte.wrapping_sub(above)));
        above.copy_from_slice(row);
    }
    for (filter, data) in [
        ("/Filter/FlateDecode", zlib),
        ("/Filter[/ASCIIHexDecode/FlateDecode]", hex),
        ("/Filter/RunLengthDecode", run),
        ("/Filter/FlateDecode/DecodeParms<</Predictor 12/Columns 5>>", deflated(&rows)),
        ("/Filter/ASCII85Decode", br"6<#'\80BW0<+[7$E+*6lARm54<,*OE;u~>".to_vec()),
    ] {
        let file = Builder::new().page_with("/H 4 0 R", &stream(filter, &data));
        let found = read(&file.bytes(), LIMIT).map(|pdf| pdf.text);
        assert_eq!(found.as_deref(), Ok("packed"), "{filter}");
    }
}

#[test]
fn objects_lie_in_streams_too() {
    let page = "<</Type/Page/Contents 3 0 R/Resources<</Font<</H 4 0 R>>>>>>";
    let inner = format!("20 0 21 {} {page} <</Type/Pages/Kids[20 0 R]>>", page.len() + 1);
    let first = inner.find("<<").unwrap();
    let file = Builder::new()
        .object(1, "<</Type/Catalog/Pages 21 0 R>>")
        .object(3, &stream("", b"BT /H 1 Tf (from a stream) Tj ET"))
        .object(4, "<</Type/Font/Subtype/Type1>>")
        .object(9, &stream(&format!("/Type/ObjStm/N 2/First {first}/Filter/FlateDecode"), &deflated(inner.as_bytes())))
        .object(10, &stream("/Type/XRef/Root 1 0 R/W[1 2 1]", b""));
    check(
        &file.without_trailer(),
        &expect![[r#"
            1 page(s)
            from a stream"#]],
    );
}

#[test]
fn a_later_object_replaces_an_earlier_one() {
    let file = Builder::new().page("/H 4 0 R", "BT /H 1 Tf (old) Tj ET");
    let file = file.object(3, &stream("", b"BT /H 1 Tf (new) Tj ET"));
    check(
        &file.bytes(),
        &expect![[r#"
            1 page(s)
            new"#]],
    );
}

#[test]
fn streams_end_where_they_end_whatever_the_length_says() {
    for length in ["9999", "3", "7 0 R", "8 0 R", "3 0 R"] {
        let content = format!("<</Length {length}>>stream\nBT /H 1 Tf (1 0 obj) Tj ET\nendstream");
        let file = Builder::new().object(7, "26").object(8, "8 0 R").page_with("/H 4 0 R", content.as_bytes());
        let found = read(&file.bytes(), LIMIT).map(|pdf| pdf.text);
        assert_eq!(found.as_deref(), Ok("1 0 obj"), "/Length {length}");
    }
}

#[test]
fn forms_and_filled_in_fields_are_read() {
    let form = "/Type/XObject/Subtype/Form/Matrix[1 0 0 1 0 -50]/Resources<</Font<</F 4 0 R>>>>";
    let file = Builder::new()
        .object(5, &stream(form, b"BT /F 10 Tf (in a form) Tj ET"))
        .object(6, "<</Subtype/Widget/Rect[0 500 90 520]/AP<</N 7 0 R>>>>")
        .object(7, &stream("/Subtype/Form/Resources<</Font<</F 4 0 R>>>>", b"BT /F 10 Tf (filled in) Tj ET"))
        .object(1, "<</Type/Catalog/Pages 2 0 R>>")
        .object(2, "<</Type/Pages/Kids[8 0 R]/Resources<</Font<</H 4 0 R>>/XObject<</X 5 0 R>>>>>>")
        .object(
            3,
            &stream("", b"BT /H 10 Tf 0 100 Td (page) Tj ET /X Do BI /W 1 ID (\x00EI( EI BT /H 10 Tf (end) Tj ET"),
        )
        .object(4, "<</Type/Font/Subtype/Type1>>")
        .object(8, "<</Type/Page/Contents[3 0 R 99 0 R]/Annots[6 0 R]>>");
    check(
        &file.bytes(),
        &expect![[r#"
            1 page(s)
            page

            in a form

            end

            filled in"#]],
    );
}

#[test]
fn pages_are_counted_once_and_found_without_a_list() {
    let pages = |kids: &str| {
        Builder::new()
            .object(1, "<</Type/Catalog/Pages 2 0 R>>")
            .object(2, &format!("<</Type/Pages/Kids[{kids}]>>"))
            .object(3, "<</Type/Pages/Kids[2 0 R 4 0 R 5 0 R]>>")
            .object(4, "<</Type/Page/Contents 6 0 R/Resources<</Font<</H 7 0 R>>>>>>")
            .object(5, "<</Type/Page>>")
            .object(6, &stream("", b"BT /H 1 Tf (here) Tj ET"))
            .object(7, "<</Type/Font/Subtype/Type1>>")
            .bytes()
    };
    for kids in ["3 0 R 4 0 R 3 0 R 2 0 R", "99 0 R", ""] {
        let pdf = read(&pages(kids), LIMIT).unwrap();
        assert_eq!((pdf.pages, &*pdf.text), (2, "here"), "{kids}");
    }
}

#[test]
fn pages_that_are_pictures_have_no_text() {
    let file = Builder::new()
        .object(5, &stream("/Subtype/Image/Filter/DCTDecode", b"\xff\xd8\xff"))
        .page("/H 4 0 R", "q 100 0 0 100 0 0 cm /Im Do Q");
    check(&file.bytes(), &expect!["1 page(s)\n"]);
}

#[test]
fn what_is_no_page_is_said() {
    let error = read(b"%PDF-1.7\nnothing here", LIMIT).map(|pdf| pdf.text).unwrap_err();
    expect!["the document cannot be read: the PDF has no pages that can be found; it may be damaged"]
        .assert_eq(&error.to_string());
}

#[test]
fn text_is_kept_up_to_the_limit() {
    let pdf = read(&page_of("BT /W 10 Tf (0123456789) Tj ET"), 4).unwrap();
    assert_eq!((&*pdf.text, pdf.is_cut), ("0123", true));
    let pdf = read(&page_of("BT /W 10 Tf (0123) Tj ET"), 4).unwrap();
    assert_eq!((&*pdf.text, pdf.is_cut), ("0123", false));
}

/// Each of these would run for years, or take all memory, if nothing stopped it.
#[test]
fn work_ends_with_the_budget() {
    let forms = "/X Do ".repeat(100);
    let spaces = deflated(&vec![b' '; 8 << 20]);
    let twice = deflated(&spaces);
    let loops = Builder::new()
        .object(5, &stream("/Subtype/Form/Resources<</XObject<</X 5 0 R>>>>", forms.as_bytes()))
        .object(1, "<</Type/Catalog/Pages 2 0 R>>")
        .object(2, "<</Type/Pages/Kids[6 0 R]/Resources<</XObject<</X 5 0 R>>>>>>")
        .object(6, "<</Type/Page/Contents 5 0 R>>");
    let members: String = (10..2000).map(|number| format!("{number} 0 ")).collect();
    let kids: String = (10..2000).map(|number| format!("{number} 0 R ")).collect();
    let array = format!("[{}]", "0 ".repeat(100_000));
    let shared = Builder::new()
        .object(1, "<</Type/Catalog/Pages 2 0 R>>")
        .object(2, &format!("<</Type/Pages/Kids[{kids}]>>"))
        .object(
            3,
            &stream(
                &format!("/Type/ObjStm/N 1990/First {}/Filter/FlateDecode", members.len()),
                &deflated((members + &array).as_bytes()),
            ),
        );
    for (what, file) in [
        ("forms in forms", loops),
        ("spaces", Builder::new().page_with("/H 4 0 R", &stream("/Filter/FlateDecode", &spaces))),
        ("packed twice", Builder::new().page_with("/H 4 0 R", &stream("/Filter[/FlateDecode/FlateDecode]", &twice))),
        ("objects that share bytes", shared),
    ] {
        let budget = Budget::new(1 << 20);
        let ended = match read_within(&budget, &file.bytes(), LIMIT) {
            Ok(pdf) => pdf.is_cut,
            Err(DocumentError::Unreadable { what }) => what.contains("too much work"),
            Err(_) => false,
        };
        assert!(ended && budget.is_spent(), "{what}");
    }
}
