//! Errors as providers report them.

use std::time::{Duration, UNIX_EPOCH};

use http::HeaderValue;

use super::*;

fn kind(status: u16, body: &str) -> ModelErrorKind {
    let failures = Failures { provider: "test".into(), secrets: Vec::new() };
    let report = Report::from_body(body.as_bytes());
    failures.status(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), &report).kind
}

fn said(words: &str) -> Report {
    Report::from_json(&words.into())
}

#[test]
fn statuses_and_bodies_have_a_kind() {
    use ModelErrorKind::{ContextOverflow, Denied, RateLimited, Rejected, Timeout, Unavailable};
    for (status, body, expected) in [
        (429, "", RateLimited),
        (429, r#"{"error":{"message":"Request too large: maximum context length","code":null}}"#, RateLimited),
        (
            413,
            r#"{"error":{"message":"Request too large for model on tokens per minute (TPM): Limit 6000, Requested 7000","code":"rate_limit_exceeded"}}"#,
            ContextOverflow,
        ),
        (
            429,
            r#"{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 30000, Requested 45000. Visit https://example.com","code":"rate_limit_exceeded"}}"#,
            ContextOverflow,
        ),
        (
            429,
            r#"{"error":{"message":"Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.","code":"rate_limit_exceeded"}}"#,
            RateLimited,
        ),
        (429, r#"{"error":{"message":"Request too large.","code":"rate_limit_exceeded"}}"#, ContextOverflow),
        (400, r#"{"error":{"code":"1261","message":"Prompt exceeds max length"}}"#, ContextOverflow),
        (422, r#"{"message":"Too many tokens: 140000 exceeds model limit 131072"}"#, ContextOverflow),
        (
            400,
            r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 9 > 8\"}}"}}}"#,
            ContextOverflow,
        ),
        (400, r#"{"error":{"message":"Failed to call a function.","code":"tool_use_failed"}}"#, Unavailable),
        (500, r#"{"error":{"message":"image input is not supported - hint: mmproj"}}"#, Rejected),
        (
            400,
            r#"{"error":{"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#,
            Denied,
        ),
        (
            400,
            r#"{"error":{"message":"Invalid 'messages[2].content': 'why does it say API key not valid'"}}"#,
            Rejected,
        ),
        (400, r#"{"error":{"message":"User location is not supported for the API use."}}"#, Denied),
        (400, r#"{"error":{"message":"This organization has been disabled.","type":"invalid_request_error"}}"#, Denied),
        (400, r#"{"error":{"message":"m has been decommissioned","code":"model_decommissioned"}}"#, Denied),
        (400, r#"{"error":{"message":"max_tokens must be at least 1, got -312."}}"#, ContextOverflow),
        (429, r#"{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}"#, Denied),
        (429, r#"{"error":{"message":"x","type":"exceeded_current_quota_error"}}"#, Denied),
        (429, r#"{"error":{"code":"1113","message":"x"}}"#, Denied),
        (429, r#"{"error":{"message":"Insufficient balance"}}"#, Denied),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details. Please retry in 20.5s.","status":"RESOURCE_EXHAUSTED"}}"#,
            RateLimited,
        ),
        (500, "oops", Unavailable),
        (503, "", Unavailable),
        (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Unavailable),
        (408, "", Timeout),
        (504, "", Timeout),
        (401, r#"{"error":{"message":"Incorrect API key","code":"invalid_api_key"}}"#, Denied),
        (404, r#"{"error":"model 'x' not found"}"#, Denied),
        (400, r#"{"error":{"message":"bad","code":"context_length_exceeded"}}"#, ContextOverflow),
        (400, r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}"#, ContextOverflow),
        (
            400,
            r#"{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}"#,
            ContextOverflow,
        ),
        (400, r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"x"}}"#, ContextOverflow),
        (
            400,
            r#"{"error":"the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the context length in settings, or use a model with a longer context length"}"#,
            ContextOverflow,
        ),
        (
            400,
            r#"{"error":"input length (9 tokens) exceeds the model's maximum context length (8 tokens)"}"#,
            ContextOverflow,
        ),
        (
            429,
            r#"{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"},{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"47s"}]}}"#,
            Denied,
        ),
        (
            429,
            r#"{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]},{"retryDelay":"47s"}]}}"#,
            RateLimited,
        ),
        (413, "", ContextOverflow),
        (302, "", Denied),
        (451, r#"{"error":{"message":"Access to these models is not available"}}"#, Denied),
    ] {
        assert_eq!(kind(status, body), expected, "{status} {body}");
    }
}

/// What no other request would mend is not searched for, though it comes with 400. In order: Copilot, Hugging Face, Mistral,
/// Groq, Together, Azure, Vertex, Bedrock, OpenAI, Gemini, xAI.
#[test]
fn what_no_other_request_mends_is_denied() {
    for body in [
        r#"{"error":{"message":"The requested model is not supported.","code":"model_not_supported","param":"model","type":"invalid_request_error"}}"#,
        r#"{"error":{"message":"Unavailable for you.","param":"model","type":"invalid_request_error"}}"#,
        r#"{"error":{"message":"The requested model 'a/b' is not supported by any provider you have enabled."}}"#,
        r#"{"object":"error","message":"Invalid model: mistral-9","type":"invalid_model","param":null,"code":"1500"}"#,
        r#"{"error":{"message":"The model `gemma2-9b-it` has been decommissioned and is no longer supported."}}"#,
        r#"{"error":{"message":"Unable to access non-serverless model a/b. Please visit https://example.com to start an endpoint."}}"#,
        r#"{"error":{"code":"OperationNotSupported","message":"The chatCompletion operation does not work with the specified model, m."}}"#,
        r#"{"error":{"message":"Publisher Model `m` is not servable in region us-east1."}}"#,
        r#"{"message":"Operation not allowed"}"#,
        r#"{"message":"Your account is not authorized to invoke this API operation."}"#,
        r#"{"message":"This model version has reached the end of its life."}"#,
        r#"{"message":"Access to Anthropic models is not allowed from unsupported countries, regions, or territories."}"#,
        r#"{"message":"You don't have access to the model with the specified model ID."}"#,
        r#"{"error":{"message":"Your organization must be verified to use the model `gpt-5`. Please go to: https://example.com","type":"invalid_request_error"}}"#,
        r#"{"error":{"message":"Country, region, or territory not supported","code":"unsupported_country_region_territory"}}"#,
        r#"{"error":{"message":"This request must be made in your region.","code":"data_residency_mismatch"}}"#,
        r#"{"error":{"message":"Gemini API free tier is not available in your country. Please enable billing on your project."}}"#,
        r#"{"error":{"message":"No.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
        r#""Incorrect API key provided: gs***tF. You can obtain an API key from https://example.com.""#,
    ] {
        assert_eq!(kind(400, body), ModelErrorKind::Denied, "{body}");
    }
    for body in [
        r#"{"error":{"message":"tools is not supported by this model","param":"tools"}}"#,
        r#"{"error":{"message":"Your organization must be verified to generate reasoning summaries.","param":"reasoning.summary"}}"#,
        r#"{"error":{"message":"The operation not allowed here is a prefill"}}"#,
    ] {
        assert_eq!(kind(400, body), ModelErrorKind::Rejected, "{body}");
    }
}

#[test]
fn an_overflow_names_its_window() {
    for (words, window) in [
        (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
            128_000,
        ),
        ("prompt is too long: 213462 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length", 200_000),
        ("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", 1_048_575),
        ("The input (516368 tokens) is longer than the model's context length (262144 tokens).", 262_144),
        ("Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).", 59_862),
        ("Input length (265330) exceeds model's maximum context length (262144).", 262_144),
        ("Requested token count exceeds the model's maximum context length of 131072 tokens.", 131_072),
        ("The decoder prompt (length 40000) is longer than the maximum model length of 32768.", 32_768),
        ("`inputs` tokens + `max_new_tokens` must be <= 65537. Given: 79993 `inputs` tokens", 65_537),
        ("is greater than the context length (n_keep: 13055>= n_ctx: 4096). Try to load", 4_096),
        ("Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)", 7_424),
        ("the model is loaded with context length of only 7866 tokens, which is not enough.", 7_866),
        ("Prompt contains 66385 tokens, too large for model with 32768 maximum context length", 32_768),
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072),
        (
            "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
            40_000,
        ),
        ("Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)", 262_144),
        ("InternalError.Algo.InvalidParameter: Range of input length should be [1, 983616]", 983_616),
        ("prompt token count of 200000 exceeds the limit of 128000", 128_000),
        ("Prompt has 5,958,968 tokens, but the configured context size is 256,000 tokens", 256_000),
        ("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 274000", 272_000),
        ("request (40000 tokens) exceeds the available context size (8192 tokens), try increasing it", 8_192),
    ] {
        let report = said(words);
        assert!(report.is_overflow(), "{words}");
        assert_eq!(report.window(), Some(window), "{words}");
    }
    let silent = Report::from_body(
        br#"{"error":{"message":"Your input exceeds the context window of this model.","n_ctx":8192}}"#,
    );
    assert!(silent.is_overflow());
    assert_eq!(silent.window(), Some(8_192));
    let rate = "Request too large for model m on tokens per minute (TPM): Limit 6000, Requested 9000";
    assert!(!said(rate).is_overflow());
}

#[test]
fn an_overflow_may_count_the_input() {
    for (words, input) in [
        (
            "input length and `max_tokens` exceed context limit: 152060 + 64000 > 200000, decrease input length",
            Some(152_060),
        ),
        ("However, you requested 4228 tokens (132 in the messages, 4096 in the completion).", Some(132)),
        (
            "you requested 8213 tokens (6683 in the messages, 730 in the functions, and 800 in the completion)",
            Some(7_413),
        ),
        ("This model's maximum context length is 4096 tokens and your request has 318 input tokens", Some(318)),
        ("your prompt contains at least 31745 input tokens, for a total of at least 32769 tokens", Some(31_745)),
        ("you requested about 141607 tokens (10535 of text input, 131072 in the output)", Some(10_535)),
        ("prompt is too long: 213462 tokens > 200000 maximum", None),
    ] {
        assert_eq!(said(words).input(), input, "{words}");
    }
}

/// OpenRouter puts the error of the provider behind it into a field, as JSON or as text.
#[test]
fn a_wrapped_error_is_read() {
    for (raw, words, param) in [
        (
            serde_json::json!(r#"{"error":{"message":"Unsupported parameter","param":"temperature"}}"#),
            "Unsupported parameter",
            Some("temperature"),
        ),
        (serde_json::json!({"error": {"message": "no", "param": "top_p"}}), "no", Some("top_p")),
        (serde_json::json!("upstream connect error"), "upstream connect error", None),
        (serde_json::json!("[1, 2]"), "[1, 2]", None),
        (serde_json::json!(""), "Provider returned error", None),
        (serde_json::json!(null), "Provider returned error", None),
    ] {
        let body =
            serde_json::json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}});
        let report = Report::from_json(&body);
        assert_eq!((report.words(), report.param()), (words, param), "{body}");
    }
}

#[test]
fn the_findings_of_a_validating_server_are_read() {
    let finding =
        serde_json::json!([{"type": "value_error", "loc": ["body", "tools", 8, "function"], "msg": "Invalid schema"}]);
    for body in [serde_json::json!({"message": {"detail": finding}}), serde_json::json!({"detail": finding})] {
        let report = Report::from_json(&body);
        assert_eq!((report.words(), report.param()), ("tools.8.function: Invalid schema", Some("tools.8.function")));
    }
}

#[test]
fn a_wait_in_words_is_read() {
    for (words, expected) in [
        ("Please try again in 20s. Visit https://example.com", Some(20_000)),
        ("Please try again in 1m2.5s.", Some(62_500)),
        ("Please try again in 350ms.", Some(350)),
        ("Please retry in 34.07s.", Some(34_070)),
        ("Please retry after 2 seconds.", Some(2000)),
        ("Please try again in 1h0m1s", Some(3_601_000)),
        ("Please try again in a while", None),
        ("Please try again in 5", None),
        ("Please try again in 1e999s", None),
        ("Please try again in ..s", None),
    ] {
        let report = Report::from_json(&serde_json::json!({"error": {"message": words}}));
        assert_eq!(report.retry_after, expected.map(Duration::from_millis), "{words}");
    }
}

#[test]
fn a_quota_of_a_day_is_not_waited_for() {
    let body = |id: &str| {
        format!(
            r#"{{"error":{{"code":429,"status":"RESOURCE_EXHAUSTED","message":"quota","details":[{{"violations":[{{"quotaId":"{id}"}}]}},{{"retryDelay":"34s"}}]}}}}"#
        )
    };
    assert_eq!(kind(429, &body("GenerateRequestsPerMinutePerProjectPerModel-FreeTier")), ModelErrorKind::RateLimited);
    assert_eq!(kind(429, &body("GenerateRequestsPerDayPerProjectPerModel-FreeTier")), ModelErrorKind::Denied);
}

#[test]
fn errors_within_a_stream_have_a_kind() {
    use ModelErrorKind::{ContextOverflow, RateLimited, Rejected, Unavailable};
    let failures = Failures { provider: "test".into(), secrets: Vec::new() };
    for (frame, expected) in [
        (r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#, Unavailable),
        (r#"{"error":{"type":"rate_limit_error","message":"slow"}}"#, RateLimited),
        (r#"{"error":{"code":429,"message":"slow"}}"#, RateLimited),
        (r#"{"error":{"code":502,"message":"upstream"}}"#, Unavailable),
        (r#"{"error":{"type":"invalid_request_error","message":"no"}}"#, Rejected),
        (r#"{"error":{"type":"invalid_request_error","message":"prompt is too long"}}"#, ContextOverflow),
        (r#"{"error":"model runner has unexpectedly stopped"}"#, Unavailable),
        (r#"{"error":{"type":"BadRequestError","message":"no"}}"#, Rejected),
        (r#"{"error":{"code":"400","message":"no"}}"#, Rejected),
        (r#"{"error":{"code":"image_too_large","message":"no"}}"#, Rejected),
        (r#"{"error":{"code":"server_error","message":"no"}}"#, Unavailable),
    ] {
        let report = Report::from_json(&serde_json::from_str(frame).unwrap());
        assert_eq!(failures.fault(Fault::Reported(report)).kind, expected, "{frame}");
    }
}

#[test]
fn words_are_bounded_and_hold_no_key() {
    let failures = Failures { provider: "test".into(), secrets: vec!["sk-secret".into()] };
    let body = format!(r#"{{"error":{{"message":"key sk-secret\n{}"}}}}"#, "é".repeat(2000));
    let report = Report::from_body(body.as_bytes());
    let error = failures.status(StatusCode::UNAUTHORIZED, &HeaderMap::new(), &report);
    assert!(error.message.starts_with("test answered 401: key [key] éé"), "{}", error.message);
    assert!(error.message.chars().count() < 540, "{}", error.message.len());
}

#[test]
fn waits_are_read_in_every_form() {
    let now = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (name, value, expected) in [
        ("retry-after", "7", Some(Duration::from_secs(7))),
        ("retry-after", "1.5", Some(Duration::from_millis(1500))),
        ("retry-after", "Sun, 09 Sep 2001 01:46:45 GMT", Some(Duration::from_secs(5))),
        ("retry-after", "Sun, 09 Sep 2001 01:46:00 GMT", Some(Duration::ZERO)),
        ("retry-after-ms", "250", Some(Duration::from_millis(250))),
        ("x-ratelimit-reset", "1000000007500", Some(Duration::from_millis(7500))),
        ("x-ratelimit-reset", "1000000030", Some(Duration::from_secs(30))),
        ("x-ratelimit-reset", "30", Some(Duration::from_secs(30))),
        ("x-ratelimit-reset", "999999999999", Some(Duration::ZERO)),
        ("x-ratelimit-reset-tokens", "6m0s", None),
        ("retry-after", "soon", None),
        ("retry-after", "-1", None),
        ("retry-after", "1e400", None),
    ] {
        let headers = [(name.parse().unwrap(), HeaderValue::from_static(value))].into_iter().collect();
        assert_eq!(retry_after(&headers, now), expected, "{name}: {value}");
    }
    let used_up = [("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")];
    let used_up = used_up.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
    assert_eq!(retry_after(&used_up.into_iter().collect(), now), Some(Duration::from_secs(360)));
    let body = br#"{"error":{"code":429,"metadata":{"headers":{"X-RateLimit-Reset":"45"}}}}"#;
    assert_eq!(Report::from_body(body).retry_after, Some(Duration::from_secs(45)));
    let body = br#"{"error":{"code":429,"details":[{"@type":"x"},{"retryDelay":"36s"}]}}"#;
    assert_eq!(Report::from_body(body).retry_after, Some(Duration::from_secs(36)));
}
