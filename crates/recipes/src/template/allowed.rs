//! The part of the template language that cannot make a value grow without bound.
//!
//! What is not listed here is refused, so a newer engine brings nothing new by itself. Above all a text must not join
//! texts into values: a value doubled forty times takes all memory, in forty steps.

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Stmt, UnaryOpKind};

use super::filters;
use crate::text::{Shown, list};

type Result = std::result::Result<(), String>;

const TAKEN: &str = "a recipe takes {{ key }}, {% if %}, {% for %}, {% set %} and {% raw %}";

/// Checks a whole text.
pub(super) fn check(statement: &Stmt<'_>) -> Result {
    match statement {
        Stmt::Template(template) => all(&template.children),
        Stmt::EmitRaw(_) => Ok(()),
        Stmt::EmitExpr(emit) => expression(&emit.expr),
        Stmt::IfCond(condition) => {
            expression(&condition.expr)?;
            all(&condition.true_body)?;
            all(&condition.false_body)
        }
        Stmt::ForLoop(each) => {
            if each.recursive {
                return Err("a {% for %} must not be recursive".to_owned());
            }
            name(&each.target)?;
            expression(&each.iter)?;
            each.filter_expr.iter().try_for_each(expression)?;
            all(&each.body)?;
            all(&each.else_body)
        }
        Stmt::Set(set) => {
            name(&set.target)?;
            expression(&set.expr)
        }
        // Nothing takes the place of a block, so it is what is in it.
        Stmt::Block(block) => all(&block.body),
        Stmt::Extends(_) | Stmt::Include(_) | Stmt::Import(_) | Stmt::FromImport(_) => {
            Err("it takes text from another file; a recipe is one file".to_owned())
        }
        _ => Err(format!("it has a statement that is not taken; {TAKEN}")),
    }
}

fn all(statements: &[Stmt<'_>]) -> Result {
    statements.iter().try_for_each(check)
}

fn name(target: &Expr<'_>) -> Result {
    match target {
        Expr::Var(_) => Ok(()),
        _ => Err("only a name can be given a value".to_owned()),
    }
}

fn expression(it: &Expr<'_>) -> Result {
    match it {
        Expr::Var(_) | Expr::Const(_) => Ok(()),
        Expr::UnaryOp(unary) => match unary.op {
            UnaryOpKind::Not | UnaryOpKind::Neg => expression(&unary.expr),
        },
        Expr::BinOp(binary) => {
            match binary.op {
                BinOpKind::Eq | BinOpKind::Ne | BinOpKind::Lt | BinOpKind::Lte | BinOpKind::Gt | BinOpKind::Gte => {}
                BinOpKind::ScAnd | BinOpKind::ScOr | BinOpKind::In => {}
                _ => return Err("values can be compared, but not calculated with or joined".to_owned()),
            }
            expression(&binary.left)?;
            expression(&binary.right)
        }
        Expr::Compare(compare) => {
            expression(&compare.expr)?;
            compare.ops.iter().try_for_each(|operation| expression(&operation.expr))
        }
        Expr::IfExpr(choice) => {
            expression(&choice.test_expr)?;
            expression(&choice.true_expr)?;
            choice.false_expr.iter().try_for_each(expression)
        }
        Expr::Filter(filter) => {
            if !filters::NAMES.contains(&filter.name) {
                let known = list(filters::NAMES.iter().copied());
                return Err(format!("there is no filter {}; there are: {known}", Shown(filter.name)));
            }
            filter.expr.iter().try_for_each(expression)?;
            arguments(&filter.args)
        }
        Expr::Test(test) => {
            if !filters::TESTS.contains(&test.name) {
                let known = list(filters::TESTS.iter().copied());
                return Err(format!("there is no test \"is {}\"; there are: {known}", test.name));
            }
            expression(&test.expr)?;
            arguments(&test.args)
        }
        Expr::GetAttr(attribute) => match &attribute.expr {
            Expr::Var(variable) if variable.id == "loop" => Ok(()),
            _ => Err(format!("values are texts and have no parts such as {}", Shown(attribute.name))),
        },
        Expr::List(items) => items.items.iter().try_for_each(simple),
        Expr::Tuple(items) => items.items.iter().try_for_each(simple),
        Expr::Call(_) => Err("it calls a function, and there are none".to_owned()),
        Expr::Slice(_) | Expr::GetItem(_) => Err("values are texts, of which no part can be taken".to_owned()),
        Expr::Map(_) => Err(format!("it has a map; {TAKEN}")),
    }
}

fn arguments(arguments: &[CallArg<'_>]) -> Result {
    arguments.iter().try_for_each(|argument| match argument {
        CallArg::Pos(Expr::List(list)) => list.items.iter().try_for_each(simple),
        CallArg::Pos(it) | CallArg::Kwarg(_, it) => simple(it),
        CallArg::PosSplat(_) | CallArg::KwargSplat(_) => Err("arguments are given one by one".to_owned()),
    })
}

/// What is not worked out but only there.
fn simple(it: &Expr<'_>) -> Result {
    match it {
        Expr::Var(_) | Expr::Const(_) => Ok(()),
        Expr::UnaryOp(unary) if matches!(unary.expr, Expr::Const(_)) => Ok(()),
        _ => Err("lists and arguments take only names and fixed values".to_owned()),
    }
}
