//! The document of the rules is the rules.

use conformance::rules;

#[test]
fn rules_md_is_what_the_catalogue_generates() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/RULES.md");
    let there = std::fs::read_to_string(document).expect("RULES.md is there");
    let same = there == rules::markdown();
    assert!(same, "RULES.md has drifted: cargo run -p conformance -- rules --markdown > conformance/RULES.md");
}

#[test]
fn every_id_that_was_ever_given_is_still_there() {
    // Ids are never reused and never taken back, so this list only grows.
    let given = [
        ("CLAIM", 1..=15),
        ("KEY", 1..=7),
        ("COMPLETE", 1..=11),
        ("REPLAY", 1..=5),
        ("LEASE", 1..=8),
        ("FENCE", 1..=7),
        ("RENEW", 1..=4),
        ("CHECKPOINT", 1..=2),
        ("RELEASE", 1..=5),
        ("SPENT", 1..=3),
        ("PURGE", 1..=8),
        ("TIME", 1..=4),
        ("ISO", 1..=2),
        ("TX", 1..=12),
        ("ERR", 1..=8),
        ("CONC", 1..=6),
        ("XPROC", 1..=2),
        ("LIN", 1..=4),
        ("DUR", 1..=3),
        ("DUR", 10..=10),
        ("CRASH", 1..=4),
        ("NET", 101..=103),
        ("NET", 201..=203),
        ("NET", 301..=303),
        ("NET", 401..=403),
        ("NET", 501..=502),
        ("CANCEL", 1..=3),
        ("CACHE", 1..=6),
        ("SCHEMA", 1..=2),
        ("META", 1..=4),
    ];
    for (family, numbers) in given {
        for number in numbers {
            let id = format!("{family}-{number:03}");
            assert!(rules::find(&id).is_some(), "{id}");
        }
    }
}
