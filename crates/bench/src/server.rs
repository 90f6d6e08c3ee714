//! The server under test, as a process.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use crate::client::Client;

const CONFIG: &str = r#"
listen = "127.0.0.1:0"
store = "sqlite:data/everturn.db"

[providers.demo]
kind = "demo"

[[agents]]
name = "load"
model = "demo/load"
context_window = 1000000000
# A title is a model call of its own, and no part of the turns that are measured.
titles = false

[[agents]]
name = "asking"
model = "demo/load"
tools = ["request_form"]
titles = false
"#;

/// A running server. Ended when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// From the start of the process to its first answer.
    pub(crate) started_in: Duration,
}

impl Server {
    /// Starts the server in a folder, with whatever is stored there.
    pub(crate) fn start(everturn: &Path, folder: &Path) -> anyhow::Result<Self> {
        Self::start_with(everturn, folder, "")
    }

    /// As [`Self::start`], with more agents and providers than the usual ones.
    pub(crate) fn start_with(everturn: &Path, folder: &Path, more: &str) -> anyhow::Result<Self> {
        let config = folder.join("everturn.toml");
        std::fs::write(&config, format!("{CONFIG}{more}"))?;
        let begun = Instant::now();
        let child = Command::new(everturn)
            .args(["serve", "--config", "everturn.toml", "--log-level", "warn"])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start {}", everturn.display()))?;
        Self::ready(child, begun, "/healthz")
    }

    /// Waits for a process to print its address and to answer.
    pub(crate) fn ready(mut child: Child, begun: Instant, path: &str) -> anyhow::Result<Self> {
        let stdout = child.stdout.take().context("no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let address = loop {
            let Some(line) = lines.next() else { bail!("the server ended before it listened") };
            if let Some((_, address)) = line?.split_once("http://") {
                break address.trim().parse()?;
            }
        };
        // The rest of the output must go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        Client::connect(address)?.request("GET", path, "")?;
        Ok(Self { child, address, started_in: begun.elapsed() })
    }

    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        Client::connect(self.address)
    }

    /// How many readers the server has.
    pub(crate) fn readers(&self) -> anyhow::Result<usize> {
        let mut socket = TcpStream::connect(self.address)?;
        write!(socket, "GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address)?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        let value = answer.lines().find_map(|line| line.strip_prefix("everturn_readers "));
        Ok(value.context("the server does not tell how many readers it has")?.trim().parse()?)
    }

    /// CPU time used so far, user and system.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        const TICKS_PER_SECOND: u64 = 100;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, fields) = stat.rsplit_once(") ").context("stat")?;
        let ticks = |index| fields.split(' ').nth(index).and_then(|field: &str| field.parse::<u64>().ok());
        let used = ticks(11).context("utime")? + ticks(12).context("stime")?;
        Ok(Duration::from_millis(used * 1000 / TICKS_PER_SECOND))
    }

    /// As [`Self::cpu`], to the microsecond. What threads used that have ended since is not in it.
    pub(crate) fn precise_cpu(&self) -> anyhow::Result<Duration> {
        let mut nanoseconds = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let stat = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            nanoseconds += stat.split(' ').next().context("schedstat")?.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        let kibibytes: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
        Ok(kibibytes * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
