//! DUR: the server is killed while clients write, and started again on what it left.

use futures::future::join_all;
use idem_core::{Claim, Claimed, Complete, Completed, Grant, Record, State};
use tokio::sync::watch;

use crate::harness::{Hook, How};
use crate::rules::{Check, Profile, Rule, run};
use crate::trial::{Apart, DEADLINE, Handle, Outcome, Stage, Stop, Trial, ensure};

const DURABLE: Rule = Rule::of(Profile::Durable);

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "DUR-001",
        slug: "acknowledged_survives_sigkill",
        clause: "C10, F4",
        text: "Acknowledged claims and ends survive SIGKILL of the server.",
        why: "Who was told \"stored\" has answered its client.",
        check: run!(acknowledged),
        ..DURABLE
    },
    Rule {
        id: "DUR-002",
        slug: "unacknowledged_is_whole_or_absent",
        clause: "X3",
        text: "What was not acknowledged is there or not, and never half.",
        why: "Half a record is a record that nobody can end.",
        check: run!(whole_or_absent),
        ..DURABLE
    },
    Rule {
        id: "DUR-003",
        slug: "fences_grow_after_a_restart",
        clause: "fence",
        text: "Fences still grow after a restart.",
        why: "A fence that begins anew lets an older writer win.",
        check: run!(fences_grow),
        ..DURABLE
    },
    Rule {
        id: "DUR-010",
        slug: "power_loss",
        clause: "C10, F4",
        text: "What is acknowledged survives a loss of power.",
        why: "Settings and hardware decide it.",
        check: Check::Never("no test of software cuts the power: the report shows the settings instead"),
        ..DURABLE
    },
];

/// How many clients write at once.
const WRITERS: usize = 4;

/// After how many acknowledgements the server is killed.
const ENOUGH: usize = 120;

/// What one client wrote about one identity, and what it was told.
struct Written {
    claim: Claim,
    /// None: nobody knows.
    granted: Option<Grant>,
    complete: Option<Complete>,
    stored: bool,
}

async fn acknowledged(t: &Trial) -> Outcome {
    t.on_a_server_apart(what_was_acknowledged).await
}

async fn what_was_acknowledged(apart: &Apart) -> Outcome {
    let t = apart.trial();
    for written in killed(apart).await? {
        let row = t.read(written.claim.identity()).await?;
        let Some(grant) = &written.granted else { continue };
        let Some(row) = row else {
            return Err(Stop::Fail("an acknowledged claim is not there after the server was killed".into()));
        };
        ensure!(
            row.token == grant.lease.token && row.fence == grant.lease.fence,
            "an acknowledged claim is another one after the server was killed: {row:?}"
        );
        if let Some(complete) = written.complete.filter(|_| written.stored) {
            ensure!(
                is_ended(&row, &complete),
                "an acknowledged end is not there after the server was killed: the record is {row:?}"
            );
        }
    }
    Ok(())
}

async fn whole_or_absent(t: &Trial) -> Outcome {
    t.on_a_server_apart(what_was_in_doubt).await
}

async fn what_was_in_doubt(apart: &Apart) -> Outcome {
    let t = apart.trial();
    let mut doubts = 0;
    for written in killed(apart).await? {
        let identity = written.claim.identity();
        let row = t.read(identity).await?;
        let store = t.store().await?;
        if written.granted.is_none() {
            doubts += 1;
            let whole = row.as_ref().is_none_or(|row| is_claimed(row, &written.claim));
            ensure!(whole, "a claim that nobody was told of is half there: {row:?}");
            store.acquire(&written.claim, "of what the server's end had left in doubt").await?;
        } else if let Some(complete) = written.complete.filter(|_| !written.stored) {
            doubts += 1;
            let whole = row.as_ref().is_some_and(|row| is_claimed(row, &written.claim) || is_ended(row, &complete));
            ensure!(whole, "an end that nobody was told of is half there: {row:?}");
            store.complete(complete.lease(), complete.end().clone()).await?;
            let row = t.record(identity).await?;
            ensure!(is_ended(&row, &complete), "an end that was in doubt and sent again is not there: {row:?}");
        }
    }
    if doubts == 0 {
        return Err(Stop::Error("the server was killed, and nobody was left in doubt".into()));
    }
    Ok(())
}

