//! The lines that the program prints do what they say.

use tokio::process::Command;

use crate::place::{Place, on_every_store};
use crate::server::Server;

on_every_store!(the_printed_commands_behave_as_printed);

/// Runs the printed commands up to the crash, in a shell, as a user would.
async fn the_printed_commands_behave_as_printed(place: &Place) {
    let server = Server::start(place, &[]).await;
    let crash = server.greeting.iter().position(|line| line.starts_with("# a crash")).unwrap();
    let mut script = String::from("set -u\n");
    for line in &server.greeting[..crash] {
        match line.strip_prefix("  ").or(line.strip_prefix("# ").map(|_| "")) {
            Some("") => script.push_str(&format!("echo '{line}'\n")),
            Some(command) => script.push_str(&format!("{command}\n")),
            None => {}
        }
    }
    let output = Command::new("bash").args(["-c", &script]).output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap().replace('\r', "");
    let says = |heading: &str| {
        let (_, rest) = text.split_once(heading).unwrap_or_else(|| panic!("{heading:?} not in:\n{text}"));
        rest.split_once("\n#").map_or(rest, |(section, _)| section).to_owned()
    };
    assert!(says("# a payment: 201").contains("HTTP/1.1 201"));
    let again = says("# the same again");
    assert!(again.contains("HTTP/1.1 201") && again.contains("idempotent-replayed: true"));
    let double = says("# a double click");
    assert!(double.contains("HTTP/1.1 201") && double.contains("HTTP/1.1 409") && double.contains("retry-after:"));
    assert!(says("# the same key for another payment").contains("HTTP/1.1 422"));
    let other = says("# the same key of another user");
    assert!(other.contains("HTTP/1.1 201") && !other.contains("idempotent-replayed"));
    assert!(says("# a declined card").contains("HTTP/1.1 402"));
    let lists = says("# what was ordered");
    assert!(lists.contains(r#""item":"shoes","amount":1000"#) && lists.contains(r#""requests":1"#));
    assert_eq!(server.charges().await.len(), 3);
    assert_eq!(server.orders().await.len(), 2);
}
