//! What a rule holds while a fault's window is open.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

/// A fault that was armed, and the moment when it meets its request.
#[derive(Debug)]
pub struct Window {
    opened: oneshot::Receiver<Held>,
}

impl Window {
    pub(super) fn new(opened: oneshot::Receiver<Held>) -> Window {
        Window { opened }
    }

    /// Makes a call, and does something once the fault has met its request.
    ///
    /// # Behavior
    /// None for what was done, when the call ended and the fault had met nothing: then nothing was tested.
    pub async fn during<T, M>(
        mut self,
        call: impl Future<Output = T>,
        meanwhile: impl AsyncFnOnce(Held) -> M,
    ) -> (T, Option<M>) {
        let (ended, is_over) = oneshot::channel::<()>();
        let call = async move {
            let answer = call.await;
            drop(ended);
            answer
        };
        let meanwhile = async {
            let held = tokio::select! {
                biased; // A call that ends by the fault ends after it.
                held = &mut self.opened => held.ok(),
                _ = is_over => self.opened.try_recv().ok(),
            };
            match held {
                Some(held) => Some(meanwhile(held).await),
                None => None,
            }
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
