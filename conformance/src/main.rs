//! The command: certifies backends, and prints the rules.

fn main() {}
