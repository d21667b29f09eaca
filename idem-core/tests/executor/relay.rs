//! Keys for the next provider.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use idem_core::{Fault, Fingerprint, Identity, Key, Operation, Request, Scope};

use crate::support::{Text, idem, virtual_store};

fn request(scope: &str, key: &str, body: &str) -> Request {
    let operation = Operation::new("POST /payments").unwrap();
    let fingerprint = Fingerprint::of(&operation).field("body", body.as_bytes()).finish();
    Request::new(Identity::new(Scope::new(scope).unwrap(), Key::new(key).unwrap()), operation, fingerprint)
}

#[tokio::test(start_paused = true)]
async fn downstream_keys_are_the_same_on_every_attempt_and_apart_otherwise() {
    let idem = idem(&virtual_store());
    let seen = Arc::new(Mutex::new(Vec::new()));
    for (scope, key, body) in [("a", "bc", "1"), ("a", "bc", "1"), ("ab", "c", "1"), ("a", "bd", "1"), ("c", "bc", "2")]
    {
        let seen = Arc::clone(&seen);
        let _: Text = idem
            .run(request(scope, key, body), |attempt| async move {
                assert_eq!(attempt.key().as_str(), attempt.identity().key.as_str());
                let keys = [attempt.downstream_key("charge"), attempt.downstream_key("mail")];
                seen.lock().unwrap().push((attempt.number(), keys));
                Err(Fault::Unknown("try again".to_owned()))
            })
            .await
            .unwrap();
    }
    let seen = seen.lock().unwrap();
    assert_eq!((seen[0].0, seen[1].0), (1, 2));
    assert_eq!(seen[0].1, seen[1].1, "the second attempt relays the same keys");
    let distinct: HashSet<&String> = seen.iter().flat_map(|(_, keys)| keys).collect();
    assert_eq!(distinct.len(), 8);
    assert!(distinct.iter().all(|key| key.len() == 32));
    // A provider keeps these keys for longer than a deployment lasts: the derivation is frozen.
    assert_eq!(seen[0].1[0], "6f6f8898ac1d6c9e3f05e356934c6b0c");
}
