//! `rules`: the catalogue.

use std::process::ExitCode;

use clap::Args;
use conformance::rules::{Check, Rule, catalogue, hash, markdown};
use serde_json::json;

use super::Ended;

/// Print the catalogue of rules.
#[derive(Args)]
pub(crate) struct Rules {
    /// As the document `RULES.md`.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl Rules {
    pub(crate) fn run(self) -> Ended {
        if self.markdown {
            print!("{}", markdown());
        } else if self.json {
            let rules: Vec<_> = catalogue().iter().map(entry).collect();
            let text = serde_json::to_string_pretty(
                &json!({ "schema": "idem.conformance.rules/v1", "hash": hash(), "rules": rules }),
            );
            println!("{}", text.map_err(|error| error.to_string())?);
        } else {
            for Rule { id, profile, clause, text, .. } in catalogue() {
                println!("{id:<15} {:<13} {clause:<14} {text}", profile.name());
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn entry(rule: &Rule) -> serde_json::Value {
    let (checked, missing) = match rule.check {
        Check::Run(_) => (true, None),
        Check::Later(reason) | Check::Never(reason) => (false, Some(reason)),
    };
    json!({
        "id": rule.id,
        "slug": rule.slug,
        "level": rule.level,
        "profile": rule.profile,
        "clause": rule.clause,
        "text": rule.text,
        "why": rule.why,
        "checked": checked,
        "not_checked_because": missing,
        "proven_by": rule.proven_by().collect::<Vec<_>>(),
    })
}
