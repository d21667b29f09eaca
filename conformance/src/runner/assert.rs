//! One call for a plain `#[tokio::test]`.

use std::sync::Arc;

use super::{Run, Settings};
use crate::harness::Harness;
use crate::report::{Report, Verdict};

/// Runs every rule against this backend, collects all failures, and panics once.
///
/// A rule that was not run does not panic, and neither does a server that is missing and that nobody requires; the
/// summary, which is printed, and the report that is given back say so.
///
/// # Panics
/// When a rule fails, when the suite or the environment broke, and when no rule was executed.
pub async fn assert_conformant(harness: impl Harness) -> Report {
    let settings = match Settings::from_environment() {
        Ok(settings) => settings,
        Err(problem) => panic!("{problem}"),
    };
    let report = Run::new(Arc::new(harness), settings).report(|_| true, |_| ()).await;
    println!("{}", report.summary());
    let failures: String = report.failures().map(|(id, reason)| format!("\n  {id}: {reason}")).collect();
    let sound = matches!(report.verdict, Verdict::Success | Verdict::Partial);
    let executed = !report.counts.is_empty() || report.is_excused();
    assert!(sound && failures.is_empty() && executed, "{}{failures}", report.summary());
    report
}
