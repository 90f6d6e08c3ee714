//! A Pratt parser that evaluates as it reads. It holds no tree, and its recursion is bounded.

use std::fmt;

use super::number::{Number, Undefined};

/// Longest expression, in characters.
pub(super) const MAX_LENGTH: usize = 1000;
/// Deepest nesting of parentheses, signs and powers.
const MAX_DEPTH: usize = 100;

/// Why an expression has no value, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Error {
    problem: Problem,
    /// The character, counted from 1.
    column: usize,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("the expression is {0} characters long, at most {MAX_LENGTH} are allowed")]
    TooLong(usize),
    #[error("nested more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error("expected {expected}, found {found}")]
    Unexpected { expected: &'static str, found: String },
    #[error("{0:?} is neither a function (sqrt abs round floor ceil min max ln log sin cos tan) nor a constant (pi e)")]
    UnknownName(String),
    #[error("{name} takes {wanted}, not {given}")]
    ArgumentCount { name: &'static str, wanted: &'static str, given: usize },
    #[error("{0:?} is not a number")]
    BadNumber(String),
    #[error(transparent)]
    Undefined(#[from] Undefined),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problem {
            Problem::TooLong(_) => write!(f, "{}", self.problem),
            Problem::TooDeep
            | Problem::Unexpected { .. }
            | Problem::UnknownName(_)
            | Problem::ArgumentCount { .. }
            | Problem::BadNumber(_)
            | Problem::Undefined(_) => write!(f, "{} (at character {})", self.problem, self.column),
        }
    }
}

/// The value of an expression.
pub(super) fn evaluate(text: &str) -> Result<Number, Error> {
    let length = text.chars().count();
    if length > MAX_LENGTH {
        return Err(Error { problem: Problem::TooLong(length), column: 1 });
    }
    let mut parser = Parser { characters: text.chars().collect(), position: 0, depth: 0 };
    let value = parser.expression(0)?;
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.unexpected("an operator or the end")),
    }
}

struct Parser {
    characters: Vec<char>,
    position: usize,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

/// A minus sign binds tighter than `*` but looser than `^`: `-2 ^ 2` is `-4`.
const SIGN_BINDS: u8 = 5;

impl Operator {
    fn of(character: char) -> Option<Self> {
        match character {
            '+' => Some(Self::Add),
            '-' | '−' => Some(Self::Subtract),
            '*' | '×' | '·' => Some(Self::Multiply),
            '/' | '÷' => Some(Self::Divide),
            '%' => Some(Self::Remainder),
            '^' => Some(Self::Power),
            _ => None,
        }
    }

    /// How tightly it binds to its left and to its right. Powers group from the right.
    fn binding(self) -> (u8, u8) {
        match self {
            Self::Add | Self::Subtract => (1, 2),
            Self::Multiply | Self::Divide | Self::Remainder => (3, 4),
            Self::Power => (8, 7),
        }
    }

    fn apply(self, left: Number, right: Number) -> Result<Number, Undefined> {
        match self {
            Self::Add => left.add(right),
            Self::Subtract => left.subtract(right),
            Self::Multiply => left.multiply(right),
            Self::Divide => left.divide(right),
            Self::Remainder => left.remainder(right),
            Self::Power => left.power(right),
        }
    }
}

impl Parser {
    /// Skips spaces and shows the next character.
    fn peek(&mut self) -> Option<char> {
        while self.characters.get(self.position).is_some_and(|c| c.is_whitespace()) {
            self.position += 1;
        }
        self.characters.get(self.position).copied()
    }

    fn fail<T>(&self, problem: impl Into<Problem>, at: usize) -> Result<T, Error> {
        Err(Error { problem: problem.into(), column: at + 1 })
    }

    fn unexpected(&mut self, expected: &'static str) -> Error {
        let found = self.peek().map_or_else(|| "the end".to_owned(), |c| format!("{c:?}"));
        Error { problem: Problem::Unexpected { expected, found }, column: self.position + 1 }
    }

