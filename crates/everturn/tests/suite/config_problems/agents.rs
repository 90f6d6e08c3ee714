//! Providers and agents.

use everturn::config::{Environment, Overrides};
use expect_test::{Expect, expect};

use super::{super::config_values::read, check, check_agent};

#[test]
fn wires_headers_and_bodies() {
    let check = |lines: &str, expected: Expect| {
        check(&format!("[providers.p]\n{lines}\n[[agents]]\nname = 'a'\nmodel = 'p/m'"), expected);
    };
    check(
        "kind = 'anthropic'\napi_key = 'x'\nwire = 'chat'",
        expect![[r#"
        error: `wire` is for providers of kind `openai`
          --> everturn.toml:4:8

        hint: leave it out: providers of other kinds speak one wire only"#]],
    );
    check(
        "kind = 'openai'\napi_key = 'x'\nwire = 'response'",
        expect![[r#"
        error: there is no wire `response`
          --> everturn.toml:4:8

        hint: did you mean `responses`?"#]],
    );
    check(
        "kind = 'openai'\napi_key = 'x'\nrules_of = 'https://api.deepseek.com'",
        expect![[r#"
            error: `https://api.deepseek.com` is not the name of a host
              --> everturn.toml:4:12

            hint: write it like "api.deepseek.com""#]],
    );
    check(
        "kind = 'openai'\nbase_url = 'https://host/v1#top'",
        expect![[r#"
        error: `base_url` is not an HTTP address
          --> everturn.toml:3:12

        hint: write it like "https://host/v1", without a user, a password or a fragment"#]],
    );
    check(
        "kind = 'openai'\nheaders = { 'a b' = 'hunter2', Host = 'hunter2', X-Key = \"hunter2\\n\", X-Other = 'env:NOT_SET' }",
        expect![[r#"
            error: `a b` cannot be the name of a header
              --> everturn.toml:3:13

            error: `Host` is a header that every call sets itself
              --> everturn.toml:3:32

            error: `X-Key` has a value that no header can carry
              --> everturn.toml:3:50

            error: the variable `NOT_SET` is not set
              --> everturn.toml:3:81

            hint: set it before the start: export NOT_SET=…"#]],
    );
    check(
        "kind = 'openai'\napi_key = 'x'\nbody = { since = 2026-01-01, deep = [{ worst = nan }] }",
        expect![[r#"
        error: `body.deep[0].worst` is not a finite number
          --> everturn.toml:4:8

        hint: JSON has no such value: write it as a string

        error: `body.since` is a date or a time
          --> everturn.toml:4:8

        hint: JSON has no such value: write it as a string"#]],
    );
    check(
        "kind = 'openai'\napi_key = 'x'\nbody = 'seed'",
        expect![[r#"
            error: `body`: expected a table, found a string
              --> everturn.toml:4:8"#]],
    );
    check(
        "kind = 'demo'\nheaders = { A = 'b' }\nbody = { seed = 1 }\nwire = 'chat'",
        expect![[r#"
        error: the demo takes no `headers`: it is in this process
          --> everturn.toml:3:13

        error: the demo takes no `body`: it is in this process
          --> everturn.toml:4:8

        error: `wire` is for providers of kind `openai`
          --> everturn.toml:5:8

        hint: leave it out: providers of other kinds speak one wire only"#]],
    );
}

#[test]
fn how_agents_think() {
    check_agent(
        "effort = 'hihg'\nthinking = 'always'",
        expect![[r#"
        error: there is no effort `hihg`
          --> everturn.toml:6:10

        hint: did you mean `high`?

        error: there is no mode of thinking `always`
          --> everturn.toml:7:12

        hint: the choices are `off`, `on`, `summary`"#]],
    );
    check_agent(
        "temperature = 2.5\ntop_p = -1",
        expect![[r#"
        error: `temperature` must be between 0 and 2, not 2.5
          --> everturn.toml:6:15

        error: `top_p` must be between 0 and 1, not -1
          --> everturn.toml:7:9"#]],
    );
    check_agent(
        "temperature = 'hot'",
        expect![[r#"
            error: `temperature`: expected a number, found a string
              --> everturn.toml:6:15"#]],
    );
    check_agent(
        "body = { at = 12:00:00 }",
        expect![[r#"
        error: `body.at` is a date or a time
          --> everturn.toml:6:8

        hint: JSON has no such value: write it as a string"#]],
    );
}

#[test]
fn providers() {
    let agent = "\n[[agents]]\nname = 'a'\nmodel = 'p/m'";
    check(
        &format!("[providers.p]\nkind = 'opnai'{agent}"),
        expect![[r#"
        error: there is no kind of provider `opnai`
          --> everturn.toml:2:8

        hint: did you mean `openai`?"#]],
    );
    check(
        &format!("[providers.p]\nkind = 'anthropic'{agent}"),
        expect![[r#"
        error: the provider `p` has neither `api_key` nor `base_url`
          --> everturn.toml:1:12

        hint: give it a key, such as api_key = "env:NAME", or the address of a server that needs none"#]],
    );
    check(
        &format!("[providers.p]\nkind = 'openai'\nbase_url = 'ftp://host'{agent}"),
        expect![[r#"
        error: `base_url` is not an HTTP address
          --> everturn.toml:3:12

        hint: write it like "https://host/v1", without a user, a password or a fragment"#]],
    );
    check(
        &format!("[providers.p]\nkind = 'openai'\nbase_url = 'https://me:secret@host/v1'{agent}"),
        expect![[r#"
        error: `base_url` is not an HTTP address
          --> everturn.toml:3:12

        hint: write it like "https://host/v1", without a user, a password or a fragment"#]],
    );
    check(
        &format!("[providers.p]\nkind = 'gemini'\napi_key = 'env:MY_KEY'{agent}"),
        expect![[r#"
        error: the variable `MY_KEY` is not set
          --> everturn.toml:3:11

        hint: set it before the start: export MY_KEY=…"#]],
    );
    check(
        &format!("[providers.p]\nkind = 'demo'\napi_key = 'x'{agent}"),
        expect![[r#"
        error: the demo takes no `api_key`: it is in this process
          --> everturn.toml:3:11"#]],
    );
    check(
        &format!("[providers.p]\nkind = 'ollama'\ncontext_window = 0{agent}"),
        expect![[r#"
        error: `context_window` must be between 1 and 1000000000, not 0
          --> everturn.toml:3:18"#]],
    );
    check(
        "[providers.'a/b']\nkind = 'demo'\n[[agents]]\nname = 'a'\nmodel = 'a/b'",
        expect![[r#"
        error: `a/b` cannot be the name of a provider
          --> everturn.toml:1:12

        hint: use characters of A-Z a-z 0-9 _ -

        error: there is no provider `a` for the model `a/b`
          --> everturn.toml:5:9

        hint: add a table [providers.a] with its kind"#]],
    );
    check(
        "[providers.p]\nkind = 'demo'",
        expect![[r#"
        error: there is no agent

        hint: add a table [[agents]] with a name and a model"#]],
    );
}

#[test]
fn agents() {
    check(
        "[[agents]]\nname = 'a'\nmodel = 'local/qwen3'",
        expect![[r#"
        error: there is no provider `local` for the model `local/qwen3`
          --> everturn.toml:3:9

        hint: add a table [providers.local] with its kind"#]],
    );
    check(
        "[providers.local]\nkind = 'ollama'\n[[agents]]\nname = 'a'\nmodel = 'locl/qwen3'",
        expect![[r#"
        error: there is no provider `locl` for the model `locl/qwen3`
          --> everturn.toml:5:9

        hint: did you mean `local/qwen3`?"#]],
    );
    check(
        "[providers.local]\nkind = 'ollama'\n[[agents]]\nname = 'a'\nmodel = 'qwen3'",
        expect![[r#"
        error: `qwen3` does not say which provider's model it is
          --> everturn.toml:5:9

        hint: write it as "local/qwen3""#]],
    );
    check_agent(
        "fallback = ['demo/load', 'gone/model']",
        expect![[r#"
        error: there is no provider `gone` for the model `gone/model`
          --> everturn.toml:6:26

        hint: add a table [providers.gone] with its kind"#]],
    );
    check_agent(
        "version = '1.0'",
        expect![[r#"
        error: `1.0` is not a semantic version: unexpected end of input while parsing minor version number
          --> everturn.toml:6:11

        hint: write it like "1.0.0""#]],
    );
    check_agent(
        "[[agents]]\nname = 'a'\nmodel = 'demo/load'",
        expect![[r#"
        error: there are two agents `a`
          --> everturn.toml:7:8"#]],
    );
    check_agent(
        "[[agents]]\nname = 'b/c'\nmodel = 'demo/load'",
        expect![[r#"
        error: `b/c` cannot be the name of an agent
          --> everturn.toml:7:8

        hint: use 1 to 64 characters of A-Z a-z 0-9 . _ -"#]],
    );
    check_agent(
        "max_steps = 0",
        expect![[r#"
        error: `max_steps` must be between 1 and 1000, not 0
          --> everturn.toml:6:13"#]],
    );
    check_agent(
        "turn_timeout = '1 hour'",
        expect![[r#"
        error: `1 hour` is not a duration for `turn_timeout`
          --> everturn.toml:6:16

        hint: write a number and a unit: `500ms`, `10s`, `5m`, `1h` or `2d`"#]],
    );
    check_agent(
        "turn_timeout = '0s'",
        expect![[r#"
        error: `0s` is not a duration for `turn_timeout`
          --> everturn.toml:6:16

        hint: write a number and a unit: `500ms`, `10s`, `5m`, `1h` or `2d`"#]],
    );
}

#[test]
fn tools() {
    check_agent(
        "tools = ['clok']",
        expect![[r#"
        error: there is no tool `clok`
          --> everturn.toml:6:10

        hint: did you mean `clock`?"#]],
    );
    check_agent(
        "tools = ['shell']",
        expect![[r#"
        error: there is no tool `shell`
          --> everturn.toml:6:10

        hint: the tools are `calculator`, `clock`"#]],
    );
    check_agent(
        "tools = ['clock', 'clock']",
        expect![[r#"
        error: the tool `clock` is listed twice
          --> everturn.toml:6:19"#]],
    );
    check_agent(
        "tools = ['clock']\ntrusted = ['calculator']",
        expect![[r#"
        error: the trusted tool `calculator` is not one of the agent's tools
          --> everturn.toml:7:12

        hint: add it to `tools` as well, or to `internal_tools` if clients shall not see it"#]],
    );
    check_agent(
        "tools = ['clock']\ntrusted = ['clok']",
        expect![[r#"
        error: the trusted tool `clok` is not one of the agent's tools
          --> everturn.toml:7:12

        hint: did you mean `clock`?"#]],
    );
    check_agent(
        "tools = ['clock']\ninternal_tools = ['clock', 'abacus']",
        expect![[r#"
        error: the tool `clock` is in `tools` and in `internal_tools`
          --> everturn.toml:7:19

        hint: clients see it, or they do not: keep one

        error: there is no tool `abacus`
          --> everturn.toml:7:28

        hint: the tools are `calculator`, `clock`"#]],
    );
}

#[test]
fn options() {
    let option = |lines: &str| format!("[[agents.options]]\n{lines}");
    check_agent(
        &option("type = 'selct'\nname = 'a'"),
        expect![[r#"
        error: there is no type of option `selct`
          --> everturn.toml:7:8

        hint: did you mean `select`?"#]],
    );
    check_agent(
        &option("type = 'select'\nname = 'a'\noptions = ['red', 'blue']\ndefault = 'bleu'"),
        expect![[r#"
        error: `bleu` is not one of the choices of the option `a`
          --> everturn.toml:10:11

        hint: did you mean `blue`?"#]],
    );
    check_agent(
        &option("type = 'select'\nname = 'a'\noptions = ['red', 'blue']"),
        expect![[r#"
        error: the option `a` has no default
          --> everturn.toml:9:11

        hint: name one of the choices as `default`"#]],
    );
    check_agent(
        &option("type = 'select'\nname = 'a'\ndefault = 'x'"),
        expect![[r#"
        error: the option `a` is a select without choices
          --> everturn.toml:7:8

        hint: list them: options = ["one", "two"]"#]],
    );
    check_agent(
        &option("type = 'select'\nname = 'a'\noptions = ['x', 'x']\ndefault = 'x'"),
        expect![[r#"
        error: the option `a` has the choice `x` twice
          --> everturn.toml:9:17"#]],
    );
    check_agent(
        &option("type = 'text'\nname = 'a'\noptions = ['x']"),
        expect![[r#"
        error: the option `a` has choices, but is a text
          --> everturn.toml:9:11

        hint: choices belong to an option of type `select`"#]],
    );
    check_agent(
        &option("type = 'secret'\nname = 'a'\ndefault = 'hunter2'"),
        expect![[r#"
        error: the option `a` is a secret and has a default
          --> everturn.toml:9:11

        hint: defaults are shown to every client; leave it out, and let each session set it"#]],
    );
    check_agent(
        &option("type = 'text'\nname = 'a b'"),
        expect![[r#"
        error: `a b` cannot be the name of an option
          --> everturn.toml:8:8

        hint: use 1 to 64 characters of A-Z a-z 0-9 _ -"#]],
    );
    check_agent(
        &option("type = 'text'\nname = 'a'\n[[agents.options]]\ntype = 'text'\nname = 'a'"),
        expect![[r#"
        error: the agent has two options `a`
          --> everturn.toml:11:8"#]],
    );
}

#[test]
fn options_in_instructions() {
    let options =
        "\n[[agents.options]]\ntype = 'text'\nname = 'language'\n[[agents.options]]\ntype = 'secret'\nname = 'token'";
    check_agent(
        &format!("instructions = 'Use {{{{ langage }}}} and {{{{token}}}}'{options}"),
        expect![[r#"
        error: the instructions use the unknown option `langage`
          --> everturn.toml:6:16

        hint: did you mean `language`?

        error: the instructions use the secret option `token`
          --> everturn.toml:6:16

        hint: secrets are for tools; no model is ever given one"#]],
    );
    let harmless = "[providers.demo]\nkind = 'demo'\n[[agents]]\nname = 'a'\nmodel = 'demo/assistant'\n\
                    instructions = 'Templates look like {{ this }} or {{that'";
    read(harmless.as_bytes(), &Overrides::default(), &Environment::default()).unwrap();
}

#[test]
fn models_of_the_chat_completions() {
    let agents = "[providers.p]\nkind = 'demo'\n[[agents]]\nname = 'a'\nmodel = 'p/m'\n";
    check(
        &format!("{agents}[openai.models]\n'*' = 'b'"),
        expect![[r#"
        error: there is no agent `b`
          --> everturn.toml:7:7

        hint: the agents are `a`"#]],
    );
    check(
        &format!("{agents}[openai]\nwait = 'long'"),
        expect![[r#"
        error: `long` is not a duration for `wait`
          --> everturn.toml:7:8

        hint: write a number and a unit: `500ms`, `10s`, `5m`, `1h` or `2d`"#]],
    );
}
