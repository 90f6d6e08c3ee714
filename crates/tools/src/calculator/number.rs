//! Numbers that are exact as long as they are whole.
//!
//! A whole number is kept as an integer; what leaves the integers, or outgrows them, goes on as floating point. No
//! operation gives infinity or "not a number": those are errors.

use std::{cmp::Ordering, fmt};

/// A number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    /// Exact.
    Whole(i128),
    /// Finite.
    Real(f64),
}

/// Why an operation has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Undefined {
    #[error("division by zero")]
    DivisionByZero,
    #[error("the result is too large")]
    Overflow,
    #[error("{0} has no real value for this argument")]
    NotReal(&'static str),
}

use Number::{Real, Whole};

impl Number {
    /// A finite float; one that is a whole number of moderate size becomes exact again, so that `6 / 4 * 2` is `3`.
    pub(super) fn real(value: f64, operation: &'static str) -> Result<Self, Undefined> {
        /// Floats are exact integers up to here.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if value.is_nan() {
            Err(Undefined::NotReal(operation))
        } else if value.is_infinite() {
            Err(Undefined::Overflow)
        } else if value.trunc() == value && value.abs() <= EXACT {
            Ok(Whole(value as i128))
        } else {
            Ok(Real(value))
        }
    }

    pub(super) fn as_f64(self) -> f64 {
        match self {
            Whole(n) => n as f64,
            Real(x) => x,
        }
    }

    fn is_zero(self) -> bool {
        match self {
            Whole(n) => n == 0,
            Real(x) => x == 0.0,
        }
    }

    pub(super) fn add(self, other: Self) -> Result<Self, Undefined> {
        self.exactly(other, i128::checked_add).map_or_else(|| Self::real(self.as_f64() + other.as_f64(), "+"), Ok)
    }

    pub(super) fn subtract(self, other: Self) -> Result<Self, Undefined> {
        self.exactly(other, i128::checked_sub).map_or_else(|| Self::real(self.as_f64() - other.as_f64(), "-"), Ok)
    }

    pub(super) fn multiply(self, other: Self) -> Result<Self, Undefined> {
        self.exactly(other, i128::checked_mul).map_or_else(|| Self::real(self.as_f64() * other.as_f64(), "*"), Ok)
    }

    pub(super) fn divide(self, other: Self) -> Result<Self, Undefined> {
        if other.is_zero() {
            return Err(Undefined::DivisionByZero);
        }
        let divide_evenly = |a: i128, b: i128| if a.checked_rem(b)? == 0 { a.checked_div(b) } else { None };
        self.exactly(other, divide_evenly).map_or_else(|| Self::real(self.as_f64() / other.as_f64(), "/"), Ok)
    }

    /// The remainder, with the sign of the dividend.
    pub(super) fn remainder(self, other: Self) -> Result<Self, Undefined> {
        if other.is_zero() {
            return Err(Undefined::DivisionByZero);
        }
        // `checked_rem` fails for `i128::MIN % -1` only; the float gives the zero that it is.
        self.exactly(other, i128::checked_rem).map_or_else(|| Self::real(self.as_f64() % other.as_f64(), "%"), Ok)
    }

    pub(super) fn power(self, exponent: Self) -> Result<Self, Undefined> {
        if self.is_zero() && exponent.as_f64() < 0.0 {
            return Err(Undefined::DivisionByZero);
        }
        let whole_power = |base: i128, exponent: i128| base.checked_pow(u32::try_from(exponent).ok()?);
        self.exactly(exponent, whole_power)
            .map_or_else(|| Self::real(self.as_f64().powf(exponent.as_f64()), "this power"), Ok)
    }

    pub(super) fn negate(self) -> Result<Self, Undefined> {
        Whole(0).subtract(self)
    }

    pub(super) fn abs(self) -> Result<Self, Undefined> {
        if self.as_f64() < 0.0 { self.negate() } else { Ok(self) }
    }

    pub(super) fn sqrt(self) -> Result<Self, Undefined> {
        if let Whole(n) = self
            && let Some(root) = n.checked_isqrt()
            && root * root == n
        {
            return Ok(Whole(root));
        }
        Self::real(self.as_f64().sqrt(), "sqrt")
    }

    pub(super) fn logarithm(self, name: &'static str, function: fn(f64) -> f64) -> Result<Self, Undefined> {
        if self.as_f64() <= 0.0 { Err(Undefined::NotReal(name)) } else { Self::real(function(self.as_f64()), name) }
    }

    /// `round`, `floor` or `ceil`; a whole number stays what it is.
    pub(super) fn rounded(self, name: &'static str, function: fn(f64) -> f64) -> Result<Self, Undefined> {
        match self {
            Whole(_) => Ok(self),
            Real(x) => Self::real(function(x), name),
        }
    }

    pub(super) fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Whole(a), Whole(b)) => a.cmp(&b),
            (Whole(_) | Real(_), _) => self.as_f64().total_cmp(&other.as_f64()),
        }
    }

    fn exactly(self, other: Self, operation: impl FnOnce(i128, i128) -> Option<i128>) -> Option<Self> {
        match (self, other) {
            (Whole(a), Whole(b)) => operation(a, b).map(Whole),
            (Whole(_) | Real(_), _) => None,
        }
    }
}

/// Whole numbers in full; others with 15 significant digits, which hides the noise of binary fractions: `0.1 + 0.2` is
/// `0.3`. Very large and very small ones with an exponent.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let x = match self {
            Whole(n) => return write!(f, "{n}"),
            Real(x) => *x,
        };
        let rounded: f64 = format!("{x:.14e}").parse().unwrap_or(x);
        let size = rounded.abs();
        if size != 0.0 && !(1e-7..1e21).contains(&size) { write!(f, "{rounded:e}") } else { write!(f, "{rounded}") }
    }
}
