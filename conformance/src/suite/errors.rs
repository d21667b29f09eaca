//! ERR: what went wrong, and whether trying again can help.

use std::time::Instant;

use idem_core::{End, Error, ErrorKind, Response, State};

use crate::harness::{Finish, Hook, How, Obstacle, OpenError, Reach, Schema};
use crate::rules::{Profile, Rule, run};
use crate::trial::{Apart, DEADLINE, Handle, Outcome, SLACK, Stage, Stop, Trial, ensure, ensure_eq};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "ERR-001",
        slug: "unreachable_store_is_unavailable_in_time",
        clause: "X5",
        text: "A store that cannot be reached answers Unavailable, inside its deadline.",
        why: "A guess lets the effect run without a record; silence takes the application down, too.",
        check: run!(unreachable),
        ..Rule::of(Profile::Networked)
    },
    Rule {
        id: "ERR-002",
        slug: "lost_reply_is_indeterminate",
        clause: "X4",
        text: "A reply that is lost is Indeterminate, and repeating the request with the same token tells.",
        why: "\"Not claimed\" after a lost reply is a lie that runs the effect twice or never.",
        check: run!(super::net::replies_lost_for_good),
        ..Rule::of(Profile::Networked)
    },
    Rule {
        id: "ERR-003",
        slug: "other_constraint_is_not_already_claimed",
        clause: "X4",
        text: "A violation of another constraint is an error, not \"already claimed\".",
        why: "A full disk or a foreign trigger must not look like somebody at work.",
        check: run!(other_constraint),
        ..Rule::of(Profile::Durable)
    },
    Rule {
        id: "ERR-004",
        slug: "handle_works_again_after_the_server_returns",
        clause: "X5",
        text: "After the server returns, the same handle works again.",
        why: "A pool that keeps dead connections needs a restart at night.",
        check: run!(works_again),
        ..Rule::of(Profile::Networked)
    },
    Rule {
        id: "ERR-005",
        slug: "blocked_claim_ends_in_time",
        clause: "C11",
        text: "A claim that is blocked by another client's open transaction ends within its deadline, and is free again after the rollback.",
        why: "One silent client would block every retry behind it.",
        check: run!(blocked_claim),
        ..Rule::of(Profile::Transactional)
    },
    Rule {
        id: "ERR-006",
        slug: "missing_schema_is_typed",
        clause: "X4",
        text: "A missing table is a Schema error that is not worth another try, never \"no record\".",
        why: "A missing table that reads as absent lets every claim through.",
        check: run!(missing_schema),
        ..Rule::of(Profile::Durable)
    },
    Rule {
        id: "ERR-007",
        slug: "refusals_are_not_retryable",
        clause: "X4",
        text: "What cannot succeed by itself is said not to be retryable.",
        why: "A client that repeats a request that is too large repeats it for ever.",
        check: run!(refusals),
        ..Rule::of(Profile::Core)
    },
    Rule {
        id: "ERR-008",
        slug: "errors_name_no_secret",
        clause: "X6",
        text: "No error, in any of its texts, names a key, a scope or a response.",
        why: "Errors are logged, and logs are read by everybody.",
        check: run!(no_secret),
        ..Rule::of(Profile::Core)
    },
];

async fn unreachable(t: &Trial) -> Outcome {
    let began = Instant::now();
    let how = How::usual().reaching(Reach::Nowhere).within(DEADLINE);
    let error = match t.harness().open(t.namespace(), &how).await {
        Err(OpenError::Refused(error)) => error,
        Err(other) => return Err(Stop::of_opening(other, false)),
        Ok((_guard, store)) => {
            let identity = t.identity()?;
            match tokio::time::timeout(DEADLINE + SLACK, store.claim(&t.usual(&identity)?)).await {
                Ok(Err(error)) => error,
                Ok(Ok(answer)) => {
                    return Err(Stop::Fail(format!("nobody answers there, and yet a claim was {answer:?}")));
                }
                Err(_) => return Err(Stop::Fail("a claim at an address where nobody answers does not end".into())),
            }
        }
    };
    let took = began.elapsed();
    ensure!(took <= DEADLINE + SLACK, "with a deadline of {DEADLINE:?} the error came after {took:?}");
    ensure_eq!(error.kind(), ErrorKind::Unavailable, "the error of a store that cannot be reached");
    ensure!(error.is_retryable(), "a store that cannot be reached now is said not to be worth another try");
    Ok(())
}

async fn other_constraint(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let identity = t.identity()?;
    let planted = t.harness().obstruct(t.namespace(), Obstacle::OtherConstraint).await;
    t.hooked(Hook::Obstruct, planted)?;
    match store.raw().claim(&t.usual(&identity)?).await {
        Err(error) => {
            ensure!(!error.is_retryable(), "a constraint that stays is said to be worth another try: {error}")
        }
        Ok(answer) => return Err(Stop::Fail(format!("an insert that violates another constraint was {answer:?}"))),
    }
    ensure_eq!(t.read(&identity).await?, None, "the record after a claim that violated another constraint");
    Ok(())
}

