//! A cell's programs that others connect to: the target, receivers of streams, and relays.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::program::{self, Program, Programs};
use super::site::{Place, Site};
use super::{CellError, Options};
use crate::patience;
use crate::plan::Scenario;
use crate::processors::Processors;
use crate::record::relay_result;
use crate::world::{Process, ProcessError};
use wansan_schema::{CellFacts, RelayResult};

/// Time for a target to create its stores and listen.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Grace time to detect a program's exit.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(1);
/// The kernel closes a server's sockets before its exit is visible: a client may fail this much earlier.
const EXIT_LIMIT: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(10);

/// The running servers, in starting order.
pub(super) struct Servers<'a> {
    scenario: &'a Scenario,
    each: Vec<Server>,
}

struct Server {
    title: String,
    process: Process,
    /// Its report that it listens.
    listening: Value,
    /// For a relay, its index in the scenario.
    relay: Option<usize>,
}

impl Server {
    /// The reason why it exited; `None` while it runs.
    fn death(&mut self) -> Option<ProcessError> {
        if self.process.is_running().ok()? {
            return None;
        }
        match self.process.line("serve", LAST_WORDS) {
            Err(of_server @ ProcessError::Ended { .. }) => Some(of_server),
            _ => None,
        }
    }
}

impl<'a> Servers<'a> {
    /// Starts all of them, each after the servers that it connects to listen.
    pub(super) fn start(
        site: &Site<'_>,
        scenario: &'a Scenario,
        programs: &Programs<'_>,
        options: &Options<'_>,
        facts: &mut CellFacts,
        processors: &mut Processors,
    ) -> Result<Servers<'a>, CellError> {
        let mut servers = Servers {
            scenario,
            each: Vec::new(),
        };
        let mut start = |place: Place<'_>, title: String, program: Program, relay| {
            let process = program.start(&place, &title, processors)?;
            servers.add(title, process, relay, options)
        };
        let target = programs.document.target.as_ref();
        if let (Some(name), Some(target)) = (&scenario.target_host, target) {
            let place = site.place(name);
            let program = programs.target(target, &place, &scenario.initiators);
            program.note(facts, name);
            start(place, format!("the target on `{name}`"), program, None)?;
        }
        for receiver in &scenario.receivers {
            let program = programs.receiver(receiver);
            program.note(facts, &format!("{}, receiver", receiver.host));
            let title = format!("the receiver of streams on `{}`", receiver.host);
            start(site.place(&receiver.host), title, program, None)?;
        }
        for (number, relay) in scenario.relays.iter().enumerate() {
            let place = site.place(&relay.host);
            let program = programs.relay(relay, &place);
            program.note(facts, &format!("{}, {}", relay.host, relay.table.name));
            let title = format!("[[relay]] `{}` on `{}`", relay.table.name, relay.host);
            start(place, title, program, Some(number))?;
        }
        Ok(servers)
    }

    /// Adds one, once it listens.
    fn add(
        &mut self,
        title: String,
        mut process: Process,
        relay: Option<usize>,
        options: &Options<'_>,
    ) -> Result<(), CellError> {
        let line = process.line_unless(options.stop, "listen", START_LIMIT)?;
        let line = line.ok_or(CellError::Interrupted)?;
        let listening = program::expect_event(&title, program::Event::Listening, &line)?;
        self.each.push(Server {
            title,
            process,
            listening,
            relay,
        });
        Ok(())
    }

    /// Fails with the reason if one has exited: none does so by itself.
    pub(super) fn check(&mut self) -> Result<(), CellError> {
        for server in &mut self.each {
            if !server.process.is_running()? {
                server.process.line("serve", LAST_WORDS)?;
            }
        }
        Ok(())
    }

    /// The root cause of a client's failure: a server that has died, if any, otherwise the client's own.
    pub(super) fn first_cause(&mut self, of_client: ProcessError) -> ProcessError {
        let deadline = Instant::now() + EXIT_LIMIT;
        loop {
            if let Some(of_server) = self.each.iter_mut().find_map(Server::death) {
                return of_server;
            }
            if Instant::now() > deadline {
                return of_client;
            }
            thread::sleep(POLL);
        }
    }

    /// Stops them, relays before their destinations; returns each relay's final report, by name.
    pub(super) fn end(self) -> Result<BTreeMap<String, RelayResult>, CellError> {
        let mut relays = BTreeMap::new();
        for server in self.each.into_iter().rev() {
            server.process.terminate();
            let lines = server.process.succeed(patience::END)?;
            if let Some(place) = server.relay {
                let ended = program::relay_end(&server.title, &lines)?;
                let relay = &self.scenario.relays[place];
                let law = server.listening["laws"][0].as_str();
                let result = relay_result(relay, law, ended);
                relays.insert(relay.table.name.clone(), result);
            }
        }
        Ok(relays)
    }
}
