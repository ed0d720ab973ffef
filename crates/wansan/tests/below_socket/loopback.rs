//! Runs over loopback that are recorded by hand, with the kernel's stamps.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;
use rustix::net::RecvFlags;
use wansan_peers::process::run;
use wansan_peers::wansan::Target;
use wansan_tcp::Stamping;
use wansan_trace::{ConnectionId, Instant, Kinds, Recorder, SessionId};

use crate::WANSAN;

const LIMIT: Duration = Duration::from_secs(60);
const KINDS: [&str; 2] = ["--record-kinds", "io,pdu,tcp,stamp"];

/// A target that records into a folder.
pub(crate) fn target(folder: &Path) -> Result<Target, Failed> {
    let folder = folder.to_str().ok_or("a path of bytes")?;
    let arguments = [&["--lun", "memory:16MiB", "--record", folder][..], &KINDS].concat();
    let target = Target::start(Path::new(WANSAN), &arguments);
    Ok(target.map_err(|error| error.to_string())?)
}

/// Loads a disk, with records into a folder.
pub(crate) fn load(url: &str, folder: &Path, arguments: &[&str]) -> Result<(), Failed> {
    let folder = folder.to_str().ok_or("a path of bytes")?;
    let record = [&["--json", "--record", folder][..], &KINDS].concat();
    let arguments = [&["bench", url][..], arguments, &record].concat();
    let loaded = run(Command::new(WANSAN).args(arguments), LIMIT);
    let loaded = loaded.map_err(|error| error.to_string())?;
    if loaded.status.success() {
        return Ok(());
    }
    Err(loaded.output().into())
}

/// Linux begins to stamp what comes a little after the first socket asks for it, and ends with the last
/// one: holds one until it is dropped.
pub(crate) fn keep_stamping() -> (TcpStream, Stamping) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let ids = (SessionId(0), ConnectionId(0));
    let mut stamping = Stamping::begin(&server, ids, false, 0, 0).unwrap();
    let stamps = Kinds {
        stamp: true,
        ..Kinds::NONE
    };
    let mut trace = Recorder::new(stamps, 64 << 20);
    loop {
        client.write_all(&[1]).unwrap();
        let read = stamping.receive(&server, &mut [0], RecvFlags::empty(), &mut trace);
        assert_eq!(read, Ok(1));
        if trace
            .stamp
            .iter()
            .any(|stamp| stamp.arrived > Instant::ZERO)
        {
            return (server, stamping);
        }
        thread::sleep(Duration::from_millis(1));
    }
}
