//! CHAP: our target under libiscsi's tools, our initiator against `tgtd`, and both of ours.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use tempfile::TempDir;
use wansan_peers::process::{Finished, run};
use wansan_peers::program::find;
use wansan_peers::tgtd::Tgtd;
use wansan_peers::wansan::{TARGET_NAME, Target, command};

use crate::stage::{
    LIMIT, Stop, WANSAN, empty_disk, folder, load, own_target, require, require_lines, text,
};
use crate::trial;

pub(crate) const USER: &str = "host-1";
pub(crate) const SECRET: &str = "only-the-host-knows";
pub(crate) const TARGET_USER: &str = "disk-1";
pub(crate) const TARGET_SECRET: &str = "only-the-disk-knows";
pub(crate) const WRONG: &str = "nobody-knows-this";
/// `tgtd` takes 7 for SHA-1, which IANA numbers 6, so only MD5 means the same to both.
const TGTD_ALGORITHMS: [&str; 2] = ["--chap-algorithms", "md5"];

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "chap::libiscsi_logs_in_with_the_right_secret_only",
            libiscsi,
        ),
        trial(
            "chap::libiscsi_has_our_target_prove_itself",
            libiscsi_mutual,
        ),
        trial(
            "chap::libiscsi_discovers_with_the_right_secret_only",
            libiscsi_discovery,
        ),
        trial("chap::tgtd_takes_our_secret_and_no_other", tgtd),
        trial("chap::tgtd_has_to_prove_itself_to_us", tgtd_mutual),
        trial("chap::our_ends_with_every_algorithm", own_ends),
        trial("chap::what_is_not_allowed_is_not_shown", access),
        trial("chap::secrets_stand_in_no_output", secrets_stay_secret),
    ]
}

/// Files of secrets.
pub(crate) struct Secrets(TempDir);

impl Secrets {
    pub(crate) fn new() -> Result<Self, Stop> {
        Ok(Secrets(folder()?))
    }

    fn file(&self, name: &str, content: &str) -> Result<String, Stop> {
        let path = self.0.path().join(name);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(content.as_bytes())?;
        Ok(text(&path).to_owned())
    }

    /// The arguments by which an end knows the initiator's secret.
    fn initiator(&self, secret: &str) -> Result<Vec<String>, Stop> {
        let file = self.file("initiator", secret)?;
        Ok(["--chap-user", USER, "--chap-secret-file", &file]
            .map(str::to_owned)
            .into())
    }

    /// The arguments by which an end knows both secrets.
    pub(crate) fn both(&self, target_secret: &str) -> Result<Vec<String>, Stop> {
        let file = self.file("target", target_secret)?;
        let mut arguments = self.initiator(SECRET)?;
        arguments.extend(
            [
                "--target-chap-user",
                TARGET_USER,
                "--target-chap-secret-file",
                &file,
            ]
            .map(str::to_owned),
        );
        Ok(arguments)
    }
}

