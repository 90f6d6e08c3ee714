//! Estimates the cost of a regular expression from its text, before anything is compiled.
//!
//! A few characters can ask for megabytes of automaton: `(\p{L}{50}){50}`. The estimate never fails: what it cannot read
//! counts as literals, and the compiler refuses it later. It errs on the high side.

/// States of the automaton of a Unicode class such as `\p{L}`.
const UNICODE_CLASS: u64 = 700;
/// States of a class that holds most characters: `.`, `\S`, `[^a]`.
const WIDE_CLASS: u64 = 12;
/// States of a character beyond ASCII in a class, where it may be the end of a range.
const WIDE_CHARACTER: u64 = 4;
/// How much larger an expression gets that ignores the case of letters.
const CASES: u64 = 3;
/// Bytes that stand for `\d` or `\w` after the translation from ECMAScript.
const TRANSLATED: u64 = 16;
/// Bytes that stand for `\s` after that translation.
const TRANSLATED_SPACE: u64 = 200;
/// Bytes that the translation reads in the time in which one state is compiled.
const READ_PER_STATE: u64 = 8;

/// What a regular expression costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PatternCost {
    /// Work and memory to compile it, in states of its automaton.
    pub(crate) weight: u64,
    /// Positions in the expression that a match may have to follow at once.
    pub(crate) positions: u64,
    /// Whether a match may go back and try again, up to the limit on such steps.
    pub(crate) backtracks: bool,
}

impl PatternCost {
    /// The cost of a regular expression.
    pub(crate) fn of(pattern: &str) -> Self {
        let mut reader = Reader { rest: pattern, ..Reader::default() };
        let whole = reader.read();
        // The translation reads the whole expression again for each piece that it replaces.
        let length = u64::try_from(pattern.len()).unwrap_or(u64::MAX).saturating_add(reader.added);
        let translation = reader.replaced.saturating_mul(length) / READ_PER_STATE;
        let cases = if reader.ignores_case { CASES } else { 1 };
        Self {
            weight: whole.weight.saturating_mul(cases).saturating_add(translation).saturating_add(1),
            positions: whole.positions.saturating_add(1),
            backtracks: reader.backtracks,
        }
    }
}

/// A part of an expression.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    weight: u64,
    positions: u64,
}

impl Part {
    fn of(weight: u64) -> Self {
        Self { weight, positions: 1 }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            weight: self.weight.saturating_add(other.weight),
            positions: self.positions.saturating_add(other.positions),
        }
    }

    fn times(self, count: u64) -> Self {
        Self { weight: self.weight.saturating_mul(count), positions: self.positions.saturating_mul(count) }
    }
}

/// A group that is being read: its complete parts together, and the last one, which a repetition may follow.
#[derive(Debug, Default)]
struct Group {
    before: Part,
    last: Part,
}

impl Group {
    fn push(&mut self, part: Part) {
        self.before = self.before.plus(self.last);
        self.last = part;
    }

    fn whole(&self) -> Part {
        self.before.plus(self.last)
    }
}

#[derive(Debug, Default)]
struct Reader<'p> {
    rest: &'p str,
    backtracks: bool,
    ignores_case: bool,
    /// Pieces that the translation from ECMAScript replaces one after the other, and the bytes that it adds.
    replaced: u64,
    added: u64,
}

