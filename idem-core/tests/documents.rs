//! The documents say what the code does.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on has failed

use idem_core::config::defaults;

#[test]
fn architecture_shows_the_defaults() {
    let rows = defaults::table();
    assert_eq!(rows.len(), 18);
    let rows = rows.iter().map(|(name, value, meaning)| format!("| {name} | {value} | {meaning} |\n"));
    let table = format!("| what | default | meaning |\n|---|---|---|\n{}", rows.collect::<String>());
    let document = include_str!("../../ARCHITECTURE.md");
    let (_, rest) = document.split_once("<!-- defaults -->\n").unwrap();
    let (shown, _) = rest.split_once("<!-- /defaults -->").unwrap();
    assert_eq!(shown, table, "ARCHITECTURE.md is behind; it should show:\n{table}");
}
