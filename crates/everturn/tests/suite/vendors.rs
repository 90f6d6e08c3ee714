//! A newcomer with one variable in the environment, against strict fakes of the vendors: every request is checked with the
//! vendor's own SDK and its documented rules.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

use serde_json::{Value, json};

use super::harness::{Home, eventually};

/// The fakes, which end with their standard input.
struct Fakes {
    url: String,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Fakes {
    fn start() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers");
        let mut command = Command::new(folder.join(".venv/bin/python"));
        command.arg("strict_models.py").current_dir(&folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the peers are installed: run cargo xtask peers");
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let stdin = child.stdin.take();
        Self { url: url.trim().to_owned(), child, stdin }
    }

    /// What the models of one vendor do, request by request.
    fn script(&self, vendor: &str, steps: &Value) {
        let body = json!({ "vendor": vendor, "model": "*", "steps": steps });
        self.exchange("POST", "/__script", &body.to_string());
    }

    fn journal(&self) -> Vec<Value> {
        serde_json::from_str(&self.exchange("GET", "/__journal", "")).unwrap()
    }

    /// The body of an answer; the fakes close the connection after it.
    fn exchange(&self, method: &str, path: &str, body: &str) -> String {
        let host = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let head = format!("{method} {path} HTTP/1.0\r\nhost: {host}\r\ncontent-type: application/json\r\n");
        write!(stream, "{head}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {answer}"));
        assert!(head.contains(" 200 "), "{path}: {answer}");
        body.to_owned()
    }
}

impl Drop for Fakes {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// One vendor: the variables that are set, and the fake's name of its endpoint.
struct Vendor {
    variables: fn(&str) -> Vec<(&'static str, String)>,
    endpoint: &'static str,
    /// How many requests may be refused before the vendor's wishes are known.
    refused: usize,
}

/// A vendor whose chat completions are served below `path`, by the variables for its key and its address.
macro_rules! chat {
    ($key:literal, $address:literal, $path:literal) => {
        Vendor {
            variables: |url| vec![($key, "test-key".to_owned()), ($address, format!("{url}{}", $path))],
            endpoint: "openai_chat",
            refused: 0,
        }
    };
}

const VENDORS: [Vendor; 10] = [
    Vendor {
        variables: |url| {
            vec![("OPENAI_API_KEY", "sk-test".to_owned()), ("OPENAI_BASE_URL", format!("{url}/openai/v1"))]
        },
        endpoint: "openai_responses",
        // The address is not OpenAI's, so that chat completions are tried first, as compatible servers want them.
        refused: 1,
    },
    Vendor {
        variables: |url| vec![("ANTHROPIC_API_KEY", "sk-ant-test".to_owned()), ("ANTHROPIC_BASE_URL", url.to_owned())],
        endpoint: "anthropic",
        refused: 0,
    },
    Vendor {
        variables: |url| vec![("GOOGLE_API_KEY", "AIza-test".to_owned()), ("GOOGLE_GEMINI_BASE_URL", url.to_owned())],
        endpoint: "gemini",
        refused: 0,
    },
    Vendor { variables: |url| vec![("OLLAMA_HOST", url.to_owned())], endpoint: "ollama", refused: 0 },
    Vendor {
        variables: |url| {
            vec![
                ("AZURE_OPENAI_API_KEY", "test-key".to_owned()),
                ("AZURE_OPENAI_ENDPOINT", url.to_owned()),
                ("AZURE_OPENAI_DEPLOYMENT", "gpt-6-sol".to_owned()),
            ]
        },
        endpoint: "openai_responses",
        refused: 0,
    },
    chat!("DEEPSEEK_API_KEY", "DEEPSEEK_BASE_URL", "/deepseek/v1"),
    chat!("MISTRAL_API_KEY", "MISTRAL_BASE_URL", "/mistral/v1"),
    chat!("XAI_API_KEY", "XAI_BASE_URL", "/xai/v1"),
    chat!("GROQ_API_KEY", "GROQ_BASE_URL", "/groq/v1"),
    chat!("OPENROUTER_API_KEY", "OPENROUTER_BASE_URL", "/openrouter/v1"),
];

#[test]
fn one_variable_is_enough_for_a_conversation_with_tools() {
    let fakes = Fakes::start();
    for vendor in VENDORS {
        let before = fakes.journal().len();
        let call = json!({ "call": { "name": "calculator", "input": { "expression": "6*7" } } });
        let asks = json!([{ "thinking": "I must compute." }, { "text": "Let me see. " }, call]);
        let says = |text: &str| json!([{ "thinking": "Now I know." }, { "text": text }]);
        let steps = json!([asks, says("It is 42."), says("A title"), asks, says("Still 42."), says("Bye.")]);
        fakes.script(vendor.endpoint, &steps);
        let variables = (vendor.variables)(&fakes.url);
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let home = Home::new("");
        let server = home.start_in(&variables, &[]);
        let client = server.client();
        let agents = client.send("GET", "/api/v1/agents", "").json();
        let mut ids = agents["agents"].as_array().into_iter().flatten().filter_map(|agent| agent["agent_id"].as_str());
        let agent = ids.find(|id| *id != "demo").unwrap_or_else(|| panic!("{}: {agents}", vendor.endpoint));
        let mut session = Value::Null;
        for message in ["What is 6*7?", "Are you sure?"] {
            let mut body = json!({ "message": message, "agent_id": agent });
            if !session.is_null() {
                body["session_id"] = session.clone();
            }
            let spawned = client.send("POST", "/api/v1/sessions/stream", &body.to_string()).json();
            session = spawned["session_id"].clone();
            let path = format!(
                "/api/v1/sessions/{}/messages/{}/stream",
                session.as_str().unwrap_or_default(),
                spawned["message_id"].as_str().unwrap_or_default()
            );
            let frames = client.open("GET", &path, "").whole();
            assert!(frames.contains(r#""type":"complete""#), "{}: {message}: {frames}", vendor.endpoint);
            assert!(frames.contains(r#""tool_name":"calculator","success":true"#), "{}: {frames}", vendor.endpoint);
            // It is asked for beside the next turn, and the fakes answer in the order of what they are told to say.
            let path = format!("/api/v1/sessions/{}", session.as_str().unwrap_or_default());
            eventually("the title", || (client.send("GET", &path, "").json()["title"] == "A title").then_some(()));
        }
        let journal = fakes.journal();
        let refused: Vec<_> = journal[before..].iter().filter(|entry| entry["ok"] != true).collect();
        assert!(refused.len() <= vendor.refused, "{}: {refused:?}", vendor.endpoint);
    }
}