async fn fences_grow(t: &Trial) -> Outcome {
    t.on_a_server_apart(fences_before_and_after).await
}

async fn fences_before_and_after(apart: &Apart) -> Outcome {
    let (t, server) = (apart.trial(), apart.server()?);
    let mut before = Vec::new();
    for stage in [Stage::Lapsed, Stage::Released, Stage::OverAge, Stage::Unknown] {
        let (identity, grant) = t.staged(stage).await?;
        before.push((stage, identity, grant.lease.fence));
    }
    for life in 1..=2 {
        t.hooked(Hook::Server, server.kill().await)?;
        t.hooked(Hook::Server, server.start().await)?;
        t.drop_handles().await;
        let store = t.store().await?;
        for (stage, identity, fence) in &mut before {
            let grant = store.acquire(&t.usual(identity)?, "after a restart").await?;
            let now = grant.lease.fence;
            ensure!(now > *fence, "after restart {life} the fence of a {stage:?} record is {now:?}, and was {fence:?}");
            *fence = now;
            store.give_back(&grant.lease).await?;
        }
    }
    Ok(())
}

/// Lets clients write, kills the server among them, and starts it again.
async fn killed(apart: &Apart) -> Result<Vec<Written>, Stop> {
    let (t, server) = (apart.trial(), apart.server()?);
    t.store().await?;
    let (acknowledge, mut acknowledged) = watch::channel(0);
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        let store = t.open(&How::second().within(DEADLINE)).await?;
        writers.push(write(t, store, acknowledge.clone()));
    }
    drop(acknowledge);
    let kill = async {
        let enough = acknowledged.wait_for(|count| *count >= ENOUGH).await.is_ok();
        ensure!(enough, "all clients were refused before the server was killed");
        t.hooked(Hook::Server, server.kill().await)
    };
    let (written, killed) = tokio::join!(join_all(writers), kill);
    killed?;
    t.hooked(Hook::Server, server.start().await)?;
    t.drop_handles().await;
    let written: Result<Vec<_>, Stop> = written.into_iter().collect();
    Ok(written?.into_iter().flatten().collect())
}

/// Claims and completes, until the first error.
async fn write(t: &Trial, store: Handle, acknowledge: watch::Sender<usize>) -> Result<Vec<Written>, Stop> {
    let mut all = Vec::new();
    loop {
        let claim = t.usual(&t.identity()?)?;
        let claimed = store.raw().claim(&claim).await;
        all.push(Written { claim, granted: None, complete: None, stored: false });
        let Some(written) = all.last_mut() else { return Ok(all) };
        match claimed {
            Ok(Claimed::Acquired(grant)) => written.granted = Some(grant.clone()),
            Ok(other) => return Err(Stop::Fail(format!("a claim of an absent identity was answered {other:?}"))),
            Err(_) => return Ok(all),
        }
        acknowledge.send_modify(|count| *count += 1);
        let Some(grant) = &written.granted else { return Ok(all) };
        // Every third stays open, so that a restart meets leases that run.
        if acknowledge.borrow().is_multiple_of(3) {
            continue;
        }
        let complete = Complete::new(grant.lease.clone(), t.succeeded());
        let completed = store.raw().complete(&complete).await;
        written.complete = Some(complete);
        match completed {
            Ok(Completed::Stored) => written.stored = true,
            Ok(other) => return Err(Stop::Fail(format!("the owner's completion was answered {other:?}"))),
            Err(_) => return Ok(all),
        }
        acknowledge.send_modify(|count| *count += 1);
    }
}

fn is_claimed(row: &Record, claim: &Claim) -> bool {
    row.state == State::Processing && row.token == claim.token() && row.attempt == 1 && row.recorded.is_none()
}

fn is_ended(row: &Record, complete: &Complete) -> bool {
    row.state == State::Succeeded && row.recorded.as_ref() == complete.end().recorded()
}
