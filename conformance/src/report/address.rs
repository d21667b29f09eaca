//! URLs that can be shown.

use url::Url;

/// Names of URL parameters whose values are secrets.
const SECRETS: [&str; 5] = ["pass", "pwd", "secret", "token", "key"];

/// The URL without its password, in the authority and in the parameters. A text that is no URL but might hold a
/// password is not shown at all.
#[must_use]
pub fn without_password(text: &str) -> String {
    let Ok(mut url) = Url::parse(text) else {
        return if text.contains('@') { "(not shown)".to_owned() } else { text.to_owned() };
    };
    if url.password().is_some() && url.set_password(Some("***")).is_err() {
        return "(not shown)".to_owned();
    }
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    if !pairs.is_empty() {
        let shown = pairs.into_iter().map(|(name, value)| {
            let secret = SECRETS.iter().any(|secret| name.to_ascii_lowercase().contains(secret));
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
            "redis://:hunter2@localhost",
        ] {
            assert!(!without_password(url).contains("hunter2"), "{url}");
        }
        assert_eq!(without_password("postgres://me@localhost/db?a=b"), "postgres://me@localhost/db?a=b");
        assert_eq!(without_password("/var/lib/idem.db"), "/var/lib/idem.db");
    }
}
