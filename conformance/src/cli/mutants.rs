//! `mutants`: runs the suite on broken stores.

use std::process::ExitCode;

use clap::Args;
use conformance::Settings;
use conformance::mutants::{self, Attack};
use serde_json::json;

use super::{Ended, block_on};

/// Run broken stores against the rules that have to notice them. Ends with 0 when every one of them dies.
#[derive(Args)]
pub(crate) struct Mutants {
    /// Replays the random choices of another run.
    #[arg(long)]
    seed: Option<u64>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl Mutants {
    pub(crate) fn run(self) -> Ended {
        let settings = match self.seed {
            Some(seed) => Settings::seeded(seed),
            None => Settings::from_environment()?,
        };
        let attacks = block_on(async {
            let mut attacks = Vec::new();
            for mutant in mutants::all() {
                attacks.push(mutant.attack(mutants::good_store(), settings).await);
            }
            attacks
        })?;
        let killed = attacks.iter().filter(|attack| attack.survives().is_none()).count();
        if self.json {
            let entries: Vec<_> = attacks.iter().map(entry).collect();
            let text = serde_json::to_string_pretty(&json!({
                "schema": "idem.conformance.mutants/v1",
                "seed": settings.seed,
                "killed": killed,
                "mutants": entries,
            }));
            println!("{}", text.map_err(|error| error.to_string())?);
        } else {
            attacks.iter().for_each(tell);
            println!("{killed} of {} killed by the rule that they name, with seed {}", attacks.len(), settings.seed);
        }
        Ok(if killed == attacks.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn tell(attack: &Attack) {
    let mutant = attack.mutant;
    match attack.survives() {
        None => println!("killed   {:<32} by {:<15} {}", mutant.id, mutant.kills, mutant.because),
        Some(why) => println!("SURVIVES {:<32} {why}", mutant.id),
    }
}

fn entry(attack: &Attack) -> serde_json::Value {
    let mutant = attack.mutant;
    json!({
        "id": mutant.id,
        "kind": mutant.kind.letter().to_string(),
        "kills": mutant.kills,
        "because": mutant.because,
        "landed": attack.landed,
        "survives": attack.survives(),
    })
}
