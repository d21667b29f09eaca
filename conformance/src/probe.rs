//! A denied capability is probed: what a backend denies, it must not do.

use idem_core::ErrorKind;

use crate::Profile;
use crate::harness::{CacheSays, Entry, HookError, How, OpenError, Reach, Script};
use crate::trial::{Stop, Trial};

/// What a probe found: that the denial is true, in words; or why it is not.
pub(crate) type Denial = Result<String, Stop>;

/// Probes that the backend really does not do what it denies.
pub(crate) async fn denial(t: &Trial, profile: Profile) -> Denial {
    let seen = match profile {
        Profile::Core => return Err(Stop::Error("nobody can deny the core".into())),
        Profile::Shared => not_shared(t).await?,
        Profile::Durable => not_durable(t).await?,
        Profile::Networked => not_networked(t).await?,
        Profile::Maintained => not_maintained(t).await?,
        Profile::Transactional => not_transactional(t).await?,
        Profile::Cached => not_cached(t).await?,
    };
    Ok(format!("`{profile}` is denied; probe: {seen}"))
}

fn false_denial(profile: Profile, seen: &str) -> Stop {
    Stop::Fail(format!("the declaration denies `{profile}`, but {seen}"))
}

async fn not_shared(t: &Trial) -> Denial {
    let (first, second) = (t.store().await?, t.second().await?);
    let identity = t.identity()?;
    first.acquire(&t.usual(&identity)?, "of an absent identity").await?;
    match second.get(&identity).await? {
        None => Ok("a second handle does not see the first one's record".into()),
        Some(_) => Err(false_denial(Profile::Shared, "two handles see each other's records")),
    }
}

async fn not_durable(t: &Trial) -> Denial {
    let identity = t.identity()?;
    t.acquire(&identity).await?;
    t.drop_handles().await;
    match t.store().await?.get(&identity).await? {
        None => Ok("after all handles are closed the record is gone".into()),
        Some(_) => Err(false_denial(Profile::Durable, "a record outlives all handles")),
    }
}

async fn not_networked(t: &Trial) -> Denial {
    match t.harness().open(t.namespace(), &How::usual().reaching(Reach::Nowhere)).await {
        Err(OpenError::Unsupported(_)) => Ok("there is no address that could be out of reach".into()),
        Err(error) => {
            Err(false_denial(Profile::Networked, &format!("an address where nobody answers ends as: {error}")))
        }
        Ok(_) => Err(false_denial(Profile::Networked, "a handle opens at an address where nobody answers")),
    }
}

async fn not_maintained(t: &Trial) -> Denial {
    match t.store().await?.raw().purge(std::num::NonZeroU32::MIN).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok("purge is refused as unsupported".into()),
        Err(error) => {
            Err(Stop::Fail(format!("`maintained` is denied, and purge is {:?}, expected Unsupported", error.kind())))
        }
        Ok(_) => Err(false_denial(Profile::Maintained, "purge is not refused")),
    }
}

async fn not_transactional(t: &Trial) -> Denial {
    let identity = t.identity()?;
    let script = Script::new(Entry::Once { claim: t.usual(&identity)?, end: t.succeeded() });
    match t.harness().transaction(t.namespace(), script).await {
        Err(HookError::Unsupported) => Ok("no transaction can be joined".into()),
        _ => Err(false_denial(Profile::Transactional, "a transaction was played")),
    }
}

async fn not_cached(t: &Trial) -> Denial {
    let identity = t.identity()?;
    match t.harness().cache(t.namespace(), &identity, CacheSays::Nothing).await {
        Err(HookError::Unsupported) => Ok("there is no cache that could lie".into()),
        _ => Err(false_denial(Profile::Cached, "a cache was made to say something")),
    }
}
