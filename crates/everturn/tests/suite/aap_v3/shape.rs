//! What answers and events of version 3 may look like: every field that must be there, those that may, and no others.

use serde_json::Value;

/// Checks a value, and complains about the place where it is.
type Check = fn(&Value, &str);

#[track_caller]
fn object(value: &Value, at: &str, needed: &[(&str, Check)], allowed: &[(&str, Check)]) {
    let fields = value.as_object().unwrap_or_else(|| panic!("{at} is no object: {value}"));
    for (name, _) in needed {
        assert!(fields.contains_key(*name), "{at}.{name} is missing: {value}");
    }
    for (name, value) in fields {
        let known = needed.iter().chain(allowed).find(|(known, _)| known == name);
        let (_, check) = known.unwrap_or_else(|| panic!("{at}.{name} is not known: {value}"));
        check(value, &format!("{at}.{name}"));
    }
}

fn list(value: &Value, at: &str, check: Check) {
    let items = value.as_array().unwrap_or_else(|| panic!("{at} is no list: {value}"));
    items.iter().enumerate().for_each(|(index, item)| check(item, &format!("{at}[{index}]")));
}

fn text(value: &Value, at: &str) {
    assert!(value.is_string(), "{at} is no text: {value}");
}

fn name(value: &Value, at: &str) {
    assert!(value.as_str().is_some_and(|text| !text.is_empty()), "{at} is no name: {value}");
}

fn truth(value: &Value, at: &str) {
    assert!(value.is_boolean(), "{at} is neither true nor false: {value}");
}

fn schema(value: &Value, at: &str) {
    assert!(value.is_object(), "{at} is no schema: {value}");
}

fn nothing_in_it(value: &Value, at: &str) {
    object(value, at, &[], &[]);
}

fn texts(value: &Value, at: &str) {
    let fields = value.as_object().unwrap_or_else(|| panic!("{at} is no object: {value}"));
    fields.iter().for_each(|(name, value)| text(value, &format!("{at}.{name}")));
}

/// `GET /meta`.
pub(super) fn meta(value: &Value) {
    let version = |value: &Value, at: &str| assert!(value.as_u64() == Some(3), "{at} is not the number 3: {value}");
    object(value, "meta", &[("version", version), ("agents", |value, at| list(value, at, agent_info))], &[]);
}

fn agent_info(value: &Value, at: &str) {
    let troubles = |value: &Value, at: &str| {
        list(value, at, |value, at| object(value, at, &[("server", name), ("reason", text)], &[]));
    };
    object(
        value,
        at,
        &[("name", name), ("version", name)],
        &[
            ("title", text),
            ("description", text),
            ("tools", |value, at| list(value, at, tool)),
            ("options", |value, at| list(value, at, option)),
            ("capabilities", capabilities),
            ("unavailableTools", troubles),
        ],
    );
}

fn tool(value: &Value, at: &str) {
    object(value, at, &[("name", name), ("description", text), ("parameters", schema)], &[("title", text)]);
}

fn option(value: &Value, at: &str) {
    let choices: Check = |value, at| list(value, at, text);
    let select = value["type"] == "select";
    assert!(select || value["type"] == "text" || value["type"] == "secret", "{at}: {value}");
    let more: &[(&str, Check)] = if select { &[("options", choices)] } else { &[] };
    let needed: &[(&str, Check)] = &[("type", name), ("name", name), ("default", text)];
    object(value, at, &[needed, more].concat(), &[("title", text), ("description", text)]);
}

fn capabilities(value: &Value, at: &str) {
    let history: Check = |value, at| object(value, at, &[], &[("compacted", nothing_in_it), ("full", nothing_in_it)]);
    let stream: Check = |value, at| {
        let modes: [(&str, Check); 3] = [("delta", nothing_in_it), ("message", nothing_in_it), ("none", nothing_in_it)];
        object(value, at, &[], &modes);
    };
    let application: Check = |value, at| object(value, at, &[], &[("tools", nothing_in_it)]);
    let image: Check = |value, at| object(value, at, &[], &[("http", nothing_in_it), ("data", nothing_in_it)]);
    let groups: [(&str, Check); 4] =
        [("history", history), ("stream", stream), ("application", application), ("image", image)];
    object(value, at, &[], &groups);
}

