//! The key, out of its header.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};
use idem_core::Key;
use sfv::visitor::{ItemVisitor, ParameterVisitor};
use sfv::{BareItemFromInput, Parser};

/// How the header's value is read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KeySyntax {
    /// `"k"` and `k` are the same key. The draft asks for the quotes, most clients leave them out. A key that has a
    /// quote, a comma or a semicolon in it needs them: without, nobody can tell where it ends.
    Lenient,
    /// Only a Structured Field String (RFC 9651): `"k"`.
    Strict,
}

/// Why there is no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadKey {
    Missing,
    Malformed(&'static str),
}

/// Reads the one key of a request. Parameters behind a quoted one are ignored.
pub(crate) fn key(headers: &HeaderMap, name: &HeaderName, syntax: KeySyntax) -> Result<Key, BadKey> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next().ok_or(BadKey::Missing)?;
    if lines.next().is_some() {
        return Err(BadKey::Malformed("the header is there more than once"));
    }
    let value = line.as_bytes().trim_ascii();
    let item = match syntax {
        KeySyntax::Lenient if !value.starts_with(b"\"") => Cow::Owned(quoted(value)?),
        KeySyntax::Lenient | KeySyntax::Strict => Cow::Borrowed(value),
    };
    let text = Parser::new(&item)
        .parse_item_with_visitor(StringItem)
        .map_err(|_| BadKey::Malformed("the header is not one string of printable ASCII"))?;
    Key::new(text).map_err(|_| BadKey::Malformed("the key must have 1 to 255 characters"))
}

/// The bare form with its quotes, so that one parser judges both. A quote inside, a comma (which is also how two
/// header lines arrive once a proxy has joined them) and a parenthesis in front make it something other than one item.
/// Behind a semicolon there may be parameters or more of the key, and taking the first for the second would give two
/// orders one key.
fn quoted(bare: &[u8]) -> Result<Vec<u8>, BadKey> {
    if bare.contains(&b';') {
        return Err(BadKey::Malformed("a key with a semicolon in it has to be in quotes"));
    }
    if bare.starts_with(b"(") || bare.iter().any(|byte| matches!(byte, b'"' | b',')) {
        return Err(BadKey::Malformed("the header is not one string"));
    }
    let mut item = Vec::with_capacity(bare.len() + 2);
    item.push(b'"');
    for byte in bare {
        if *byte == b'\\' {
            item.push(b'\\');
        }
        item.push(*byte);
    }
    item.push(b'"');
    Ok(item)
}

/// Takes the string of an item; any other type of item is refused.
struct StringItem;

impl<'de> ItemVisitor<'de> for StringItem {
    type Out = String;
    type Error = NotAString;

    fn bare_item(self, item: BareItemFromInput<'de>) -> Result<impl ParameterVisitor<'de, Out = String>, NotAString> {
        match item {
            BareItemFromInput::String(text) => Ok(WithParameters(text.into_owned().into())),
            _ => Err(NotAString),
        }
    }
}

struct WithParameters(String);

impl<'de> ParameterVisitor<'de> for WithParameters {
    type Out = String;
    type Error = std::convert::Infallible;

    fn parameter(&mut self, _: &'de sfv::KeyRef, _: BareItemFromInput<'de>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn finish(self) -> Result<String, Self::Error> {
        Ok(self.0)
    }
}

#[derive(Debug)]
struct NotAString;

impl std::fmt::Display for NotAString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a string")
    }
}

impl std::error::Error for NotAString {}
