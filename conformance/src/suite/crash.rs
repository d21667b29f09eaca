//! CRASH: clients, connections and handles that end without a word.

use idem_core::{Completed, State};

use super::call::{Kind, finish};
use super::net::honest;
use crate::fault::{Fault, Held, Line, Proxy};
use crate::harness::Hook;
use crate::rules::{Check, Profile, Rule, run};
use crate::trial::{DEADLINE, Handle, Outcome, SLACK, Stage, Stop, Trial, ensure, ensure_eq};

const CRASH_RULE: Rule = Rule { check: Check::Later("needs clients that are killed"), ..Rule::of(Profile::Durable) };

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "CRASH-001",
        slug: "client_killed_at_every_round_trip",
        clause: "X3",
        text: "A client that is killed at any round trip leaves the record whole.",
        why: "Deployments kill processes at any moment.",
        ..CRASH_RULE
    },
    Rule {
        id: "CRASH-002",
        slug: "client_killed_inside_a_transaction",
        clause: "J1, J2",
        text: "A client that is killed inside a transaction leaves rows and record in agreement.",
        why: "This is what the joined transaction is for.",
        profile: Profile::Transactional,
        ..CRASH_RULE
    },
    Rule {
        id: "CRASH-003",
        slug: "connection_killed_by_the_server",
        clause: "X3, X4",
        text: "A connection that the server kills is a typed error, and the handle goes on.",
        why: "Servers close idle and long transactions.",
        profile: Profile::Networked,
        check: run!(connection_killed),
        ..CRASH_RULE
    },
    Rule {
        id: "CRASH-004",
        slug: "reopened_handle_goes_on",
        clause: "X2",
        text: "A handle that is opened again goes on with every record.",
        why: "Nothing that matters may live in a process.",
        check: run!(reopened),
        ..CRASH_RULE
    },
];

/// When the server kills the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Killed {
    /// Between two calls.
    Idle,
    /// While a request is on its way.
    Asked,
}

async fn connection_killed(t: &Trial) -> Outcome {
    let proxy = t.proxy().await?;
    let store = t.through(&proxy).await?;
    let kinds = [Kind::ClaimOfNothing, Kind::ClaimOfLapsed, Kind::Complete, Kind::Renew, Kind::Release];
    for kind in kinds {
        for killed in [Killed::Idle, Killed::Asked] {
            one_killed(t, &proxy, &store, kind, killed).await?;
        }
    }
    Ok(())
}

async fn one_killed(t: &Trial, proxy: &Proxy, store: &Handle, kind: Kind, killed: Killed) -> Outcome {
    let what = format!("a {} whose connection the server killed ({killed:?})", kind.name());
    let call = kind.call(t).await?;
    // The connection is there.
    store.get(call.identity()).await?;
    proxy.quiet().await;
    let kill = async || {
        let kill = t.harness().kill_connections(t.namespace()).await;
        t.hooked(Hook::KillConnections, kill)
    };
    let sent = tokio::time::timeout(DEADLINE + SLACK, call.send(store.raw()));
    let answer = match killed {
        Killed::Idle => {
            kill().await?;
            sent.await
        }
        Killed::Asked => {
            let meanwhile = async |held: Held| {
                let killed = kill().await;
                held.deliver(SLACK).await;
                killed
            };
            let (answer, met) = proxy.arm(Fault::HoldRequest, 1, Line::Pass).during(sent, meanwhile).await;
            met.ok_or_else(|| Stop::Error(format!("{what}: no request was on its way")))??;
            answer
        }
    };
    match answer {
        Err(_) => return Err(Stop::Fail(format!("{what} does not end"))),
        Ok(Ok(answer)) => ensure!(call.is_right(&answer), "{what} was answered {answer:?}"),
        Ok(Err(error)) => honest(&error, &what, false)?,
    }
    finish(&call, store, &format!("again, after {what}")).await?;
    let record = t.record(call.identity()).await?;
    ensure!(call.is_in(Some(&record)), "{what} was sent again, and the record does not show it: {record:?}");
    Ok(())
}

async fn reopened(t: &Trial) -> Outcome {
    let (running, owner) = t.staged(Stage::Processing).await?;
    let (lapsed, late) = t.staged(Stage::Lapsed).await?;
    let (released, first) = t.staged(Stage::Released).await?;
    let (done, _) = t.staged(Stage::Succeeded).await?;
    let (unknown, _) = t.staged(Stage::Unknown).await?;
    let kept = t.record(&done).await?;
    t.drop_handles().await;
    let store = t.store().await?;
    store.in_flight(&t.usual(&running)?, "of a running attempt, through a handle that was opened again").await?;
    ensure_eq!(
        store.complete(&owner.lease, t.succeeded()).await?,
        Completed::Stored,
        "the completion of an attempt that began before the handle was opened again"
    );
    ensure_eq!(t.record(&running).await?.state, State::Succeeded, "the state after it");
    let next = store.acquire(&t.usual(&lapsed)?, "of a lapsed record, through a handle that was opened again").await?;
    ensure_eq!(next.lease.attempt, late.lease.attempt + 1, "the attempt that took over");
    ensure_eq!(
        store.complete(&late.lease, t.succeeded()).await?,
        Completed::Lost,
        "the completion of the attempt that was taken over"
    );
    let next =
        store.acquire(&t.usual(&released)?, "of a released record, through a handle that was opened again").await?;
    ensure!(next.lease.fence > first.lease.fence, "the fence of a released record does not grow over a new handle");
    let replay = store.replay(&t.usual(&done)?, "through a handle that was opened again").await?;
    ensure!(Some(&replay.recorded) == kept.recorded.as_ref(), "a handle that was opened again replays something else");
    let next =
        store.acquire(&t.usual(&unknown)?, "of an unknown effect, through a handle that was opened again").await?;
    ensure_eq!(next.lease.attempt, 2, "the attempt after one with an unknown effect");
    Ok(())
}
