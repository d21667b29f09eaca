//! Which servers this machine could start, told without starting one.

use super::{Kind, NotRun, Policy, Try, Way, client, container, host, local, start};

/// A server that could be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// By which way.
    pub way: Way,
    /// The release: `18` for PostgreSQL, `11.8` for MariaDB. None where only the server itself could tell.
    pub release: Option<String>,
}

/// Every server of this kind that could be had, by the ways that the policy has. Starts none and contacts none, so that a
/// mere listing of trials stays cheap.
///
/// A URL is the only offer when it is there: who names a server means that one. An image that would have to be pulled
/// first is offered only where nothing else is.
///
/// # Errors
/// [`NotRun`], with the reason of each way.
pub async fn offers(kind: Kind, policy: &Policy) -> Result<Vec<Offer>, NotRun> {
    let mut tries = Vec::new();
    let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
    for way in Way::ALL.into_iter().filter(|way| policy.ways.contains(way)) {
        match host::run(look(kind, way)).await {
            Ok((offer, _)) if way == Way::Url => return Ok(vec![offer]),
            Ok((offer, Place::Here)) => here.push(offer),
            Ok((offer, Place::Elsewhere)) => elsewhere.push(offer),
            Err(reason) => tries.push(Try { way, reason }),
        }
    }
    match (here.is_empty(), elsewhere.is_empty()) {
        (false, _) => Ok(here),
        (true, false) => Ok(elsewhere),
        (true, true) => {
            let required = policy.required.contains(&kind);
            Err(NotRun { kind, tries, remedy: start::remedy(kind, policy), required })
        }
    }
}

enum Place {
    Here,
    /// An image that is still to be pulled.
    Elsewhere,
}

async fn look(kind: Kind, way: Way) -> Result<(Offer, Place), String> {
    if !client::compiled(kind) {
        return Err(client::missing(kind));
    }
    let (release, place) = match way {
        Way::Url => {
            let variable = kind.spec().url_variable;
            std::env::var(variable).map_err(|_| format!("{variable} is not set"))?;
            (None, Place::Here)
        }
        Way::Container => {
            let daemon = container::available(kind).await?;
            let tag = daemon.image.rsplit_once(':').map(|(_, tag)| tag);
            (tag.and_then(|tag| release(kind, tag)), if daemon.present { Place::Here } else { Place::Elsewhere })
        }
        Way::Local => {
            let (_, said) = local::available(kind).await?;
            (said.split_whitespace().find_map(|word| release(kind, word)), Place::Here)
        }
    };
    Ok((Offer { way, release }, place))
}

/// The part of a version that names a release line of this product. None for a word that does not begin as a version.
fn release(kind: Kind, word: &str) -> Option<String> {
    let parts = match kind {
        Kind::Postgres => 1,
        Kind::MySql | Kind::MariaDb | Kind::Redis | Kind::Valkey => 2,
    };
    let number = word.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    let numbers: Vec<&str> = number.split('.').take_while(|part| !part.is_empty()).take(parts).collect();
    (!numbers.is_empty()).then(|| numbers.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_what_a_product_counts_by() {
        for (kind, word, expected) in [
            (Kind::Postgres, "18", Some("18")),
            (Kind::Postgres, "15.14", Some("15")),
            (Kind::Postgres, "18.1-alpine", Some("18")),
            (Kind::MariaDb, "10.11.14-MariaDB-0+deb12u2", Some("10.11")),
            (Kind::MySql, "9.7", Some("9.7")),
            (Kind::MySql, "9.", Some("9")),
            (Kind::MySql, "latest", None),
            (Kind::Postgres, "(PostgreSQL)", None),
            (Kind::Postgres, "/usr/lib/postgresql/15/bin/postgres", None),
        ] {
            assert_eq!(release(kind, word).as_deref(), expected, "{word}");
        }
    }
}
