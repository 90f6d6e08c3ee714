use std::fmt::Write as _;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

/// What a reader of a stream knows: the fields with their texts joined, whether the object ended, and the error.
#[derive(Debug, Default, PartialEq)]
struct Told {
    fields: Vec<(String, String)>,
    open: bool,
    ended: bool,
    error: Option<NotAnObject>,
}

fn read<'a>(chunks: impl IntoIterator<Item = &'a str>) -> Told {
    let mut told = Told::default();
    let mut stream = InputStream::new();
    for chunk in chunks {
        let outcome = stream.push(chunk, &mut |piece| {
            assert!(!told.ended, "{piece:?} after the end");
            match piece {
                Piece::Field { name } => {
                    assert!(!std::mem::replace(&mut told.open, true), "a field within a field");
                    told.fields.push((name.to_owned(), String::new()));
                }
                Piece::Text(text) => {
                    assert!(told.open && !text.is_empty(), "{text:?}");
                    told.fields.last_mut().unwrap().1.push_str(text);
                }
                Piece::FieldEnd => assert!(std::mem::replace(&mut told.open, false), "an end without a field"),
                Piece::End => {
                    assert!(!told.open, "the end within a field");
                    told.ended = true;
                }
            }
        });
        if let Err(error) = outcome {
            told.error = Some(error);
            assert_eq!(stream.push("{", &mut |piece| panic!("{piece:?} after an error")), Err(error));
            break;
        }
    }
    told
}

