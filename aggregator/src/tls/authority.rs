//! The aggregator's own certificate authority: created at the start, or stored in a folder.

use data_encoding::HEXLOWER;
use std::{
    fs,
    io::{self, Write as _},
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use ring::digest;
use rustls::{
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    sign::CertifiedKey,
};

/// Validity of the CA certificate. Its key ends with the process or is kept by the operator, so a short validity gains
/// nothing, and probers would lose the aggregator at its end.
const AUTHORITY_DAYS: i64 = 3_650;
/// Validity of a server certificate; it is renewed long before.
const CERTIFICATE_DAYS: i64 = 30;
/// Certificates are backdated, because clocks of nodes may be slow.
const BACKDATED_DAYS: i64 = 1;

const KEY_FILE: &str = "ca.key";
const CERTIFICATE_FILE: &str = "ca.crt";

/// The certificate authority cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The stored authority cannot be read or written.
    #[error(
        "cannot read or write the certificate authority in {file}: {source}; make the folder writable, or remove `tls.directory` from the configuration"
    )]
    Storage {
        /// The file.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// The stored authority is damaged.
    #[error(
        "cannot parse the certificate authority in {file}: {source}; remove the folder to create a new one"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The parser's error.
        source: rcgen::Error,
    },
    /// A certificate cannot be created.
    #[error("cannot create a certificate: {0}; check `tls.hosts`")]
    Issue(#[from] rcgen::Error),
    /// TLS cannot use the key of a new certificate.
    #[error("cannot use a newly created certificate: {0}")]
    Unusable(#[from] rustls::Error),
}

/// A certificate authority.
#[derive(Debug)]
pub(crate) struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl CertificateAuthority {
    /// Creates an authority in memory.
    pub(crate) fn generate() -> Result<Self, AuthorityError> {
        Self::from_key(KeyPair::generate()?)
    }

    /// Reads the authority stored in a folder; creates and stores a new one if there is none.
    pub(crate) fn load_or_create(folder: &Path) -> Result<Self, AuthorityError> {
        let file = folder.join(KEY_FILE);
        let name = file.display().to_string();
        let keep = |source| AuthorityError::Storage {
            file: name.clone(),
            source,
        };
        match fs::read_to_string(&file) {
            Ok(pem) => {
                let key = KeyPair::from_pem(&pem).map_err(|source| AuthorityError::Damaged {
                    file: name.clone(),
                    source,
                })?;
                let mut authority = Self::from_key(key)?;
                // The stored certificate must stay byte-identical, because probers compare bytes.
                authority.certificate = fs::read_to_string(folder.join(CERTIFICATE_FILE)).map_err(keep)?;
                Ok(authority)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(folder).map_err(keep)?;
                let authority = Self::generate()?;
                // The key is written last, so that the certificate exists whenever the key does.
                write_atomically(
                    &folder.join(CERTIFICATE_FILE),
                    authority.certificate.as_bytes(),
                    0o644,
                )
                .map_err(keep)?;
                write_atomically(&file, authority.issuer.key().serialize_pem().as_bytes(), 0o600)
                    .map_err(keep)?;
                Ok(authority)
            }
            Err(error) => Err(keep(error)),
        }
    }

    fn from_key(key: KeyPair) -> Result<Self, AuthorityError> {
        let mut params = CertificateParams::new(Vec::new())?;
        // Unique names, because TLS libraries look up the issuer in a bundle by name.
        let mark = digest::digest(&digest::SHA256, key.public_key_raw());
        let mark = HEXLOWER.encode(&mark.as_ref()[..4]);
        params.distinguished_name = common_name(&format!("parallax aggregator CA {mark}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, AUTHORITY_DAYS);
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            certificate,
        })
    }

    /// Returns the CA certificate as PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Issues a certificate with a new key for these hosts.
    pub(crate) fn issue(&self, hosts: &[String]) -> Result<CertifiedKey, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = common_name("parallax aggregator");
        params.subject_alt_names = hosts
            .iter()
            .map(|host| {
                Ok(match host.parse::<IpAddr>() {
                    Ok(address) => SanType::IpAddress(address),
                    Err(_) => SanType::DnsName(host.as_str().try_into()?),
                })
            })
            .collect::<Result<_, rcgen::Error>>()?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        set_validity(&mut params, CERTIFICATE_DAYS);
        let certificate = params.signed_by(&key, &self.issuer)?;
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(CertifiedKey::from_der(chain, private, &default_provider())?)
    }
}

/// Writes a file atomically, created with its final mode, so that it is never readable by others.
fn write_atomically(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    let _ = fs::remove_file(&unfinished);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(unfinished, path)
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// Sets the validity: from yesterday, for `days` days, in whole days.
fn set_validity(params: &mut CertificateParams, days: i64) {
    let now = Timestamp::now();
    let day = |hours: i64| {
        let date = (now + SignedDuration::from_hours(hours))
            .to_zoned(TimeZone::UTC)
            .date();
        // Months and days are small and positive.
        let small = |number: i8| number.unsigned_abs();
        rcgen::date_time_ymd(date.year().into(), small(date.month()), small(date.day()))
    };
    params.not_before = day(-24 * BACKDATED_DAYS);
    params.not_after = day(24 * days);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_kept_authority_is_the_same_after_a_restart_and_its_key_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("tls");
        let first = CertificateAuthority::load_or_create(&kept).unwrap();
        let second = CertificateAuthority::load_or_create(&kept).unwrap();
        assert_eq!(first.certificate(), second.certificate());
        let mode = fs::metadata(kept.join(KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_ne!(
            CertificateAuthority::generate().unwrap().certificate(),
            first.certificate()
        );
    }

    #[test]
    fn a_damaged_key_error_names_file_and_remedy() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(KEY_FILE), "no key").unwrap();
        let error = CertificateAuthority::load_or_create(folder.path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("ca.key") && error.contains("remove the folder"),
            "{error}"
        );
    }

    #[test]
    fn a_host_that_no_certificate_can_name_is_refused() {
        let authority = CertificateAuthority::generate().unwrap();
        let error = authority
            .issue(&["stra\u{df}e".to_owned()])
            .unwrap_err()
            .to_string();
        assert!(error.contains("tls.hosts"), "{error}");
    }
}
