//! What a call tells and asks while it runs.

use everturn_core::Json;
use tokio::sync::{mpsc, oneshot};

use crate::LifeSign;

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
pub struct Reporter {
    reports: Option<mpsc::Sender<Report>>,
    life: LifeSign,
}

impl Reporter {
    /// A reporter, and where its reports arrive. It holds so many at most.
    pub fn new(capacity: usize) -> (Self, mpsc::Receiver<Report>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (Self { reports: Some(sender), life: LifeSign::default() }, receiver)
    }

    /// When the call last gave a sign of life.
    pub fn life(&self) -> LifeSign {
        self.life.clone()
    }

    /// Notes a sign of life without any news.
    pub fn give_sign(&self) {
        self.life.give();
    }

    /// Passes on news of this call, which are a sign of life. What nobody takes in time is lost: news must not hold a
    /// call up.
    pub fn notify(&self, method: impl Into<String>, params: Json) {
        self.life.give();
        self.overheard(method, params);
    }

    /// Passes on news that may be of another call, and so are no sign of life of this one.
    pub fn overheard(&self, method: impl Into<String>, params: Json) {
        if let Some(reports) = &self.reports {
            let _ = reports.try_send(Report::Notification { method: method.into(), params });
        }
    }

    /// Asks the person, and waits for the answer.
    pub async fn ask(&self, question: Question) -> Reply {
        let Some(reports) = &self.reports else { return Reply::Cancelled };
        let (answer, answered) = oneshot::channel();
        if reports.send(Report::Question(question, answer)).await.is_err() {
            return Reply::Cancelled;
        }
        answered.await.unwrap_or(Reply::Cancelled)
    }
}
