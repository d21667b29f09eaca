//! Which response headers are recorded, and how they are written down.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use idem_core::CodecError;

use crate::IDEMPOTENT_REPLAYED;

/// Which response headers are recorded and replayed.
///
/// Never, unless allowed by name: `Set-Cookie`, hop-by-hop fields (and those that `Connection` names), `Date`,
/// `Content-Length` (the server writes its own), and authentication challenges.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "a filter does nothing until it is given to a profile"]
pub struct HeaderFilter {
    rule: Rule,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Rule {
    AllBut(Vec<HeaderName>),
    Only(Vec<HeaderName>),
}

impl HeaderFilter {
    /// Records these headers and no others.
    pub fn only(names: impl IntoIterator<Item = HeaderName>) -> HeaderFilter {
        HeaderFilter { rule: Rule::Only(names.into_iter().collect()) }
    }

    /// Records this header, too.
    pub fn allow(mut self, name: HeaderName) -> HeaderFilter {
        match &mut self.rule {
            Rule::AllBut(denied) => denied.retain(|other| *other != name),
            Rule::Only(allowed) => allowed.push(name),
        }
        self
    }

    /// Does not record this header.
    pub fn deny(mut self, name: HeaderName) -> HeaderFilter {
        match &mut self.rule {
            Rule::AllBut(denied) => denied.push(name),
            Rule::Only(allowed) => allowed.retain(|other| *other != name),
        }
        self
    }

    fn passes(&self, name: &HeaderName) -> bool {
        match &self.rule {
            Rule::AllBut(denied) => !denied.contains(name),
            Rule::Only(allowed) => allowed.contains(name),
        }
    }
}

impl Default for HeaderFilter {
    fn default() -> HeaderFilter {
        let named = HeaderName::from_static;
        let denied = vec![
            // A session of the first client.
            header::SET_COOKIE,
            named("set-cookie2"),
            // Hop by hop (RFC 9110, section 7.6.1).
            header::CONNECTION,
            named("keep-alive"),
            named("proxy-connection"),
            header::TE,
            header::TRAILER,
            header::TRANSFER_ENCODING,
            header::UPGRADE,
            // Of one message.
            header::DATE,
            header::CONTENT_LENGTH,
            IDEMPOTENT_REPLAYED,
            // Challenges, and what answers them.
            header::WWW_AUTHENTICATE,
            header::PROXY_AUTHENTICATE,
            named("authentication-info"),
            named("proxy-authentication-info"),
        ];
        HeaderFilter { rule: Rule::AllBut(denied) }
    }
}

/// The version of the layout below: the first byte of a record's meta.
const VERSION: u8 = 1;

/// Version, then for each header in order, repeats included: the name behind its length (u16), the value behind its
/// (u32), both little endian.
pub(crate) fn encode(headers: &HeaderMap, filter: &HeaderFilter) -> Vec<u8> {
    let of_this_hop = named_by_connection(headers);
    let mut meta = vec![VERSION];
    for (name, value) in headers {
        if !filter.passes(name) || of_this_hop.contains(name) {
            continue;
        }
        // Header names are at most 64 KiB - 1, and a value has to fit into a message.
        let (Ok(name_length), Ok(value_length)) = (u16::try_from(name.as_str().len()), u32::try_from(value.len()))
        else {
            continue;
        };
        meta.extend_from_slice(&name_length.to_le_bytes());
        meta.extend_from_slice(name.as_str().as_bytes());
        meta.extend_from_slice(&value_length.to_le_bytes());
        meta.extend_from_slice(value.as_bytes());
    }
    meta
}

/// Reads what [`encode`] wrote.
pub(crate) fn decode(meta: &[u8]) -> Result<HeaderMap, CodecError> {
    let Some((&VERSION, mut rest)) = meta.split_first() else {
        return Err("the recorded headers are of another version".into());
    };
    let mut headers = HeaderMap::new();
    while !rest.is_empty() {
        let name_length = u16::from_le_bytes(array(&mut rest)?);
        let name = HeaderName::from_bytes(take(&mut rest, usize::from(name_length))?)?;
        let value_length = u32::from_le_bytes(array(&mut rest)?);
        let value = HeaderValue::from_bytes(take(&mut rest, usize::try_from(value_length)?)?)?;
        headers.try_append(name, value)?;
    }
    Ok(headers)
}

fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], CodecError> {
    let (taken, left) = rest.split_at_checked(length).ok_or("the recorded headers are cut off")?;
    *rest = left;
    Ok(taken)
}

fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], CodecError> {
    Ok(take(rest, N)?.try_into()?)
}