/// `POST /sessions`.
pub(super) fn created(value: &Value) {
    object(value, "created", &[("sessionId", name)], &[]);
}

/// `GET /sessions`.
pub(super) fn sessions(value: &Value) {
    object(value, "page", &[("sessions", |value, at| list(value, at, session))], &[("next", name)]);
}

/// `GET /sessions/:id`.
pub(super) fn session(value: &Value, at: &str) {
    let agent: Check = |value, at| {
        let enabled: Check =
            |value, at| list(value, at, |value, at| object(value, at, &[("name", name)], &[("trust", truth)]));
        object(value, at, &[("name", name)], &[("tools", enabled), ("options", texts)]);
    };
    let tools: Check = |value, at| list(value, at, tool);
    object(value, at, &[("sessionId", name), ("agent", agent)], &[("tools", tools)]);
}

/// `GET /sessions/:id/history?type=…`: the kind that was asked for, and only that.
pub(super) fn history(value: &Value, kind: &str) {
    let messages: Check = |value, at| list(value, at, message);
    object(value, "answer", &[("history", |_, _| {})], &[]);
    object(&value["history"], "history", &[(kind, messages)], &[]);
}

/// `POST /sessions/:id/turns` with `stream: "none"`.
pub(super) fn response(value: &Value) {
    let messages: Check = |value, at| list(value, at, said);
    object(value, "response", &[("stopReason", stop_reason), ("messages", messages)], &[]);
}

fn said(value: &Value, at: &str) {
    assert!(value["role"] == "assistant" || value["role"] == "tool", "{at} is not the agent's: {value}");
    message(value, at);
}

fn message(value: &Value, at: &str) {
    let role = value["role"].as_str().unwrap_or_default();
    let needed: &[(&str, Check)] = match role {
        "system" => &[("role", name), ("content", text)],
        "user" | "assistant" => &[("role", name), ("content", content)],
        "tool" => &[("role", name), ("toolCallId", name), ("content", content)],
        _ => panic!("{at} has no role that history knows: {value}"),
    };
    object(value, at, needed, &[]);
}

fn content(value: &Value, at: &str) {
    if !value.is_string() {
        list(value, at, block);
    }
}

fn block(value: &Value, at: &str) {
    let needed: &[(&str, Check)] = match value["type"].as_str().unwrap_or_default() {
        "text" => &[("type", name), ("text", text)],
        "thinking" => &[("type", name), ("thinking", text)],
        "tool_use" => &[("type", name), ("toolCallId", name), ("name", name), ("input", schema)],
        "image" => &[("type", name), ("url", name)],
        _ => panic!("{at} is no block: {value}"),
    };
    object(value, at, needed, &[]);
}

fn stop_reason(value: &Value, at: &str) {
    let known = ["end_turn", "tool_use", "max_tokens", "refusal", "error"];
    assert!(value.as_str().is_some_and(|word| known.contains(&word)), "{at} is no stop reason: {value}");
}

/// The data of an event.
pub(super) fn event(event: &str, data: &Value) {
    let needed: &[(&str, Check)] = match event {
        "turn_start" => &[],
        "text_delta" | "thinking_delta" => &[("delta", name)],
        "text" => &[("text", name)],
        "thinking" => &[("thinking", name)],
        "tool_call" => &[("toolCallId", name), ("name", name), ("input", schema)],
        "tool_result" => &[("toolCallId", name), ("content", content)],
        "turn_stop" => &[("stopReason", stop_reason)],
        _ => panic!("version 3 has no event {event:?}: {data}"),
    };
    object(data, event, needed, &[]);
}
