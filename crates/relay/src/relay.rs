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

/// A running relay. Dropping it resets its flows.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    signaller: Signaller,
    threads: Threads<Mail, Recorder>,
}

impl Relay {
    /// Starts to listen and to relay flows; `report` gets one line per problem. Raises the process's limit of open
    /// files to its maximum.
    ///
    /// # Errors
    /// [`RelayError`]; nothing is left behind.
    pub fn start(settings: &RelaySettings, report: fn(&str)) -> Result<Relay, RelayError> {
        check(&settings.file.listener)?;
        // A relay short of descriptors reports it when a flow needs one.
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
        relay.listen(&relay.listeners);
        Ok(relay)
    }

    /// Its listen addresses, in the order of the settings.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let address = |listener: &Listener| listener.address;
        self.listeners.iter().map(address).collect()
    }

    /// Exists as long as the listener on that address, or a flow of it.
    pub(crate) fn presence(&self, address: SocketAddr) -> Option<Weak<()>> {
        let mut listeners = self.listeners.iter();
        let listener = listeners.find(|listener| listener.address == address)?;
        Some(listener.presence())
    }

    /// The law of each listener's new flows.
    #[must_use]
    pub fn laws(&self) -> Vec<Law> {
        let bounds = self.listeners.iter().map(|it| it.route.bound.as_ref());
        bounds
            .map(|it| it.map_or(Law::None, |it| it.law.law))
            .collect()
    }

    /// Replaces the listeners and their settings, and resolves their targets' names again. A listener is identified by
    /// its `listen` as given, and by its place among those with the same one. Existing flows continue unchanged; new
    /// connections use the new settings. The returned changes name listeners by `listen`.
    ///
    /// # Errors
    /// [`RelayError`]; nothing has changed then.
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
        // All of it was just tried on other sockets.
        for listener in &listeners {
            listener.put_in_force()?;
        }
        self.listeners = listeners;
        self.report_laws();
        self.listen(&self.listeners);
        // Once all threads reply, they have the new listeners, and have closed the removed ones.
        let _ = self.observer().meter();
        Ok(changes)
    }

    /// An observer for other threads.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Stops listening, and waits until all flows have ended by themselves, at most for `patience`, or until `hurries`
    /// returns true; returns whether they have.
    pub fn drain(&mut self, patience: Duration, mut hurries: impl FnMut() -> bool) -> bool {
        /// How often to check whether the flows are gone.
        const STEP: Duration = Duration::from_millis(10);
        let deadline = clock::now() + patience;
        self.listeners.clear();
        self.listen(&[]);
        // Once all threads reply, they have accepted earlier connections.
        let _ = self.observer().meter();
        while self.shared.seats.taken() > 0 {
            if hurries() || clock::now() >= deadline {
                return false;
            }
            thread::sleep(STEP);
        }
        true
    }

    /// Resets the remaining flows, ends the threads and returns their records.
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

    fn listen(&self, listeners: &[Listener]) {
        let mail = || Mail::Listen(listeners.to_vec());
        self.shared.mailboxes.send_all(mail);
    }
}

/// Opens a listener in addition to the existing ones.
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

/// Errors that involve several listeners.
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
