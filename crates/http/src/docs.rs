//! A reader for the API document: one page, which asks nobody but this server.
//!
//! The page is files beside this one, compiled in. It is given nothing that it could run or load from elsewhere, and puts
//! nothing on itself that is not text; browsers are told to hold it to that.

use axum::{
    Router,
    response::{IntoResponse as _, Redirect, Response},
    routing::get,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

/// What the page may do: load its own files, and call this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files, each with its path and its type.
const FILES: [(&str, &str, &str); 9] = [
    ("/docs", "text/html; charset=utf-8", include_str!("docs/index.html")),
    ("/docs/style.css", "text/css; charset=utf-8", include_str!("docs/style.css")),
    ("/docs/icon.svg", "image/svg+xml", include_str!("docs/icon.svg")),
    ("/docs/main.js", SCRIPT, include_str!("docs/main.js")),
    ("/docs/dom.js", SCRIPT, include_str!("docs/dom.js")),
    ("/docs/document.js", SCRIPT, include_str!("docs/document.js")),
    ("/docs/schema.js", SCRIPT, include_str!("docs/schema.js")),
    ("/docs/operation.js", SCRIPT, include_str!("docs/operation.js")),
    ("/docs/attempt.js", SCRIPT, include_str!("docs/attempt.js")),
];

/// `/docs` and what belongs to it. It shows `/openapi.json` of the same server, and is open without a key: so is that.
pub fn docs() -> Router {
    // Its addresses are relative to this one without the slash.
    let routes = Router::new().route("/docs/", get(async || Redirect::permanent("../docs")));
    FILES.iter().fold(routes, |routes, (path, kind, text)| {
        let digest = Sha256::digest(text);
        let tag: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let tag = format!("\"{tag}\"");
        routes.route(path, get(async move |headers: HeaderMap| file(&headers, kind, text, &tag)))
    })
}

/// A file, unless the browser has it: it is to ask each time, so that the files of two versions never meet.
fn file(headers: &HeaderMap, kind: &'static str, text: &'static str, tag: &str) -> Response {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().any(|known| names(known, tag));
    let mut response = match known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, kind)], text).into_response(),
    };
    let headers = response.headers_mut();
    headers.extend(HeaderValue::from_str(tag).map(|tag| (header::ETAG, tag)));
    for (name, value) in [
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a list of tags has this one, or stands for all.
fn names(list: &HeaderValue, tag: &str) -> bool {
    let tags = list.to_str().unwrap_or_default().split(',').map(str::trim);
    tags.map(|known| known.strip_prefix("W/").unwrap_or(known)).any(|known| known == tag || known == "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small() {
        let bytes: usize = FILES.iter().map(|(_, _, text)| text.len()).sum();
        assert!(bytes <= 44_000, "{bytes} bytes");
    }

    #[test]
    fn every_file_that_is_named_is_there() {
        let [(_, _, page), files @ ..] = FILES;
        let mut named: Vec<_> = page.split('"').filter(|word| word.starts_with("docs/")).map(str::to_owned).collect();
        for (_, _, text) in files {
            let imported = text.split("from \"./").skip(1).filter_map(|rest| rest.split('"').next());
            named.extend(imported.map(|name| format!("docs/{name}")));
        }
        named.sort();
        named.dedup();
        let mut there: Vec<_> = files.iter().map(|(path, ..)| path.trim_start_matches('/')).collect();
        there.sort_unstable();
        assert_eq!(named, there);
    }

    #[test]
    fn nothing_makes_markup_of_text_or_leaves_the_server() {
        for (path, _, text) in FILES {
            for wrong in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "onclick=", "style="]
            {
                assert!(!text.contains(wrong), "{path} has {wrong}");
            }
            // The name of a language is no address.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{path} names another host");
        }
    }

    #[test]
    fn a_known_file_is_not_sent_again() {
        let asked = |tags: &'static str| {
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_static(tags))]);
            file(&headers, SCRIPT, "text", "\"abc\"").status()
        };
        assert_eq!(asked("\"abc\""), StatusCode::NOT_MODIFIED);
        assert_eq!(asked("\"x\", W/\"abc\""), StatusCode::NOT_MODIFIED);
        assert_eq!(asked("*"), StatusCode::NOT_MODIFIED);
        assert_eq!(asked("\"ab\""), StatusCode::OK);
        let fresh = file(&HeaderMap::new(), SCRIPT, "text", "\"abc\"");
        assert_eq!(fresh.headers()["etag"], "\"abc\"");
        assert!(fresh.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'; "));
    }
}
