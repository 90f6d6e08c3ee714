//! Finds the objects of a PDF, and reads them.
//!
//! A PDF ends with a table of where its objects are. It is not used: it can be missing, wrong, or made to lead in
//! circles, and a reader needs to do without it anyway. Objects say their number where they begin, so one pass over the
//! file finds them all. Of two with the same number the later one is valid, as in a table.

use std::{collections::HashMap, ops::Range};

use memchr::memmem;

use super::{
    budget::Budget,
    crypt::{Crypt, Locked},
    filter::{self, Filter, MAX_FILTERS, Predictor},
    lexer::{Lexer, Token, is_space},
    object::{Dict, Object, Stream},
};

/// Objects in one file.
const MAX_OBJECTS: usize = 1 << 20;
/// Bytes that a stream is unpacked to.
const MAX_STREAM: usize = 32 << 20;
/// Bytes of the unpacked streams that hold objects, which are kept while the file is read.
const MAX_OBJECT_STREAMS: usize = 96 << 20;
/// References that lead to references.
const MAX_HOPS: usize = 8;

pub(crate) struct File<'a> {
    bytes: &'a [u8],
    budget: &'a Budget,
    places: HashMap<u32, Place>,
    /// The streams that hold objects, unpacked.
    object_streams: Vec<Vec<u8>>,
    crypt: Option<Crypt>,
    /// What the file says of itself: its root and its encryption.
    trailer: Dict,
}

/// Where an object is.
#[derive(Clone, Copy)]
struct Place {
    /// How far into the file, also for one that lies in a stream: the later one of two is valid.
    position: usize,
    within: Within,
}

#[derive(Clone, Copy)]
enum Within {
    File { generation: u16 },
    Stream { index: usize, offset: usize },
}

impl<'a> File<'a> {
    pub(crate) fn open(bytes: &'a [u8], budget: &'a Budget) -> Result<Self, Locked> {
        let mut file = Self {
            bytes,
            budget,
            places: HashMap::new(),
            object_streams: Vec::new(),
            crypt: None,
            trailer: Dict::default(),
        };
        let object_streams = file.scan();
        if let Some(encryption) = file.lookup(&file.trailer, b"Encrypt").into_dict() {
            let encryption = Dict(encryption.0.into_iter().map(|(key, value)| (key, file.resolve(value))).collect());
            let ids = file.lookup(&file.trailer, b"ID").into_array();
            let id = ids.first().and_then(Object::as_string).unwrap_or_default();
            file.crypt = Some(Crypt::open(&encryption, id)?);
        }
        for (position, stream) in object_streams {
            file.open_object_stream(position, &stream);
        }
        Ok(file)
    }

    /// Notes where the objects of the file are, and what its trailers say. Returns the streams that hold more objects,
    /// each with its position.
    fn scan(&mut self) -> Vec<(usize, Stream)> {
        let mut object_streams = Vec::new();
        let (objects, trailers) = (memmem::Finder::new(b"obj"), memmem::Finder::new(b"trailer"));
        let mut endless = false;
        let mut at = 0;
        while let Some(rest) = self.bytes.get(at..) {
            let found = objects.find(rest);
            let gap = &rest[..found.unwrap_or(rest.len())];
            for trailer in trailers.find_iter(gap) {
                let mut lexer = Lexer::new(self.bytes, at + trailer + b"trailer".len(), self.budget);
                if let Some(Object::Dict(dict)) = lexer.object() {
                    self.take_trailer(&dict);
                }
            }
            let Some(found) = found.filter(|_| self.budget.pay(gap.len() + 3)) else { break };
            let begin = at + found;
            at = begin + 3;
            let Some(id) = id_before(self.bytes, begin) else { continue };
            let mut lexer = Lexer::new(self.bytes, at, self.budget);
            let Some(object) = lexer.object() else { continue };
            if self.places.len() >= MAX_OBJECTS && !self.places.contains_key(&id.0) {
                break;
            }
            let position = at;
            self.places.insert(id.0, Place { position, within: Within::File { generation: id.1 } });
            at = at.max(lexer.position());
            let Object::Dict(dict) = object else { continue };
            if let Some(data) = self.stream_data(&mut lexer, &dict, &mut endless) {
                if !endless {
                    at = at.max(data.end);
                }
                if dict.has_name(b"Type", b"XRef") {
                    self.take_trailer(&dict);
                }
                if dict.has_name(b"Type", b"ObjStm") {
                    object_streams.push((position, Stream { dict, data, id }));
                }
            }
        }
        object_streams
    }

