use std::fmt;
use std::io;
use std::net::SocketAddr;

use url::Url;

/// Where a server listens, and how to log in.
///
/// `Debug` and `Display` show no password; [`url`](Endpoint::url) does.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
}

impl Endpoint {
    pub(super) fn parse(text: &str) -> Result<Endpoint, String> {
        match Url::parse(text) {
            Ok(url) => Ok(Endpoint { url }),
            // The text stays out of the message: it may hold a password.
            Err(error) => Err(format!("not a URL: {error}")),
        }
    }

    /// The URL, with the password.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// The host, when the URL names one.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.url.host_str().filter(|host| !host.is_empty())
    }

    /// The port, when the URL names one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.url.port()
    }

    /// The address that it listens at; None when the URL names no host and port.
    ///
    /// # Errors
    /// The host's name has no address.
    pub async fn address(&self) -> io::Result<Option<SocketAddr>> {
        let (Some(host), Some(port)) = (self.host(), self.port()) else { return Ok(None) };
        // Names in brackets are addresses already, and resolve to themselves without them.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match tokio::net::lookup_host((host, port)).await?.next() {
            Some(address) => Ok(Some(address)),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "the server's name has no address")),
        }
    }

    /// The same server by another address, such as that of a proxy.
    #[must_use]
    pub fn through(&self, address: SocketAddr) -> Endpoint {
        let mut url = self.url.clone();
        // Neither can fail for a URL with a host, and without one there is nothing that a proxy could stand for.
        let _ = url.set_ip_host(address.ip());
        let _ = url.set_port(Some(address.port()));
        Endpoint { url }
    }

    /// Another database on the same server.
    #[must_use]
    pub fn database(&self, name: &str) -> Endpoint {
        let mut url = self.url.clone();
        url.set_path(name);
        Endpoint { url }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.url.clone();
        if url.password().is_some() {
            let _ = url.set_password(Some("***"));
        }
        // Drivers also read passwords from the query.
        if url.query_pairs().any(|(name, _)| name.contains("pass")) {
            url.set_query(Some("***"));
        }
        f.write_str(url.as_str())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for url in ["postgres://u:s3cret@h:1/d", "redis://:s3cret@h:1", "postgres:///d?host=/tmp&password=s3cret"] {
            let endpoint = Endpoint::parse(url).unwrap();
            assert!(!format!("{endpoint} {endpoint:?}").contains("s3cret"), "{endpoint}");
            assert_eq!(endpoint.url(), url);
        }
        assert!(!Endpoint::parse("s3cret").unwrap_err().contains("s3cret"));
    }

    #[test]
    fn a_proxy_changes_the_address_only() {
        let endpoint = Endpoint::parse("mysql://root:p@localhost:3306/idem?prefer_socket=false").unwrap();
        let proxied = endpoint.through(([127, 0, 0, 1], 9).into());
        assert_eq!(proxied.url(), "mysql://root:p@127.0.0.1:9/idem?prefer_socket=false");
        assert_eq!(proxied.database("other").url(), "mysql://root:p@127.0.0.1:9/other?prefer_socket=false");
    }
}
