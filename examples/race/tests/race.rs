//! Runs the race as a user does, and reads its table.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on has failed

use std::process::Command;

use conformance::provider::{Kind, wanted};

fn table(arguments: &[&str]) -> Vec<(String, usize, usize)> {
    let output = Command::new(env!("CARGO_BIN_EXE_race")).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text.lines()
        .filter_map(|line| {
            let numbers: Vec<&str> = line.split_whitespace().rev().take(2).collect();
            let at_once = numbers.first()?.parse().ok()?;
            let in_a_row = numbers.get(1)?.parse().ok()?;
            Some((line.get(..46)?.trim().to_owned(), in_a_row, at_once))
        })
        .collect()
}

/// The most charges of some races: a wrong way loses by chance, and a right one never.
fn most(arguments: &[&str]) -> Vec<(String, usize, usize)> {
    let mut rows = table(arguments);
    for _ in 0..9 {
        if WRONG.iter().all(|wrong| rows.iter().any(|row| row.0 == *wrong && row.2 > 1)) {
            break;
        }
        for (row, again) in rows.iter_mut().zip(table(arguments)) {
            assert_eq!(row.0, again.0);
            *row = (again.0, row.1.max(again.1), row.2.max(again.2));
        }
    }
    rows
}

const WRONG: [&str; 2] = ["SELECT, then INSERT", "response cache (GET, run, SET)"];

#[test]
fn every_way_is_what_it_is() {
    every_way(&most(&["--requests", "8"]));
}

/// On every server that is to be had.
#[tokio::test]
async fn every_way_is_the_same_on_servers() {
    for kind in [Kind::Postgres, Kind::MySql, Kind::MariaDb] {
        let Some(server) = wanted(kind).await else { continue };
        let url = server.endpoint().url().to_owned();
        let rows = tokio::task::spawn_blocking(move || most(&["--requests", "8", "--store", &url]));
        every_way(&rows.await.unwrap());
        server.close().await;
    }
}

fn every_way(rows: &[(String, usize, usize)]) {
    let charges = |name: &str| {
        let row = rows.iter().find(|row| row.0 == name).unwrap_or_else(|| panic!("no row {name:?} in {rows:?}"));
        (row.1, row.2)
    };
    assert_eq!(charges("no idempotency"), (8, 8));
    for wrong in WRONG {
        let (in_a_row, at_once) = charges(wrong);
        assert_eq!(in_a_row, 1, "{wrong}");
        assert!(at_once > 1, "{wrong}: {at_once}");
    }
    assert_eq!(charges("the first article's flow"), (1, 1));
    assert!(charges("the same, its first owner crashed").1 >= 1);
    assert!(charges("the same, its first try failed").1 > 1);
    for right in ["idem", "idem, its first owner crashed", "idem, its first try failed"] {
        assert_eq!(charges(right), (1, 1), "{right}");
    }
    assert_eq!(rows.len(), 9);
}

#[test]
fn a_store_that_is_not_one_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_race")).args(["--store", "redis://x"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("expected sqlite:PATH"));
}
