//! Starts the program, talks to it, kills it.

use std::process::Stdio;

use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::place::Place;

/// A running server; killed when it is dropped.
pub(crate) struct Server {
    process: Child,
    address: String,
    pub(crate) greeting: Vec<String>,
    http: reqwest::Client,
}

impl Server {
    pub(crate) async fn start(place: &Place, arguments: &[&str]) -> Server {
        let ledger = place.folder().join("provider");
        let mut process = Command::new(env!("CARGO_BIN_EXE_payments"))
            .args(["--store", place.store(), "--listen", "127.0.0.1:0", "--ledger"])
            .arg(ledger)
            .args(arguments)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut greeting = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            let last = line.starts_with("# the provider was asked twice");
            greeting.push(line);
            if last {
                break;
            }
        }
        let first = greeting.first().expect("it greets before it ends");
        let address = first.strip_prefix("listening on ").unwrap().split(' ').next().unwrap().to_owned();
        Server { process, address, greeting, http: reqwest::Client::new() }
    }

    /// SIGKILL, and wait until it is gone.
    pub(crate) async fn kill(mut self) {
        self.process.kill().await.unwrap();
    }

    /// A payment for this item, under a key of the same name.
    pub(crate) fn pay(&self, item: &str) -> RequestBuilder {
        let payment = json!({"item": item, "amount": 1000, "card": "visa"});
        self.http
            .post(format!("{}/payments", self.address))
            .bearer_auth("token-of-alice")
            .header("idempotency-key", item)
            .json(&payment)
    }

    /// Repeats the payment until it is answered for good.
    pub(crate) async fn pay_until_done(&self, item: &str) -> Response {
        loop {
            let answer = self.pay(item).send().await.unwrap();
            if answer.status() == StatusCode::CONFLICT {
                assert!(answer.headers().contains_key("retry-after"));
                tokio::task::yield_now().await;
                continue;
            }
            return answer;
        }
    }

    pub(crate) async fn charges(&self) -> Vec<Value> {
        self.list("/provider/charges").await
    }

    pub(crate) async fn orders(&self) -> Vec<Value> {
        self.list("/payments").await
    }

    async fn list(&self, path: &str) -> Vec<Value> {
        let url = format!("{}{path}", self.address);
        self.http.get(url).bearer_auth("token-of-alice").send().await.unwrap().json().await.unwrap()
    }
}
