//! The program as a process.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{Client, PATIENCE, contract, eventually};

/// A folder with a configuration, in which the program can be started time and again.
pub(crate) struct Home(TempDir);

impl Home {
    /// A folder with this configuration.
    pub(crate) fn new(config: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        home.configure(config);
        home
    }

    /// Another configuration, for the next start.
    pub(crate) fn configure(&self, config: &str) {
        std::fs::write(self.path().join("everturn.toml"), config).unwrap();
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everturn"));
        command.args(arguments).current_dir(self.path()).env_clear();
        command
    }

    /// Runs the program until it ends by itself.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.run_in(&[], arguments)
    }

    /// As [`Self::run`], with these variables.
    pub(crate) fn run_in(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
        self.command(arguments).envs(variables.iter().copied()).output().unwrap()
    }

    /// Starts the server on a free port and waits until it listens.
    #[track_caller]
    pub(crate) fn start(&self) -> Server {
        self.start_with(&[])
    }

    /// As [`Self::start`], with more arguments.
    #[track_caller]
    pub(crate) fn start_with(&self, arguments: &[&str]) -> Server {
        self.start_in(&[], arguments)
    }

    /// As [`Self::start_with`], with these variables, of which there are none else.
    #[track_caller]
    pub(crate) fn start_in(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Server {
        let log = std::fs::File::create(self.path().join("log.txt")).unwrap();
        let mut command = self.command(&["--listen", "127.0.0.1:0"]);
        command.args(arguments).envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line.trim().rsplit("://").next().and_then(|address| address.parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the server does not start: {line}{}", self.log());
        };
        let server = Server { address, child, stdout, banner: line };
        if !server.banner.contains("https://") {
            contract::read(address);
        }
        server
    }

    /// What the server has logged since its last start.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path().join("log.txt")).unwrap()
    }
}

/// A running server, killed when it goes out of scope.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    child: Child,
    /// Kept, so that what it prints has somewhere to go.
    stdout: BufReader<ChildStdout>,
    banner: String,
}

impl Server {
    /// A client without a key.
    pub(crate) fn client(&self) -> Client {
        Client { address: self.address, key: None }
    }

    /// What it prints when it listens, to the line that has the agents; all of it once it has ended.
    pub(crate) fn banner(&mut self) -> &str {
        let ended = self.child.try_wait().unwrap().is_some();
        while ended || !self.banner.contains("\n  agents") {
            if self.stdout.read_line(&mut self.banner).unwrap() == 0 {
                break;
            }
        }
        &self.banner
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a crash does: at once, without a chance to do anything.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop.
    pub(crate) fn terminate(&self) {
        let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
    }

    /// Waits until it has ended; tells how, and how long that took.
    pub(crate) fn ended(&mut self) -> (ExitStatus, Duration) {
        let begun = Instant::now();
        let status = eventually("the server ends", || self.child.try_wait().unwrap());
        (status, begun.elapsed())
    }

    /// Writes these bytes to a connection of its own and gives what comes back until the server closes it.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        exchange(self.connect(), bytes)
    }

    /// As [`Self::raw`], but says after the bytes that no more will come. The server may take that for a client that
    /// has gone, and not answer.
    pub(crate) fn raw_cut(&self, bytes: &[u8]) -> String {
        let mut socket = self.connect();
        let _ = socket.write_all(bytes);
        let _ = socket.shutdown(Shutdown::Write);
        exchange(socket, b"")
    }

    fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }
}

fn exchange(mut socket: TcpStream, bytes: &[u8]) -> String {
    // The server may have had enough before all is written, and reset the connection after its answer.
    let _ = socket.write_all(bytes);
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
