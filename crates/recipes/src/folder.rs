//! A folder of recipe files.

mod file;
mod scan;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use self::{
    file::{Loaded, load},
    scan::{Candidate, scan},
};
use crate::{
    Recipe,
    name::{compare_versions, is_recipe_name},
    text::{Shown, list},
};

/// A folder of recipe files: `name.yaml` or `name@version.yaml`, also with the endings `.yml` and `.json`.
///
/// - The name of a recipe is that of its file. Its version is the one inside of the file; a file that says none has the
///   one of its name, or `1.0.0`. A file whose name and content say different versions is not used.
/// - Of two files with the same name and version, the first in the order of file names is used.
/// - Other files, files whose names begin with a dot, and folders inside are not looked at. Links are followed as long
///   as they stay in the folder.
///
/// The folder is looked at for every question, so edits are seen at once. Files that did not change are not read again.
#[derive(Debug)]
pub struct Recipes {
    folder: PathBuf,
    loaded: Mutex<BTreeMap<OsString, Loaded>>,
}

/// A recipe file of a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its version. None if the file cannot be used and its name says none.
    pub version: Option<String>,
    /// What it is. None if the file cannot be used.
    pub title: Option<String>,
    /// What it does. None if the file cannot be used.
    pub description: Option<String>,
    /// Why the file cannot be used.
    pub problem: Option<String>,
    /// The recipe, unless there is a problem.
    pub recipe: Option<Arc<Recipe>>,
    /// When the file was last changed, if the system knows.
    pub modified: Option<SystemTime>,
}

/// Why a folder of recipes cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It is not there, is no folder, or must not be read.
    #[error("the folder of recipes {} cannot be read: {error}", folder.display())]
    Unreadable {
        /// The folder.
        folder: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is more in it than is taken.
    #[error("the folder of recipes has more than {limit} {what}; move some away")]
    TooMuch {
        /// Of what there is too much.
        what: &'static str,
        /// How much there may be.
        limit: u64,
    },
}

