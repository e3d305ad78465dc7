//! The secure listener's certificates, made anew for every broker: nothing secret lies in the repository and nothing expires in it.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

/// A private authority, what it signed for the broker, and an authority that nobody should trust.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) ca_pem: PathBuf,
    pub(super) wrong_ca_pem: PathBuf,
    /// The broker's certificate, in PEM.
    pub(super) server_chain: String,
    /// Its private key, PKCS#8 in PEM.
    pub(super) server_key: String,
}

impl Certificates {
    /// Writes the two authorities into `directory`; the server's part goes into the broker's properties.
    pub(super) fn make(directory: &Path) -> anyhow::Result<Certificates> {
        let authority = authority("Transom test authority")?;
        let stranger = self::authority("Transom unrelated authority")?;

        let server_key = KeyPair::generate()?;
        let mut server = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        server.distinguished_name.push(DnType::CommonName, "localhost");
        let server = server.signed_by(&server_key, &authority)?;

        let ca_pem = directory.join("ca.pem");
        let wrong_ca_pem = directory.join("wrong-ca.pem");
        fs::write(&ca_pem, authority.pem())?;
        fs::write(&wrong_ca_pem, stranger.pem())?;
        Ok(Certificates { ca_pem, wrong_ca_pem, server_chain: server.pem(), server_key: server_key.serialize_pem() })
    }
}

fn authority(name: &str) -> anyhow::Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::new([])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}
