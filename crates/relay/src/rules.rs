//! How packets reach a transparent listener: an nftables table that redirects connections to it (TPROXY), and a policy
//! route that delivers packets to foreign addresses locally.
//!
//! The same commands are either run ([`Rules::install`]) or printed for an operator ([`Rules::script`]). Everything has
//! its own name or number, made of the listener's address and port, so that it can be removed without affecting
//! anything else, also after the relay that installed it was killed.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::error::RelayError;
use crate::route::Interception;

/// Packet mark, and routing table number, of a listener: this and 30 bits of its address and port, far from numbers
/// that people choose, and from the kernel's own tables.
const MARKS: u32 = 1 << 30;

/// The rules of one transparent listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    listen: SocketAddr,
    /// `None` for a removed listener whose flows continue.
    interception: Option<Interception>,
}

/// Installing rules failed.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// A program is missing.
    #[error("`{program}` cannot be started: {source}; it is in the Debian package {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// Its package.
        package: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A command failed.
    #[error("`{command}` failed: {said}; rules need CAP_NET_ADMIN in the network namespace")]
    Refused {
        /// The command.
        command: String,
        /// Its error message, in one line.
        said: String,
    },
}

/// Rules that stay installed until this is dropped.
#[derive(Debug)]
pub struct Installed(Rules);

impl Rules {
    /// The rules of a transparent listener with the kernel's address `listen`, for the destinations `to`.
    ///
    /// # Errors
    /// [`RelayError::Interception`] when `to` is invalid.
    pub fn new(listen: SocketAddr, to: &str) -> Result<Rules, RelayError> {
        Ok(Rules {
            listen,
            interception: Some(to.parse()?),
        })
    }

    pub(crate) fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Whether they accept new connections.
    pub(crate) fn takes(&self) -> bool {
        self.interception.is_some()
    }

    /// Whether the other rules are of the same listener.
    pub(crate) fn is_of_same(&self, other: &Rules) -> bool {
        self.listen == other.listen
    }

    /// Rules that keep existing flows, and accept no new ones.
    pub(crate) fn without_new(&self) -> Rules {
        Rules {
            listen: self.listen,
            interception: None,
        }
    }

    /// A mark has no room for an address: it is FNV-1a (Fowler, Noll, Vo) of address and port,
    /// so that the same listener has the same mark in every run.
    fn mark(&self) -> u32 {
        let address = match self.listen.ip() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let bytes = address.into_iter().chain(self.listen.port().to_be_bytes());
        let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        MARKS | hash >> 2
    }

    fn table(&self) -> String {
        // Names must not contain colons.
        let address = self.listen.ip().to_string().replace(':', "-");
        format!("wansan_relay_{address}_{}", self.listen.port())
    }

    /// The input of nft(8): the table, replacing one of that name. Its chains are flushed and refilled, not deleted, so
    /// that each packet meets either the old rules or the new ones.
    ///
    /// A packet of a connected transparent socket is for this host, whatever its addresses; so is an ICMP error about a
    /// packet that the socket sent, without which a smaller path MTU or an unreachable target goes unnoticed. ICMPv6
    /// other than errors, as neighbour discovery, belongs to no socket. A socket that listens on all addresses matches
    /// packets for any host, of which only those of the first rule are intended.
    fn table_text(&self) -> String {
        let (family, protocol, icmp) = if self.listen.is_ipv4() {
            ("ip", "ipv4", "icmp")
        } else {
            ("ip6", "ipv6", "ipv6-icmp")
        };
        let (table, mark) = (self.table(), self.mark());
        let take = self.interception.map_or(String::new(), |taken| {
            let to = match self.listen.ip().is_unspecified() {
                true => format!(":{}", self.listen.port()),
                false => self.listen.to_string(),
            };
            let Interception { network, port } = taken;
            format!(
                "\t\t{family} daddr {network} tcp dport {port} tproxy {family} to {to} meta mark set {mark:#x} accept\n"
            )
        });
        format!(
            "add table inet {table}\n\
             flush table inet {table}\n\
             table inet {table} {{\n\
             \tchain keep {{\n\
             \t\tsocket wildcard 1 return\n\
             \t\tmeta mark set {mark:#x} accept\n\
             \t}}\n\
             \tchain take {{\n\
             \t\ttype filter hook prerouting priority mangle; policy accept;\n\
             {take}\
             \t\tmeta nfproto {protocol} meta l4proto {{ tcp, {icmp} }} socket transparent 1 jump keep\n\
             \t}}\n\
             }}\n"
        )
    }

    fn ip(&self, words: &str) -> Vec<String> {
        let family = if self.listen.is_ipv4() { "-4" } else { "-6" };
        let words = words.split_whitespace().map(str::to_owned);
        std::iter::once(family.to_owned()).chain(words).collect()
    }

    /// Arguments of ip(8): the policy, then the route.
    fn policy(&self, verb: &str) -> Vec<String> {
        let mark = self.mark();
        self.ip(&format!("rule {verb} fwmark {mark:#x} lookup {mark}"))
    }

    fn route(&self, verb: &str) -> Vec<String> {
        let all = if self.listen.is_ipv4() {
            "0.0.0.0/0"
        } else {
            "::/0"
        };
        self.ip(&format!(
            "route {verb} local {all} dev lo table {}",
            self.mark()
        ))
    }

