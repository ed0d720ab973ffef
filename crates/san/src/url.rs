//! iSCSI URLs as libiscsi writes them: `iscsi://HOST[:PORT]/TARGET-IQN/LUN`.

use std::fmt;
use std::str::FromStr;

use wansan_iscsi::text::send_targets::ISCSI_PORT;

/// A LUN of a target at a portal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IscsiUrl {
    /// Host name or address (an IPv6 one without its brackets).
    pub host: String,
    /// TCP port; 3260 when the URL names none.
    pub port: u16,
    /// The target's iSCSI name.
    pub target: String,
    /// The LUN's number, 0 to 16383.
    pub lun: u16,
}

/// An invalid URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "URL '{url}': {problem}; expected iscsi://HOST[:PORT]/TARGET-IQN/LUN, for example \
         iscsi://127.0.0.1:3260/iqn.2026-01.net.example:disk/0"
)]
pub struct UrlError {
    url: String,
    problem: &'static str,
}

impl FromStr for IscsiUrl {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        parse(url).map_err(|problem| UrlError {
            url: without_user(url),
            problem,
        })
    }
}

/// Removes the user and any secret from a URL within a text, so that an error message does not reveal them.
#[must_use]
pub fn without_user(text: &str) -> String {
    let mut told = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("//") {
        told.push_str(before);
        told.push_str("//");
        let portal = &after[..after.find(['/', '\'', ' ']).unwrap_or(after.len())];
        rest = match portal.rfind('@') {
            Some(at) => {
                told.push('…');
                &after[at..]
            }
            None => after,
        };
    }
    told.push_str(rest);
    told
}

fn parse(url: &str) -> Result<IscsiUrl, &'static str> {
    let rest = url
        .strip_prefix("iscsi://")
        .ok_or("it does not begin with iscsi://")?;
    let mut parts = rest.split('/');
    let portal = parts.next().unwrap_or_default();
    let target = parts
        .next()
        .filter(|name| !name.is_empty())
        .ok_or("the target's name is missing")?;
    let lun = parts
        .next()
        .filter(|lun| !lun.is_empty())
        .ok_or("the LUN is missing")?;
    if parts.next().is_some() {
        return Err("unexpected text after the LUN");
    }
    if portal.contains('@') {
        return Err(
            "it names a user: give --chap-user and --chap-secret-file instead, as others can read \
             arguments",
        );
    }
    if target.len() > 223 {
        return Err("the target's name is longer than 223 bytes (RFC 7143 §4.2.7.1)");
    }
    let (host, port) = split_portal(portal)?;
    let lun = lun
        .parse()
        .ok()
        .filter(|lun| *lun <= 16383)
        .ok_or("the LUN is not a number from 0 to 16383")?;
    Ok(IscsiUrl {
        host: host.to_owned(),
        port,
        target: target.to_owned(),
        lun,
    })
}

/// Host (without brackets) and port of `HOST[:PORT]`, 3260 when there is none.
pub(crate) fn split_portal(portal: &str) -> Result<(&str, u16), &'static str> {
    let (host, port) = if let Some(bracketed) = portal.strip_prefix('[') {
        let (host, after) = bracketed
            .split_once(']')
            .ok_or("an IPv6 address lacks its ']'")?;
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return Err("only ':PORT' may follow the ']'"),
        }
    } else {
        match portal.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address must be in [brackets]");
            }
            Some((host, port)) => (host, Some(port)),
            None => (portal, None),
        }
    };
    if host.is_empty() {
        return Err("the host is missing");
    }
    let port = match port {
        None => ISCSI_PORT,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or("the port is not a number from 1 to 65535")?,
    };
    Ok((host, port))
}

impl fmt::Display for IscsiUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(
                f,
                "iscsi://[{}]:{}/{}/{}",
                self.host, self.port, self.target, self.lun
            )
        } else {
            write!(
                f,
                "iscsi://{}:{}/{}/{}",
                self.host, self.port, self.target, self.lun
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_libiscsi_reads() {
        let url: IscsiUrl = "iscsi://127.0.0.1/iqn.2026-01.net.example:a/1"
            .parse()
            .unwrap();
        assert_eq!(
            (url.host.as_str(), url.port, url.lun),
            ("127.0.0.1", 3260, 1)
        );
        assert_eq!(url.target, "iqn.2026-01.net.example:a");
        let url: IscsiUrl = "iscsi://[::1]:3261/iqn.a/0".parse().unwrap();
        assert_eq!((url.host.as_str(), url.port), ("::1", 3261));
        assert_eq!(url.to_string().parse::<IscsiUrl>().unwrap(), url);
    }

    #[test]
    fn a_user_and_a_secret_are_not_repeated() {
        let error = "iscsi://me%hush@127.0.0.1/iqn.a:b/0".parse::<IscsiUrl>();
        let told = error.unwrap_err().to_string();
        assert!(
            !told.contains("hush") && told.contains("iscsi://…@127.0.0.1/"),
            "{told}"
        );
        let line = without_user("invalid value 'iscsi://me%hush@h/t/0' for '<URL>'");
        assert_eq!(line, "invalid value 'iscsi://…@h/t/0' for '<URL>'");
        assert_eq!(without_user("iscsi://h/t@x/0"), "iscsi://h/t@x/0");
    }

    #[test]
    fn says_what_is_wrong() {
        for (url, problem) in [
            ("http://h/iqn/0", "does not begin"),
            ("iscsi://h", "name is missing"),
            ("iscsi://h/iqn", "LUN is missing"),
            ("iscsi://h/iqn/x", "LUN is not a number"),
            ("iscsi://h/iqn/0/1", "after the LUN"),
            ("iscsi://h:0/iqn/0", "port"),
            ("iscsi://:3260/iqn/0", "host is missing"),
            ("iscsi://::1/iqn/0", "brackets"),
            ("iscsi://[::1/iqn/0", "']'"),
            ("iscsi://me%pw@h/iqn/0", "--chap-user"),
        ] {
            let error = url.parse::<IscsiUrl>().unwrap_err().to_string();
            assert!(
                error.contains(problem) && error.contains(&without_user(url)),
                "{url}: {error}"
            );
            assert!(!error.contains('\n'));
        }
    }
}
