//! A running `wansan relay`, and what is asked of it.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub(crate) const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");

/// Longer than any machine takes for what these tests do.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// It is killed when dropped.
pub(crate) struct Relay {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
    pub(crate) addresses: Vec<String>,
    /// Where it serves its counters.
    pub(crate) metrics: String,
}

impl Drop for Relay {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

impl Relay {
    /// Starts it with those arguments, beside the ones that tests need.
    pub(crate) fn start(arguments: &[&str]) -> Result<Relay, Failed> {
        let mut command = Command::new(WANSAN);
        command.arg("relay").args(arguments);
        Relay::of(command)
    }

    /// Starts that command, which is `wansan relay` in some surroundings.
    pub(crate) fn of(mut command: Command) -> Result<Relay, Failed> {
        let mut child = command
            .args(["--json", "--metrics", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no pipe")?;
        let stderr = child.stderr.take().ok_or("no pipe")?;
        let mut relay = Relay {
            child,
            stdout: BufReader::new(stdout).lines(),
            stderr: BufReader::new(stderr).lines(),
            addresses: Vec::new(),
            metrics: String::new(),
        };
        let listening = relay.event("listening")?;
        let addresses = listening["addresses"].as_array().ok_or("no addresses")?;
        let addresses = addresses.iter().filter_map(Value::as_str);
        relay.addresses = addresses.map(str::to_owned).collect();
        relay.metrics = listening["metrics"].as_str().unwrap_or_default().to_owned();
        Ok(relay)
    }

    /// The next line on standard output, which is to be of that event.
    pub(crate) fn event(&mut self, name: &str) -> Result<Value, Failed> {
        let Some(line) = self.stdout.next() else {
            let said: Vec<String> = self.stderr.by_ref().flatten().collect();
            return Err(format!("it ends: {}", said.join("\n")).into());
        };
        let event: Value = serde_json::from_str(&line?)?;
        check(event["event"] == name, || format!("not {name}: {event}"))?;
        Ok(event)
    }

    /// The next line on standard error.
    pub(crate) fn remark(&mut self) -> Result<String, Failed> {
        Ok(self.stderr.next().ok_or("it says nothing")??)
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Failed> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        Ok(kill_process(id.ok_or("no process")?, signal)?)
    }

    /// Its exit status, once it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<i32>, Failed> {
        Ok(self.child.wait()?.code())
    }

    /// What it tells a Prometheus server.
    pub(crate) fn scrape(&self) -> Result<String, Failed> {
        let mut stream = TcpStream::connect(&self.metrics)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }
}
