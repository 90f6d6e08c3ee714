use std::{path::Path, time::Duration};

use rcgen::{CertifiedKey as Made, KeyPair, generate_simple_self_signed};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion, pki_types::ServerName},
};

use super::*;

fn make() -> Made<KeyPair> {
    generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

fn files(folder: &TempDir) -> TlsFiles {
    TlsFiles { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") }
}

fn write(files: &TlsFiles, made: &Made<KeyPair>) {
    std::fs::write(&files.cert, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
}

#[track_caller]
fn check(folder: &Path, files: &TlsFiles, expected: &str) {
    let error = files.check().unwrap_err().to_string();
    assert_eq!(error.replace(folder.to_str().unwrap(), "<folder>"), expected);
}

#[test]
fn pairs_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(&folder);
    let check = |expected| check(folder.path(), &files, expected);
    check("cannot read the certificate <folder>/cert.pem: No such file or directory (os error 2)");
    std::fs::create_dir(&files.cert).unwrap();
    check("cannot read the certificate <folder>/cert.pem: it is a folder");
    std::fs::remove_dir(&files.cert).unwrap();
    let (one, other) = (make(), make());
    std::fs::write(&files.cert, one.cert.pem()).unwrap();
    check("cannot read the key <folder>/key.pem: No such file or directory (os error 2)");
    std::fs::write(&files.key, other.signing_key.serialize_pem()).unwrap();
    check(
        "the key <folder>/key.pem does not belong to the certificate <folder>/cert.pem; name the key that the certificate \
         was made for, and put that certificate first in its file",
    );
    std::fs::write(&files.key, one.cert.pem()).unwrap();
    check("<folder>/key.pem has a certificate and no key; are `cert` and `key` the wrong way round?");
    std::fs::write(&files.key, "hello").unwrap();
    check("<folder>/key.pem has no key; it must be PEM, with the line -----BEGIN PRIVATE KEY-----");
    std::fs::write(&files.key, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIF\n-----END ENCRYPTED PRIVATE KEY-----\n")
        .unwrap();
    check(
        "<folder>/key.pem has a key that is locked with a password, which nobody could type at a start; write it without \
         one: openssl pkey -in locked.pem -out privkey.pem",
    );
    std::fs::write(&files.key, "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n").unwrap();
    let error = files.check().unwrap_err().to_string();
    assert!(error.contains("key.pem holds a key that cannot be used: "), "{error}");
    assert!(!error.contains("c2VjcmV0") && !error.contains("secret"), "{error}");
    std::fs::write(&files.key, "-----BEGIN PRIVATE KEY-----\nse~cret\n-----END PRIVATE KEY-----\n").unwrap();
    check("<folder>/key.pem is broken PEM: what is between BEGIN and END is not base64");
    std::fs::write(&files.key, "-----BEGIN PRIVATE KEY-----\nc2Vj").unwrap();
    check("<folder>/key.pem is broken PEM: it has a BEGIN line without its END line");
    write(&files, &one);
    files.check().unwrap();
    std::fs::write(&files.cert, one.signing_key.serialize_pem()).unwrap();
    check("<folder>/cert.pem has a private key and no certificate; are `cert` and `key` the wrong way round?");
    std::fs::write(&files.cert, [0xff; 10]).unwrap();
    check("<folder>/cert.pem has no certificate; it must be PEM, with the line -----BEGIN CERTIFICATE-----");
    std::fs::write(&files.cert, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    assert!(files.check().unwrap_err().to_string().contains("cert.pem holds a broken certificate: "));
    std::fs::write(&files.cert, vec![b'a'; 2_000_000]).unwrap();
    check("cannot read the certificate <folder>/cert.pem: it has 2000000 bytes, at most 1048576 are read");
}

#[test]
fn printing_shows_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(&folder);
    let made = make();
    write(&files, &made);
    let printed = format!("{:?}", Tls::open(files).unwrap());
    assert!(printed.ends_with("key.pem\" }, .. }"), "{printed}");
}

/// The certificate that a client gets, the protocol and the version.
async fn shake(
    tls: &Tls,
    trusted: &Made<KeyPair>,
    version: &'static SupportedProtocolVersion,
) -> io::Result<(Vec<u8>, ProtocolVersion)> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.cert.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let mut config =
        builder.with_protocol_versions(&[version]).unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let (near, far) = tokio::io::duplex(16 * 1024);
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("localhost").unwrap();
    let (client, _server) = tokio::join!(connector.connect(name, near), tls.accept(far));
    let client = client?;
    let session = client.get_ref().1;
    Ok((session.alpn_protocol().unwrap_or_default().to_vec(), session.protocol_version().unwrap()))
}

#[tokio::test]
async fn both_versions_offer_http2() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(&folder);
    let made = make();
    write(&files, &made);
    let tls = Tls::open(files).unwrap();
    assert_eq!(shake(&tls, &made, &TLS13).await.unwrap(), (b"h2".to_vec(), ProtocolVersion::TLSv1_3));
    assert_eq!(shake(&tls, &made, &TLS12).await.unwrap(), (b"h2".to_vec(), ProtocolVersion::TLSv1_2));
}

/// Waits, in time that does not pass, until the server shows this certificate.
async fn until_shown(tls: &Tls, made: &Made<KeyPair>) {
    let shown = async {
        while shake(tls, made, &TLS13).await.is_err() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3600), shown).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_renewed_pair_is_used_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(&folder);
    let (first, second, third) = (make(), make(), make());
    write(&files, &first);
    let tls = Tls::open(files.clone()).unwrap();
    let (tell, told) = mpsc::channel(1);
    let renewing = tokio::spawn(tls.clone().renew(Duration::from_secs(60), told));
    // It has looked at the files before they change.
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Half of a renewal: the certificate is there, its key not yet.
    let later = SystemTime::now() + Duration::from_secs(100);
    std::fs::write(&files.cert, second.cert.pem()).unwrap();
    std::fs::File::options().write(true).open(&files.cert).unwrap().set_modified(later).unwrap();
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert!(shake(&tls, &first, &TLS13).await.is_ok() && shake(&tls, &second, &TLS13).await.is_err());
    std::fs::write(&files.key, second.signing_key.serialize_pem()).unwrap();
    until_shown(&tls, &second).await;
    // Told to look, it looks at once.
    write(&files, &third);
    let asked = tokio::time::Instant::now();
    tell.send(()).await.unwrap();
    until_shown(&tls, &third).await;
    assert!(asked.elapsed() < Duration::from_secs(60), "{:?}", asked.elapsed());
    renewing.abort();
}
