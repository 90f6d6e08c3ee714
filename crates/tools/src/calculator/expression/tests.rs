use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    let value = evaluate(text).map_or_else(|error| format!("error: {error}"), |value| value.to_string());
    assert_eq!(value, expected, "{text}");
}

#[test]
fn operators_bind_as_in_mathematics() {
    check("2 + 3 * 4", "14");
    check("(2 + 3) * 4", "20");
    check("2 - 3 - 4", "-5");
    check("100 / 10 / 5", "2");
    check("2 ^ 3 ^ 2", "512");
    check("-2 ^ 2", "-4");
    check("2 ^ -1", "0.5");
    check("2 * -3", "-6");
    check("--3", "3");
    check("- -3 + +4", "7");
    check("17 % 5 * 2", "4");
    check("-7 % 3", "-1");
    check("2 × 3 − 1 ÷ 2", "5.5");
}

#[test]
fn whole_numbers_are_exact() {
    check("7 * 12", "84");
    check("84.0", "84");
    check("6 / 4 * 2", "3");
    check("2 ^ 100", "1267650600228229401496703205376");
    check("2 ^ 100 + 1 - 2 ^ 100", "1");
    check("123456789012345678901 * 10 / 10", "123456789012345678901");
    check("sqrt(2 ^ 100)", "1125899906842624");
}

#[test]
fn others_have_fifteen_digits() {
    check("0.1 + 0.2", "0.3");
    check("1 / 3", "0.333333333333333");
    check("2 ^ 200", "1.60693804425899e60");
    check("1 / 2 ^ 40", "9.09494701772928e-13");
    check("1e3 + .5", "1000.5");
    check("2.5E-1", "0.25");
}

#[test]
fn functions_and_constants() {
    check("sqrt(16) + abs(-3)", "7");
    check("round(2.5) + floor(-1.5) + ceil(1.2)", "3");
    check("min(3, 1, 2) + max(1, 2.5)", "3.5");
    check("ln(e)", "1");
    check("log(1000)", "3");
    check("cos(0) + sin(0)", "1");
    check("2 * pi", "6.28318530717959");
    check("PI / π", "1");
    check("tan(0)", "0");
}

#[test]
fn what_has_no_value_says_why_and_where() {
    check("1 / 0", "error: division by zero (at character 3)");
    check("5 % (2 - 2)", "error: division by zero (at character 3)");
    check("0 ^ -1", "error: division by zero (at character 3)");
    check("10 ^ 400", "error: the result is too large (at character 4)");
    check("1e999", "error: the result is too large (at character 1)");
    check("sqrt(-1)", "error: sqrt has no real value for this argument (at character 1)");
    check("(-8) ^ 0.5", "error: this power has no real value for this argument (at character 6)");
    check("ln(0)", "error: ln has no real value for this argument (at character 1)");
}

#[test]
fn what_is_no_expression_says_what_was_expected() {
    check("", "error: expected a number, a function or \"(\", found the end (at character 1)");
    check("2 +", "error: expected a number, a function or \"(\", found the end (at character 4)");
    check("(2", "error: expected an operator or \")\", found the end (at character 3)");
    check("2 3", "error: expected an operator or the end, found '3' (at character 3)");
    check("2 $ 3", "error: expected an operator or the end, found '$' (at character 3)");
    check("1.2.3", "error: \"1.2.3\" is not a number (at character 1)");
    check("sqrt 4", "error: expected \"(\" after the function, found '4' (at character 6)");
    check("sqrt(1, 2)", "error: sqrt takes one argument, not 2 (at character 1)");
    check("min()", "error: min takes at least one argument, not 0 (at character 1)");
    check("__import__", "error: expected a number, a function or \"(\", found '_' (at character 1)");
    check(
        "system(1)",
        "error: \"system\" is neither a function (sqrt abs round floor ceil min max ln log sin cos tan) \
         nor a constant (pi e) (at character 1)",
    );
}

#[test]
fn length_and_depth_are_bounded() {
    check(&"1".repeat(1001), "error: the expression is 1001 characters long, at most 1000 are allowed");
    check(&format!("{}1{}", "(".repeat(99), ")".repeat(99)), "1");
    check(&format!("{}1{}", "(".repeat(100), ")".repeat(100)), "error: nested more than 100 deep (at character 101)");
    check(&"-".repeat(500), "error: nested more than 100 deep (at character 101)");
    check(&"1^".repeat(450), "error: nested more than 100 deep (at character 201)");
    check(&format!("{}1", "1+(1)+".repeat(150)), "301");
}

/// An expression and what it is worth, worked out without the parser.
#[derive(Clone, Debug)]
enum Tree {
    Number(i32),
    Negative(Box<Tree>),
    Operation(char, Box<Tree>, Box<Tree>),
}

impl Tree {
    /// In full parentheses, or with only those that the rules of binding ask for.
    fn print(&self, full: bool, binding: u8) -> String {
        match self {
            Self::Number(n) => n.to_string(),
            Self::Negative(tree) => format!("(-{})", tree.print(full, 9)),
            Self::Operation(operator, left, right) => {
                let own = if matches!(operator, '+' | '-') { 1 } else { 3 };
                let text = format!("{} {operator} {}", left.print(full, own), right.print(full, own + 1));
                if full || own < binding { format!("({text})") } else { text }
            }
        }
    }

    /// `None` where a division does not come out even, or by zero.
    fn value(&self) -> Option<i128> {
        match self {
            Self::Number(n) => Some(i128::from(*n)),
            Self::Negative(tree) => Some(-tree.value()?),
            Self::Operation(operator, left, right) => {
                let (left, right) = (left.value()?, right.value()?);
                match operator {
                    '+' => left.checked_add(right),
                    '-' => left.checked_sub(right),
                    '*' => left.checked_mul(right),
                    '%' => left.checked_rem(right),
                    _ => (left.checked_rem(right)? == 0).then(|| left / right),
                }
            }
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = (0..1000i32).prop_map(Tree::Number);
    leaf.prop_recursive(5, 32, 2, |inner| {
        let operators = prop::sample::select(vec!['+', '-', '*', '/', '%']);
        prop_oneof![
            1 => inner.clone().prop_map(|tree| Tree::Negative(Box::new(tree))),
            6 => (operators, inner.clone(), inner)
                .prop_map(|(operator, left, right)| Tree::Operation(operator, Box::new(left), Box::new(right))),
        ]
    })
}

proptest! {
    #[test]
    fn whole_arithmetic_agrees_with_the_tree(tree in trees()) {
        if let Some(value) = tree.value() {
            for text in [tree.print(true, 0), tree.print(false, 0)] {
                if text.len() <= MAX_LENGTH {
                    prop_assert_eq!(evaluate(&text).unwrap().to_string(), value.to_string(), "{}", text);
                }
            }
        }
    }

    #[test]
    fn no_text_panics_or_gives_a_value_that_is_none(text in "\\PC{0,60}|[-+*/%^().,0-9a-z ]{0,60}") {
        if let Ok(value) = evaluate(&text) {
            prop_assert!(value.as_f64().is_finite());
        }
    }

    #[test]
    fn tokens_in_any_order_never_panic(tokens in prop::collection::vec(prop::sample::select(vec![
        "1", "0", "2.5", "1e300", "170141183460469231731687303715884105727", "+", "-", "*", "/", "%", "^", "(", ")", ",",
        "sqrt(", "min(", "max(", "ln(", "round(", "tan(", "pi", "e",
    ]), 0..20)) {
        if let Ok(value) = evaluate(&tokens.concat()) {
            prop_assert!(value.as_f64().is_finite());
        }
    }
}
