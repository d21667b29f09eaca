//! Orders that are gone with the process.

use std::sync::{Arc, Mutex, PoisonError};

use super::Order;

#[derive(Clone, Default)]
pub(crate) struct Table(Arc<Mutex<Vec<Order>>>);

impl Table {
    pub(super) fn insert(&self, order: Order) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(order);
    }

    pub(super) fn of(&self, user: &str) -> Vec<Order> {
        let orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        orders.iter().filter(|order| order.user == user).cloned().collect()
    }
}
