//! What a rule holds while a fault's window is open.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::plan::Plan;

/// In which a call ends that does not wait for what is held.
const MOMENT: Duration = Duration::from_millis(250);

/// A fault that was armed, and the moment when it meets its request. Dropped, it is disarmed.
pub struct Window {
    opened: oneshot::Receiver<Held>,
    nth: u64,
    plan: Arc<Plan>,
}

impl Drop for Window {
    fn drop(&mut self) {
        self.plan.disarm();
    }
}

impl Window {
    pub(super) fn new(opened: oneshot::Receiver<Held>, nth: u64, plan: Arc<Plan>) -> Window {
        Window { opened, nth, plan }
    }

    /// Makes a call, and does something while the fault holds a request of it, or its reply.
    ///
    /// # Behavior
    /// None for what was done, when the call ended without: the fault met nothing, or a request that is not the call's,
    /// which a driver sends behind it, as a test of a connection that it takes back. A call that does not end while its
    /// nth request is held waits for it; the first is its own without a look.
    pub async fn during<T, M>(
        mut self,
        call: impl Future<Output = T>,
        meanwhile: impl AsyncFnOnce(Held) -> M,
    ) -> (T, Option<M>) {
        let (ended, mut is_over) = oneshot::channel::<()>();
        let call = async move {
            let answer = call.await;
            drop(ended);
            answer
        };
        let meanwhile = async {
            let held = tokio::select! {
                biased; // A call that ends by the fault ends after it.
                held = &mut self.opened => held.ok(),
                _ = &mut is_over => self.opened.try_recv().ok(),
            }?;
            if self.nth > 1 && tokio::time::timeout(MOMENT, is_over).await.is_ok() {
                return None;
            }
            Some(meanwhile(held).await)
        };
        tokio::join!(call, meanwhile)
    }
}

/// What a connection is told while its bytes are held.
#[derive(Debug)]
pub(super) enum Order {
    /// The client's side is reset; the server knows nothing of it.
    CutClient(oneshot::Sender<()>),
    /// What was held goes where it was going. Answers whether the server has replied to what it was sent.
    Deliver(oneshot::Sender<bool>),
}

/// A connection whose bytes are held. Dropped, both sides are reset.
#[derive(Debug)]
pub struct Held {
    orders: mpsc::Sender<Order>,
}

impl Held {
    pub(super) fn new() -> (Held, mpsc::Receiver<Order>) {
        let (orders, come) = mpsc::channel(1);
        (Held { orders }, come)
    }

    /// Resets the client's side, and keeps the server's.
    pub async fn cut_client(&self) {
        let (done, is_done) = oneshot::channel();
        if self.orders.send(Order::CutClient(done)).await.is_ok() {
            let _ = is_done.await;
        }
    }

    /// Resets both sides.
    pub fn cut(self) {}

    /// Sends on what was held. Says whether it was delivered: for a request, that the server replied to it.
    pub async fn deliver(self, within: Duration) -> bool {
        let (done, is_done) = oneshot::channel();
        if self.orders.send(Order::Deliver(done)).await.is_err() {
            return false;
        }
        matches!(tokio::time::timeout(within, is_done).await, Ok(Ok(true)))
    }
}