async fn works_again(t: &Trial) -> Outcome {
    t.on_a_server_apart(survives_a_restart).await
}

/// One handle, before the server is killed, while it is down, and after it has come back, maybe on another port.
async fn survives_a_restart(apart: &Apart) -> Outcome {
    let (t, server) = (apart.trial(), apart.server()?);
    let proxy = t.proxy().await?;
    let store = t.through(&proxy).await?;
    let identity = t.identity()?;
    let grant = store.acquire(&t.usual(&identity)?, "before the server is killed").await?;
    t.hooked(Hook::Server, server.kill().await)?;
    let claim = t.usual(&t.identity()?)?;
    for down in ["while the server is down", "while the server is down, again"] {
        match tokio::time::timeout(DEADLINE + SLACK, store.raw().claim(&claim)).await {
            Err(_) => return Err(Stop::Fail(format!("a claim {down} does not end"))),
            Ok(Ok(answer)) => return Err(Stop::Fail(format!("a claim {down} was answered {answer:?}"))),
            Ok(Err(error)) => {
                ensure!(error.is_retryable(), "a claim {down} is said not to be worth another try: {error}")
            }
        }
    }
    t.hooked(Hook::Server, server.start().await)?;
    proxy.lead_to(t.hooked(Hook::Address, t.harness().address().await)?);
    store.acquire(&claim, "on the same handle, after the server returned").await?;
    store.store_end(&grant.lease, t.succeeded()).await?;
    ensure_eq!(t.record(&identity).await?.state, State::Succeeded, "the state after the server returned");
    Ok(())
}

async fn blocked_claim(t: &Trial) -> Outcome {
    super::transaction::behind_an_open_claim(t, Finish::Rollback).await
}

/// The store refuses to open, or every operation is a Schema error.
pub(super) async fn refused_as_schema(t: &Trial, schema: Schema) -> Outcome {
    let error = match t.harness().open(t.namespace(), &How::usual().finding(schema)).await {
        Err(OpenError::Refused(error)) => error,
        Err(other) => return Err(Stop::of_opening(other, false)),
        Ok((_guard, store)) => {
            let identity = t.identity()?;
            if let Ok(record) = store.get(&identity).await {
                return Err(Stop::Fail(format!("`get` on tables that are {schema:?} answered {record:?}")));
            }
            match store.claim(&t.usual(&identity)?).await {
                Err(error) => error,
                Ok(answer) => return Err(Stop::Fail(format!("a claim on tables that are {schema:?} was {answer:?}"))),
            }
        }
    };
    ensure_eq!(error.kind(), ErrorKind::Schema, "the error of tables that are {schema:?}");
    ensure!(!error.is_retryable(), "tables that are {schema:?} are said to be worth another try");
    Ok(())
}

async fn missing_schema(t: &Trial) -> Outcome {
    refused_as_schema(t, Schema::Missing).await
}

/// The error of a completion that is one byte too long.
async fn too_large(t: &Trial, store: &Handle, filling: u8) -> Result<Error, Stop> {
    let (_, grant) = t.staged(Stage::Processing).await?;
    let response = Response::new(200).with_body(vec![filling; t.response_limit()? + 1]);
    match store.try_complete(&grant.lease, End::Succeeded(response.into())).await? {
        Err(error) => Ok(error),
        Ok(answer) => Err(Stop::Fail(format!("a response over the limit was answered {answer:?}"))),
    }
}

async fn refusals(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let error = too_large(t, &store, b'x').await?;
    ensure_eq!(error.kind(), ErrorKind::TooLarge, "the error of a response over the limit");
    ensure!(!error.is_retryable(), "a response over the limit is said to be worth another try");
    Ok(())
}

async fn no_secret(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let identity = t.named("secret-scope", "secret-key")?;
    let grant = t.acquire(&identity).await?;
    let response = Response::new(200).with_body("secret-body".repeat(t.response_limit()? / 11 + 1));
    let Err(error) = store.try_complete(&grant.lease, End::Succeeded(response.into())).await? else {
        return Err(Stop::Fail("a response over the limit was stored".into()));
    };
    let mut texts = vec![error.to_string(), format!("{error:?}"), format!("{error:#?}"), error.message().to_owned()];
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        texts.extend([cause.to_string(), format!("{cause:?}")]);
        source = cause.source();
    }
    ensure!(!texts.iter().any(|text| text.contains("secret-")), "the error of a completion names a secret");
    Ok(())
}
