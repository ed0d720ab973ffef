//! A relay: its listeners and threads, and how they change.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use wansan_server::{Changes, Threads, descriptors};
use wansan_split::Law;
use wansan_trace::{Recorder, clock};

use crate::bound::Signaller;
use crate::cycle;
use crate::error::RelayError;
use crate::mail::Mail;
use crate::observer::Observer;
use crate::reactor::Reactor;
use crate::route::Listener;
use crate::settings::{ListenerConfig, RelaySettings};
use crate::shared::Shared;

/// A running relay. When it is dropped, flows that are there are reset.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    signaller: Signaller,
    threads: Threads<Mail, Recorder>,
}

impl Relay {
    /// Listens, and relays flows from then on; `report` gets a line for each problem. Raises the
    /// process's limit of open files to its maximum.
    ///
    /// # Errors
    /// [`RelayError`] says what is wrong; nothing is left behind.
    pub fn start(settings: &RelaySettings, report: fn(&str)) -> Result<Relay, RelayError> {
        check(&settings.file.listener)?;
        // A relay without descriptors says so when a flow needs one.
        let _ = descriptors::raise();
        let signaller = Signaller::default();
        let mut listeners = Vec::new();
        for listener in &settings.file.listener {
            listeners.push(open(listener, &signaller, &listeners)?);
        }
        cycle::check(&listeners)?;
        let process = &settings.process;
        let threads = process.threads();
        let shared = Arc::new(Shared::new(threads, process, report)?);
        let mut relay = Relay {
            shared: Arc::clone(&shared),
            listeners,
            signaller,
            threads: Threads::new(Arc::clone(&shared.mailboxes)),
        };
        for number in 0..threads {
            let trace = Recorder::new(process.record.kinds(), process.record.memory_bytes());
            let reactor = Reactor::new(number, Arc::clone(&shared), trace)?;
            relay.threads.spawn(format!("relay-{number}"), reactor)?;
        }
        relay.report_laws();
        relay.listen(relay.listeners.clone());
        Ok(relay)
    }

    /// Where it listens, in the order in which listeners were given.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let address = |listener: &Listener| listener.address;
        self.listeners.iter().map(address).collect()
    }

    /// What is there as long as the listener at that address, or a flow that came to it.
    pub(crate) fn presence(&self, address: SocketAddr) -> Option<Weak<()>> {
        let mut listeners = self.listeners.iter();
        let listener = listeners.find(|listener| listener.address == address)?;
        Some(listener.presence())
    }

    /// By what each of them holds the backlogs of new flows.
    #[must_use]
    pub fn laws(&self) -> Vec<Law> {
        let bounds = self.listeners.iter().map(|it| it.route.bound.as_ref());
        bounds
            .map(|it| it.map_or(Law::None, |it| it.law.law))
            .collect()
    }

    /// Takes on other listeners, or other settings of them, and resolves their targets' names again.
    /// A listener is known by its `listen`, as it was given, and by its place among those with the same
    /// one. Flows that are there go on as they are; what connects from then on finds the new settings. The
    /// changes name listeners by `listen`.
    ///
    /// # Errors
    /// [`RelayError`] says what is wrong; nothing has changed then.
    pub fn reload(&mut self, configs: &[ListenerConfig]) -> Result<Changes, RelayError> {
        check(configs)?;
        let mut changes = Changes::default();
        let mut listeners: Vec<Listener> = Vec::new();
        let mut olds = self.listeners.clone();
        for config in configs {
            let listen = &config.listen;
            let is_it = |old: &Listener| old.route.config.listen == *listen;
            if let Some(place) = olds.iter().position(is_it) {
                let old = olds.remove(place);
                if old.route.config != *config {
                    changes.changed.push(listen.clone());
                }
                listeners.push(old.with(config, &self.signaller)?);
            } else {
                changes.added.push(listen.clone());
                let standing = [&self.listeners[..], &listeners[..]].concat();
                listeners.push(open(config, &self.signaller, &standing)?);
            }
        }
        let listen = |old: &Listener| old.route.config.listen.clone();
        changes.removed = olds.iter().map(listen).collect();
        cycle::check(&listeners)?;
        // All of it was tried on other sockets just before.
        for listener in &listeners {
            listener.put_in_force()?;
        }
        self.listeners = listeners;
        self.report_laws();
        self.listen(self.listeners.clone());
        // Once the first thread has answered, it has the new listeners, and has closed those that go.
        let _ = self.observer().meter();
        Ok(changes)
    }

    /// What looks at it from other threads.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Listens no more, and waits until all flows have ended by themselves, for `patience` at most, or
    /// until `hurries` says so; says whether they have.
    pub fn drain(&mut self, patience: Duration, mut hurries: impl FnMut() -> bool) -> bool {
        /// How often it is looked whether the flows are gone.
        const STEP: Duration = Duration::from_millis(10);
        let deadline = clock::now() + patience;
        self.listeners.clear();
        self.listen(Vec::new());
        // Once the first thread has answered, it has accepted what had connected before.
        let _ = self.observer().meter();
        while self.shared.seats.taken() > 0 {
            if hurries() || clock::now() >= deadline {
                return false;
            }
            thread::sleep(STEP);
        }
        true
    }

    /// Resets the flows that are left, ends the threads and gives their records.
    #[must_use]
    pub fn stop(mut self) -> Vec<Recorder> {
        self.threads.stop()
    }

    /// Logs remarks on the listeners' laws.
    fn report_laws(&self) {
        for listener in &self.listeners {
            let route = &listener.route;
            if let Some(remark) = &route.remark {
                let listen = &route.config.listen;
                (self.shared.report)(&format!("{listen}: {remark}"));
            }
        }
    }

    fn listen(&self, listeners: Vec<Listener>) {
        self.shared.mailboxes.send(0, Mail::Listen(listeners));
    }
}

/// Opens a listener beside those that stand.
fn open(
    config: &ListenerConfig,
    signaller: &Signaller,
    standing: &[Listener],
) -> Result<Listener, RelayError> {
    Listener::open(config, signaller).map_err(|error| match &error {
        RelayError::Listen { listen, source } if source.kind() == io::ErrorKind::AddrInUse => {
            let port = listen
                .rsplit_once(':')
                .and_then(|(_, port)| port.parse().ok());
            let has_port = |it: &&Listener| Some(it.address.port()) == port;
            match standing.iter().find(has_port) {
                Some(own) => RelayError::Taken {
                    listen: listen.clone(),
                    by: own.route.config.listen.clone(),
                },
                None => error,
            }
        }
        _ => error,
    })
}

/// What no single listener shows.
fn check(listeners: &[ListenerConfig]) -> Result<(), RelayError> {
    if listeners.is_empty() {
        return Err(RelayError::NoListener);
    }
    for (place, config) in listeners.iter().enumerate() {
        let is_any = config.listen.ends_with(":0");
        let same = |other: &ListenerConfig| other.listen == config.listen;
        if !is_any && listeners[..place].iter().any(same) {
            return Err(RelayError::Twice {
                listen: config.listen.clone(),
            });
        }
    }
    Ok(())
}