/// Why a recipe is not found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No recipe can have such a name.
    #[error("{name} cannot be the name of a recipe, which is 1 to 128 of A-Z a-z 0-9 . _ -")]
    InvalidName {
        /// The name, in quotes.
        name: String,
    },
    /// There is no recipe with the name.
    #[error("there is no recipe {name:?}; {}", if known.is_empty() {
        "there are none at all".to_owned()
    } else {
        format!("there are: {}", list(known.iter().map(String::as_str)))
    })]
    UnknownRecipe {
        /// The name.
        name: String,
        /// All names that there are.
        known: Vec<String>,
    },
    /// The recipe is there, but not in that version.
    #[error("recipe {name:?} has no version {version}; there are: {}", list(known.iter().map(String::as_str)))]
    UnknownVersion {
        /// The name.
        name: String,
        /// The version, in quotes.
        version: String,
        /// All versions that can be used.
        known: Vec<String>,
    },
    /// The recipe is there, but cannot be used.
    #[error("recipe {name:?} cannot be used: {problem}")]
    Broken {
        /// The name.
        name: String,
        /// Why not.
        problem: String,
    },
    /// The folder cannot be looked at.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl Recipes {
    /// The recipes of this folder, which must be there.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, FolderError> {
        let folder = folder.as_ref();
        let unreadable = |error| FolderError::Unreadable { folder: folder.to_owned(), error };
        let folder = folder.canonicalize().map_err(unreadable)?;
        folder.read_dir().map_err(unreadable)?;
        Ok(Self { folder, loaded: Mutex::default() })
    }

    /// The folder, as the system names it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All recipe files, by name and then by version. Those that cannot be used say why.
    pub fn list(&self) -> Result<Vec<Listed>, FolderError> {
        let mut listed = self.listed(self.scan()?);
        listed.sort_by(|one, other| {
            let [one_version, other_version] = [one, other].map(|listed| listed.version.as_deref().unwrap_or_default());
            one.name.cmp(&other.name).then_with(|| compare_versions(one_version, other_version))
        });
        Ok(listed)
    }

    /// The recipe with this name, in exactly this version or else in the newest one that can be used.
    pub fn find(&self, name: &str, version: Option<&str>) -> Result<Arc<Recipe>, FindError> {
        if !is_recipe_name(name) {
            return Err(FindError::InvalidName { name: Shown(name).to_string() });
        }
        let (wanted, others): (Vec<_>, Vec<_>) =
            self.scan()?.into_iter().partition(|candidate| candidate.problem.is_none() && candidate.name == name);
        if wanted.is_empty() {
            let known = others.into_iter().filter(|candidate| candidate.problem.is_none());
            let known = known.map(|candidate| candidate.name).collect::<BTreeSet<_>>();
            return Err(FindError::UnknownRecipe { name: name.to_owned(), known: known.into_iter().collect() });
        }
        let mut listed = self.listed(wanted);
        listed.sort_by(|one, other| {
            let [one, other] = [one, other].map(|listed| listed.version.as_deref().unwrap_or_default());
            compare_versions(one, other)
        });
        let mut usable = listed.iter().filter_map(|listed| listed.recipe.as_ref());
        let found = match version {
            Some(version) => usable.find(|recipe| recipe.version == version),
            None => usable.next_back(),
        };
        found.cloned().ok_or_else(|| not_found(name, version, listed))
    }

    /// Looks at the folder, and forgets what is not there any more.
    fn scan(&self) -> Result<Vec<Candidate>, FolderError> {
        let candidates = scan(&self.folder)?;
        let is_there = |file: &OsString| candidates.binary_search_by(|candidate| candidate.file.cmp(file)).is_ok();
        self.loaded().retain(|file, _| is_there(file));
        Ok(candidates)
    }

    /// Reads what has changed, and finds those that are there twice.
    fn listed(&self, candidates: Vec<Candidate>) -> Vec<Listed> {
        let mut seen = BTreeMap::<(String, String), String>::new();
        let listed = candidates.into_iter().map(|candidate| {
            let file = candidate.file.to_string_lossy().into_owned();
            let outcome = match candidate.problem {
                Some(problem) => Err(problem),
                None => self.load(&candidate),
            };
            let outcome = outcome.and_then(|recipe| {
                let first = seen.entry((candidate.name.clone(), recipe.version.clone())).or_insert(file.clone());
                if *first == file {
                    return Ok(recipe);
                }
                Err(format!("its name and version are those of {}; remove one of them", Shown(first)))
            });
            let (recipe, problem) = match outcome {
                Ok(recipe) => (Some(recipe), None),
                Err(problem) => (None, Some(problem)),
            };
            Listed {
                name: candidate.name,
                version: recipe.as_ref().map(|recipe| recipe.version.clone()).or(candidate.version),
                title: recipe.as_ref().map(|recipe| recipe.title.clone()),
                description: recipe.as_ref().map(|recipe| recipe.description.clone()),
                problem,
                recipe,
                modified: candidate.metadata.ok().and_then(|metadata| metadata.modified().ok()),
            }
        });
        listed.collect()
    }

    fn load(&self, candidate: &Candidate) -> Result<Arc<Recipe>, String> {
        let metadata = match &candidate.metadata {
            Ok(metadata) => metadata,
            Err(problem) => return Err(problem.clone()),
        };
        let known = self.loaded().get(&candidate.file).cloned();
        if let Some(known) = known.filter(|known| known.is_of(metadata)) {
            return known.recipe;
        }
        let loaded = load(&self.folder, candidate, metadata);
        let recipe = loaded.recipe.clone();
        self.loaded().insert(candidate.file.clone(), loaded);
        recipe
    }

    fn loaded(&self) -> MutexGuard<'_, BTreeMap<OsString, Loaded>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_found(name: &str, version: Option<&str>, listed: Vec<Listed>) -> FindError {
    let name = name.to_owned();
    let is_asked = |listed: &&Listed| version.is_none() || listed.version.as_deref() == version;
    let broken = listed.iter().filter(is_asked).find_map(|listed| listed.problem.clone());
    let known = listed.iter().filter_map(|listed| Some(listed.recipe.as_ref()?.version.clone())).collect::<Vec<_>>();
    match (version, broken) {
        (_, Some(problem)) => FindError::Broken { name, problem },
        (Some(version), None) if !known.is_empty() => {
            FindError::UnknownVersion { name, version: Shown(version).to_string(), known }
        }
        // All of its files are broken, and none says that it is of the version.
        _ => {
            let problem = listed.into_iter().find_map(|listed| listed.problem).unwrap_or_default();
            FindError::Broken { name, problem }
        }
    }
}
