//! `kill -9`, again and again, while payments run.

use std::collections::HashMap;
use std::sync::Arc;

use reqwest::StatusCode;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::place::{Place, on_every_store};
use crate::server::Server;

on_every_store!(every_key_has_one_charge_and_one_order);

const ROUNDS: usize = 20;
const CLIENTS: usize = 4;
const ARGUMENTS: [&str; 4] = ["--lease", "500ms", "--latency", "20ms"];

async fn every_key_has_one_charge_and_one_order(place: &Place) {
    let mut sent: HashMap<String, Option<Vec<u8>>> = HashMap::new();
    for round in 0..ROUNDS {
        let server = Arc::new(Server::start(place, &ARGUMENTS).await);
        let (heard, mut news) = mpsc::unbounded_channel();
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            clients.spawn(keep_paying(Arc::clone(&server), format!("item-{round}-{client}"), heard.clone()));
        }
        drop(heard);
        // Another number of answers in every round, so that the kill meets the others at ever other points.
        let mut answers = 1 + (round * 7) % 13;
        while answers > 0 {
            let (item, answer) = news.recv().await.expect("clients go on until the server is killed");
            answers -= usize::from(answer.is_some());
            remember(&mut sent, item, answer);
        }
        clients.abort_all();
        while clients.join_next().await.is_some() {}
        while let Some((item, answer)) = news.recv().await {
            remember(&mut sent, item, answer);
        }
        Arc::into_inner(server).unwrap().kill().await;
    }

    let unanswered = sent.values().filter(|answer| answer.is_none()).count();
    assert!(unanswered >= ROUNDS, "the kills met payments under way: {unanswered}");
    let server = Server::start(place, &ARGUMENTS).await;
    for (item, first) in &sent {
        let answer = server.pay_until_done(item).await;
        assert_eq!(answer.status(), StatusCode::CREATED, "{item}");
        let body = answer.bytes().await.unwrap();
        assert!(first.as_ref().is_none_or(|first| *first == body), "{item}: what was acknowledged has changed");
    }
    for (what, list) in [("charges", server.charges().await), ("orders", server.orders().await)] {
        assert_eq!(list.len(), sent.len(), "{what}");
    }
    let mut ordered: Vec<String> = server.orders().await.iter().map(|order| order["item"].to_string()).collect();
    ordered.sort_unstable();
    ordered.dedup();
    assert_eq!(ordered.len(), sent.len(), "one order for each key");
    println!("{} keys, {unanswered} cut off by {ROUNDS} kills", sent.len());
}

fn remember(sent: &mut HashMap<String, Option<Vec<u8>>>, item: String, answer: Option<Vec<u8>>) {
    let entry = sent.entry(item).or_default();
    if answer.is_some() {
        *entry = answer;
    }
}

type News = (String, Option<Vec<u8>>);

/// Pays one thing after the other; tells what was sent, and what was answered.
async fn keep_paying(server: Arc<Server>, prefix: String, heard: mpsc::UnboundedSender<News>) {
    for number in 0.. {
        let item = format!("{prefix}-{number}");
        let _ = heard.send((item.clone(), None));
        let Ok(answer) = server.pay(&item).send().await else { return };
        assert_eq!(answer.status(), StatusCode::CREATED);
        let Ok(body) = answer.bytes().await else { return };
        let _ = heard.send((item, Some(body.to_vec())));
    }
}
