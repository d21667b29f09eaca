//! NET: what the network does to a call, at each of its round trips.

mod cut;
mod late;
mod broken;

use cut::Lost;
pub(super) use cut::{honest, replies_lost_for_good};

use crate::rules::{Profile, Rule, run};
use crate::suite::call::Kind;
use crate::trial::{Outcome, Trial};

const NETWORKED: Rule = Rule::of(Profile::Networked);

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NET-101",
        slug: "claim_request_lost",
        clause: "C3, C13",
        text: "A claim whose request is lost changes nothing, and can be repeated.",
        why: "Networks lose requests.",
        check: run!(claim_request_lost),
        ..NETWORKED
    },
    Rule {
        id: "NET-102",
        slug: "claim_reply_lost",
        clause: "C3, C13",
        text: "A claim whose reply is lost is Indeterminate, and repeating it tells.",
        why: "Networks lose replies.",
        check: run!(claim_reply_lost),
        ..NETWORKED
    },
    Rule {
        id: "NET-103",
        slug: "claim_delivered_late",
        clause: "C13, X1",
        text: "A claim that is delivered after a takeover changes nothing.",
        why: "Networks deliver late.",
        check: run!(claim_late),
        ..NETWORKED
    },
    Rule {
        id: "NET-201",
        slug: "complete_request_lost",
        clause: "F2, F3",
        text: "A complete whose request is lost changes nothing, and can be repeated.",
        why: "Networks lose requests.",
        check: run!(complete_request_lost),
        ..NETWORKED
    },
    Rule {
        id: "NET-202",
        slug: "complete_reply_lost",
        clause: "F2, F3",
        text: "A complete whose reply is lost is Indeterminate, and repeating it tells.",
        why: "Networks lose replies.",
        check: run!(complete_reply_lost),
        ..NETWORKED
    },
    Rule {
        id: "NET-203",
        slug: "complete_delivered_late",
        clause: "X1",
        text: "A complete that is delivered after a takeover changes nothing.",
        why: "Networks deliver late.",
        check: run!(complete_late),
        ..NETWORKED
    },
    Rule {
        id: "NET-301",
        slug: "renew_request_lost",
        clause: "R1, R2",
        text: "A renew whose request is lost changes nothing, and can be repeated.",
        why: "Networks lose requests.",
        check: run!(renew_request_lost),
        ..NETWORKED
    },
    Rule {
        id: "NET-302",
        slug: "renew_reply_lost",
        clause: "R1, R2",
        text: "A renew whose reply is lost is Indeterminate, and repeating it tells.",
        why: "Networks lose replies.",
        check: run!(renew_reply_lost),
        ..NETWORKED
    },
    Rule {
        id: "NET-303",
        slug: "renew_delivered_late",
        clause: "X1",
        text: "A renew that is delivered after a takeover changes nothing.",
        why: "Networks deliver late.",
        check: run!(renew_late),
        ..NETWORKED
    },
    Rule {
        id: "NET-401",
        slug: "release_request_lost",
        clause: "L1, L2",
        text: "A release whose request is lost changes nothing, and can be repeated.",
        why: "Networks lose requests.",
        check: run!(release_request_lost),
        ..NETWORKED
    },
    Rule {
        id: "NET-402",
        slug: "release_reply_lost",
        clause: "L1, L2",
        text: "A release whose reply is lost is Indeterminate, and repeating it tells.",
        why: "Networks lose replies.",
        check: run!(release_reply_lost),
        ..NETWORKED
    },
    Rule {
        id: "NET-403",
        slug: "release_delivered_late",
        clause: "X1",
        text: "A release that is delivered after a takeover changes nothing.",
        why: "Networks deliver late.",
        check: run!(release_late),
        ..NETWORKED
    },
    Rule {
        id: "NET-501",
        slug: "black_hole_keeps_the_deadline",
        clause: "X5",
        text: "In a black hole every operation ends within its deadline.",
        why: "No packet comes, and no error either.",
        check: run!(broken::black_hole),
        ..NETWORKED
    },
    Rule {
        id: "NET-502",
        slug: "reset_never_crosses_replies",
        clause: "X3",
        text: "After a reset no call reads another call's reply.",
        why: "A connection that goes back with an unread reply answers the next caller.",
        check: run!(broken::crossed_replies),
        ..NETWORKED
    },
];

async fn claim_request_lost(t: &Trial) -> Outcome {
    for kind in Kind::CLAIMS {
        cut::at_every_round_trip(t, kind, Lost::Request).await?;
    }
    Ok(())
}

async fn claim_reply_lost(t: &Trial) -> Outcome {
    for kind in Kind::CLAIMS {
        cut::at_every_round_trip(t, kind, Lost::Reply).await?;
    }
    Ok(())
}

async fn claim_late(t: &Trial) -> Outcome {
    for kind in Kind::CLAIMS {
        late::at_every_round_trip(t, kind).await?;
    }
    Ok(())
}

async fn complete_request_lost(t: &Trial) -> Outcome {
    cut::at_every_round_trip(t, Kind::Complete, Lost::Request).await
}

async fn complete_reply_lost(t: &Trial) -> Outcome {
    cut::at_every_round_trip(t, Kind::Complete, Lost::Reply).await
}

async fn complete_late(t: &Trial) -> Outcome {
    late::at_every_round_trip(t, Kind::Complete).await
}

async fn renew_request_lost(t: &Trial) -> Outcome {
    cut::at_every_round_trip(t, Kind::Renew, Lost::Request).await
}

async fn renew_reply_lost(t: &Trial) -> Outcome {
    cut::at_every_round_trip(t, Kind::Renew, Lost::Reply).await
}

async fn renew_late(t: &Trial) -> Outcome {
    late::at_every_round_trip(t, Kind::Renew).await
}

async fn release_request_lost(t: &Trial) -> Outcome {
    cut::at_every_round_trip(t, Kind::Release, Lost::Request).await
}

async fn release_reply_lost(t: &Trial) -> Outcome {
    cut::at_every_round_trip(t, Kind::Release, Lost::Reply).await
}

async fn release_late(t: &Trial) -> Outcome {
    late::at_every_round_trip(t, Kind::Release).await
}