impl Reader<'_> {
    fn read(&mut self) -> Part {
        // Groups nest as deeply as the text says: on the heap, not on the stack.
        let mut outer: Vec<Group> = Vec::new();
        let mut group = Group::default();
        while let Some(next) = self.bump() {
            match next {
                '\\' => group.push(self.escape(true)),
                '[' => group.push(self.class()),
                '(' => {
                    self.group_head();
                    outer.push(std::mem::take(&mut group));
                }
                ')' => match outer.pop() {
                    Some(around) => {
                        let inner = std::mem::replace(&mut group, around).whole();
                        group.push(Part { weight: inner.weight.saturating_add(2), ..inner });
                    }
                    None => group.push(Part::of(1)),
                },
                '{' => match self.count() {
                    Some(count) => {
                        let repeated = group.last.times(count);
                        group.last = Part { weight: repeated.weight.saturating_add(count), ..repeated };
                        self.possessive();
                    }
                    None => group.push(Part::of(1)),
                },
                '*' | '+' | '?' => {
                    group.last.weight = group.last.weight.saturating_add(1);
                    self.possessive();
                }
                '.' => group.push(Part::of(WIDE_CLASS)),
                '|' => group.push(Part { weight: 1, positions: 0 }),
                _ => group.push(Part::of(1)),
            }
        }
        while let Some(around) = outer.pop() {
            let inner = std::mem::replace(&mut group, around).whole();
            group.push(inner);
        }
        group.whole()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    /// `a*+` never gives back what it took.
    fn possessive(&mut self) {
        self.backtracks |= self.rest.starts_with('+');
    }

    /// What follows a backslash.
    fn escape(&mut self, outside_class: bool) -> Part {
        let Some(letter) = self.bump() else { return Part::of(1) };
        match letter {
            'p' | 'P' => {
                self.braced();
                Part::of(UNICODE_CLASS)
            }
            'd' | 'w' | 's' | 'D' | 'W' | 'S' => {
                self.added = self.added.saturating_add(if letter.eq_ignore_ascii_case(&'s') {
                    TRANSLATED_SPACE
                } else {
                    TRANSLATED
                });
                self.replaced = self.replaced.saturating_add(u64::from(outside_class));
                Part::of(WIDE_CLASS)
            }
            'c' => {
                self.replaced = self.replaced.saturating_add(1);
                Part::of(1)
            }
            'x' | 'u' => {
                self.braced();
                Part::of(WIDE_CHARACTER)
            }
            '0'..='9' | 'k' | 'g' | 'G' | 'K' | 'X' | 'R' if outside_class => {
                self.backtracks = true;
                Part::of(1)
            }
            'b' | 'B' | 'A' | 'z' | 'Z' | '<' | '>' if outside_class => Part::of(WIDE_CLASS),
            _ => Part::of(1),
        }
    }

    /// The braces after `\p`, `\x` or `\u`: no repetition.
    fn braced(&mut self) {
        if let Some((_, after)) = self.rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            self.rest = after;
        }
    }

    /// What follows the bracket that opens a class, with the one that closes it.
    fn class(&mut self) -> Part {
        let mut weight = 1_u64;
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.rest = rest;
            weight = WIDE_CLASS;
        }
        while let Some(next) = self.bump() {
            let item = match next {
                ']' => break,
                '\\' => self.escape(false).weight,
                next if next.is_ascii() => 1,
                _ => WIDE_CHARACTER,
            };
            weight = weight.saturating_add(item);
        }
        Part::of(weight)
    }

    /// What follows the parenthesis that opens a group.
    fn group_head(&mut self) {
        let Some(rest) = self.rest.strip_prefix('?') else { return };
        let name =
            rest.strip_prefix("P<").or_else(|| rest.strip_prefix('<').filter(|rest| !rest.starts_with(['=', '!'])));
        if let Some(name) = name {
            self.rest = name.split_once('>').map_or(name, |(_, after)| after);
            return;
        }
        self.rest = rest;
        let flags = rest.find(|c: char| !(c.is_ascii_alphabetic() || c == '-')).unwrap_or(rest.len());
        let (flags, after) = rest.split_at(flags);
        if after.starts_with([':', ')']) {
            self.ignores_case |= flags.contains('i');
            self.rest = after.strip_prefix(':').unwrap_or(after);
        } else {
            // Looks ahead or behind, or is something rarer.
            self.backtracks = true;
        }
    }

    /// The largest count of a repetition, if that is what follows the brace.
    fn count(&mut self) -> Option<u64> {
        let (inside, after) = self.rest.split_once('}')?;
        let number = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| digits.parse().unwrap_or(u64::MAX))
        };
        let count = match inside.split_once(',') {
            None => number(inside.trim())?,
            Some((least, most)) => match (least.trim(), most.trim()) {
                (least, "") => number(least)?.saturating_add(1),
                ("", most) => number(most)?,
                (least, most) => number(least)?.max(number(most)?),
            },
        };
        self.rest = after;
        Some(count.max(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn weight(pattern: &str) -> u64 {
        PatternCost::of(pattern).weight
    }

    #[test]
    fn what_people_write_is_light() {
        for pattern in [
            r"^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$",
            r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-5][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$",
            r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]\d{2}:\d{2})$",
            r"^(?=.*[A-Z])(?=.*[a-z])(?=.*\d)(?=.*[^A-Za-z0-9]).{12,128}$",
            r"^https?://[^\s/$.?#].[^\s]*$",
            r"^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$",
        ] {
            assert!(weight(pattern) < 4000, "{pattern}: {}", weight(pattern));
        }
        assert!(weight(r"^\p{L}[\p{L}\p{M}' -]{0,63}$") < super::super::survey::PATTERN_WEIGHT);
    }

    #[test]
    fn repetitions_multiply() {
        assert_eq!(weight("a"), 2);
        assert!((100..250).contains(&weight("a{100}")), "{}", weight("a{100}"));
        assert!((10_000..40_000).contains(&weight("(a{100}){2,100}")));
        assert!((10_000..40_000).contains(&weight("a{100}{100}")));
        assert!((7000..7200).contains(&weight(r"\p{L}{10}")));
        assert!((14_000..14_500).contains(&weight(r"[\p{L}\p{M}]{10}")));
        assert_eq!(weight(&"(a{4000000000})".replace('a', "(b{9999999999999999999999})")), u64::MAX);
        // Braces that are no repetition.
        assert!(weight(r"\x{1000}\u{1000}[{1000}]{,x}\{1000}") < 100);
    }

    #[test]
    fn the_translation_is_counted() {
        assert!(weight(&r"\d".repeat(1000)) > 1_000_000);
        assert!(weight(&r"\s".repeat(300)) > 1_000_000);
        assert!(weight(&r"\cA".repeat(1000)) > 300_000);
    }

    #[test]
    fn expressions_that_go_back_are_known() {
        for pattern in
            ["(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", r"(a)\1", r"(?<n>a)\k<n>", "(?>a)", "a++", "a{2}+", "a?+"]
        {
            assert!(PatternCost::of(pattern).backtracks, "{pattern}");
        }
        for pattern in ["(a)", "(?:a)", "(?<n>a)", "(?P<n>a)", "(?i)a", "(?i:a)", r"[\1+++]", "a+?", "a*b+", r"\d+\.\w"]
        {
            assert!(!PatternCost::of(pattern).backtracks, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_cost(text in "\\PC{0,60}", shaped in r"([\\(\[{)\]}?*+|^,:<=!pPxuk0-9ai-]|\\p\{L\}|é){0,60}") {
            for pattern in [text, shaped] {
                prop_assert!(weight(&pattern) > 0);
            }
        }

        #[test]
        fn more_text_is_never_lighter(text in r"([a-c.]|\\p\{L\}|\\d|[a-c]\{[0-9]\}|\(a\)){1,20}") {
            let (longer, repeated) = (format!("{text}b"), format!("({text}){{3}}"));
            prop_assert!(weight(&longer) > weight(&text));
            prop_assert!(weight(&repeated) > weight(&text) + 2);
        }
    }
}
