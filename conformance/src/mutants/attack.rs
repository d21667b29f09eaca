//! Running a mutant against the suite.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{Identity, Record, Span, Store};

use super::bent::Bent;
use super::twist::Twisted;
use super::{Kind, Landed, Logic, Mutant};
use crate::base::{InMemory, Sharing};
use crate::harness::{
    Absent, Aged, CacheSays, Declaration, Guard, Harness, Hooked, How, Implementation, Namespace, Obstacle, OpenError,
    Script, Scripted, Server, Setting,
};
use crate::report::{RuleResult, Status};
use crate::runner::{Run, Settings};
use crate::{Profile, rules};

/// A good store in memory, shared by its handles: what mutants are made from when nobody gives another one.
#[must_use]
pub fn good_store() -> Arc<dyn Harness> {
    Arc::new(bent("good", Logic::GOOD, Landed::default()))
}

fn bent(name: &str, logic: Logic, landed: Landed) -> InMemory {
    let declaration = Declaration::core().with(Profile::Shared).with(Profile::Maintained);
    let identity = Implementation::new(name, env!("CARGO_PKG_VERSION"));
    InMemory::new(identity, declaration, Sharing::Together, move |how| {
        Arc::new(Bent::new(logic, how.rules, landed.clone()))
    })
}

/// What a mutant did, and what became of the rule that has to notice.
#[derive(Clone, Debug)]
pub struct Attack {
    /// The mutant.
    pub mutant: Mutant,
    /// How often it did something that a good store would not have done.
    pub landed: u64,
    /// What became of the rule that it names.
    pub result: Option<RuleResult>,
}

impl Kind {
    pub(super) fn harness(&self, id: &str, good: Arc<dyn Harness>, landed: &Landed) -> Arc<dyn Harness> {
        match *self {
            Kind::Model(logic) => Arc::new(bent(id, logic, landed.clone())),
            Kind::Driver(driver) => driver.harness(id, landed),
            Kind::Wrapper(twist) => Arc::new(Mutated { good, twist, landed: landed.clone() }),
            Kind::Liar(lie) => lie(good, landed.clone()),
        }
    }
}

impl Mutant {
    /// The mutant's harness. A wrapper or liar is put around this one; a model and a driver
    /// come with stores of their own.
    #[must_use]
    pub fn harness(&self, good: Arc<dyn Harness>, landed: &Landed) -> Arc<dyn Harness> {
        self.kind.harness(self.id, good, landed)
    }

    /// Lets the mutant loose on the rule that it names.
    pub async fn attack(&self, good: Arc<dyn Harness>, settings: Settings) -> Attack {
        let landed = Landed::default();
        let run = Run::new(self.harness(good, &landed), settings);
        let result = match rules::find(self.kills) {
            Some(rule) => Some(run.rule(&rule).await),
            None => None,
        };
        Attack { mutant: *self, landed: landed.times(), result }
    }
}

impl Attack {
    /// Why this is no kill: the mutant did not land, or its rule did not fail, or failed for another reason.
    #[must_use]
    pub fn survives(&self) -> Option<String> {
        let Mutant { kills, says, .. } = self.mutant;
        let Some(result) = &self.result else { return Some(format!("there is no rule {kills}")) };
        let reason = result.reason.as_deref().unwrap_or("no reason");
        // A liar's harness is part of the environment: that it is broken is what has to be said of it.
        let expected: &[Status] = match self.mutant.kind {
            Kind::Liar(_) => &[Status::Fail, Status::Error],
            Kind::Wrapper(_) | Kind::Model(_) | Kind::Driver(_) => &[Status::Fail],
        };
        match result.status {
            _ if self.landed == 0 => Some("it never landed".into()),
            status if !expected.contains(&status) => Some(format!("{kills} ended as {status:?}: {reason}")),
            _ if !reason.contains(says) => Some(format!("{kills} failed for another reason: {reason}")),
            _ => None,
        }
    }
}

/// A harness whose handles are twisted. Everything else is the good one's.
struct Mutated {
    good: Arc<dyn Harness>,
    twist: fn() -> Box<dyn super::Twist>,
    landed: Landed,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Harness for Mutated {
    fn identity(&self) -> Implementation {
        self.good.identity()
    }

    fn declare(&self) -> Declaration {
        self.good.declare()
    }

    fn absent(&self) -> Option<Absent> {
        self.good.absent()
    }

    async fn prepare(&self) -> Result<(), Absent> {
        self.good.prepare().await
    }

    async fn open(&self, namespace: &Namespace, how: &How) -> Result<(Guard, Arc<dyn Store>), OpenError> {
        let (guard, store) = self.good.open(namespace, how).await?;
        Ok((guard, Arc::new(Twisted::new(store, (self.twist)(), self.landed.clone()))))
    }

    async fn clear(&self, namespace: &Namespace) {
        self.good.clear(namespace).await;
    }

    async fn age(&self, namespace: &Namespace, identity: &Identity, by: Span) -> Hooked<Aged> {
        self.good.age(namespace, identity, by).await
    }

    async fn peek(&self, namespace: &Namespace, identity: &Identity) -> Hooked<Option<Record>> {
        self.good.peek(namespace, identity).await
    }

    async fn kill_connections(&self, namespace: &Namespace) -> Hooked<()> {
        self.good.kill_connections(namespace).await
    }

    async fn address(&self) -> Hooked<SocketAddr> {
        self.good.address().await
    }

    async fn apart(&self) -> Hooked<(Guard, Arc<dyn Harness>)> {
        let (guard, good) = self.good.apart().await?;
        Ok((guard, Arc::new(Mutated { good, twist: self.twist, landed: self.landed.clone() })))
    }

    fn server(&self) -> Option<&dyn Server> {
        self.good.server()
    }

    async fn durability(&self) -> Hooked<Vec<Setting>> {
        self.good.durability().await
    }

    async fn cache(&self, namespace: &Namespace, identity: &Identity, says: CacheSays) -> Hooked<()> {
        self.good.cache(namespace, identity, says).await
    }

    async fn obstruct(&self, namespace: &Namespace, obstacle: Obstacle) -> Hooked<()> {
        self.good.obstruct(namespace, obstacle).await
    }

    async fn transaction(&self, namespace: &Namespace, script: Script) -> Hooked<Scripted> {
        self.good.transaction(namespace, script).await
    }

    async fn business_rows(&self, namespace: &Namespace) -> Hooked<Vec<String>> {
        self.good.business_rows(namespace).await
    }
}
