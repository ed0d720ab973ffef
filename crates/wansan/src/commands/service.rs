//! Programs that serve until they are asked to end, and what they report to a service manager
//! (sd_notify(3)); without one, nothing happens.

use anyhow::{Context, Result};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::remark;

/// The exit status of a program that has panicked, as Rust has it.
const PANICKED: i32 = 101;

/// The signals that such a program has received, from when this is made.
pub(super) struct Orders(Signals);

impl Orders {
    /// From now on a panic in any thread ends the program: connections that a dead thread had would hang,
    /// and a service manager can start it again.
    ///
    /// # Errors
    /// When the system does not tell of signals.
    pub(super) fn new() -> Result<Orders> {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            tell(panic);
            std::process::exit(PANICKED);
        }));
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]);
        Ok(Orders(signals.context("cannot wait for signals")?))
    }

    /// Serves until SIGINT or SIGTERM. `serve` is called at the beginning with `false`, then with `true`
    /// whenever settings are to be read again (SIGHUP, where the program `reloads`; else that ends it,
    /// too); it says what `systemctl status` is to show.
    ///
    /// # Errors
    /// Those of `serve`.
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

    /// Whether a signal has come since: whoever sends a second one does not want to wait.
    pub(super) fn hurries(&mut self) -> bool {
        self.0.pending().any(|signal| signal != SIGHUP)
    }
}

/// The program serves; `status` is what `systemctl status` shows.
fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The program reads its settings again; [`ready`] follows.
fn reloading() {
    // systemd wants to know when it began.
    let now = NotifyState::monotonic_usec_now();
    let states = [Some(NotifyState::Reloading), now.ok()];
    let states: Vec<NotifyState<'_>> = states.into_iter().flatten().collect();
    notify(&states);
}

/// The program is about to end.
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
