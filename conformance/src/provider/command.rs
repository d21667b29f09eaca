//! `conformance servers`: starts every server by every way, shows what it is, and ends it.

use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;

use super::{Kind, Policy, Setting, Way, shutdown, start};

/// What the command is asked for.
#[derive(Clone, Default, Debug)]
pub struct ServersArgs {
    /// Only these kinds; all where it is empty.
    pub kinds: Vec<Kind>,
    /// Print JSON in place of text.
    pub json: bool,
}

/// One kind by one way.
#[derive(Clone, Debug, Serialize)]
struct Line {
    kind: Kind,
    way: Way,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
enum Outcome {
    Started { version: String, what: String, milliseconds: u128, settings: Vec<Setting> },
    NotRun { reason: String },
}

/// Runs the command.
///
/// Fails when a kind that `IDEM_REQUIRE` names came up by no way, when a server that came up has a setting with which an
/// acknowledged write may be lost, and when something could not be ended.
pub async fn servers(args: ServersArgs) -> ExitCode {
    let policy = match Policy::from_env() {
        Ok(policy) => policy,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let kinds = if args.kinds.is_empty() { Kind::ALL.to_vec() } else { args.kinds };
    let mut lines = Vec::new();
    for kind in kinds {
        for way in Way::ALL {
            let unset = way == Way::Url && std::env::var_os(kind.spec().url_variable).is_none();
            if unset || !policy.ways.contains(&way) {
                continue;
            }
            let line = look(kind, &policy.clone().only(way), way).await;
            if !args.json {
                print(&line);
            }
            lines.push(line);
        }
    }

    let mut troubles = troubles(&lines, &policy);
    if let Err(reason) = shutdown().await {
        troubles.push(reason);
    }
    if args.json {
        match serde_json::to_string_pretty(&lines) {
            Ok(text) => println!("{text}"),
            Err(error) => troubles.push(error.to_string()),
        }
    } else {
        let started = lines.iter().filter(|line| matches!(line.outcome, Outcome::Started { .. })).count();
        println!("\n{started} started and stopped, {} not run", lines.len() - started);
    }
    for trouble in &troubles {
        eprintln!("{trouble}");
    }
    if troubles.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn look(kind: Kind, policy: &Policy, way: Way) -> Line {
    let begun = Instant::now();
    let outcome = match start(kind, policy).await {
        Err(not_run) => {
            let reasons: Vec<String> = not_run.tries.into_iter().map(|failed| failed.reason).collect();
            Outcome::NotRun { reason: format!("{}; remedy: {}", reasons.join("; "), not_run.remedy) }
        }
        Ok(server) => {
            let milliseconds = begun.elapsed().as_millis();
            let (version, what) = (server.facts().version, server.origin().what.clone());
            let settings = server.settings().await;
            server.close().await;
            match settings {
                Ok(settings) => Outcome::Started { version, what, milliseconds, settings },
                Err(reason) => Outcome::NotRun { reason },
            }
        }
    };
    Line { kind, way, outcome }
}

fn troubles(lines: &[Line], policy: &Policy) -> Vec<String> {
    let mut troubles = Vec::new();
    for line in lines {
        if let Outcome::Started { settings, .. } = &line.outcome {
            for setting in settings.iter().filter(|setting| setting.endangers()) {
                let Setting { name, value, .. } = setting;
                troubles
                    .push(format!("{} {}: {name} is {value}: an acknowledged write may be lost", line.kind, line.way));
            }
        }
    }
    for kind in &policy.required {
        let up = |line: &Line| line.kind == *kind && matches!(line.outcome, Outcome::Started { .. });
        if lines.iter().any(|line| line.kind == *kind) && !lines.iter().any(up) {
            troubles.push(format!("{kind}: no way gave a server, though IDEM_REQUIRE names it"));
        }
    }
    troubles
}

fn print(line: &Line) {
    match &line.outcome {
        Outcome::Started { version, what, milliseconds, settings } => {
            let seconds = *milliseconds as f64 / 1000.0;
            println!("{:9} {:10} {version}, up in {seconds:.1} s, {what}", line.kind.name(), line.way.name());
            let (durable, others): (Vec<&Setting>, Vec<&Setting>) =
                settings.iter().partition(|setting| setting.durable.is_some());
            let show = |setting: &&Setting| match setting.value.as_str() {
                "" => format!("{}=(empty)", setting.name),
                value => format!("{}={value}", setting.name),
            };
            for (title, settings) in [("durability", durable), ("also", others)] {
                println!("{:21}{title}: {}", "", settings.iter().map(show).collect::<Vec<_>>().join(" "));
            }
        }
        Outcome::NotRun { reason } => println!("{:9} {:10} not run: {reason}", line.kind.name(), line.way.name()),
    }
}
