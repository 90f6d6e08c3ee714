//! How much of everything is taken.

/// Longest recipe file, in bytes.
pub(crate) const FILE: usize = 1 << 20;
/// Most recipe files in a folder.
pub(crate) const FILES: usize = 1_000;
/// Most entries of a folder, of any kind.
pub(crate) const FOLDER_ENTRIES: usize = 10_000;
/// All recipe files of a folder together, in bytes: they are kept in memory.
pub(crate) const FOLDER: u64 = 64 << 20;

/// Most lists and maps inside each other in a YAML file. Each takes up to 20 kB of the stack.
pub(crate) const YAML_DEPTH: usize = 32;
/// Most values in a YAML file.
pub(crate) const YAML_NODES: usize = 100_000;
/// Most anchors and most aliases in a YAML file.
pub(crate) const YAML_ALIASES: usize = 1_000;
/// Most values that the aliases in a YAML file repeat.
pub(crate) const YAML_REPEATED: usize = 10_000;

/// Longest version.
pub(crate) const VERSION: usize = 64;
/// Longest title.
pub(crate) const TITLE: usize = 1_000;
/// Longest description, of the recipe or of a part of it.
pub(crate) const DESCRIPTION: usize = 64 << 10;
/// Longest instructions, longest prompt.
pub(crate) const INSTRUCTIONS: usize = 512 << 10;
/// Most activities.
pub(crate) const ACTIVITIES: usize = 100;
/// Longest activity.
pub(crate) const ACTIVITY: usize = 16 << 10;
/// Most parameters.
pub(crate) const PARAMETERS: usize = 100;
/// Most options of a parameter.
pub(crate) const OPTIONS: usize = 1_000;
/// Longest default of a parameter.
pub(crate) const DEFAULT: usize = 64 << 10;
/// Most extensions.
pub(crate) const EXTENSIONS: usize = 100;
/// Most tools named by an extension.
pub(crate) const TOOLS: usize = 1_000;
/// Longest name: of a parameter, an option, an extension, a tool, a provider, a model.
pub(crate) const NAME: usize = 256;
/// Longest contact or metadata of an author.
pub(crate) const AUTHOR: usize = 4_000;
/// Longest JSON Schema of a response, as JSON.
pub(crate) const SCHEMA: usize = 256 << 10;

/// Longest value of a parameter, in bytes.
pub(crate) const VALUE: usize = 256 << 10;
/// All values together, in bytes.
pub(crate) const VALUES: usize = 1 << 20;
/// All rendered texts of a recipe together, in bytes.
pub(crate) const RENDERED: usize = 1 << 20;
/// Longest line of a text with places or statements, in bytes. The template engine counts columns up to 65,535, and
/// panics when it is built with checks and finds something wrong further on.
pub(crate) const LINE: usize = 60_000;
/// Most places and statements of a text.
pub(crate) const TAGS: usize = 10_000;
/// Most words and signs between `{{` and `}}` or `{%` and `%}`. The template engine goes one call deeper for each.
pub(crate) const TAG_PARTS: usize = 200;
/// Most `{% elif %}` of a text, for the same reason.
pub(crate) const ELIFS: usize = 100;
/// Steps that rendering one text may take.
pub(crate) const FUEL: u64 = 20_000;
/// Bytes that the filters may work on while a recipe is rendered.
pub(crate) const FILTERED: usize = 16 << 20;
/// Most parts that a text is split into.
pub(crate) const PARTS: usize = 1_000;
