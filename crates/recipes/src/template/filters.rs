//! The filters and tests of a text. They do what those of the engine do, and count what they work on.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use minijinja::{
    Environment, Error, ErrorKind, Value,
    value::{Kwargs, Rest, ValueKind},
};

use crate::bounds;

/// The names of all filters.
pub(super) const NAMES: [&str; 19] = [
    "capitalize",
    "count",
    "d",
    "default",
    "first",
    "float",
    "indent",
    "int",
    "join",
    "last",
    "length",
    "lines",
    "lower",
    "replace",
    "safe",
    "split",
    "title",
    "trim",
    "upper",
];

/// The names of all tests.
pub(super) const TESTS: [&str; 9] =
    ["defined", "undefined", "none", "eq", "equalto", "ne", "in", "startingwith", "endingwith"];

/// Adds all of them.
pub(super) fn add(environment: &mut Environment<'_>) {
    let work = Work::default();
    add_letters(environment, &work);
    add_layout(environment, &work);
    add_lists(environment, &work);
    add_values(environment);
    add_tests(environment, &work);
}

/// The bytes that have been worked on.
#[derive(Clone, Default)]
struct Work(Arc<AtomicUsize>);

impl Work {
    fn count(&self, bytes: usize) -> Result<(), Error> {
        // One at the least, for what an empty text costs.
        let before = self.0.fetch_add(bytes.saturating_add(1), Ordering::Relaxed);
        if before.saturating_add(bytes) < bounds::FILTERED {
            return Ok(());
        }
        Err(invalid(format!("its filters work on more than {} bytes", bounds::FILTERED)))
    }

    /// Counts what a filter is given.
    fn text(&self, value: &Value) -> Result<String, Error> {
        let text = match value.as_str() {
            Some(text) => text.to_owned(),
            None if value.is_undefined() => String::new(),
            // Lists of long texts become longer than each of them.
            None if value.kind() == ValueKind::Seq => return Err(invalid("a list is no text; use join")),
            None => value.to_string(),
        };
        self.count(text.len())?;
        Ok(text)
    }

    /// A filter that makes a text of about the same length.
    fn filter(&self, change: fn(&str) -> String) -> impl Fn(Value) -> Result<String, Error> + use<> {
        let work = self.clone();
        move |value| Ok(change(&work.text(&value)?))
    }
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

fn add_letters(environment: &mut Environment<'_>, work: &Work) {
    environment.add_filter("upper", work.filter(str::to_uppercase));
    environment.add_filter("lower", work.filter(str::to_lowercase));
    environment.add_filter("capitalize", work.filter(capitalize));
    environment.add_filter("title", work.filter(title));
    // Nothing is escaped: the texts are for a model.
    environment.add_filter("safe", work.filter(str::to_owned));
}

fn capitalize(text: &str) -> String {
    let mut signs = text.chars();
    let first = signs.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    first + &signs.as_str().to_lowercase()
}

fn title(text: &str) -> String {
    let mut title = String::with_capacity(text.len());
    let mut is_start = true;
    for sign in text.chars() {
        if sign.is_whitespace() || "-({[<".contains(sign) {
            title.push(sign);
            is_start = true;
        } else if is_start {
            title.extend(sign.to_uppercase());
            is_start = false;
        } else {
            title.extend(sign.to_lowercase());
        }
    }
    title
}

fn add_layout(environment: &mut Environment<'_>, work: &Work) {
    let own = work.clone();
    environment.add_filter("trim", move |value: Value, signs: Option<String>| -> Result<String, Error> {
        let text = own.text(&value)?;
        Ok(match signs {
            Some(signs) => text.trim_matches(|sign| signs.contains(sign)).to_owned(),
            None => text.trim().to_owned(),
        })
    });
    let own = work.clone();
    environment.add_filter("replace", move |value: Value, from: String, to: String| -> Result<String, Error> {
        let text = own.text(&value)?;
        // Known before it is made, since it may be much longer.
        let places = text.matches(&from).count();
        own.count(places.saturating_mul(to.len()))?;
        Ok(text.replace(&from, &to))
    });
    let own = work.clone();
    let indent = move |value: Value, width: Option<usize>, first: Option<bool>, blank: Option<bool>, named: Kwargs| {
        let width = width.or(named.get("width")?).unwrap_or(4);
        let first = first.or(named.get("first")?).unwrap_or(false);
        let blank = blank.or(named.get("blank")?).unwrap_or(false);
        named.assert_all_used()?;
        let text = own.text(&value)?;
        own.count(text.split('\n').count().saturating_mul(width))?;
        Ok::<_, Error>(indent(&text, &" ".repeat(width), first, blank))
    };
    environment.add_filter("indent", indent);
}

fn indent(text: &str, space: &str, first: bool, blank: bool) -> String {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    let mut indented = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            indented.push('\n');
        }
        let is_blank = line.is_empty() || line == "\r";
        if if number == 0 { first && (!is_blank || blank) } else { !is_blank || blank } {
            indented.push_str(space);
        }
        indented.push_str(line);
    }
    indented
}

