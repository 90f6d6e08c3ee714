//! Web pages as text that can be read.

mod entity;
mod flow;
mod scanner;

use self::{
    flow::{Break, Flow},
    scanner::{Piece, Scanner, attribute},
};

/// How far into a text a page must have begun.
const LOOK: usize = 2048;
/// The longest target of a link that is shown.
const MAX_TARGET: usize = 500;

/// Elements that are not shown, and whose text is no HTML.
fn is_raw(name: &str) -> bool {
    matches!(name, "script" | "style" | "iframe" | "noembed")
}

/// Elements that are not shown.
const HIDDEN: [&str; 5] = ["noscript", "template", "svg", "canvas", "datalist"];

/// What stands around an element.
fn break_around(name: &str) -> Break {
    match name {
        "br" | "tr" | "dt" | "dd" | "div" | "option" | "legend" | "caption" | "figcaption" | "label" | "summary"
        | "address" | "title" | "li" => Break::Line,
        "p" | "ul" | "ol" | "dl" | "table" | "pre" | "blockquote" | "hr" | "section" | "article" | "header"
        | "footer" | "main" | "nav" | "aside" | "figure" | "form" | "fieldset" | "details" | "head" | "body" | "h1"
        | "h2" | "h3" | "h4" | "h5" | "h6" => Break::Paragraph,
        _ => Break::None,
    }
}

/// Whether the text is a web page: it begins with a tag, and one that every page has comes soon.
pub(crate) fn looks_like(text: &str) -> bool {
    let text = text.trim_start();
    let beginning = text[..text.floor_char_boundary(LOOK)].to_ascii_lowercase();
    let has = |tag: &str| {
        let mut found = beginning.match_indices(tag).map(|(at, _)| &beginning[at + tag.len()..]);
        found.any(|after| after.starts_with(['>', ' ', '\t', '\r', '\n', '/']))
    };
    beginning.starts_with('<') && ["<!doctype html", "<html", "<head", "<body"].into_iter().any(has)
}

/// What a page shows, at most `limit` bytes of it, and whether there is more.
pub(crate) fn to_text(html: &str, limit: usize) -> (String, bool) {
    let mut page = Page { flow: Flow::new(limit), preformatted: 0, hidden: None, target: None };
    let mut scanner = Scanner::new(html);
    while let Some(piece) = scanner.piece() {
        match piece {
            Piece::Text(text) => page.text(text),
            Piece::Open { name, attributes } => {
                let name = name.to_ascii_lowercase();
                if is_raw(&name) {
                    scanner.skip_to_close(&name);
                }
                page.open(&name, attributes);
            }
            Piece::Close { name } => page.close(&name.to_ascii_lowercase()),
        }
        if page.flow.is_full() {
            break;
        }
    }
    let cut = page.flow.is_full();
    (page.flow.into_text(), cut)
}

struct Page<'a> {
    flow: Flow,
    /// Elements whose white space counts that are open.
    preformatted: usize,
    /// The element that is not shown, and how often it is open.
    hidden: Option<(&'static str, usize)>,
    /// Where the open link leads.
    target: Option<&'a str>,
}

impl<'a> Page<'a> {
    fn text(&mut self, mut text: &str) {
        if self.hidden.is_some() {
            return;
        }
        while let Some((character, rest)) = entity::next(text) {
            if self.preformatted > 0 {
                self.flow.push_preformatted(character);
            } else {
                self.flow.push(character);
            }
            if self.flow.is_full() {
                return;
            }
            text = rest;
        }
    }

    fn open(&mut self, name: &str, attributes: &'a str) {
        if let Some((hidden, depth)) = &mut self.hidden {
            *depth += usize::from(*hidden == name);
            return;
        }
        if let Some(hidden) = HIDDEN.iter().find(|hidden| **hidden == name) {
            // `<svg/>` has no end tag.
            self.hidden = (!attributes.ends_with('/')).then_some((hidden, 1));
            return;
        }
        self.flow.separate(break_around(name));
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.flow.mark(&"######"[..name[1..].parse().unwrap_or(1)]),
            "li" => self.flow.mark("-"),
            "td" | "th" => self.flow.separate(Break::Cell),
            "pre" | "textarea" => self.preformatted += 1,
            "a" => self.target = attribute(attributes, "href"),
            "img" => {
                if let Some(alternative) = attribute(attributes, "alt") {
                    self.flow.separate(Break::Space);
                    self.text(alternative);
                    self.flow.separate(Break::Space);
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        if let Some((hidden, depth)) = &mut self.hidden {
            *depth -= usize::from(*hidden == name);
            if *depth == 0 {
                self.hidden = None;
            }
            return;
        }
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "li" | "ul" | "ol" => self.flow.mark(""),
            "pre" | "textarea" => self.preformatted = self.preformatted.saturating_sub(1),
            "a" => self.show_target(),
            _ => {}
        }
        self.flow.separate(break_around(name));
    }

    /// Behind the text of a link: where it leads, if that is another page.
    fn show_target(&mut self) {
        let Some(target) = self.target.take().map(str::trim).filter(|target| target.len() <= MAX_TARGET) else {
            return;
        };
        let target = entity::decode(target);
        if target.starts_with("https://") || target.starts_with("http://") {
            self.flow.separate(Break::Space);
            format!("({target})").chars().for_each(|character| self.flow.push(character));
        }
    }
}
