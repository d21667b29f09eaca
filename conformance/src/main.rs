//! The command: certifies backends, and prints the rules.

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Certifies idempotency stores.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Certify(cli::Certify),
    Rules(cli::Rules),
    Mutants(cli::Mutants),
    Servers(cli::Servers),
}

fn main() -> ExitCode {
    let run = match Cli::parse().command {
        Command::Certify(certify) => certify.run(),
        Command::Rules(rules) => rules.run(),
        Command::Mutants(mutants) => mutants.run(),
        Command::Servers(servers) => servers.run(),
    };
    run.unwrap_or_else(|problem| {
        eprintln!("{problem}");
        ExitCode::FAILURE
    })
}