    /// A later trailer adds to what earlier ones said.
    fn take_trailer(&mut self, dict: &Dict) {
        for key in [&b"Root"[..], b"Encrypt", b"ID"] {
            if *dict.get(key) != Object::Null {
                self.trailer.0.insert(key.to_vec(), dict.get(key).clone());
            }
        }
    }

    /// Where the bytes of a stream are whose dictionary was read. None if it is no stream. `endless` notes that no
    /// stream ends after one that was looked at, so that nobody looks for the end of the next.
    fn stream_data(&self, lexer: &mut Lexer<'_>, dict: &Dict, endless: &mut bool) -> Option<Range<usize>> {
        let Some(Token::Word(b"stream")) = lexer.token() else { return None };
        let begin = lexer.position();
        let begin = match self.bytes.get(begin..).unwrap_or_default() {
            [b'\r', b'\n', ..] => begin + 2,
            [b'\r' | b'\n', ..] => begin + 1,
            _ => begin,
        };
        let ends_at = |end: usize| {
            let after = self.bytes.get(end..)?;
            let spaces = after.iter().take(4).take_while(|byte| is_space(**byte)).count();
            after[spaces..].starts_with(b"endstream").then_some(begin..end)
        };
        if let Some(range) = dict.get(b"Length").as_count().and_then(|length| ends_at(begin + length)) {
            return Some(range);
        }
        let rest = self.bytes.get(begin..).unwrap_or_default();
        let mut length = None;
        if !*endless {
            length = memmem::find(rest, b"endstream");
            *endless = length.is_none();
            if !self.budget.pay(length.unwrap_or(rest.len())) {
                return None;
            }
        }
        let data = &rest[..length.unwrap_or(rest.len())];
        // The line break before the end is no part of the data.
        let data = data.strip_suffix(b"\n").unwrap_or(data);
        let data = data.strip_suffix(b"\r").unwrap_or(data);
        Some(begin..begin + data.len())
    }

    fn open_object_stream(&mut self, position: usize, stream: &Stream) {
        let kept: usize = self.object_streams.iter().map(Vec::len).sum();
        let bytes = self.decode(stream, MAX_OBJECT_STREAMS.saturating_sub(kept));
        let first = self.lookup(&stream.dict, b"First").as_count().unwrap_or_default();
        let count = self.lookup(&stream.dict, b"N").as_count().unwrap_or_default();
        let index = self.object_streams.len();
        let mut lexer = Lexer::of_content(&bytes, self.budget);
        for _ in 0..count {
            let (Some(Token::Number(number)), Some(Token::Number(offset))) = (lexer.token(), lexer.token()) else {
                break;
            };
            let place =
                Place { position, within: Within::Stream { index, offset: first.saturating_add(offset as usize) } };
            let known = self.places.get(&(number as u32));
            if known.is_none_or(|known| known.position <= position) && self.places.len() < MAX_OBJECTS {
                self.places.insert(number as u32, place);
            }
        }
        self.object_streams.push(bytes);
    }

    /// The value of a key, wherever it is.
    pub(crate) fn lookup(&self, dict: &Dict, key: &[u8]) -> Object {
        self.resolve(dict.get(key).clone())
    }

    /// The value itself, if this is a reference to one.
    pub(crate) fn resolve(&self, mut object: Object) -> Object {
        for _ in 0..MAX_HOPS {
            let Object::Reference(number) = object else { return object };
            object = self.read(number).unwrap_or(Object::Null);
        }
        Object::Null
    }

