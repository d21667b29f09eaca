//! Harnesses that lie about a good store, to make the suite pass it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use idem_core::{Identity, Record, Span, Store};

use super::{Kind, Landed, Mutant};
use crate::Profile;
use crate::harness::{
    Absent, Aged, Declaration, Guard, Harness, Hooked, How, Implementation, LEAST_RESPONSE_LIMIT, Namespace, OpenError,
    Role,
};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        id: "L-one-namespace",
        kind: Kind::Liar(|good, landed| Arc::new(Liar::new(good, landed, Lie::OneNamespace))),
        kills: "PURGE-006",
        because: "All namespaces are one table.",
        says: "the other namespace's record, seen from here",
    },
    Mutant {
        id: "L-ages-nothing",
        kind: Kind::Liar(|good, landed| Arc::new(Liar::new(good, landed, Lie::AgesNothing))),
        kills: "TIME-003",
        because: "The ageing hook does nothing.",
        says: "the ageing hook moved a time",
    },
    Mutant {
        id: "L-ages-everything",
        kind: Kind::Liar(|good, landed| Arc::new(Liar::new(good, landed, Lie::AgesEverything))),
        kills: "TIME-003",
        because: "The ageing hook makes every record older.",
        says: "the ageing of another record changed the record",
    },
    Mutant {
        id: "L-ages-too-little",
        kind: Kind::Liar(|good, landed| Arc::new(Liar::new(good, landed, Lie::AgesTooLittle))),
        kills: "TIME-003",
        because: "The ageing hook makes a record less old than it was asked to.",
        says: "the ageing hook moved a time",
    },
    Mutant {
        id: "L-same-handle",
        kind: Kind::Liar(|good, landed| Arc::new(Liar::new(good, landed, Lie::SameHandle))),
        kills: "CLAIM-008",
        because: "The second handle is the first one.",
        says: "the harness gave the first handle again",
    },
    Mutant {
        id: "L-peeks-nothing",
        kind: Kind::Liar(|good, landed| Arc::new(Liar::new(good, landed, Lie::PeeksNothing))),
        kills: "CLAIM-001",
        because: "The independent read always finds nothing.",
        says: "that an independent read does not find",
    },
    Mutant {
        id: "L-denies-shared",
        kind: Kind::Liar(|good, landed| Arc::new(Liar::new(good, landed, Lie::DeniesShared))),
        kills: "CLAIM-008",
        because: "A shared store denies it, to escape the rules about two handles.",
        says: "two handles see each other's records",
    },
    Mutant {
        id: "L-denies-maintained",
        kind: Kind::Liar(|good, landed| Arc::new(Liar::new(good, landed, Lie::DeniesMaintained))),
        kills: "PURGE-003",
        because: "A store that purges denies it, to escape the rules about purge.",
        says: "purge is not refused",
    },
    Mutant {
        id: "L-tiny-limit",
        kind: Kind::Liar(|good, landed| Arc::new(Liar::new(good, landed, Lie::TinyLimit))),
        kills: "REPLAY-001",
        because: "A response limit of zero, to escape the rules about responses.",
        says: "is below the least",
    },
    Mutant {
        id: "L-usual-is-unsupported",
        kind: Kind::Liar(|good, landed| Arc::new(Liar::new(good, landed, Lie::UsualIsUnsupported))),
        kills: "CLAIM-001",
        because: "The harness calls everything unsupported, to turn failures into gaps.",
        says: "calls a usual handle unsupported",
    },
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lie {
    OneNamespace,
    AgesNothing,
    AgesEverything,
    AgesTooLittle,
    SameHandle,
    PeeksNothing,
    DeniesShared,
    DeniesMaintained,
    TinyLimit,
    UsualIsUnsupported,
}

struct Liar {
    good: Arc<dyn Harness>,
    landed: Landed,
    lie: Lie,
    seen: Mutex<HashMap<Namespace, Seen>>,
    one: Mutex<Option<Namespace>>,
}

/// What a liar remembers of a namespace.
#[derive(Default)]
struct Seen {
    first: Option<Arc<dyn Store>>,
    identities: Vec<Identity>,
}

impl Liar {
    fn new(good: Arc<dyn Harness>, landed: Landed, lie: Lie) -> Liar {
        Liar { good, landed, lie, seen: Mutex::default(), one: Mutex::default() }
    }

    /// Where the records of a namespace really are.
    fn place(&self, namespace: &Namespace) -> Namespace {
        if self.lie != Lie::OneNamespace {
            return namespace.clone();
        }
        let mut one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let place = one.get_or_insert_with(|| namespace.clone()).clone();
        if place != *namespace {
            self.landed.hit();
        }
        place
    }

    fn seen<T>(&self, namespace: &Namespace, look: impl FnOnce(&mut Seen) -> T) -> T {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        look(seen.entry(namespace.clone()).or_default())
    }
}

#[async_trait]
impl Harness for Liar {
    fn identity(&self) -> Implementation {
        self.good.identity()
    }

    fn declare(&self) -> Declaration {
        let mut declaration = self.good.declare();
        match self.lie {
            Lie::DeniesShared => {
                declaration.profiles.remove(&Profile::Shared);
                self.landed.hit();
            }
            Lie::DeniesMaintained => {
                declaration.profiles.remove(&Profile::Maintained);
                self.landed.hit();
            }
            Lie::TinyLimit => {
                self.landed.hit();
                declaration.response_limit = LEAST_RESPONSE_LIMIT - 1;
            }
            _ => {}
        }
        declaration
    }

    async fn prepare(&self) -> Result<(), Absent> {
        self.good.prepare().await
    }

    async fn open(&self, namespace: &Namespace, how: &How) -> Result<(Guard, Arc<dyn Store>), OpenError> {
        if self.lie == Lie::UsualIsUnsupported {
            self.landed.hit();
            return Err(OpenError::Unsupported("not today".into()));
        }
        if self.lie == Lie::SameHandle
            && how.role == Role::Second
            && let Some(first) = self.seen(namespace, |seen| seen.first.clone())
        {
            self.landed.hit();
            return Ok((Guard::none(), first));
        }
        let (guard, store) = self.good.open(&self.place(namespace), how).await?;
        self.seen(namespace, |seen| seen.first = Some(Arc::clone(&store)));
        Ok((guard, store))
    }

    async fn clear(&self, namespace: &Namespace) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(namespace);
        self.good.clear(namespace).await;
    }

    async fn age(&self, namespace: &Namespace, identity: &Identity, by: Span) -> Hooked<Aged> {
        match self.lie {
            Lie::AgesNothing => {
                self.landed.hit();
                Ok(Aged::Older)
            }
            Lie::AgesTooLittle => {
                self.landed.hit();
                let less = Span::micros(by.as_micros().saturating_sub(1)).unwrap_or(Span::MIN);
                self.good.age(namespace, identity, less).await
            }
            Lie::AgesEverything => {
                let others = self.seen(namespace, |seen| seen.identities.clone());
                for other in others.iter().filter(|other| *other != identity) {
                    self.landed.hit();
                    self.good.age(namespace, other, by).await?;
                }
                self.good.age(namespace, identity, by).await
            }
            _ => self.good.age(&self.place(namespace), identity, by).await,
        }
    }

    async fn peek(&self, namespace: &Namespace, identity: &Identity) -> Hooked<Option<Record>> {
        self.seen(namespace, |seen| seen.identities.push(identity.clone()));
        if self.lie == Lie::PeeksNothing {
            self.landed.hit();
            return Ok(None);
        }
        self.good.peek(&self.place(namespace), identity).await
    }
}
