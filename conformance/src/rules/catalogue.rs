//! All rules of all families.

use sha2::{Digest, Sha256};

use super::Rule;
use crate::suite;

/// Every rule, in the order of the families. Built from the families' own lists, so that no second list can drift.
#[must_use]
pub fn catalogue() -> Vec<Rule> {
    suite::FAMILIES.iter().flat_map(|family| family.iter().copied()).collect()
}

/// The rule with this id.
#[must_use]
pub fn find(id: &str) -> Option<Rule> {
    catalogue().into_iter().find(|rule| rule.id == id)
}

/// Names this version of the rules in a report: the first bytes of a digest of all of them.
#[must_use]
pub fn hash() -> String {
    let mut digest = Sha256::new();
    for rule in catalogue() {
        for part in [rule.id, rule.slug, rule.profile.name(), rule.clause, rule.text] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        digest.update([u8::from(matches!(rule.check, super::Check::Run(_)))]);
    }
    digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_and_slugs_are_used_once() {
        let rules = catalogue();
        let ids: HashSet<_> = rules.iter().map(|rule| rule.id).collect();
        let slugs: HashSet<_> = rules.iter().map(|rule| rule.slug).collect();
        assert_eq!((ids.len(), slugs.len()), (rules.len(), rules.len()));
    }

    #[test]
    fn a_family_has_its_rules_side_by_side_and_in_order() {
        for family in suite::FAMILIES {
            assert!(family.windows(2).all(|pair| pair[0].family() == pair[1].family() && pair[0].id < pair[1].id));
        }
    }

    #[test]
    fn every_rule_says_what_and_why() {
        for rule in catalogue() {
            assert!(!rule.clause.is_empty() && rule.text.len() > 20 && rule.why.len() > 20, "{rule:?}");
            let slug = rule.slug.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            assert!(slug, "{rule:?}");
        }
    }
}
