//! Summaries of conversations that applications send whole.
//!
//! An application without sessions sends the same beginning with every message. That beginning is summarised once: the summary
//! is found again by a digest of the messages that it stands for. What is kept here lives in memory only; without it a
//! summary is made anew.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};

use everturn_core::{Block, Compaction, Content, Event, Message, TenantId, Usage, compaction::Change, context};
use sha2::{Digest as _, Sha256};

use crate::turn::{Stopped, Turn};

/// The most summaries that are kept, of all tenants.
const MOST: usize = 1024;
/// The most bytes that they may have together.
const MOST_BYTES: usize = 8 << 20;

type Name = [u8; 32];

/// Summaries by the messages that they stand for. The one that was used least lately goes first.
#[derive(Debug, Default)]
pub(crate) struct KnownSummaries(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    summaries: HashMap<Name, (u64, Compaction)>,
    by_use: BTreeMap<u64, Name>,
    uses: u64,
    bytes: usize,
}

impl KnownSummaries {
    fn keep(&self, name: Name, compaction: Compaction) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(&name);
        kept.bytes += compaction.summary.len();
        kept.insert(name, compaction);
        while kept.summaries.len() > MOST || kept.bytes > MOST_BYTES {
            let Some(oldest) = kept.by_use.first_key_value().map(|(_, name)| *name) else { break };
            kept.remove(&oldest);
        }
    }

    /// The summary of the longest of these beginnings, which are named from the shortest to the longest.
    fn find(&self, names: &[Name]) -> Option<Compaction> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = names.iter().rev().find(|name| kept.summaries.contains_key(*name))?;
        let (used, compaction) = kept.summaries.remove(name)?;
        kept.by_use.remove(&used);
        kept.insert(*name, compaction.clone());
        Some(compaction)
    }
}

impl Kept {
    fn insert(&mut self, name: Name, compaction: Compaction) {
        self.uses += 1;
        self.by_use.insert(self.uses, name);
        self.summaries.insert(name, (self.uses, compaction));
    }

    fn remove(&mut self, name: &Name) {
        if let Some((used, compaction)) = self.summaries.remove(name) {
            self.by_use.remove(&used);
            self.bytes -= compaction.summary.len();
        }
    }
}

impl Turn {
    /// Keeps a summary for the next request that begins with the same messages.
    pub(crate) fn keep_summary(&self, compaction: &Compaction) {
        // Of a session that was compacted in an earlier turn, the messages before that may not be in memory. Such a session is
        // no conversation that is sent whole.
        let is_whole = self.earlier.compaction().is_none();
        if !is_whole || compaction.left_out > 0 || compaction.current.is_some() || compaction.summary.is_empty() {
            return;
        }
        let history = self.full_history();
        let Some(name) = self.names_of_beginnings(history.iter().take(compaction.covers)).pop() else { return };
        // Other messages are shortened only as long as there is no room for them.
        let shortened = compaction.shortened.iter().filter(|shortened| shortened.at < compaction.covers);
        let shortened = shortened.copied().collect();
        let kept = Compaction { usage: Usage::default(), shortened, change: None, ..compaction.clone() };
        self.shared.summaries.keep(name, kept);
    }

    /// Puts a summary that is known already in the place of the conversation's beginning. `false` if there is none for more
    /// messages than were compacted before. `size` is the estimated context, `fixed` what of it are instructions and tools.
    pub(crate) fn use_known_summary(&mut self, size: u64, fixed: u64) -> Result<bool, Stopped> {
        if self.earlier.compaction().is_some() {
            return Ok(false);
        }
        let history = self.full_history();
        let Some(mut known) = self.shared.summaries.find(&self.names_of_beginnings(history.iter())) else {
            return Ok(false);
        };
        let earlier = self.compaction().cloned().unwrap_or_default();
        if known.covers <= earlier.covers {
            return Ok(false);
        }
        known.reads_results |= earlier.reads_results;
        let later = earlier.shortened.iter().filter(|shortened| shortened.at >= known.covers);
        known.shortened.extend(later);
        known.change = Some(Change {
            messages: known.covers - earlier.covers,
            shortened: 0,
            tokens_before: size,
            tokens_after: fixed + context::estimate(&context::compact(&history, Some(&known))),
        });
        self.record(Event::HistoryCompacted(known))?;
        // The model is given another beginning from now on.
        self.spoken = None;
        self.settle_context();
        Ok(true)
    }

