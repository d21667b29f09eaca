//! Which server it is.

use std::fmt;

/// The two products that speak this protocol and are told apart here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Product {
    /// MySQL, and what calls itself so.
    MySql,
    /// MariaDB.
    MariaDb,
}

/// A server, as it says itself.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Server {
    /// Which of the two products.
    pub product: Product,
    /// Major, minor and patch number.
    pub version: (u16, u16, u16),
}

impl Server {
    /// Reads the answer to `SELECT VERSION()`; the number comes first in it.
    pub(crate) fn parse(said: &str) -> Server {
        let product = if said.contains("MariaDB") { Product::MariaDb } else { Product::MySql };
        // Some proxies put the number of a MySQL before it, for old replicas.
        let said = said.strip_prefix("5.5.5-").unwrap_or(said);
        let mut numbers = said.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Server { product, version: (next(), next(), next()) }
    }

    /// SKIP LOCKED, CHECK constraints that are enforced, and RETURNING on MariaDB.
    pub(crate) fn is_new_enough(&self) -> bool {
        self.version >= self.oldest()
    }

    pub(crate) fn oldest(&self) -> (u16, u16, u16) {
        match self.product {
            Product::MySql => (8, 0, 16),
            Product::MariaDb => (10, 6, 0),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.product {
            Product::MySql => "MySQL",
            Product::MariaDb => "MariaDB",
        };
        let (major, minor, patch) = self.version;
        write!(f, "{name} {major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_servers_write_them() {
        let cases = [
            ("9.7.4-2", "MySQL 9.7.4", true),
            ("8.4.6", "MySQL 8.4.6", true),
            ("8.0.15-log", "MySQL 8.0.15", false),
            ("10.11.19-MariaDB-0+deb12u1", "MariaDB 10.11.19", true),
            ("5.5.5-11.8.9-MariaDB-4 from Debian", "MariaDB 11.8.9", true),
            ("10.5.29-MariaDB", "MariaDB 10.5.29", false),
            ("nonsense", "MySQL 0.0.0", false),
        ];
        for (said, shown, enough) in cases {
            let server = Server::parse(said);
            assert_eq!((server.to_string().as_str(), server.is_new_enough()), (shown, enough), "{said}");
        }
    }
}