fn add_lists(environment: &mut Environment<'_>, work: &Work) {
    let own = work.clone();
    environment.add_filter("split", move |value: Value, by: Option<String>| -> Result<Vec<String>, Error> {
        let text = own.text(&value)?;
        match by.as_deref() {
            None => parts(text.split_whitespace()),
            Some("") => Err(invalid("split needs something to split by")),
            Some(by) => parts(text.split(by)),
        }
    });
    let own = work.clone();
    environment
        .add_filter("lines", move |value: Value| -> Result<Vec<String>, Error> { parts(own.text(&value)?.lines()) });
    let own = work.clone();
    environment.add_filter("join", move |value: Value, by: Option<String>| -> Result<String, Error> {
        if value.kind() != ValueKind::Seq {
            return own.text(&value);
        }
        let by = by.unwrap_or_default();
        let mut joined = String::new();
        for (number, item) in value.try_iter()?.enumerate() {
            if number > 0 {
                own.count(by.len())?;
                joined.push_str(&by);
            }
            joined.push_str(&own.text(&item)?);
        }
        Ok(joined)
    });
    for (name, from_end) in [("first", false), ("last", true)] {
        let own = work.clone();
        environment.add_filter(name, move |value: Value| -> Result<Value, Error> {
            let found = match value.as_str() {
                Some(text) => {
                    let sign = if from_end { text.chars().next_back() } else { text.chars().next() };
                    sign.map(Value::from)
                }
                None => {
                    own.count(value.len().unwrap_or_default())?;
                    let mut items = value.try_iter()?;
                    if from_end { items.last() } else { items.next() }
                }
            };
            Ok(found.unwrap_or(Value::UNDEFINED))
        });
    }
    for name in ["length", "count"] {
        let own = work.clone();
        environment.add_filter(name, move |value: Value| -> Result<usize, Error> {
            own.count(value.as_str().map_or(0, str::len))?;
            value.len().ok_or_else(|| invalid("only texts and lists have a length"))
        });
    }
}

/// A list that is short enough to be searched again and again.
fn parts<'a>(parts: impl Iterator<Item = &'a str>) -> Result<Vec<String>, Error> {
    let parts = parts.take(bounds::PARTS + 1).map(ToOwned::to_owned).collect::<Vec<_>>();
    if parts.len() <= bounds::PARTS {
        return Ok(parts);
    }
    Err(invalid(format!("a text is split into more than {} parts", bounds::PARTS)))
}

fn add_values(environment: &mut Environment<'_>) {
    for name in ["default", "d"] {
        environment.add_filter(name, |value: Value, other: Option<Value>, lax: Option<bool>| {
            let is_missing = value.is_undefined() || (lax == Some(true) && !value.is_true());
            if is_missing { other.unwrap_or_else(|| Value::from("")) } else { value }
        });
    }
    environment.add_filter("int", |value: Value, other: Rest<Value>| -> Value {
        match number(&value) {
            Some(number) => Value::from(number as i64),
            None => other.first().cloned().unwrap_or_else(|| Value::from(0)),
        }
    });
    environment.add_filter("float", |value: Value, other: Rest<Value>| -> Value {
        match number(&value) {
            Some(number) => Value::from(number),
            None => other.first().cloned().unwrap_or_else(|| Value::from(0.0)),
        }
    });
}

fn number(value: &Value) -> Option<f64> {
    match value.as_str() {
        // Longer ones are no numbers that anybody writes.
        Some(text) => (text.len() < 100).then(|| text.trim().parse::<f64>().ok())?.filter(|number| number.is_finite()),
        None => f64::try_from(value.clone()).ok(),
    }
}

fn add_tests(environment: &mut Environment<'_>, work: &Work) {
    environment.add_test("defined", |value: Value| !value.is_undefined());
    environment.add_test("undefined", |value: Value| value.is_undefined());
    environment.add_test("none", |value: Value| value.is_none());
    environment.add_test("eq", |value: Value, other: Value| value == other);
    environment.add_test("equalto", |value: Value, other: Value| value == other);
    environment.add_test("ne", |value: Value, other: Value| value != other);
    let own = work.clone();
    environment.add_test("in", move |value: Value, other: Value| -> Result<bool, Error> {
        match other.as_str() {
            Some(text) => {
                own.count(text.len())?;
                Ok(text.contains(&own.text(&value)?))
            }
            None => Ok(other.try_iter()?.any(|item| item == value)),
        }
    });
    environment.add_test("startingwith", |value: &str, begin: &str| value.starts_with(begin));
    environment.add_test("endingwith", |value: &str, end: &str| value.ends_with(end));
}
