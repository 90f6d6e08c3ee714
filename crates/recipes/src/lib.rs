//! Goose recipes: what they say, how their parameters are filled in, and where they are found.
//!
//! A [`Recipe`] is read from YAML, from JSON, or from JSON that a client sends. [`Recipe::render`] checks the values of
//! its parameters and puts them into its texts. [`Recipes`] is a folder of recipe files.
//!
//! A recipe may come from anybody, so everything that it could make grow is bounded, and a text may only use that part
//! of the template language whose cost can be bounded (see [`Recipe::render`]). Nothing here runs anything: `retry`,
//! `sub_recipes` and the commands of extensions are read over. All of it blocks, so it belongs on a blocking thread.

mod bounds;
mod check;
mod document;
mod folder;
mod name;
mod read;
mod recipe;
mod render;
mod template;
mod text;
mod values;
mod yaml;

pub use folder::{FindError, FolderError, Listed, Recipes};
pub use name::is_recipe_name;
pub use read::RecipeError;
pub use recipe::{Author, Extension, InputType, Parameter, Recipe, Requirement, Response, Settings};
pub use render::{RenderError, Rendered};
