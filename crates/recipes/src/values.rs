//! The values of a recipe's parameters.

use std::collections::BTreeMap;

use crate::{
    InputType, Parameter, Recipe, RenderError, Requirement, bounds,
    text::{Shown, list},
};

/// The name that always stands for the folder of the recipe.
pub(crate) const RECIPE_DIR: &str = "recipe_dir";

/// A value for each parameter that has one: what was given, or else the default.
pub(crate) fn resolve(
    recipe: &Recipe,
    given: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, RenderError> {
    let parameters = recipe.parameters.iter().filter(|parameter| parameter.key != RECIPE_DIR).collect::<Vec<_>>();
    check_known(&parameters, given)?;
    check_given(&parameters, given)?;
    check_sizes(given)?;
    let values = parameters.iter().filter_map(|parameter| {
        let value = given.get(&parameter.key).or(parameter.default.as_ref())?;
        Some((parameter.key.clone(), value.clone()))
    });
    let mut values = values.collect::<BTreeMap<_, _>>();
    for parameter in &parameters {
        if let Some(value) = given.get(&parameter.key) {
            check_value(parameter, value)?;
        }
    }
    if let Some(folder) = &recipe.folder {
        values.insert(RECIPE_DIR.to_owned(), folder.display().to_string());
    }
    Ok(values)
}

fn check_known(parameters: &[&Parameter], given: &BTreeMap<String, String>) -> Result<(), RenderError> {
    let is_known = |key: &str| parameters.iter().any(|parameter| parameter.key == key);
    let Some(key) = given.keys().find(|key| !is_known(key)) else { return Ok(()) };
    let known = parameters.iter().map(|parameter| &*parameter.key);
    Err(RenderError::UnknownParameter { key: Shown(key).to_string(), known: list(known) })
}

fn check_given(parameters: &[&Parameter], given: &BTreeMap<String, String>) -> Result<(), RenderError> {
    let missing = parameters.iter().filter(|parameter| {
        parameter.requirement != Requirement::Optional
            && parameter.default.is_none()
            && !given.contains_key(&parameter.key)
    });
    let missing = missing.map(|parameter| parameter.key.clone()).collect::<Vec<_>>();
    if missing.is_empty() { Ok(()) } else { Err(RenderError::MissingParameters { keys: missing }) }
}

fn check_sizes(given: &BTreeMap<String, String>) -> Result<(), RenderError> {
    for (key, value) in given {
        if value.len() > bounds::VALUE {
            return Err(RenderError::InvalidValue {
                key: Shown(key).to_string(),
                what: format!("has {} bytes, at most {} are taken", value.len(), bounds::VALUE),
            });
        }
    }
    let bytes = given.values().map(String::len).sum::<usize>();
    if bytes > bounds::VALUES {
        return Err(RenderError::ValuesTooLarge { bytes, limit: bounds::VALUES });
    }
    Ok(())
}

fn check_value(parameter: &Parameter, value: &str) -> Result<(), RenderError> {
    // What the recipe itself would take cannot be wrong: forms send it back untouched.
    if parameter.default.as_deref() == Some(value) {
        return Ok(());
    }
    let what = match parameter.input_type {
        InputType::String | InputType::Date | InputType::File => return Ok(()),
        InputType::Number if value.trim().parse::<f64>().is_ok_and(f64::is_finite) => return Ok(()),
        InputType::Number => format!("must be a number, not {}", Shown(value)),
        InputType::Boolean if ["true", "false"].iter().any(|known| value.eq_ignore_ascii_case(known)) => return Ok(()),
        InputType::Boolean => format!("must be true or false, not {}", Shown(value)),
        InputType::Select if parameter.options.iter().any(|option| option == value) => return Ok(()),
        InputType::Select => {
            format!("must be one of {}, not {}", list(parameter.options.iter().map(String::as_str)), Shown(value))
        }
    };
    Err(RenderError::InvalidValue { key: Shown(&parameter.key).to_string(), what })
}
