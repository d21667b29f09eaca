//! Certificates that only a test knows.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// A certificate authority of a test's own.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// One that nobody has heard of.
    ///
    /// # Panics
    /// When no key can be made.
    #[must_use]
    #[allow(clippy::new_without_default)] // Each is another one.
    pub fn new() -> Authority {
        let mut parameters = CertificateParams::new([]).expect("valid");
        // A certificate of the same name as its issuer passes for one that signed itself.
        parameters.distinguished_name.push(DnType::CommonName, "an authority");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(parameters, key).expect("signed"))
    }

    /// Its own certificate, in PEM.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.0.pem()
    }

    /// Certificate and key of a server of this name or address, in PEM.
    ///
    /// # Panics
    /// When it is neither.
    #[must_use]
    pub fn issue(&self, host: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let parameters = CertificateParams::new([host.to_owned()]).expect("a name or an address");
        let certificate = parameters.signed_by(&key, &self.0).expect("signed");
        (certificate.pem(), key.serialize_pem())
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}
