//! Keys and what they seal.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use everturn_core::{SessionId, TenantId};
use everturn_store::{SecretBox, SecretError, SecretPlace};

const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

#[test]
fn a_secret_opens_in_its_place_only() {
    let (tenant, session) = (TenantId::local(), SessionId::mint());
    let (stranger, other) = ("evil".parse::<TenantId>().unwrap(), SessionId::mint());
    let secrets = SecretBox::from_text(HEX).unwrap();
    let place = SecretPlace { tenant: &tenant, session: &session, option: "token" };
    let sealed = secrets.seal(place, "hunter2").unwrap();
    assert!(sealed.starts_with("v1:") && !sealed.contains("hunter2"));
    assert_ne!(sealed, secrets.seal(place, "hunter2").unwrap(), "equal secrets must not look equal");
    assert_eq!(secrets.open(place, &sealed).unwrap().as_str(), "hunter2");
    for elsewhere in [
        SecretPlace { tenant: &stranger, ..place },
        SecretPlace { session: &other, ..place },
        SecretPlace { option: "another", ..place },
    ] {
        assert!(matches!(secrets.open(elsewhere, &sealed), Err(SecretError::WrongKey)));
    }
}

#[test]
fn another_key_is_told_as_such() {
    let (tenant, session) = (TenantId::local(), SessionId::mint());
    let place = SecretPlace { tenant: &tenant, session: &session, option: "token" };
    let sealed = SecretBox::from_text(HEX).unwrap().seal(place, "hunter2").unwrap();
    let error = SecretBox::from_text(&HEX.replace('0', "f")).unwrap().open(place, &sealed).unwrap_err();
    assert!(error.to_string().contains("sealed with another key"), "{error}");
    for unknown in ["", "v2:AAAA", "hunter2", "v1:", "v1:AAAA", "v1:!!"] {
        let error = SecretBox::from_text(HEX).unwrap().open(place, unknown).unwrap_err();
        assert!(matches!(error, SecretError::UnknownForm), "{unknown:?}: {error}");
    }
}

#[test]
fn keys_come_as_hex_or_base64_and_are_never_shown() {
    let (tenant, session) = (TenantId::local(), SessionId::mint());
    let place = SecretPlace { tenant: &tenant, session: &session, option: "token" };
    let sealed = SecretBox::from_text(HEX).unwrap().seal(place, "hunter2").unwrap();
    for text in [
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        "  AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n",
        &HEX.to_lowercase(),
    ] {
        let secrets = SecretBox::from_text(text).unwrap();
        assert_eq!(secrets.open(place, &sealed).unwrap().as_str(), "hunter2");
        assert_eq!(format!("{secrets:?}"), "SecretBox");
    }
    assert!(SecretBox::from_text("-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_8").is_ok());
    for bad in ["", "correct horse", &HEX[..62], "zz", &format!("{HEX}00"), "日本語日本語"] {
        let error = SecretBox::from_text(bad).unwrap_err();
        assert!(matches!(error, SecretError::NotAKey { .. }), "{error}");
        assert!(bad.is_empty() || !error.to_string().contains(bad), "{error}");
        assert!(error.to_string().contains("openssl rand -hex 32"), "{error}");
    }
}

#[test]
fn a_key_file_is_made_once_and_for_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data/secret.key");
    let (tenant, session) = (TenantId::local(), SessionId::mint());
    let place = SecretPlace { tenant: &tenant, session: &session, option: "token" };
    let boxes: Vec<SecretBox> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| SecretBox::from_file(&path).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let sealed = boxes[0].seal(place, "hunter2").unwrap();
    assert!(boxes.iter().all(|secrets| secrets.open(place, &sealed).unwrap().as_str() == "hunter2"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no drafts are left behind");

    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let error = SecretBox::from_file(&path).unwrap_err();
    assert!(matches!(error, SecretError::KeyFileShared { mode: 0o640, .. }), "{error:?}");
    assert!(error.to_string().contains("chmod 600"), "{error}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(SecretBox::from_file(&path).unwrap().open(place, &sealed).unwrap().as_str(), "hunter2");
}

#[test]
fn a_key_file_that_holds_no_key_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secret.key");
    for content in [&b""[..], b"not a key", &[0xff; 100], &[b'a'; 10_000]] {
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let error = SecretBox::from_file(&path).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert!(!error.to_string().contains("not a key"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    assert!(SecretBox::from_file(Path::new("/dev/null/secret.key")).is_err());
    assert!(SecretBox::from_file(directory.path()).is_err());
}
