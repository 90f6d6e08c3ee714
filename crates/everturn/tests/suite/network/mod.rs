//! https, HTTP/2 and proxies, as clients meet them: mostly with curl.

mod crowd;
mod hosts;
mod http2;
mod origins;
mod proxies;
mod renewal;
mod tls;

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};

use super::harness::{Home, Server, eventually, key, shared_config};

/// Somebody who signs certificates, and whom clients trust.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "An authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate and its key, as PEM.
    fn sign(&self) -> (String, String) {
        self.sign_for(1975, 4096)
    }

    /// As [`Self::sign`], valid from the first day of one year to that of another.
    fn sign_for(&self, from: i32, until: i32) -> (String, String) {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let own = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let cert = params.signed_by(&own, &self.0).unwrap();
        (cert.pem(), own.serialize_pem())
    }

    /// Puts a pair where the configuration has it, and the authority where curl looks for it.
    fn install(&self, home: &Home) {
        self.install_pair(home, self.sign());
    }

    fn install_pair(&self, home: &Home, (cert, key): (String, String)) {
        std::fs::write(home.path().join("cert.pem"), cert).unwrap();
        std::fs::write(home.path().join("key.pem"), key).unwrap();
        std::fs::write(home.path().join("authority.pem"), self.0.pem()).unwrap();
    }
}

/// Without keys, with these tables at its end.
fn config(more: &str) -> String {
    format!("{}\n{more}", shared_config(""))
}

const TLS: &str = "[tls]\ncert = 'cert.pem'\nkey = 'key.pem'\n";

fn closed() -> String {
    format!("[[keys]]\nkey = '{}'\ntenant = 'acme'\n", key("acme"))
}

/// A server that speaks https, its folder, and who signs for it.
fn secure(more: &str) -> (Home, Server, Authority) {
    let home = Home::new(&config(&format!("{TLS}{more}")));
    let authority = Authority::new();
    authority.install(&home);
    let server = home.start_with(&["--log-level", "debug"]);
    (home, server, authority)
}

fn curl(home: &Home, arguments: &[&str]) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--noproxy", "*", "--max-time", "30"]).args(arguments);
    curl.current_dir(home.path()).stdin(Stdio::null());
    curl
}

/// What curl prints, with the status and the version of HTTP in a last line.
#[track_caller]
fn get(home: &Home, arguments: &[&str]) -> String {
    let told = ["--cacert", "authority.pem", "-w", "\n%{http_code} %{http_version} %{ssl_verify_result}"];
    let output = curl(home, &[&told, arguments].concat()).output().expect("curl is installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}{}", output.status, home.log());
    String::from_utf8(output.stdout).unwrap()
}

/// A curl that must fail.
#[track_caller]
fn fails(home: &Home, arguments: &[&str]) -> Output {
    let output = curl(home, arguments).output().expect("curl is installed");
    assert!(!output.status.success(), "{output:?}");
    output
}

/// A curl that prints what it gets while it gets it.
struct Following {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Following {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let following = ["-N", "--cacert", "authority.pem"];
        let mut command = curl(home, &[&following, arguments].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("curl is installed");
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads until a line has this in it.
    #[track_caller]
    fn until(&mut self, what: &str) {
        let mut line = String::new();
        while !line.contains(what) {
            line.clear();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the stream ended before {what:?}");
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line of the log that has this in it.
#[track_caller]
fn logged(home: &Home, what: &str) -> String {
    eventually(what, || home.log().lines().find(|line| line.contains(what)).map(str::to_owned))
}
