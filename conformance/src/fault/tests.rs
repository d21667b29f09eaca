use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::{Fault, Held, Line, Proxy};

const SOON: Duration = Duration::from_secs(10);

/// Answers each number by the next one, and tells which it has seen.
async fn server() -> (SocketAddr, mpsc::UnboundedReceiver<u64>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (saw, seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let saw = saw.clone();
            tokio::spawn(async move {
                while let Ok(number) = client.read_u64().await {
                    let _ = saw.send(number);
                    let _ = client.write_u64(number + 1).await;
                }
            });
        }
    });
    (address, seen)
}

async fn ask(line: &mut TcpStream, number: u64) -> io::Result<u64> {
    line.write_u64(number).await?;
    line.read_u64().await
}

#[tokio::test]
async fn bytes_pass_and_round_trips_are_counted() {
    let (server, mut seen) = server().await;
    let proxy = Proxy::before(server).await.unwrap();
    let mut line = TcpStream::connect(proxy.address()).await.unwrap();
    for number in 0..5 {
        assert_eq!(ask(&mut line, number).await.unwrap(), number + 1);
        assert_eq!(seen.recv().await, Some(number));
    }
    // Two writes before the answer are one request.
    line.write_u32(0).await.unwrap();
    line.flush().await.unwrap();
    line.write_u32(9).await.unwrap();
    assert_eq!(line.read_u64().await.unwrap(), 10);
    assert_eq!(proxy.requests(), 6);
}

#[tokio::test]
async fn a_lost_request_is_the_nth_and_never_arrives() {
    let (server, mut seen) = server().await;
    let proxy = Proxy::before(server).await.unwrap();
    let mut line = TcpStream::connect(proxy.address()).await.unwrap();
    let window = proxy.arm(Fault::HoldRequest, 2, Line::Pass);
    let call = async {
        assert_eq!(ask(&mut line, 1).await.unwrap(), 2);
        ask(&mut line, 3).await
    };
    let (lost, met) = window.during(call, async |held: Held| held.cut()).await;
    assert!(lost.is_err() && met.is_some());
    let mut next = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut next, 5).await.unwrap(), 6);
    assert_eq!((seen.recv().await, seen.recv().await), (Some(1), Some(5)), "3 is lost");
}

#[tokio::test]
async fn a_lost_reply_is_lost_after_the_server_has_seen_the_request() {
    let (server, mut seen) = server().await;
    let proxy = Proxy::before(server).await.unwrap();
    let mut line = TcpStream::connect(proxy.address()).await.unwrap();
    let window = proxy.arm(Fault::HoldReply, 1, Line::Refuse);
    let (answer, met) = window
        .during(ask(&mut line, 1), async |held: Held| {
            let saw = seen.recv().await;
            held.cut();
            saw
        })
        .await;
    assert!(answer.is_err());
    assert_eq!(met, Some(Some(1)));
    let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(ask(&mut refused, 2).await.is_err(), "the line is down from the window on");
}

#[tokio::test]
async fn a_held_request_is_delivered_late_without_its_client() {
    let (server, mut seen) = server().await;
    let proxy = Proxy::before(server).await.unwrap();
    let mut line = TcpStream::connect(proxy.address()).await.unwrap();
    let window = proxy.arm(Fault::HoldRequest, 1, Line::Pass);
    let (answer, held) = window
        .during(ask(&mut line, 1), async |held: Held| {
            held.cut_client().await;
            held
        })
        .await;
    assert!(answer.is_err());
    let mut other = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut other, 7).await.unwrap(), 8);
    assert_eq!(seen.recv().await, Some(7), "what was sent later arrives earlier");
    assert!(held.unwrap().deliver(SOON).await);
    assert_eq!(seen.recv().await, Some(1));
}

#[tokio::test]
async fn a_held_reply_that_is_delivered_goes_on_as_if_nothing_had_been() {
    let (server, _seen) = server().await;
    let proxy = Proxy::before(server).await.unwrap();
    let mut line = TcpStream::connect(proxy.address()).await.unwrap();
    let window = proxy.arm(Fault::HoldReply, 1, Line::Pass);
    let (answer, met) = window.during(ask(&mut line, 1), async |held: Held| held.deliver(SOON).await).await;
    assert_eq!((answer.unwrap(), met), (2, Some(true)));
    assert_eq!(ask(&mut line, 2).await.unwrap(), 3);
}

#[tokio::test]
async fn a_fault_that_meets_nothing_says_so() {
    let (server, _seen) = server().await;
    let proxy = Proxy::before(server).await.unwrap();
    let mut line = TcpStream::connect(proxy.address()).await.unwrap();
    let window = proxy.arm(Fault::HoldRequest, 2, Line::Pass);
    let (answer, met) = window.during(ask(&mut line, 1), async |held: Held| held.cut()).await;
    assert_eq!((answer.unwrap(), met), (2, None));
}

#[tokio::test]
async fn a_request_that_the_call_does_not_wait_for_is_not_the_calls() {
    let (server, _seen) = server().await;
    let proxy = Proxy::before(server).await.unwrap();
    let mut line = TcpStream::connect(proxy.address()).await.unwrap();
    let window = proxy.arm(Fault::HoldReply, 2, Line::Pass);
    let call = async {
        let answer = ask(&mut line, 1).await;
        line.write_u64(2).await.unwrap();
        while proxy.requests() < 2 {
            tokio::task::yield_now().await; // Until what is sent behind the answer is held.
        }
        answer
    };
    let (answer, met) = window.during(call, async |held: Held| held.cut()).await;
    assert_eq!((answer.unwrap(), met), (2, None));
}

#[tokio::test]
async fn a_black_hole_keeps_connections_and_a_change_of_the_line_cuts_them() {
    let (server, mut seen) = server().await;
    let proxy = Proxy::before(server).await.unwrap();
    let mut line = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut line, 1).await.unwrap(), 2);
    proxy.set(Line::Silent);
    let before = proxy.requests();
    line.write_u64(3).await.unwrap();
    while proxy.requests() == before {
        tokio::task::yield_now().await; // Until it is in the hole.
    }
    proxy.set(Line::Pass);
    assert!(line.read_u64().await.is_err(), "a connection that lost bytes is of no use");
    let mut next = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut next, 5).await.unwrap(), 6);
    assert_eq!((seen.recv().await, seen.recv().await), (Some(1), Some(5)), "3 was swallowed");
}

#[tokio::test]
async fn the_line_leads_to_where_the_server_is_now() {
    let ((first, _), (second, mut seen)) = (server().await, server().await);
    let proxy = Proxy::before(first).await.unwrap();
    proxy.lead_to(second);
    let mut line = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut line, 4).await.unwrap(), 5);
    assert_eq!(seen.recv().await, Some(4));
}
