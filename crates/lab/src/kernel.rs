//! What the running kernel supports, where only its version tells.

/// The first Linux whose packet sockets pass super-frames of UDP (UDP_SEGMENT): an earlier one drops those that arrive,
/// and refuses to send them.
const UDP_SUPER_FRAMES_SINCE: (u32, u32) = (6, 2);

/// Whether packet sockets pass super-frames of UDP. A distribution's kernel may support them in an earlier version; its
/// UDP packets then take a little more CPU time.
pub(crate) fn passes_udp_super_frames() -> bool {
    let name = rustix::system::uname();
    version(&name.release().to_string_lossy()).is_some_and(|it| it >= UDP_SUPER_FRAMES_SINCE)
}

/// The first two numbers of a release such as `6.1.0-56-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("6.1.0-56-amd64"), Some((6, 1)));
        assert_eq!(version("6.18.5"), Some((6, 18)));
        assert_eq!(version("7.0-rc1"), Some((7, 0)));
        assert_eq!(version("unknown"), None);
        assert!(Some((6, 1)) < Some(UDP_SUPER_FRAMES_SINCE));
        assert!(Some((6, 18)) > Some(UDP_SUPER_FRAMES_SINCE));
    }
}
