//! What a web page says.

use everturn_documents::{Bounds, Kind, read};
use expect_test::{Expect, expect};

#[track_caller]
fn check(html: &str, expected: &Expect) {
    let document = read("page.html", format!("<!doctype html>{html}").as_bytes(), Bounds::default()).unwrap();
    assert_eq!(document.kind, Kind::Html);
    expected.assert_eq(&document.text.unwrap());
}

#[test]
fn blocks_are_lines_and_inline_text_flows() {
    let html = "<head><title>A  title</title><style>p { color: red }</style></head><body>
        <h1>Top</h1><p>Some <b>bold</b>\n   text<br>and more</p><ul><li><p>one</p></li><li>two<li></ul>
        <div>A<div>B</div></div><h3></h3><table><tr><th>k</th><th>v</th></tr><tr><td>1<td>2</table>
        <pre>  x\n\n  y</pre>z";
    check(
        html,
        &expect![[r#"
            A title

            # Top

            Some bold text
            and more

            - one

            - two

            A
            B

            k	v
            1	2

              x

              y

            z"#]],
    );
}

#[test]
fn what_is_not_shown_is_left_out() {
    let html = "a<!-- <p>no --><script>if (1 < 2) { '<p>no' }</SCRIPT>b\
                <noscript>no<noscript>no</noscript>no</noscript>c<svg/><svg><text>no</text></svg><style>no</style>d<?php no ?><![CDATA[no]]>e<template><p>no</template>f";
    check(html, &expect!["abcdef"]);
}

#[test]
fn entities_are_decoded() {
    check(
        "&lt;b&gt; &amp;amp; &eacute;&#8364;&#x1F600;&nbsp;&hellip; &unknown; & &#xD800;&#0; a&b;",
        &expect!["<b> &amp; é€😀 … &unknown; & �� a&b;"],
    );
}

#[test]
fn links_say_where_they_lead() {
    check(
        "<a class=x HREF = 'https://example.org/?a=1&amp;b=2'>here</a>, <a href=#top>up</a>, <a name=n>n</a> \
         <img src=a.png alt=\"a &quot;dog&quot;\">.",
        &expect![[r#"here (https://example.org/?a=1&b=2), up, n a "dog" ."#]],
    );
}

#[test]
fn what_is_broken_is_read_as_far_as_it_goes() {
    check("1 < 2 <3 <> </> <p title='a>b'>x</p", &expect!["1 < 2 <3 <> </>\n\nx"]);
    check("<p title=\"never closed>a</p><p title='x>y'>b</p>", &expect!["a\n\ny'>b"]);
    check("shown<!-- never closed <p>no", &expect!["shown"]);
    check("shown<script>never closed", &expect!["shown"]);
}
