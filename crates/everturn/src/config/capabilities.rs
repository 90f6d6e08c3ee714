//! What clients of an agent may use, as the file says it.

use everturn_engine::Capabilities;

use super::{
    choice::{Choice, choose},
    file::{self, Text},
    problem::Report,
};

#[derive(Clone, Copy)]
enum History {
    Compacted,
    Full,
}

#[derive(Clone, Copy)]
enum Stream {
    Delta,
    Message,
    None,
}

#[derive(Clone, Copy)]
enum Images {
    Http,
    Data,
}

impl Choice for History {
    const WHAT: &'static str = "kind of history";
    const WORDS: &'static [(&'static str, Self)] = &[("compacted", Self::Compacted), ("full", Self::Full)];
}

impl Choice for Stream {
    const WHAT: &'static str = "stream mode";
    const WORDS: &'static [(&'static str, Self)] =
        &[("delta", Self::Delta), ("message", Self::Message), ("none", Self::None)];
}

impl Choice for Images {
    const WHAT: &'static str = "kind of image";
    const WORDS: &'static [(&'static str, Self)] = &[("http", Self::Http), ("data", Self::Data)];
}

/// The capabilities; what the file leaves out is offered.
pub(super) fn check(report: &mut Report<'_>, file: file::Capabilities) -> Capabilities {
    let mut offered = Capabilities::default();
    if let Some(words) = file.history {
        (offered.history_compacted, offered.history_full) = (false, false);
        for kind in chosen(report, &words) {
            match kind {
                History::Compacted => offered.history_compacted = true,
                History::Full => offered.history_full = true,
            }
        }
    }
    if let Some(words) = file.stream {
        (offered.stream_delta, offered.stream_message, offered.stream_none) = (false, false, false);
        for mode in chosen(report, words.get_ref()) {
            match mode {
                Stream::Delta => offered.stream_delta = true,
                Stream::Message => offered.stream_message = true,
                Stream::None => offered.stream_none = true,
            }
        }
        if words.get_ref().is_empty() {
            let hint = "list at least one of delta, message and none".to_owned();
            report.add(Some(words.span()), "an agent without a stream mode cannot answer".to_owned(), hint);
        }
    }
    if let Some(words) = file.images {
        (offered.image_http, offered.image_data) = (false, false);
        for kind in chosen(report, &words) {
            match kind {
                Images::Http => offered.image_http = true,
                Images::Data => offered.image_data = true,
            }
        }
    }
    offered.application_tools = file.application_tools.unwrap_or(offered.application_tools);
    offered
}

fn chosen<C: Choice>(report: &mut Report<'_>, words: &[Text]) -> Vec<C> {
    words.iter().filter_map(|word| choose(report, Some(word.span()), word.get_ref())).collect()
}
