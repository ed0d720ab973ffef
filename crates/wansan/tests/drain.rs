//! How a target ends: it asks its initiators to leave, and does not wait for ever.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use wansan_iscsi::wire::{AsyncEvent, AsyncMessage, BHS_BYTES, Opcode};
use wansan_peers::session::log_in;
use wansan_peers::wansan::{TARGET_NAME, Target};

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
const LIMIT: Duration = Duration::from_secs(60);

/// A connection in full feature phase.
fn logged_in(address: &str) -> TcpStream {
    log_in(address, TARGET_NAME, "iqn.2026-11.net.example:stays").unwrap()
}

#[test]
fn initiators_are_asked_to_log_out_and_cut_off_when_they_do_not() {
    let arguments = ["--lun", "memory:16MiB", "--drain", "1s"];
    let target = Target::start(Path::new(WANSAN), &arguments).unwrap();
    let address = target.address().to_owned();
    let mut stream = logged_in(&address);
    let ending = std::thread::spawn(move || target.stop());
    let mut bhs = [0; BHS_BYTES];
    stream.read_exact(&mut bhs).unwrap();
    assert_eq!(Opcode::from_wire(bhs[0] & 0x3f), Opcode::AsyncMessage);
    let message = AsyncMessage::parse(&bhs).unwrap();
    assert_eq!(message.event, AsyncEvent::LogoutRequest);
    assert_eq!(message.parameter3, 1, "seconds to log out in");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(ending.join().unwrap().unwrap().success());
    // Nobody listens there any more.
    assert!(TcpListener::bind(&address).is_ok());
}

#[test]
fn a_service_manager_is_told_when_it_serves_and_when_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let mut told = [0; 4096];
    let mut next = || {
        let read = manager.recv(&mut told).unwrap();
        String::from_utf8_lossy(&told[..read]).into_owned()
    };
    let mut target = Command::new(WANSAN)
        .args(["target", "--listen", "127.0.0.1:0", "--name", TARGET_NAME])
        .args(["--lun", "memory:16MiB"])
        .env("NOTIFY_SOCKET", &path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ready = next();
    let process = i32::try_from(target.id()).unwrap();
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let stopping = next();
    assert!(target.wait().unwrap().success());
    assert!(
        ready.contains("READY=1") && ready.contains("STATUS=serves at 127.0.0.1:"),
        "{ready}"
    );
    assert!(stopping.contains("STOPPING=1"), "{stopping}");
}
