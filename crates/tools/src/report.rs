//! What a call tells and asks while it runs.

use everturn_core::Json;
use tokio::sync::{mpsc, oneshot};

/// Something that a running call says before its result.
#[derive(Debug)]
pub enum Report {
    /// News, for those who watch: progress, a line of a log.
    Notification {
        /// What kind, in MCP's words: `notifications/progress`, `notifications/message`.
        method: String,
        /// The news; an object.
        params: Json,
    },
    /// A question to the person; the call goes on when it is answered.
    Question(Question, oneshot::Sender<Reply>),
}

/// What a call asks a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What is asked, in a few words.
    pub title: String,
    /// More words about it.
    pub description: Option<String>,
    /// JSON Schema of the answer: an object's, within the bounds of [`crate::SchemaCheck`].
    pub schema: Json,
}

/// How a question was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// With this, which fits the schema.
    Accepted(Json),
    /// The person does not want to.
    Declined,
    /// Nobody answered in time, or nobody can be asked.
    Cancelled,
}

/// Takes reports of one call. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Reporter(Option<mpsc::Sender<Report>>);

impl Reporter {
    /// A reporter, and where its reports arrive. It holds so many at most.
    pub fn new(capacity: usize) -> (Self, mpsc::Receiver<Report>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (Self(Some(sender)), receiver)
    }

    /// Passes news on. What nobody takes in time is lost: news must not hold a call up.
    pub fn notify(&self, method: impl Into<String>, params: Json) {
        if let Some(sender) = &self.0 {
            let _ = sender.try_send(Report::Notification { method: method.into(), params });
        }
    }

    /// Asks the person, and waits for the answer.
    pub async fn ask(&self, question: Question) -> Reply {
        let Some(sender) = &self.0 else { return Reply::Cancelled };
        let (answer, answered) = oneshot::channel();
        if sender.send(Report::Question(question, answer)).await.is_err() {
            return Reply::Cancelled;
        }
        answered.await.unwrap_or(Reply::Cancelled)
    }
}
