//! The reader of the API document, in a real browser.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use serde_json::{Value, json};

use super::harness::{key, shared};

/// How long the browser may take for everything, on a machine with much else to do.
const WALK: Duration = Duration::from_secs(240);

#[test]
fn chromium_shows_the_document_and_calls_what_is_in_it() {
    let shared = shared();
    let origin = format!("http://{}", shared.server.address);
    let seen = walk(&json!({ "origin": origin, "key": key("acme") }));

    let browse = &seen["browse"];
    let document = shared.server.client().send("GET", "/openapi.json", "").json();
    let operations = operations(&document);
    assert!(operations.len() > 40, "{operations:#?}");
    assert_eq!(browse["title"], document["info"]["title"]);
    assert_eq!(texts(&browse["operations"]), operations, "every operation is shown");
    assert_eq!(texts(&browse["linked"]), operations, "and is in the side bar");
    assert_eq!(browse["headings"], "H1 H2 H3");
    assert_eq!(browse["searching"], "search", "a key leads there");
    assert_eq!(browse["narrowed"], json!(["ops_health"]));
    assert_eq!(browse["counted"], format!("1 of {} operations", operations.len()));
    assert_eq!((&browse["entered"], &browse["address"]), (&json!("ops_health"), &json!("#ops_health")));
    assert_eq!(browse["answered"], operations.len(), "every operation tells its answers");
    let flaws = ["unlabelled", "nameless", "unresolved"].map(|flaw| (flaw, browse[flaw].as_u64()));
    assert_eq!(flaws, [("unlabelled", Some(0)), ("nameless", Some(0)), ("unresolved", Some(0))]);

    let trees = &seen["trees"];
    assert_eq!(trees["linked"], "goose_reply", "an address leads to its operation");
    assert_eq!(trees["before"], json!([]));
    let fields = texts(&trees["after"]);
    assert!(["role", "content"].iter().all(|field| fields.contains(*field)), "{fields:?}");

    let tried = &seen["tryIt"];
    assert_eq!((&tried["status"], &tried["health"]), (&json!("200 OK"), &json!("ok\n")));
    assert!(texts(&tried["headers"]).contains("content-type"), "{tried}");
    assert!(tried["refused"]["message"].as_str().unwrap().contains("wants a key"), "{tried}");
    let stream = tried["stream"].as_str().unwrap();
    let said: Vec<_> = ["word 1 ", "word 2 ", "word 3 "].iter().map(|word| stream.find(word)).collect();
    assert!(said.is_sorted() && said.iter().all(Option::is_some), "{stream}");
    assert!(stream.lines().any(|line| line.starts_with("data: {\"type\":\"Finish\",\"reason\":\"stop\"")), "{stream}");
    assert_eq!((&tried["stopShown"], &tried["stopped"]), (&json!(false), &json!(false)));
    let curl = tried["curl"].as_str().unwrap();
    assert!(curl.starts_with(&format!("curl -N -X POST '{origin}/reply' \\\n")), "{curl}");
    assert!(curl.contains("-H \"Authorization: Bearer $EVERTURN_KEY\""), "{curl}");
    let query = tried["query"].as_str().unwrap();
    assert!(query.contains("/history?type=full'"), "what the query must have is there: {query}");
    assert_eq!((&tried["kept"], &tried["shown"]), (&json!(0), &json!(false)), "nobody else learns the key");

    let hostile = &seen["hostile"];
    assert_eq!((&hostile["taken"], &hostile["made"]), (&Value::Null, &json!(0)), "{hostile}");
    assert!(hostile["description"].as_str().unwrap().starts_with("<img src="), "{hostile}");
    assert!(hostile["selves"].as_u64() > Some(6), "what contains itself can be opened on and on: {hostile}");
    assert_eq!(hostile["lost"], 2, "{hostile}");
    assert!(hostile["curl"].as_str().unwrap().contains(&format!("'{origin}/x'")), "{hostile}");

    let phone = json!({ "width": 360, "back": "rgb(13, 17, 23)", "closed": false, "open": true });
    assert_eq!(seen["phone"], phone);
    assert_eq!(seen["hosts"], json!([origin]), "the page asks nobody else");
    assert_eq!(seen["errors"], json!([]));
    assert_eq!(seen["policy"], json!({ "markup": true, "elsewhere": true, "code": true }));
}

#[test]
fn the_page_is_kept_and_asked_for_again() {
    let shared = shared();
    let client = shared.server.client();
    let page = client.send("GET", "/docs", "");
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!(page.header("cache-control"), "no-cache");
    assert!(page.header("content-security-policy").contains("script-src 'self';"), "{page:?}");
    let again = client.send_with("GET", "/docs", &[("if-none-match", page.header("etag"))], "");
    assert_eq!((again.status, again.body.as_str(), again.header("etag")), (304, "", page.header("etag")));
    let slash = client.send("GET", "/docs/", "");
    assert_eq!((slash.status, slash.header("location")), (308, "../docs"));
}

fn operations(document: &Value) -> BTreeSet<String> {
    let items = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .chain(document["webhooks"].as_object().into_iter().flatten().map(|(_, item)| item));
    let ids = items.flat_map(|item| item.as_object().unwrap().values().map(|one| &one["operationId"]));
    ids.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn texts(list: &Value) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has the browser walk through the page; what it saw.
fn walk(told: &Value) -> Value {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers");
    let installed = peers.join("node_modules/playwright-core").exists();
    assert!(installed, "playwright-core is not installed under tests/peers; run: cargo xtask peers");
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("node");
    command.arg(peers.join("docs.mjs")).env("TMPDIR", folder.path());
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = Running(child.unwrap_or_else(|error| panic!("failed to start {command:?}: {error}")));
    // Open until the end: the script ends with it, and the browser with the script.
    let mut stdin = child.0.stdin.take().unwrap();
    stdin.write_all(format!("{told}\n").as_bytes()).unwrap();
    let mut stdout = BufReader::new(child.0.stdout.take().unwrap());
    let (sender, line) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = stdout.read_line(&mut line);
        let _ = sender.send(line);
    });
    let line = line.recv_timeout(WALK).expect("the browser takes too long");
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: the browser told {line:?}; see above"))
}