    /// A name for each beginning of a conversation, from the shortest to the longest. It tells tenants and agents apart. What
    /// the model thought does not count, nor do the ids of calls: applications do not send them back as they were.
    fn names_of_beginnings<'a>(&self, messages: impl Iterator<Item = &'a Message>) -> Vec<Name> {
        let mut name = beginning(&self.tenant, &self.agent.name);
        let mut names = Vec::new();
        for message in messages {
            let mut digest = Sha256::new();
            digest.update(name);
            add_message(&mut digest, message);
            name = digest.finalize().into();
            names.push(name);
        }
        names
    }
}

fn beginning(tenant: &TenantId, agent: &str) -> Name {
    let mut digest = Sha256::new();
    add(&mut digest, b't', tenant.as_str());
    add(&mut digest, b'a', agent);
    digest.finalize().into()
}

/// Adds a text in a way that no other sequence of texts has.
fn add(digest: &mut Sha256, kind: u8, text: &str) {
    digest.update([kind]);
    digest.update((text.len() as u64).to_le_bytes());
    digest.update(text);
}

fn add_message(digest: &mut Sha256, message: &Message) {
    match message {
        Message::System { content } => add(digest, b's', content),
        Message::User { content } => add_content(digest, b'u', content),
        Message::Assistant { content } => add_content(digest, b'm', content),
        Message::Tool { content, is_error, .. } => add_content(digest, if *is_error { b'e' } else { b'r' }, content),
    }
}

fn add_content(digest: &mut Sha256, kind: u8, content: &Content) {
    digest.update([kind]);
    let blocks = match content {
        Content::Text(text) => return add(digest, b't', text),
        Content::Blocks(blocks) => blocks,
    };
    for block in blocks {
        match block {
            Block::Text(text) => add(digest, b't', text),
            Block::Thinking { .. } => {}
            Block::ToolUse(call) => {
                add(digest, b'n', &call.name);
                add(digest, b'i', call.input.as_str());
            }
            Block::Image { url } => add(digest, b'p', url),
            Block::Document { id, .. } => add(digest, b'd', id.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(covers: usize, length: usize) -> Compaction {
        Compaction { summary: "s".repeat(length), covers, ..Compaction::default() }
    }

    fn name(number: u64) -> Name {
        let mut name = [0; 32];
        name[..8].copy_from_slice(&number.to_le_bytes());
        name
    }

    #[test]
    fn the_longest_beginning_is_found_and_what_was_not_used_lately_goes() {
        let known = KnownSummaries::default();
        known.keep(name(1), summary(1, 10));
        known.keep(name(2), summary(2, 10));
        assert_eq!(known.find(&[name(1), name(2), name(3)]).unwrap().covers, 2);
        assert_eq!(known.find(&[name(7)]), None);
        assert_eq!(known.find(&[name(1)]).unwrap().covers, 1);
        // Each of these takes a quarter of the room, so the last one of four has no place beside two small ones.
        for number in 10..14 {
            known.keep(name(number), summary(1, MOST_BYTES / 4));
        }
        assert_eq!(known.find(&[name(2)]), None, "it was used least lately");
        assert!(known.find(&[name(13)]).is_some());
        known.keep(name(14), summary(1, MOST_BYTES + 1));
        assert!(known.0.lock().unwrap().summaries.is_empty(), "what has no room at all is not kept");
        assert_eq!(known.0.lock().unwrap().bytes, 0);
        for number in 0..=MOST as u64 {
            known.keep(name(number), summary(1, 1));
        }
        assert_eq!((known.find(&[name(0)]), known.0.lock().unwrap().bytes), (None, MOST));
    }
}
