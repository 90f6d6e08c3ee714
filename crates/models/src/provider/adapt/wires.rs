//! Refusals of the whole endpoint: a server that has no Responses for a model says so in many ways.

use super::is_quoted;
use crate::provider::failure::Report;

/// What servers say that do not have the Responses API, or not for this model: Azure, OpenAI, vLLM and its like, gateways.
const PHRASES: &[&str] = &[
    "responses operation",
    "response operation",
    "requested operation is unsupported",
    "operation is not supported",
    "responses api is not",
    "support the responses api",
    "support responses api",
    "supported with the responses api",
    "supported in the responses api",
    "supported by the responses api",
    "unknown request url",
    "invalid url",
    "unsupported endpoint",
    "resource not found",
];

/// The endpoint's name, and what is said of one that is not there.
const ENDPOINT: &str = "/responses";
const ABSENT: &[&str] =
    &["not found", "not supported", "unsupported", "not exist", "unknown", "no route", "cannot post"];

/// Whether a server refuses a request because it has no Responses for the model, rather than for what the request says.
pub(in crate::provider) fn lacks_responses(report: &Report, body: &[u8]) -> bool {
    let words = report.words().to_lowercase();
    let says = |phrase: &&str| words.contains(phrase) && !is_quoted(body, phrase);
    let is_nowhere = matches!(report.http, Some(404 | 405));
    if !is_nowhere && report.http != Some(400) {
        return false;
    }
    PHRASES.iter().any(says)
        || (says(&ENDPOINT) && ABSENT.iter().any(says))
        // A server without such a path has no more to say than the status.
        || (is_nowhere && (report.says_nothing() || ["not found", "404 page not found", "404 not found", "method not allowed"].contains(&words.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_endpoint_is_told_from_a_missing_model() {
        for (status, body, is_missing) in [
            (
                400,
                r#"{"error":{"code":"OperationNotSupported","message":"The responses operation does not work with the specified model, grok-4. Please choose different model and try again."}}"#,
                true,
            ),
            (400, r#"{"error":{"message":"The requested operation is unsupported."}}"#, true),
            (404, r#"{"error":{"code":"404","message":"Resource not found"}}"#, true),
            (404, r#"{"error":{"message":"Invalid URL (POST /v1/responses)","type":"invalid_request_error"}}"#, true),
            (404, r#"{"detail":"Not Found"}"#, true),
            (404, "", true),
            (404, "404 page not found\n", true),
            (405, r#"{"detail":"Method Not Allowed"}"#, true),
            (400, r#"{"error":{"message":"Unsupported value: 'include'","param":"include"}}"#, false),
            (400, r#"{"error":{"message":"Encrypted content is not supported with this model."}}"#, false),
            (404, r#"{"error":{"code":"model_not_found","message":"The model `m` does not exist"}}"#, false),
            (
                404,
                r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
                false,
            ),
            (500, r#"{"error":{"message":"The requested operation is unsupported."}}"#, false),
        ] {
            let mut report = Report::from_body(body.as_bytes());
            report.http = Some(status);
            assert_eq!(lacks_responses(&report, b"{}"), is_missing, "{status} {body}");
        }
        // A user may quote such words.
        let mut report = Report::from_body(br#"{"error":{"message":"bad input: unknown request url"}}"#);
        report.http = Some(400);
        assert!(!lacks_responses(&report, br#"{"input":"bad input: unknown request url"}"#));
    }
}
