//! Catches panics of one simulation, so that others continue.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs one simulation, which shares nothing with others.
///
/// # Errors
/// The panic's message, on one line.
pub fn caught<R>(simulation: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(simulation)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("no reason given").replace('\n', " ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_reported_on_one_line() {
        let message = |simulation: fn()| caught(simulation).unwrap_err();
        assert_eq!(message(|| panic!("one\ntwo {}", 3)), "one two 3");
        assert_eq!(message(|| panic!("whole")), "whole");
        assert_eq!(caught(|| 4), Ok(4));
    }
}
