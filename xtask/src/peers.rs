//! Installs the programs that tests talk to, under `tests/peers`: model servers, MCP servers and clients, from npm and
//! PyPI.
//!
//! They are installed again only when their lock file has changed. Nothing is installed elsewhere, with one exception: as
//! root on Debian, missing interpreters and a missing browser come from its packages. Others are told the command to paste.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    peers_folder,
    step::{output, run, works},
};

/// The oldest Node.js that the peers run on.
const NODE: u32 = 20;
/// What a Chromium is called; `tests/peers/chromium.mjs` looks for the same.
const CHROMIUM: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Installs what is not installed yet.
pub(crate) fn install() -> Result<()> {
    let folder = peers_folder();
    let (lock, modules) = (folder.join("package-lock.json"), folder.join("node_modules"));
    if lock.exists() && !is_current(&lock, &modules) {
        need_node()?;
        run(Command::new("npm").arg("--prefix").arg(&folder).args(["ci", "--no-audit", "--no-fund"]))?;
        mark_current(&lock, &modules)?;
    }
    let (lock, environment) = (folder.join("requirements.txt"), folder.join(".venv"));
    if lock.exists() && !is_current(&lock, &environment) {
        need_python()?;
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
        let pip = environment.join("bin").join("pip");
        // The list is complete, and some packages ask for more than the tests use.
        run(Command::new(pip).args(["install", "--quiet", "--no-deps", "--requirement"]).arg(&lock))?;
        mark_current(&lock, &environment)?;
    }
    need_curl()?;
    need_chromium()
}

/// The copy of the lock file that an installation was made from.
const STAMP: &str = ".installed-from";

fn is_current(lock: &Path, installed: &Path) -> bool {
    matches!((std::fs::read(lock), std::fs::read(installed.join(STAMP))), (Ok(wanted), Ok(have)) if wanted == have)
}

fn mark_current(lock: &Path, installed: &Path) -> Result<()> {
    std::fs::copy(lock, installed.join(STAMP)).context("cannot note what was installed")?;
    Ok(())
}

fn need_node() -> Result<()> {
    let have = || {
        let version = output(Command::new("node").arg("--version"))?;
        let major = version.trim().strip_prefix('v')?.split('.').next()?.parse::<u32>().ok()?;
        works("npm", &["--version"]).then_some(major)
    };
    if have().is_none() {
        install_packages(&["nodejs", "npm"])?;
    }
    match have() {
        Some(major) if major >= NODE => Ok(()),
        Some(major) => bail!("the tests need Node.js {NODE} or newer, this is {major}\n\nhint: see https://nodejs.org"),
        None => bail!(
            "the tests need Node.js {NODE} or newer with npm, and it is not installed\n\n\
             hint: on Debian: apt-get install nodejs npm; elsewhere: see https://nodejs.org"
        ),
    }
}

fn need_python() -> Result<()> {
    let have = || works("python3", &["-c", "import venv, ensurepip"]);
    if !have() {
        install_packages(&["python3", "python3-venv"])?;
    }
    if !have() {
        bail!(
            "the tests need Python 3 with venv, and it is not installed\n\n\
             hint: on Debian: apt-get install python3 python3-venv; elsewhere: see https://www.python.org"
        );
    }
    Ok(())
}

fn need_curl() -> Result<()> {
    let have = || works("curl", &["--version"]);
    if !have() {
        install_packages(&["curl"])?;
    }
    if !have() {
        bail!(
            "the tests need curl, and it is not installed\n\n\
             hint: on Debian: apt-get install curl; elsewhere: see https://curl.se"
        );
    }
    Ok(())
}

fn need_chromium() -> Result<()> {
    let have = || CHROMIUM.iter().any(|name| works(name, &["--version"]));
    if !have() {
        install_packages(&["chromium"])?;
    }
    if !have() {
        bail!(
            "the tests need Chromium or Google Chrome, and none of {} is on the PATH\n\n\
             hint: on Debian: apt-get install chromium; elsewhere: see https://www.chromium.org",
            CHROMIUM.join(", ")
        );
    }
    Ok(())
}

/// Installs packages of Debian's as root; stops with the command to paste for others who have apt-get, and does nothing
/// elsewhere.
fn install_packages(packages: &[&str]) -> Result<()> {
    if !works("apt-get", &["--version"]) {
        return Ok(());
    }
    let is_root = output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0");
    if !is_root {
        let command = format!("sudo apt-get install --yes --no-install-recommends {}", packages.join(" "));
        bail!("the tests need {}, which is not installed\n\nhint: {command}", packages.join(", "));
    }
    run(Command::new("apt-get").args(["update", "--quiet"]).stdout(Stdio::null()))?;
    run(Command::new("apt-get")
        .args(["install", "--yes", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}