pub(crate) fn borrowed(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

fn target(arguments: &[String]) -> Result<Target, Stop> {
    let arguments = [&["--lun", "memory:16MiB"][..], &borrowed(arguments)].concat();
    Ok(Target::start(Path::new(WANSAN), &arguments)?)
}

fn tool(name: &str, url: &str) -> Result<Finished, Stop> {
    Ok(run(Command::new(find(name)?).arg(url), LIMIT)?)
}

/// A URL that libiscsi takes a name and a secret from.
fn url(target: &Target, secret: &str) -> String {
    let url = target.url(0);
    url.replacen("iscsi://", &format!("iscsi://{USER}%{secret}@"), 1)
}

fn require_refused(finished: &Finished, words: &str) -> Result<(), Stop> {
    let refused = !finished.status.success() && finished.output().contains(words);
    require(refused, || format!("no '{words}' in {}", finished.output()))
}

fn libiscsi() -> Result<(), Stop> {
    let secrets = Secrets::new()?;
    let target = target(&secrets.initiator(SECRET)?)?;
    let printed = tool("iscsi-inq", &url(&target, SECRET))?.success()?.stdout;
    require_lines(&printed, &["Peripheral Qualifier:CONNECTED"])?;
    let refused = tool("iscsi-inq", &url(&target, WRONG))?;
    require_refused(&refused, "Authentication failure(513)")?;
    let open = tool("iscsi-inq", &target.url(0))?;
    require_refused(&open, "Authentication failure(513)")
}

fn libiscsi_mutual() -> Result<(), Stop> {
    let secrets = Secrets::new()?;
    let target = target(&secrets.both(TARGET_SECRET)?)?;
    let with = |secret| {
        let url = url(&target, SECRET);
        tool(
            "iscsi-inq",
            &format!("{url}?target_user={TARGET_USER}&target_password={secret}"),
        )
    };
    with(TARGET_SECRET)?.success()?;
    require_refused(&with(WRONG)?, "Invalid CHAP_R")
}

fn libiscsi_discovery() -> Result<(), Stop> {
    let secrets = Secrets::new()?;
    let target = target(&secrets.initiator(SECRET)?)?;
    let portal = |secret| format!("iscsi://{USER}%{secret}@{}", target.address());
    let printed = tool("iscsi-ls", &portal(SECRET))?.success()?.stdout;
    require(printed.contains(TARGET_NAME), || printed)?;
    let refused = tool("iscsi-ls", &portal(WRONG))?;
    require(!refused.output().contains(TARGET_NAME), || refused.output())
}

fn tgtd() -> Result<(), Stop> {
    let (secrets, disks) = (Secrets::new()?, folder()?);
    let tgtd = Tgtd::start(&empty_disk(disks.path(), "disk.img", 16)?)?;
    tgtd.demand_chap(USER, SECRET)?;
    let with = |secret| {
        let mut arguments = secrets.initiator(secret)?;
        arguments.extend(TGTD_ALGORITHMS.map(str::to_owned));
        Ok::<_, Stop>(arguments)
    };
    load(&tgtd.url(), 100, &borrowed(&with(SECRET)?))?;
    let wrong = with(WRONG)?;
    require_refused(&bench(&tgtd.url(), &wrong)?, "could not be authenticated")?;
    require_refused(&bench(&tgtd.url(), &[])?, "")
}

fn tgtd_mutual() -> Result<(), Stop> {
    let (secrets, disks) = (Secrets::new()?, folder()?);
    let tgtd = Tgtd::start(&empty_disk(disks.path(), "disk.img", 16)?)?;
    tgtd.demand_chap(USER, SECRET)?;
    tgtd.prove_by_chap(TARGET_USER, TARGET_SECRET)?;
    let mut arguments = secrets.both(TARGET_SECRET)?;
    arguments.extend(TGTD_ALGORITHMS.map(str::to_owned));
    load(&tgtd.url(), 100, &borrowed(&arguments))?;
    let mut arguments = secrets.both(WRONG)?;
    arguments.extend(TGTD_ALGORITHMS.map(str::to_owned));
    let wrong = bench(&tgtd.url(), &arguments)?;
    require_refused(&wrong, "the target's CHAP name or secret is wrong")
}

fn bench(url: &str, arguments: &[String]) -> Result<Finished, Stop> {
    let arguments = [&["bench", url, "--count", "1"][..], &borrowed(arguments)].concat();
    Ok(command(Path::new(WANSAN), &arguments, LIMIT)?)
}

fn own_ends() -> Result<(), Stop> {
    let secrets = Secrets::new()?;
    let both = secrets.both(TARGET_SECRET)?;
    let target = target(&both)?;
    for algorithm in ["md5", "sha-1", "sha-256", "sha3-256"] {
        let arguments = [&borrowed(&both)[..], &["--chap-algorithms", algorithm]].concat();
        load(&target.url(0), 100, &arguments)?;
    }
    let told = bench(&target.url(0), &[])?;
    require_refused(&told, "give a CHAP name and secret")
}

fn access() -> Result<(), Stop> {
    for (arguments, allowed) in [
        (&["--allow-initiator", "iqn.2026-01.net.wansan:*"][..], true),
        (
            &["--allow-initiator", "iqn.2026-01.net.wansan:other"],
            false,
        ),
        (&["--allow-network", "127.0.0.0/8"], true),
        (
            &["--allow-network", "192.0.2.0/24", "--allow-network", "::1"],
            false,
        ),
    ] {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        let target = target(&arguments)?;
        let finished = bench(&target.url(0), &[])?;
        if allowed {
            finished.success()?;
            continue;
        }
        require_refused(&finished, "is not allowed to use the target")?;
        let portal = format!("iscsi://{}", target.address());
        let shown = tool("iscsi-ls", &portal)?;
        require(!shown.output().contains(TARGET_NAME), || shown.output())?;
    }
    // Somebody else is let in as ever.
    let open = own_target(&["memory:16MiB"])?;
    bench(&open.url(0), &[])?.success()?;
    Ok(())
}

fn secrets_stay_secret() -> Result<(), Stop> {
    let secrets = Secrets::new()?;
    let records = folder()?;
    let mut arguments = secrets.both(TARGET_SECRET)?;
    arguments.extend(["--record", text(&records.path().join("target"))].map(str::to_owned));
    let target = target(&arguments)?;
    let right = secrets.both(TARGET_SECRET)?;
    bench(&target.url(0), &right)?.success()?;
    let wrong = bench(&target.url(0), &secrets.initiator(WRONG)?)?;
    let said = wrong.output() + &target.log();
    target.stop()?;
    for secret in [SECRET, TARGET_SECRET, WRONG] {
        require(!said.contains(secret), || said.clone())?;
        for entry in std::fs::read_dir(records.path().join("target"))? {
            let bytes = std::fs::read(entry?.path())?;
            let found = bytes
                .windows(secret.len())
                .any(|window| window == secret.as_bytes());
            require(!found, || "a secret stands in the records".to_owned())?;
        }
    }
    Ok(())
}
