//! Folders and programs that a configuration names: whether they are there. The server starts without some of them, and then has less
//! than it was meant to have.

use std::path::{Path, PathBuf};

use everturn_mcp::{Confinement, Endpoint};
use rustix::fs::{Access, access};

use super::{Config, Environment, StoreLocation};

/// What is missing, each with the setting that names it.
pub(crate) fn missing(config: &Config, environment: &Environment) -> Vec<String> {
    let mut missing = Vec::new();
    let StoreLocation::Sqlite(database) = &config.store;
    missing.extend(store(database));
    if let Some(folder) = config.goose.recipes.as_deref().filter(|folder| !folder.is_dir()) {
        missing.push(format!("`recipes.dir`: there is no folder {}; create it", folder.display()));
    }
    for server in config.mcp.iter().filter(|server| server.enabled) {
        let Endpoint::Stdio { program, arguments, folder, .. } = &server.endpoint else { continue };
        let name = &server.name;
        if let Some(folder) = folder.as_deref().filter(|folder| !folder.is_dir()) {
            missing.push(format!("`mcp.{name}.cwd`: there is no folder {}; create it", folder.display()));
        }
        if !is_program(program, folder.as_deref(), environment) {
            let hint = if program.contains('/') { "check its path" } else { "install it, or write its whole path" };
            missing.push(format!("`mcp.{name}.command`: there is no program `{program}`; {hint}"));
        }
        if let Some(argument) = arguments.iter().find(|argument| folder.is_none() && is_relative_path(argument)) {
            missing.push(format!(
                "`mcp.{name}.command`: `{argument}` is here, but the program runs in an empty folder of its own; write its \
                 whole path, or set `cwd`"
            ));
        }
        let Confinement { paths, read_paths, .. } = &server.confinement;
        for (setting, paths) in [("paths", paths), ("read_paths", read_paths)] {
            for path in paths.iter().filter(|path| !path.exists()) {
                missing.push(format!("`mcp.{name}.{setting}`: there is no {}; create it", path.display()));
            }
        }
    }
    missing
}

/// Whether an argument leads to something from where we are.
fn is_relative_path(argument: &str) -> bool {
    let path = Path::new(argument);
    !argument.is_empty() && !argument.starts_with('-') && path.is_relative() && path.exists()
}

/// Why the database could not be written, if so. Folders that are missing are made at start.
fn store(database: &Path) -> Option<String> {
    let problem = |place: &Path, what: &str| Some(format!("`store`: {} {what}", place.display()));
    if database.is_dir() {
        return problem(database, "is a folder; name a file in it");
    }
    if database.exists() && access(database, Access::WRITE_OK).is_err() {
        return problem(database, "cannot be written; give it to the user that the server runs as");
    }
    let absolute = std::path::absolute(database).unwrap_or_else(|_| database.to_owned());
    let folder = absolute.ancestors().skip(1).find(|folder| folder.exists())?;
    if !folder.is_dir() {
        return problem(folder, "is not a folder");
    }
    let is_writable = access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    if is_writable { None } else { problem(folder, "cannot be written; give it to the user that the server runs as") }
}

/// Whether a program can be started, as a server is: by its path, or by its name along the path.
fn is_program(program: &str, folder: Option<&Path>, environment: &Environment) -> bool {
    let is_there = |file: PathBuf| file.is_file() && access(&file, Access::EXEC_OK).is_ok();
    if program.contains('/') {
        return is_there(folder.map_or_else(|| PathBuf::from(program), |folder| folder.join(program)));
    }
    let path = environment.get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
    std::env::split_paths(path).any(|folder| is_there(folder.join(program)))
}