    /// The commands that install the rules, with those that remove them as comments, for a shell.
    #[must_use]
    pub fn script(&self) -> String {
        let mut script = String::new();
        for words in [self.route("replace"), self.policy("add")] {
            let _ = writeln!(script, "ip {}", words.join(" "));
        }
        let _ = writeln!(script, "nft -f - <<'END'\n{}END", self.table_text());
        let _ = writeln!(script, "# and back:");
        let _ = writeln!(script, "# nft delete table inet {}", self.table());
        for words in [self.policy("del"), self.route("del")] {
            let _ = writeln!(script, "# ip {}", words.join(" "));
        }
        script
    }

    /// Installs the rules, replacing remains of a killed relay.
    ///
    /// # Errors
    /// [`RulesError`]; nothing is left behind.
    pub fn install(&self) -> Result<Installed, RulesError> {
        self.remove();
        // A failure from here on removes what was added.
        let installed = Installed(self.clone());
        // The table comes last, so that marked packets have a route from the first one on.
        run("ip", &self.route("replace"), "")?;
        run("ip", &self.policy("add"), "")?;
        self.put_table()?;
        Ok(installed)
    }

    fn put_table(&self) -> Result<(), RulesError> {
        let arguments = ["-f", "-"].map(str::to_owned);
        run("nft", &arguments, &self.table_text())
    }

    /// Removes rules that exist.
    fn remove(&self) {
        let table = ["delete", "table", "inet", &self.table()].map(str::to_owned);
        // Missing rules need no removal.
        let _ = run("nft", &table, "");
        let _ = run("ip", &self.policy("del"), "");
        let _ = run("ip", &self.route("del"), "");
    }
}

impl Installed {
    /// The rules.
    pub(crate) fn rules(&self) -> &Rules {
        &self.0
    }

    /// Replaces them by others of the same listener: all at once, or, on failure, not at all.
    pub(crate) fn replace(&mut self, rules: Rules) -> Result<(), RulesError> {
        debug_assert!(self.0.is_of_same(&rules));
        // Policy and route belong to the listener, and exist already.
        rules.put_table()?;
        self.0 = rules;
        Ok(())
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        self.0.remove();
    }
}

/// Runs a program with `input` on its standard input.
fn run(program: &'static str, arguments: &[String], input: &str) -> Result<(), RulesError> {
    let package = if program == "nft" {
        "nftables"
    } else {
        "iproute2"
    };
    let output = feed(program, arguments, input).map_err(|source| RulesError::Missing {
        program,
        package,
        source,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| !line.trim().is_empty());
    Err(RulesError::Refused {
        command: format!("{program} {}", arguments.join(" ")),
        said: first.unwrap_or("it said nothing").trim().to_owned(),
    })
}

fn feed(program: &str, arguments: &[String], input: &str) -> io::Result<Output> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut child = Command::new(program)
        .args(arguments)
        .env("PATH", search_path(&path))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read prints why by itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

/// Where Debian installs the programs; not on every user's PATH.
const FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The folders of `path`, and [`FOLDERS`]. An empty or relative part means the current folder, from which nothing is
/// run with these privileges.
fn search_path(path: &OsStr) -> OsString {
    let folders = env::split_paths(path).chain(FOLDERS.map(PathBuf::from));
    let folders = folders.filter(|folder| Path::is_absolute(folder));
    env::join_paths(folders).expect("parts of a path have no colons")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_program_is_run_from_where_one_stands() {
        for (path, searched) in [
            ("", "/usr/sbin:/sbin"),
            ("/usr/bin::/bin", "/usr/bin:/bin:/usr/sbin:/sbin"),
            (":.:bin:/bin:", "/bin:/usr/sbin:/sbin"),
        ] {
            assert_eq!(search_path(path.as_ref()), searched, "{path}");
        }
    }

    #[test]
    fn each_listener_has_its_own() {
        let rules = |listen: &str, to| Rules::new(listen.parse().unwrap(), to).unwrap();
        let all = [
            rules("0.0.0.0:3261", "192.0.2.0/24:3260"),
            rules("127.0.0.1:3261", "192.0.2.0/24:3260"),
            rules("127.0.0.2:3261", "192.0.2.0/24:3260"),
            rules("127.0.0.1:3262", "192.0.2.0/24:3260"),
            rules("[::]:3261", "[2001:db8::/32]:3260"),
            rules("[::1]:3261", "[2001:db8::/32]:3260"),
        ];
        for (place, one) in all.iter().enumerate() {
            for other in &all[..place] {
                assert_ne!(one.table(), other.table());
                assert_ne!(one.mark(), other.mark(), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn rules_name_what_they_take_and_nothing_else() {
        let rules = Rules::new("127.0.0.1:3261".parse().unwrap(), "192.0.2.0/24:3260").unwrap();
        let script = rules.script();
        for part in [
            "ip daddr 192.0.2.0/24 tcp dport 3260 tproxy ip to 127.0.0.1:3261",
            "meta nfproto ipv4 meta l4proto { tcp, icmp } socket transparent 1 jump keep",
            "ip -4 rule add fwmark 0x5e63d962 lookup 1583602018",
            "ip -4 route replace local 0.0.0.0/0 dev lo table 1583602018",
            "# nft delete table inet wansan_relay_127.0.0.1_3261",
        ] {
            assert!(script.contains(part), "{part}: {script}");
        }
        let rules = Rules::new("[::]:3261".parse().unwrap(), "[2001:db8::/32]:3260").unwrap();
        let script = rules.script();
        for part in [
            "ip6 daddr 2001:db8::/32 tcp dport 3260 tproxy ip6 to :3261",
            "meta nfproto ipv6 meta l4proto { tcp, ipv6-icmp } socket transparent 1 jump keep",
            "ip -6 route replace local ::/0 dev lo",
            "add table inet wansan_relay_--_3261",
        ] {
            assert!(script.contains(part), "{part}: {script}");
        }
    }
}
