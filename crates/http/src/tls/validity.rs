//! From when until when certificates are valid.

use std::{fmt, path::PathBuf, time::Duration};

use jiff::Timestamp;
use tokio_rustls::rustls::{
    CertificateError, Error, RootCertStore,
    client::verify_server_cert_signed_by_trust_anchor,
    pki_types::{CertificateDer, UnixTime},
    server::ParsedCertificate,
};

/// A certificate whose time is not now. It can be shown, and clients refuse it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untimely {
    pub(super) file: PathBuf,
    /// Which one of the file; the first is the server's, the others vouch for it.
    number: usize,
    over: bool,
    from: Timestamp,
    until: Timestamp,
}

impl fmt::Display for Untimely {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, number, over, from, until } = self;
        match number {
            1 => write!(f, "the certificate {} ", file.display())?,
            number => write!(f, "certificate {number} of {}, which vouches for the first, ", file.display())?,
        }
        match over {
            true => write!(f, "has expired: it was valid from {from} until {until}; clients refuse it: renew it"),
            false => write!(
                f,
                "is not valid yet: it is from {from} until {until}; clients refuse it before that: is the clock of this \
                 machine right?"
            ),
        }
    }
}

impl Untimely {
    /// The first of a file's certificates whose time is not now.
    pub(super) fn find(file: PathBuf, chain: &[CertificateDer<'_>], now: Duration) -> Option<Self> {
        let now = i64::try_from(now.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok())?;
        let timed = chain.iter().zip(1..).filter_map(|(certificate, number)| Some((number, valid(certificate)?)));
        let (number, (from, until)) = timed.into_iter().find(|(_, (from, until))| now < *from || now > *until)?;
        Some(Self { file, number, over: now > until, from, until })
    }
}

/// From when until when a certificate is valid; `None` if it does not say so in a way that clients understand.
fn valid(certificate: &CertificateDer<'_>) -> Option<(Timestamp, Timestamp)> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    // What verifies certificates tells the dates of those that it finds too young or too old, before it asks who has
    // signed them; so it is asked as of the first moment there is, and as of the last.
    let at = |moment: u64| {
        let moment = UnixTime::since_unix_epoch(Duration::from_secs(moment));
        match verify_server_cert_signed_by_trust_anchor(&parsed, &RootCertStore::empty(), &[], moment, &[]) {
            Err(Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. })) => Some(not_before),
            Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => Some(not_after),
            Ok(()) | Err(_) => None,
        }
    };
    let told = |moment: UnixTime| Timestamp::from_second(i64::try_from(moment.as_secs()).ok()?).ok();
    Some((told(at(0)?)?, told(at(u64::MAX)?)?))
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    /// A certificate that is valid in one year.
    fn of(year: i32, authority: bool) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(year, 1, 1);
        params.not_after = date_time_ymd(year, 12, 31);
        params.is_ca = if authority { IsCa::Ca(BasicConstraints::Unconstrained) } else { IsCa::NoCa };
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[track_caller]
    fn check(chain: &[CertificateDer<'_>], now: &str, expected: Option<&str>) {
        let now = now.parse::<Timestamp>().unwrap().as_duration().unsigned_abs();
        let found = Untimely::find(PathBuf::from("cert.pem"), chain, now);
        assert_eq!(found.map(|untimely| untimely.to_string()).as_deref(), expected);
    }

    #[test]
    fn certificates_have_their_time() {
        let chain = [of(2020, false), of(2020, true)];
        check(&chain, "2020-06-01T00:00:00Z", None);
        check(&chain, "2020-01-01T00:00:00Z", None);
        check(&chain, "2020-12-31T00:00:00Z", None);
        check(
            &chain,
            "2020-12-31T00:00:01Z",
            Some(
                "the certificate cert.pem has expired: it was valid from 2020-01-01T00:00:00Z until \
                 2020-12-31T00:00:00Z; clients refuse it: renew it",
            ),
        );
        check(
            &chain,
            "2019-12-31T23:59:59Z",
            Some(
                "the certificate cert.pem is not valid yet: it is from 2020-01-01T00:00:00Z until 2020-12-31T00:00:00Z; \
                 clients refuse it before that: is the clock of this machine right?",
            ),
        );
        check(
            &[of(2100, false), of(2020, true)],
            "2100-06-01T00:00:00Z",
            Some(
                "certificate 2 of cert.pem, which vouches for the first, has expired: it was valid from \
                 2020-01-01T00:00:00Z until 2020-12-31T00:00:00Z; clients refuse it: renew it",
            ),
        );
        check(&[CertificateDer::from(vec![1, 2, 3])], "2020-06-01T00:00:00Z", None);
        check(&[], "2020-06-01T00:00:00Z", None);
    }
}
