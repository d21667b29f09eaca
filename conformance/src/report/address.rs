//! URLs that can be shown.

use url::Url;

/// Names of URL parameters whose values are secrets.
const SECRETS: [&str; 5] = ["pass", "pwd", "secret", "token", "key"];

const HIDDEN: &str = "(not shown)";

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

/// The URL without its password, in the authority and in the parameters. A text that is no URL but might hold a
/// password is not shown at all.
#[must_use]
pub fn without_password(text: &str) -> String {
    let mut url = match Url::parse(text) {
        Ok(url) if !url.cannot_be_a_base() => url,
        _ if text.contains('@') || is_secret(text) => return HIDDEN.to_owned(),
        _ => return text.to_owned(),
    };
    if url.password().is_some() && url.set_password(Some("***")).is_err() {
        return HIDDEN.to_owned();
    }
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    if !pairs.is_empty() {
        let shown = pairs.into_iter().map(|(name, value)| {
            let secret = is_secret(&name);
            (name, if secret { "***".to_owned() } else { value })
        });
        let shown: Vec<_> = shown.collect();
        url.query_pairs_mut().clear().extend_pairs(shown);
    }
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for url in [
            "postgres://me:hunter2@localhost:5432/db",
            "postgres://localhost/db?user=me&password=hunter2",
            "mysql://me:hunter2@[::1]/db?ssl-mode=required&sslPassword=hunter2",
            "me:hunter2@localhost",
            "host=localhost user=me password=hunter2",
            "redis://:hunter2@localhost",
        ] {
            assert!(!without_password(url).contains("hunter2"), "{url}");
        }
        assert_eq!(without_password("postgres://me@localhost/db?a=b"), "postgres://me@localhost/db?a=b");
        assert_eq!(without_password("/var/lib/idem.db"), "/var/lib/idem.db");
    }
}
