//! What is kept and what is purged, wrongly.

use idem_core::machine::{self, Purge, Rules};
use idem_core::{OnUncertain, Record, Span, State, StoreTime};

use crate::mutants::logic::{Logic, Write};
use crate::mutants::{Kind, Mutant};

const fn purging(purge: fn(&Record, StoreTime, &Rules) -> Purge) -> Kind {
    Kind::Model(Logic { purge, ..Logic::GOOD })
}

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        id: "M-purge-ignores-lease",
        kind: purging(|record, now, rules| match record.state {
            State::Processing if record.expires_at <= now => Purge::Delete,
            _ => machine::purge(record, now, rules),
        }),
        kills: "PURGE-001",
        because: "Purge looks at the retention and not at the state.",
        says: "an independent read finds no record",
    },
    Mutant {
        id: "M-purge-by-completion",
        kind: purging(|record, now, rules| match record.state {
            State::Succeeded | State::Failed if record.lease_until <= now => Purge::Delete,
            _ => machine::purge(record, now, rules),
        }),
        kills: "PURGE-002",
        because: "Purge takes finished records when their lease would have ended.",
        says: "an independent read finds no record",
    },
    Mutant {
        id: "M-purge-forgets-the-remembered",
        kind: purging(|record, now, rules| machine::purge(record, now, &Rules { remember: None, ..*rules })),
        kills: "PURGE-002",
        because: "Purge deletes what should be remembered, or leaves its response.",
        says: "what purge deleted and dropped in remembered time",
    },
    Mutant {
        id: "M-purge-does-nothing",
        kind: purging(|_, _, _| Purge::Keep),
        kills: "PURGE-003",
        because: "The table grows without end.",
        says: "what purge says it deleted and dropped: (0, 0)",
    },
    Mutant {
        id: "M-purge-without-limit",
        kind: Kind::Model(Logic { purge_limit: |_| u32::MAX, ..Logic::GOOD }),
        kills: "PURGE-004",
        because: "One sweep over everything.",
        says: "a purge with limit 2 says that it deleted 7",
    },
    Mutant {
        id: "M-purge-later",
        kind: Kind::Model(Logic { write: Write::PurgeAfterYielding, ..Logic::GOOD }),
        kills: "PURGE-005",
        because: "What purge deletes was looked at before, and belongs to somebody by now.",
        says: "an independent read finds no record",
    },
    Mutant {
        id: "M-no-quarantine",
        kind: purging(|record, now, rules| machine::purge(record, now, &Rules { quarantine: Span::MIN, ..*rules })),
        kills: "PURGE-007",
        because: "A late statement of an earlier life meets no fence.",
        says: "purge touched a record inside the quarantine",
    },
    Mutant {
        id: "M-evidence-purged",
        kind: purging(|record, now, rules| {
            let evidence = Some(Span::MIN);
            machine::purge(record, now, &Rules { evidence, ..*rules })
        }),
        kills: "PURGE-008",
        because: "Purge deletes what says that something may have happened.",
        says: "an independent read finds no record",
    },
    Mutant {
        id: "M-held-evidence-purged",
        kind: purging(|record, now, rules| {
            let on_uncertain = OnUncertain::TakeOver { within: Span::MAX };
            machine::purge(&Record { on_uncertain, ..record.clone() }, now, rules)
        }),
        kills: "COMPLETE-002",
        because: "What is held until somebody decides is purged before anybody has.",
        says: "an independent read finds no record",
    },
    Mutant {
        id: "M-age-hides-nothing",
        kind: Kind::Model(Logic { visible: |record, _, _| Some(record.clone()), ..Logic::GOOD }),
        kills: "CLAIM-012",
        because: "`get` shows a record over age, as if it could be replayed.",
        says: "what `get` shows of a record over age",
    },
];
