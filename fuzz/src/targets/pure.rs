//! Parsers that are called as they are.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use everturn::config::{Environment, Found, Overrides, Source, parse};
use everturn_core::{Segment, SegmentBuilder, TurnState};
use everturn_documents::{Bounds, for_model, read};
use everturn_engine::{Cursor, SessionCursor, write_cursor};
use everturn_recipes::Recipe;

use super::Reading;

/// Text that is kept of a document. Little, so that the limit is met often.
const TEXT_BYTES: usize = 4096;

pub(super) fn documents() -> anyhow::Result<Reading> {
    let bounds = Bounds { bytes: 1 << 20, text_bytes: TEXT_BYTES };
    Ok(Box::new(move |input| {
        let Ok(document) = read("name.txt", input, bounds) else { return Ok(()) };
        let text = document.text.unwrap_or_default();
        if text.len() > TEXT_BYTES {
            return Err(format!("{} bytes of text were kept, at most {TEXT_BYTES} are wanted", text.len()));
        }
        let shown = for_model("name.txt", document.media_type, &text, document.cut, TEXT_BYTES);
        let ends = shown.matches("</document>").count();
        if ends == 1 { Ok(()) } else { Err(format!("the element ends {ends} times: {shown:?}")) }
    }))
}

pub(super) fn config() -> anyhow::Result<Reading> {
    let tools = BTreeSet::from(["clock".to_owned(), "calculator".to_owned()]);
    let environment = Environment::from([("KEY", "value")]);
    Ok(Box::new(move |input| {
        match parse(Source::Defaults, input, &Overrides::default(), &environment, &tools, Found::default()) {
            Ok(config) => drop(format!("{config:?}")),
            Err(problems) if problems.to_string().is_empty() => return Err("it is refused without a word".to_owned()),
            Err(_) => {}
        }
        Ok(())
    }))
}

pub(super) fn recipes() -> anyhow::Result<Reading> {
    Ok(Box::new(|input| {
        let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
        for recipe in [Recipe::from_yaml(text), Recipe::from_json(text)].into_iter().flatten() {
            let values: BTreeMap<_, _> = [("name", "x"), ("version", "1"), ("scope", "a \"b\" {{c}}")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
            let _ = recipe.render(&values);
            let written = serde_json::to_string(&recipe).map_err(|error| error.to_string())?;
            if let Err(error) = Recipe::from_json(&written) {
                return Err(format!("what is written of it is not taken back: {error}: {written}"));
            }
        }
        Ok(())
    }))
}

pub(super) fn cursors() -> anyhow::Result<Reading> {
    Ok(Box::new(|input| {
        let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
        if let Ok(cursor) = text.parse::<Cursor>() {
            let mut written = Vec::new();
            write_cursor(&mut written, cursor);
            if written != text.as_bytes() {
                return Err(format!("{text:?} is written as {:?}", String::from_utf8_lossy(&written)));
            }
        }
        if let Ok(cursor) = text.parse::<SessionCursor>()
            && cursor.to_string() != text
        {
            return Err(format!("{text:?} is written as {:?}", cursor.to_string()));
        }
        Ok(())
    }))
}

/// The first byte is the number of events that the store says there are.
pub(super) fn events() -> anyhow::Result<Reading> {
    Ok(Box::new(|input| {
        let Some((count, stored)) = input.split_first() else { return Ok(()) };
        let segment = Segment::from_stored(1, u32::from(*count), Bytes::copy_from_slice(stored));
        let (mut state, mut written) = (TurnState::default(), SegmentBuilder::new(1));
        let mut is_whole = true;
        for event in segment.events() {
            let Ok(event) = event else {
                is_whole = false;
                break;
            };
            is_whole &= event.seq == event.last_seq;
            let _ = (event.artifact_delta().is_ok(), event.text().is_ok());
            match event.decode() {
                Ok(decoded) => {
                    state.apply(event.last_seq, &decoded);
                    written.push(event.at, &decoded);
                }
                Err(_) => is_whole = false,
            }
        }
        let _ = (state.messages(), state.memory(), everturn_core::next(&state, 10));
        // What was read is read the same once it has been written again.
        if is_whole && !written.is_empty() {
            let again = written.take();
            let decoded = |segment: &Segment| -> Result<Vec<_>, String> {
                segment
                    .events()
                    .map(|event| event.and_then(|event| event.decode()).map_err(|e| e.to_string()))
                    .collect()
            };
            if decoded(&segment)? != decoded(&again)? {
                return Err("the events are others once they are written again".to_owned());
            }
        }
        Ok(())
    }))
}
