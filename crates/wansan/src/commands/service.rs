//! What a service manager is told (sd_notify(3)); without one, nothing happens.

use sd_notify::NotifyState;

use super::remark;

/// The program serves; `status` is what `systemctl status` shows.
pub(super) fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The program reads its settings again; [`ready`] follows.
pub(super) fn reloading() {
    // systemd wants to know when it began.
    let now = NotifyState::monotonic_usec_now();
    let states = [Some(NotifyState::Reloading), now.ok()];
    let states: Vec<NotifyState<'_>> = states.into_iter().flatten().collect();
    notify(&states);
}

/// The program is about to end.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        remark(&format!(
            "wansan: the service manager at NOTIFY_SOCKET cannot be told: {error}"
        ));
    }
}