    fn read(&self, number: u32) -> Option<Object> {
        let place = self.places.get(&number)?;
        match place.within {
            Within::Stream { index, offset } => {
                Lexer::new(self.object_streams.get(index)?, offset, self.budget).object()
            }
            Within::File { generation } => {
                let mut lexer = Lexer::new(self.bytes, place.position, self.budget);
                let mut dict = match lexer.object()? {
                    Object::Dict(dict) => dict,
                    other => return Some(other),
                };
                if let length @ Object::Reference(_) = dict.get(b"Length") {
                    // One hop only: a length that leads back here would never end.
                    let length = self.number_at(length);
                    dict.0.insert(b"Length".to_vec(), length);
                }
                Some(match self.stream_data(&mut lexer, &dict, &mut false) {
                    Some(data) => Object::Stream(Box::new(Stream { dict, data, id: (number, generation) })),
                    None => Object::Dict(dict),
                })
            }
        }
    }

    /// The number that a reference leads to at once.
    fn number_at(&self, reference: &Object) -> Object {
        let Object::Reference(number) = reference else { return Object::Null };
        match self.places.get(number) {
            Some(Place { position, within: Within::File { .. } }) => {
                Lexer::new(self.bytes, *position, self.budget).object().unwrap_or(Object::Null)
            }
            Some(_) | None => Object::Null,
        }
    }

    /// The bytes of a stream, decrypted and unpacked; at most `limit` of them.
    pub(crate) fn decode(&self, stream: &Stream, limit: usize) -> Vec<u8> {
        let data = self.bytes.get(stream.data.clone()).unwrap_or_default();
        let limit = limit.min(MAX_STREAM);
        let filters = self.filters(&stream.dict);
        match &self.crypt {
            None => filter::decode(data, &filters, limit, self.budget),
            Some(crypt) if self.budget.pay(data.len()) => {
                filter::decode(&crypt.decrypt(data, stream.id), &filters, limit, self.budget)
            }
            Some(_) => Vec::new(),
        }
    }

    fn filters(&self, dict: &Dict) -> Vec<Filter> {
        let as_list = |value: Object| match value {
            Object::Array(items) => items.into_iter().map(|item| self.resolve(item)).collect(),
            Object::Null => Vec::new(),
            one => vec![one],
        };
        let parameters = as_list(self.lookup(dict, b"DecodeParms"));
        let mut parameters = parameters.into_iter();
        as_list(self.lookup(dict, b"Filter"))
            .into_iter()
            .take(MAX_FILTERS)
            .map(|name| {
                let parameters = parameters.next().and_then(Object::into_dict).unwrap_or_default();
                let count =
                    |key: &[u8], default| self.lookup(&parameters, key).as_count().unwrap_or(default).min(1 << 20);
                Filter {
                    name: name.as_name().unwrap_or_default().to_vec(),
                    predictor: Predictor {
                        kind: count(b"Predictor", 1),
                        colors: count(b"Colors", 1).min(32),
                        bits: count(b"BitsPerComponent", 8).min(32),
                        columns: count(b"Columns", 1),
                    },
                    early_change: count(b"EarlyChange", 1) != 0,
                }
            })
            .collect()
    }

    pub(crate) fn root(&self) -> Dict {
        self.lookup(&self.trailer, b"Root").into_dict().unwrap_or_default()
    }

    pub(crate) fn budget(&self) -> &'a Budget {
        self.budget
    }

    /// The numbers of all objects, in the order of the file.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.places.keys().copied().collect();
        numbers.sort_unstable_by_key(|number| (self.places.get(number).map(|place| place.position), *number));
        numbers
    }
}

/// The number and generation in front of `obj`: `12 0 obj`.
fn id_before(bytes: &[u8], obj: usize) -> Option<(u32, u16)> {
    let (generation, rest) = number_before(bytes.get(..obj)?)?;
    let (number, _) = number_before(rest)?;
    Some((number, u16::try_from(generation).ok()?))
}

/// The number that ends here, with white space after it, and what comes before.
fn number_before(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let end = bytes.iter().rposition(|byte| !is_space(*byte))? + 1;
    let digits = bytes[..end].iter().rev().take(10).take_while(|byte| byte.is_ascii_digit()).count();
    let text = std::str::from_utf8(&bytes[end - digits..end]).ok()?;
    Some((text.parse().ok()?, &bytes[..end - digits]))
}
