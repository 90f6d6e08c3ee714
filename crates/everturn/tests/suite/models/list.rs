//! `everturn models list`.

use expect_test::expect;
use serde_json::Value;

use super::{Upstream, config, run, shown};

#[test]
fn each_provider_is_listed_and_failures_are_told() {
    let upstream = Upstream::start();
    let output = run(&config(&upstream), &["models", "list"]);
    expect![[r#"
        exit: 0
        ----- stdout
        closed (openai): its models cannot be listed
          closed answered 401: Incorrect API key provided: Bearer [key]
          MODEL  WINDOW  ANSWER  $ PER 1M IN/OUT  AGENTS
          any    -       -       -                second

        open (openai): 3 models
          MODEL      WINDOW  ANSWER  $ PER 1M IN/OUT  AGENTS
          auto       -       -       -
          gpt-4o     128k    16k     -
          new-model  1.05M   128k    2.00/10.00       first, third
          lost       -       -       -                first (not in the provider's list)
        ----- stderr
    "#]]
    .assert_eq(&shown(&upstream, &output));
    let [listed] = &upstream.got().into_iter().filter(|got| got.path.starts_with("/v1")).collect::<Vec<_>>()[..] else {
        panic!("one request: {:?}", upstream.got())
    };
    assert_eq!((listed.path.as_str(), listed.team.as_str()), ("/v1/models?api-version=2026-01-01", "team-secret"));
}

#[test]
fn machines_get_json() {
    let upstream = Upstream::start();
    let priced = config(&upstream) + "\n[prices.'open/lost']\ninput = 1.5\noutput = 6\n";
    let output = run(&priced, &["models", "list", "--provider", "open", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let provider = &listed["providers"][0];
    assert_eq!((&provider["name"], &provider["error"]), (&"open".into(), &Value::Null));
    assert_eq!(listed["providers"].as_array().unwrap().len(), 1);
    expect![[r#"
        {"agents":["first","third"],"context_window":1050000,"id":"new-model","input_price":2.0,"listed":true,"max_output":128000,"output_price":10.0}
        {"agents":["first"],"context_window":null,"id":"lost","input_price":1.5,"listed":false,"max_output":null,"output_price":6.0}"#]].assert_eq(&format!("{}\n{}", provider["models"][2], provider["models"][3]));
}

#[test]
fn it_fails_where_no_provider_answers() {
    let upstream = Upstream::start();
    let refused = run(&config(&upstream), &["models", "list", "--provider", "closed"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let unknown = run(&config(&upstream), &["models", "list", "--provider", "opne"]);
    expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: there is no provider `opne`

        hint: there are `closed`, `open`
    "#]]
    .assert_eq(&shown(&upstream, &unknown));
}

#[test]
fn the_demo_has_two() {
    let upstream = Upstream::start();
    let demo = "[providers.demo]\nkind = 'demo'\n[[agents]]\nname = 'a'\nmodel = 'demo/assistant'";
    expect![[r#"
        exit: 0
        ----- stdout
        demo (demo): 2 models
          MODEL      WINDOW  ANSWER  $ PER 1M IN/OUT  AGENTS
          assistant  32k     -       -                a
          load       32k     -       -
        ----- stderr
    "#]]
    .assert_eq(&shown(&upstream, &run(demo, &["models", "list"])));
}