    fn expression(&mut self, binding: u8) -> Result<Number, Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(Problem::TooDeep, self.position);
        }
        let mut left = self.operand()?;
        while let Some(operator) = self.peek().and_then(Operator::of) {
            let (binds_left, binds_right) = operator.binding();
            if binds_left < binding {
                break;
            }
            let at = self.position;
            self.position += 1;
            let right = self.expression(binds_right)?;
            left = operator.apply(left, right).or_else(|undefined| self.fail(undefined, at))?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operand(&mut self) -> Result<Number, Error> {
        match self.peek() {
            Some('(') => {
                self.position += 1;
                let value = self.expression(0)?;
                self.expect(')', "an operator or \")\"")?;
                Ok(value)
            }
            Some('-' | '−') => {
                let at = self.position;
                self.position += 1;
                let value = self.expression(SIGN_BINDS)?;
                value.negate().or_else(|undefined| self.fail(undefined, at))
            }
            Some('+') => {
                self.position += 1;
                self.expression(SIGN_BINDS)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() => self.name(),
            Some(_) | None => Err(self.unexpected("a number, a function or \"(\"")),
        }
    }

    fn expect(&mut self, character: char, expected: &'static str) -> Result<(), Error> {
        if self.peek() != Some(character) {
            return Err(self.unexpected(expected));
        }
        self.position += 1;
        Ok(())
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) {
        while self.characters.get(self.position).is_some_and(|c| wanted(*c)) {
            self.position += 1;
        }
    }

    fn number(&mut self) -> Result<Number, Error> {
        let start = self.position;
        self.take_while(|c| c.is_ascii_digit() || c == '.');
        // `1e3` is a number; the `e` of `2 * e` stands alone and never gets here.
        if matches!(self.characters.get(self.position), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.characters.get(self.position + 1), Some('+' | '-')));
            if self.characters.get(self.position + 1 + sign).is_some_and(char::is_ascii_digit) {
                self.position += 1 + sign;
                self.take_while(|c| c.is_ascii_digit());
            }
        }
        let text: String = self.characters[start..self.position].iter().collect();
        if let Ok(whole) = text.parse::<i128>() {
            return Ok(Number::Whole(whole));
        }
        match text.parse::<f64>() {
            Ok(value) => Number::real(value, "this number").or_else(|undefined| self.fail(undefined, start)),
            Err(_) => self.fail(Problem::BadNumber(text), start),
        }
    }

    fn name(&mut self) -> Result<Number, Error> {
        let start = self.position;
        self.take_while(char::is_alphanumeric);
        let name: String = self.characters[start..self.position].iter().collect::<String>().to_lowercase();
        match name.as_str() {
            "pi" | "π" => return Ok(Number::Real(std::f64::consts::PI)),
            "e" => return Ok(Number::Real(std::f64::consts::E)),
            _ => {}
        }
        let Some(function) = Function::of(&name) else {
            return self.fail(Problem::UnknownName(name), start);
        };
        self.expect('(', "\"(\" after the function")?;
        let mut arguments = Vec::new();
        if self.peek() != Some(')') {
            loop {
                arguments.push(self.expression(0)?);
                if self.peek() != Some(',') {
                    break;
                }
                self.position += 1;
            }
        }
        self.expect(')', "an operator, \",\" or \")\"")?;
        function.apply(&arguments).or_else(|problem| self.fail(problem, start))
    }
}

enum Function {
    /// Of one number.
    Unary(&'static str, fn(Number) -> Result<Number, Undefined>),
    /// Of one number or more.
    Smallest,
    /// Of one number or more.
    Largest,
}

impl Function {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "sqrt" => Self::Unary("sqrt", Number::sqrt),
            "abs" => Self::Unary("abs", Number::abs),
            "round" => Self::Unary("round", |x| x.rounded("round", f64::round)),
            "floor" => Self::Unary("floor", |x| x.rounded("floor", f64::floor)),
            "ceil" => Self::Unary("ceil", |x| x.rounded("ceil", f64::ceil)),
            "ln" => Self::Unary("ln", |x| x.logarithm("ln", f64::ln)),
            "log" => Self::Unary("log", |x| x.logarithm("log", f64::log10)),
            "sin" => Self::Unary("sin", |x| Number::real(x.as_f64().sin(), "sin")),
            "cos" => Self::Unary("cos", |x| Number::real(x.as_f64().cos(), "cos")),
            "tan" => Self::Unary("tan", |x| Number::real(x.as_f64().tan(), "tan")),
            "min" => Self::Smallest,
            "max" => Self::Largest,
            _ => return None,
        })
    }

    fn apply(self, arguments: &[Number]) -> Result<Number, Problem> {
        let given = arguments.len();
        match self {
            Self::Unary(name, function) => match arguments {
                [argument] => Ok(function(*argument)?),
                _ => Err(Problem::ArgumentCount { name, wanted: "one argument", given }),
            },
            Self::Smallest => arguments.iter().copied().min_by(|a, b| a.compare(*b)).ok_or(Problem::ArgumentCount {
                name: "min",
                wanted: "at least one argument",
                given,
            }),
            Self::Largest => arguments.iter().copied().max_by(|a, b| a.compare(*b)).ok_or(Problem::ArgumentCount {
                name: "max",
                wanted: "at least one argument",
                given,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
