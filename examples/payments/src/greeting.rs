//! What to try.

use std::net::SocketAddr;

use idem_core::Span;

use crate::auth::USERS;
use crate::store::StoreUrl;

pub(crate) fn text(address: SocketAddr, store: &StoreUrl, lease: Span) -> String {
    let [(_, alice), (_, bob)] = USERS;
    let process = std::process::id();
    let lease = humantime::format_duration(lease.as_duration());
    format!(
        r#"listening on http://{address} ({store})

In another terminal:

  pay() {{ curl -si http://{address}/payments -H "Authorization: Bearer $1" -H "Idempotency-Key: $2" -H 'Content-Type: application/json' -d "$3"; echo; }}

# a payment: 201
  pay {alice} shoes-1 '{{"item":"shoes","amount":1000,"card":"visa"}}'

# the same again: the same answer, with idempotent-replayed: true
  pay {alice} shoes-1 '{{"item":"shoes","amount":1000,"card":"visa"}}'

# a double click: one 201, one 409 with retry-after
  for i in 1 2; do pay {alice} hat-1 '{{"item":"hat","amount":500,"card":"visa"}}' & done; wait

# the same key for another payment: 422
  pay {alice} shoes-1 '{{"item":"shoes","amount":9999,"card":"visa"}}'

# the same key of another user: 201, a payment of its own
  pay {bob} shoes-1 '{{"item":"shoes","amount":1000,"card":"visa"}}'

# a declined card: 402, and again 402 without asking the provider
  pay {alice} car-1 '{{"item":"car","amount":9000000,"card":"empty"}}'

# what was ordered, and what the provider charged: one charge for each payment
  curl -s http://{address}/payments -H "Authorization: Bearer {alice}"; echo
  curl -s http://{address}/provider/charges -H "Authorization: Bearer {alice}"; echo

# a crash while the provider is charging: start a slow payment and kill this process
  pay {alice} boat-1 '{{"item":"boat","amount":700000,"card":"slow"}}' & sleep 6; kill -9 {process}; wait
# then start it again, and repeat the payment until it says 201 (409 for up to {lease}: the dead owner's lease):
  pay {alice} boat-1 '{{"item":"boat","amount":700000,"card":"slow"}}'
# the provider was asked twice and charged once ("requests":2), and there is one order.
"#
    )
}
