//! Programs that serve until asked to exit, and their notifications to a service manager (sd_notify(3)); these do
//! nothing without one.

use anyhow::{Context, Result};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::remark;

/// Rust's exit status after a panic.
const PANICKED: i32 = 101;

/// The signals received by such a program, from its creation on.
pub(super) struct Orders(Signals);

impl Orders {
    /// Makes a panic in any thread end the program: connections of a dead thread would hang, and a service manager can
    /// restart the program.
    ///
    /// # Errors
    /// Signals cannot be handled.
    pub(super) fn new() -> Result<Orders> {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            tell(panic);
            std::process::exit(PANICKED);
        }));
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]);
        Ok(Orders(signals.context("cannot wait for signals")?))
    }

    /// Serves until SIGINT or SIGTERM. Calls `serve` at the start with `false`, then with `true` whenever settings are
    /// to be reread (SIGHUP, if the program `reloads`; otherwise that ends it, too); it returns the text for
    /// `systemctl status`.
    ///
    /// # Errors
    /// Errors of `serve`.
    pub(super) fn obey(
        &mut self,
        reloads: bool,
        mut serve: impl FnMut(bool) -> Result<String>,
    ) -> Result<()> {
        ready(&serve(false)?);
        for signal in self.0.forever() {
            if signal != SIGHUP || !reloads {
                break;
            }
            reloading();
            ready(&serve(true)?);
        }
        stopping();
        Ok(())
    }

    /// Whether another signal has arrived: a second one means not to wait.
    pub(super) fn hurries(&mut self) -> bool {
        self.0.pending().any(|signal| signal != SIGHUP)
    }
}

/// Notifies that the program serves; `status` is the text for `systemctl status`.
fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Notifies that the program rereads its settings; [`ready`] follows.
fn reloading() {
    // systemd requires the start time.
    let now = NotifyState::monotonic_usec_now();
    let states = [Some(NotifyState::Reloading), now.ok()];
    let states: Vec<NotifyState<'_>> = states.into_iter().flatten().collect();
    notify(&states);
}

/// Notifies that the program is stopping.
fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        remark(&format!(
            "wansan: the service manager at NOTIFY_SOCKET cannot be notified: {error}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_ends_the_program() {
        const CHILD: &str = "WANSAN_TEST_PANICS";
        if std::env::var_os(CHILD).is_some() {
            let _orders = Orders::new().unwrap();
            let thread = std::thread::spawn(|| panic!("as this test wants it"));
            assert!(thread.join().is_err());
            std::process::exit(0);
        }
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["a_thread_that_panics_ends_the_program", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert_eq!(child.status.code(), Some(PANICKED), "{child:?}");
        let told = String::from_utf8_lossy(&child.stderr);
        assert!(told.contains("as this test wants it"), "{told}");
    }
}