/// The text in chunks of these many characters, over and over; an empty chunk for nought.
fn chunks<'a>(text: &'a str, sizes: &[usize]) -> Vec<&'a str> {
    let mut sizes = sizes.iter().copied().cycle();
    let (mut chunks, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let size = sizes.next().unwrap_or(1);
        if size == 0 {
            chunks.push("");
        }
        let end = rest.char_indices().nth(size.max(1)).map_or(rest.len(), |(end, _)| end);
        let (chunk, after) = rest.split_at(end);
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

fn by_character(text: &str) -> Vec<&str> {
    chunks(text, &[1])
}

#[track_caller]
fn check(text: &str, expected: Expect) {
    let mut shown = String::new();
    let mut stream = InputStream::new();
    let outcome = stream.push(text, &mut |piece| {
        let _ = match piece {
            Piece::Field { name } => write!(shown, "{name} = "),
            Piece::Text(text) => write!(shown, "{text:?} "),
            Piece::FieldEnd => writeln!(shown, "."),
            Piece::End => writeln!(shown, "end"),
        };
    });
    if let Err(error) = outcome {
        let _ = writeln!(shown, "\n{error}");
    }
    expected.assert_eq(&shown);
    assert_eq!(read(by_character(text)), read([text]), "cut into characters");
}

#[test]
fn texts_at_the_top_are_told() {
    check(
        r#" {"title":"A \"b\"","n":1.5e3,"ok" : true,"o":{"x":"}\"]","y":[{}]},"l":["a",[]],"empty":"","content" : "é\n\u00e9\uD83D\uDE00"} "#,
        expect![[r#"
            title = "A " "\"" "b" "\"" .
            empty = .
            content = "é" "\n" "é" "😀" .
            end
        "#]],
    );
    check(
        "{}",
        expect![[r#"
        end
    "#]],
    );
    check(r#"{"a":"half a te"#, expect![[r#"a = "half a te" "#]]);
    check(
        r#"{"a":"1","a":"2"}"#,
        expect![[r#"
        a = "1" .
        a = "2" .
        end
    "#]],
    );
    check(
        r#"{"\u0061\n":"key"}"#,
        expect![[r#"
        a
         = "key" .
        end
    "#]],
    );
}

#[test]
fn surrogates_that_are_alone_are_replaced() {
    check(
        r#"{"a":"\ud83d"}"#,
        expect![[r#"
        a = "�" .
        end
    "#]],
    );
    check(
        r#"{"a":"\ude00\ud83dx\ud83d\n\ud83d\ud83d\ude00\ud83d\u0041"}"#,
        expect![[r#"
        a = "�" "�" "x" "�" "\n" "�" "😀" "�" "A" .
        end
    "#]],
    );
}

#[test]
fn a_character_comes_when_all_of_it_is_there() {
    let mut stream = InputStream::new();
    let mut texts = Vec::new();
    for chunk in [r#"{"a":"x\"#, "n", r"\u", "D83", "D", r"\", "uDE0", "0", "y"] {
        let before = texts.len();
        stream
            .push(chunk, &mut |piece| {
                if let Piece::Text(text) = piece {
                    texts.push(text.to_owned());
                }
            })
            .unwrap();
        texts.insert(before, format!("<{chunk}>"));
    }
    expect![[r#"
        <{"a":"x\> x <n> 
         <\u> <D83> <D> <\> <uDE0> <0> 😀 <y> y"#]]
    .assert_eq(&texts.join(" "));
}

#[test]
fn what_is_no_object_is_refused() {
    for text in [
        "[1]",
        "\"a\"",
        "x",
        "{a",
        "{\"a\" \"b\"",
        "{\"a\":}",
        "{,",
        "{\"a\":1,}",
        "{\"a\":1 2",
        "{} {",
        "{\"a\":\"\\x",
    ] {
        assert!(read([text]).error.is_some(), "{text}");
    }
    check(
        "{\"a\":\"b\nc\"}",
        expect![[r#"
        a = "b" 
        the input is not a JSON object: unexpected '\n' at byte 7
    "#]],
    );
    check(
        r#"{"a":"é\u12é4"}"#,
        expect![[r#"
        a = "é" 
        the input is not a JSON object: unexpected 'é' at byte 12
    "#]],
    );
    check(
        r#"{"a":nul:}"#,
        expect![[r#"

        the input is not a JSON object: unexpected ':' at byte 8
    "#]],
    );
}

#[test]
fn what_is_passed_over_is_not_checked() {
    check(
        r#"{"a":nil,"b":[1,,:{]],"c":"d"}"#,
        expect![[r#"
        c = "d" .
        end
    "#]],
    );
}

#[test]
fn long_keys_are_passed_over() {
    let long = "é".repeat(129);
    check(
        &format!(r#"{{"{long}":"a\"b","x":"y"}}"#),
        expect![[r#"
        x = "y" .
        end
    "#]],
    );
    let fits = "é".repeat(128);
    assert_eq!(read([format!(r#"{{"{fits}":"a"}}"#).as_str()]).fields, [(fits, "a".to_owned())]);
}

#[test]
fn deep_nesting_costs_nothing() {
    let deep = format!(r#"{{"a":{}{},"b":"c"}}"#, "[{".repeat(200_000), "}]".repeat(200_000));
    let told = read(chunks(&deep, &[1000]));
    assert_eq!((told.fields, told.ended), (vec![("b".to_owned(), "c".to_owned())], true));
}

/// JSON text of a value, with escapes and spaces as `style` says. Everything that may be written in several ways is.
struct Writer<'a> {
    out: String,
    style: std::iter::Cycle<std::slice::Iter<'a, u8>>,
}

impl Writer<'_> {
    fn choice(&mut self, of: u8) -> u8 {
        self.style.next().map_or(0, |style| style % of)
    }

    fn space(&mut self) {
        let space = ["", "", "", " ", "\n\t", "\r "][usize::from(self.choice(6))];
        self.out.push_str(space);
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            let must = character < ' ' || matches!(character, '"' | '\\');
            match (self.choice(4), must) {
                (0, _) | (3, true) => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        let _ = if self.choice(2) == 0 {
                            write!(self.out, "\\u{unit:04x}")
                        } else {
                            write!(self.out, "\\u{unit:04X}")
                        };
                    }
                }
                (1, false) if character == '/' => self.out.push_str("\\/"),
                (_, true) => {
                    let quoted = serde_json::to_string(&character).unwrap();
                    self.out.push_str(&quoted[1..quoted.len() - 1]);
                }
                (_, false) => self.out.push(character),
            }
        }
        self.out.push('"');
    }

    fn value(&mut self, value: &Value) {
        self.space();
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                self.out.push('[');
                for (at, item) in items.iter().enumerate() {
                    self.out.push_str(if at > 0 { "," } else { "" });
                    self.value(item);
                }
                self.out.push(']');
            }
            Value::Object(members) => {
                self.out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    self.out.push_str(if at > 0 { "," } else { "" });
                    self.space();
                    self.text(name);
                    self.space();
                    self.out.push(':');
                    self.value(value);
                }
                self.out.push('}');
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => self.out.push_str(&value.to_string()),
        }
        self.space();
    }
}

fn any_text() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        4 => any::<char>(),
        4 => prop::char::range(' ', '~'),
        2 => prop::sample::select(vec!['"', '\\', '/', '\n', '\t', '\u{8}', '\u{c}', '\0', 'u', '{', '}', '😀', '\u{ffff}']),
    ];
    prop::collection::vec(character, 0..20).prop_map(String::from_iter)
}

fn any_object() -> impl Strategy<Value = Map<String, Value>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any_text(), inner, 0..5).prop_map(|members| members.into_iter().collect()),
        ]
    });
    let member = prop_oneof![value, any_text().prop_map(Value::from)];
    prop::collection::btree_map(any_text(), member, 0..6).prop_map(|members| members.into_iter().collect())
}

fn texts(object: &Map<String, Value>) -> Vec<(String, String)> {
    object.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

proptest! {
    #[test]
    fn the_pieces_of_an_object_are_what_a_parser_reads(
        object in any_object(),
        style in prop::collection::vec(any::<u8>(), 1..40),
        sizes in prop::collection::vec(0usize..9, 1..12),
    ) {
        let mut writer = Writer { out: String::new(), style: style.iter().cycle() };
        writer.value(&Value::Object(object.clone()));
        let parsed: Map<String, Value> = serde_json::from_str(&writer.out).unwrap();
        prop_assert_eq!(texts(&parsed), texts(&object));
        let told = read(chunks(&writer.out, &sizes));
        let expected = Told { fields: texts(&parsed), open: false, ended: true, error: None };
        prop_assert_eq!(told, expected);
    }

    #[test]
    fn hostile_text_is_read_alike_however_it_is_cut(
        text in "(\\{\"a\":\"|\",\"|\\\\u(d83d|DE00|00)|\\\\|[\\[\\]{}\":, a-f0-9nu\n😀é-]){0,30}",
        sizes in prop::collection::vec(0usize..5, 1..8),
    ) {
        let told = read([text.as_str()]);
        prop_assert_eq!(&read(chunks(&text, &sizes)), &told);
        // What a parser takes is told in full. A name that comes twice is told twice, the parser keeps the last.
        if let Ok(object) = serde_json::from_str::<Map<String, Value>>(&text) {
            prop_assert!(told.ended && told.error.is_none(), "{:?}", told);
            for (name, text) in texts(&object) {
                prop_assert_eq!(told.fields.iter().rfind(|field| field.0 == name).map(|field| &field.1), Some(&text));
            }
        }
    }
}
