//! Names for sessions, made from their first exchange after it is over, so that nobody waits for them.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use everturn_core::{Effort, KeyId, Message, ModelOptions, Role, SessionId, TenantId, Thinking, Usage, context};
use everturn_models::{ModelEvent, ModelRequest};
use everturn_store::{StoreError, Write};
use futures_util::StreamExt as _;

use crate::{Agent, Engine, committer::CommitError};

/// Begins what a model is asked.
const QUESTION: &str = "Write a title for this conversation: at most six words, in its language, without quotation marks \
    or a full stop. Answer with the title alone.";
/// How much of each message the model is shown, in bytes.
const SHOWN_BYTES: usize = 2000;
/// Longest title, in characters.
pub(crate) const MAX_TITLE: usize = 80;
/// Cap on the answer, in tokens: a title, and room for thinking before it.
const MAX_OUTPUT: u64 = 2048;
/// How long a model may take.
const PATIENCE: Duration = Duration::from_secs(30);

impl Engine {
    /// Names a session for people.
    pub async fn rename(&self, tenant: &TenantId, session: &SessionId, title: String) -> Result<bool, StoreError> {
        match self.put(tenant, vec![Write::Title { session: session.clone(), title }], None).await {
            Ok(()) => Ok(true),
            Err(CommitError::Refused(_)) => Ok(false),
            Err(CommitError::Store(error) | CommitError::Unknown { error, .. }) => Err(error),
        }
    }

    /// Gives a session a name if it has none, in its own time.
    pub(crate) fn name_session(&self, tenant: &TenantId, session: &SessionId, agent: &Arc<Agent>) {
        let (engine, tenant, session, agent) = (self.clone(), tenant.clone(), session.clone(), Arc::clone(agent));
        // One at a time: the next turn may end before the first title is there.
        if !self.0.naming.begin(&session) {
            return;
        }
        self.0.tasks.spawn(async move {
            let named = Box::pin(engine.make_title(&tenant, &session, &agent)).await;
            engine.0.naming.end(&session);
            if let Err(error) = named {
                tracing::debug!(%session, %error, "could not name a session");
            }
        });
    }

    async fn make_title(&self, tenant: &TenantId, session: &SessionId, agent: &Agent) -> Result<(), StoreError> {
        let Some(record) = self.0.store.session(tenant, session).await? else { return Ok(()) };
        if record.title.is_some() {
            return Ok(());
        }
        // The first one: others may wait in the queue by now.
        let turns = self.0.store.turns_below(tenant, session, Some(2), 1).await?;
        let by = turns.first().and_then(|turn| turn.by.clone());
        let messages: Vec<_> = turns.into_iter().flat_map(|turn| turn.messages).collect();
        let said = |role| messages.iter().filter(move |m| m.role() == role).map(text_of).find(|text| !text.is_empty());
        let Some(question) = said(Role::User) else { return Ok(()) };
        let answer = said(Role::Assistant).unwrap_or_default();
        let asked = if agent.titles { self.ask_for_title(tenant, agent, by, &question, &answer).await } else { None };
        if self.0.draining() {
            // The next turn of the session tries again.
            return Ok(());
        }
        let title = asked.unwrap_or_else(|| first_words(&question));
        // Somebody may have named it while the model was thinking, and knows better.
        match self.0.store.session(tenant, session).await? {
            Some(record) if record.title.is_none() => self.rename(tenant, session, title).await.map(drop),
            Some(_) | None => Ok(()),
        }
    }
}

/// The sessions that are being named.
#[derive(Debug, Default)]
pub(crate) struct Naming(Mutex<HashSet<SessionId>>);

impl Naming {
    /// Whether nobody names it already.
    fn begin(&self, session: &SessionId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(session.clone())
    }

    fn end(&self, session: &SessionId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
    }
}

impl Engine {
    /// Asks the agent's model. `None` if it gives nothing that can be a title.
    async fn ask_for_title(
        &self,
        tenant: &TenantId,
        agent: &Agent,
        by: Option<KeyId>,
        question: &str,
        answer: &str,
    ) -> Option<String> {
        let shown = |text: &str| text[..text.floor_char_boundary(SHOWN_BYTES)].to_owned();
        let mut exchange = vec![Message::user(shown(question))];
        if !answer.is_empty() {
            exchange.extend([Message::assistant(shown(answer)), Message::user("Now write the title.")]);
        }
        let request = ModelRequest {
            system: QUESTION.to_owned(),
            messages: exchange.into(),
            options: ModelOptions {
                // Some models think whatever they are asked, and count it as a part of the answer.
                max_output_tokens: Some(MAX_OUTPUT),
                thinking: Some(Thinking::Off),
                effort: Some(Effort::Minimal),
                ..ModelOptions::default()
            },
            body: agent.side_body(),
            context_window: agent.asked_window(&**agent.models.first()?),
            ..ModelRequest::default()
        };
        let model = agent.models.first()?;
        let asked = context::estimate_text(&request.system) + request.messages.size().tokens;
        let (mut text, mut told, mut answered) = (String::new(), None, false);
        let call = async {
            let mut stream = model.stream(request).await.ok()?;
            while let Some(Ok(event)) = stream.next().await {
                answered = true;
                match event {
                    ModelEvent::Text(piece) if text.len() < SHOWN_BYTES => text.push_str(&piece),
                    ModelEvent::Used(usage) => told = Some(usage),
                    ModelEvent::Finished { usage, .. } => {
                        told = usage.or(told);
                        return Some(());
                    }
                    _ => {}
                }
            }
            None
        };
        let finished = tokio::select! {
            finished = tokio::time::timeout(PATIENCE, call) => finished.ok().flatten(),
            () = self.0.drain.cancelled() => None,
        };
        // As of a turn's call: a guess where nothing was told, and nothing for one that failed before it began to answer.
        let guess = Usage::of(asked, context::estimate_text(&text));
        let usage = told.unwrap_or(if answered { guess } else { Usage::default() });
        self.spend(tenant, &agent.name, model.name(), by, usage).await;
        finished?;
        clean(&text)
    }
}

/// One line of a bounded length, without quotation marks around it.
pub(crate) fn clean(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let bare = line.trim_matches(|c: char| matches!(c, '"' | '\'' | '“' | '”' | '*' | '#' | '.') || c.is_whitespace());
    let title: String = bare.chars().filter(|c| !c.is_control()).take(MAX_TITLE).collect();
    (!title.is_empty()).then_some(title)
}

fn first_words(text: &str) -> String {
    const WORDS: usize = 8;
    let words: Vec<_> = text.split_whitespace().take(WORDS + 1).collect();
    let cut = words.len() > WORDS;
    let joined = words[..words.len().min(WORDS)].join(" ");
    let title: String = joined.chars().filter(|c| !c.is_control()).take(MAX_TITLE).collect();
    if cut { format!("{title}…") } else { title }
}

fn text_of(message: &Message) -> String {
    match message {
        Message::System { content } => content.clone(),
        Message::User { content } | Message::Assistant { content } | Message::Tool { content, .. } => content.lines(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_short_line() {
        assert_eq!(clean("\n \"A trip to Rome.\" \nmore"), Some("A trip to Rome".to_owned()));
        assert_eq!(clean(" \n "), None);
        assert_eq!(clean(&"x".repeat(500)).unwrap().len(), MAX_TITLE);
        assert_eq!(first_words("one two three"), "one two three");
        assert_eq!(first_words("1 2 3 4 5 6 7 8 9"), "1 2 3 4 5 6 7 8…");
    }
}
