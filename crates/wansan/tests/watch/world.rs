//! Two hosts and an emulated path between them, and a watch in the sending one.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wansan_lab::emulator::{Config, Direction, Emulator, Route};
use wansan_lab::world::{Interface, TcpSettings, Topology, World};
use wansan_path::{Capacity, Change, Effects, Limit};
use wansan_tcp::expression::Expression;
use wansan_tcp::watch::{Batch, EVENT_BYTES, Method, Next, Unseen, Watch, WatchConfig};
use wansan_trace::event::{Tcp, TcpEvent};
use wansan_trace::{Kinds, Recorder, clock};

/// Longer than any machine takes for what these tests do.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const PORT: u16 = 3260;

/// Of the path, while nothing waits on it.
pub(crate) const RTT: Duration = Duration::from_millis(10);

/// How often the kernel is asked.
pub(crate) const INTERVAL: Duration = Duration::from_millis(2);

/// How a watch sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    Traced,
    Sampled,
}

impl Sight {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Sight::Traced => "traced",
            Sight::Sampled => "sampled",
        }
    }

    pub(crate) fn named(name: &str) -> Result<Sight, String> {
        let all = [Sight::Traced, Sight::Sampled];
        let found = all.into_iter().find(|sight| sight.name() == name);
        found.ok_or_else(|| format!("no sight `{name}`"))
    }

    /// All connections of [`PORT`], as often as can be.
    pub(crate) fn config(self) -> WatchConfig {
        WatchConfig {
            filter: Some(Expression::port(PORT)),
            interval: INTERVAL,
            event_bytes: (self == Sight::Traced).then_some(EVENT_BYTES),
            ..WatchConfig::default()
        }
    }

    /// A watch in the calling thread's network namespace.
    pub(crate) fn watch(self, config: WatchConfig) -> Result<Watch, String> {
        let watch = Watch::start(config).map_err(|error| error.to_string())?;
        match (self, watch.method()) {
            (Sight::Traced, Method::Traced) | (Sight::Sampled, Method::Sampled { .. }) => Ok(watch),
            (_, method) => Err(format!("it watches otherwise: {method:?}")),
        }
    }
}

/// All that a watch has observed.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) records: Vec<Tcp>,
    pub(crate) begun: Vec<(u64, SocketAddr)>,
    pub(crate) devices_gone: Vec<String>,
    pub(crate) unseen: Unseen,
}

impl Observed {
    pub(crate) fn add(&mut self, batch: Batch) {
        self.records.extend(batch.records);
        let begun = batch.begun.iter().map(|b| &b.connection);
        self.begun.extend(begun.map(|c| (c.cookie, c.local)));
        self.devices_gone.extend(batch.devices_gone);
        self.unseen = batch.unseen;
    }

    /// Takes batches until what was told is enough.
    pub(crate) fn until(
        &mut self,
        watch: &Watch,
        enough: impl Fn(&Observed) -> bool,
    ) -> Result<(), String> {
        let began = std::time::Instant::now();
        while !enough(self) {
            match watch.next(Duration::from_millis(20)) {
                Next::Batch(batch) => self.add(batch),
                Next::Nothing => {}
                Next::Over(ending) => return Err(format!("the watch ended: {ending}")),
            }
            if began.elapsed() > LONG {
                return Err(format!("not enough after {LONG:?}: {}", self.summary()));
            }
        }
        Ok(())
    }

    pub(crate) fn count(&self, event: TcpEvent) -> usize {
        self.records.iter().filter(|r| r.event == event).count()
    }

    /// How often each event happened.
    pub(crate) fn summary(&self) -> String {
        let counts = TcpEvent::ALL.map(|event| format!("{} {}", event.name(), self.count(event)));
        format!("{}; {:?}", counts.join(", "), self.unseen)
    }
}

pub(crate) fn check(holds: bool, what: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// A storage and a client.
pub(crate) fn build(ecn: bool) -> Result<World, String> {
    build_with(ecn, 16_384)
}

/// The same, whose sockets have send buffers of `wmem_bytes` to begin with.
pub(crate) fn build_with(ecn: bool, wmem_bytes: u64) -> Result<World, String> {
    let tcp = TcpSettings {
        congestion_control: "reno".to_owned(),
        rmem_bytes: [4_096, 131_072, 6_291_456],
        wmem_bytes: [4_096, wmem_bytes, 4_194_304],
        ecn,
    };
    let topology = Topology::flat(&["storage", "client"], &tcp, 1500);
    World::build(&topology).map_err(|error| error.to_string())
}

/// A path that takes its time, and nothing else.
pub(crate) fn path() -> Effects {
    Effects {
        delay: RTT / 2,
        capacity: Capacity::Unlimited,
        queue_limit: Limit::bytes(16 << 20),
        ..Effects::default()
    }
}

/// What the client sends goes through `forward`; the way back only takes time.
pub(crate) fn emulate(world: &World, forward: &Effects) -> Result<Emulator, String> {
    let direction = |name: &str, effects: &Effects| {
        let chain = effects.chain(1).map_err(|error| error.to_string())?;
        Ok::<_, String>(Direction::new(name, chain))
    };
    let interfaces = world.nodes().iter().flat_map(|node| node.interfaces());
    let route = |from, to, direction| Route {
        from,
        to,
        direction,
    };
    let config = Config {
        ports: interfaces.filter_map(Interface::port).collect(),
        directions: vec![direction("forward", forward)?, direction("back", &path())?],
        routes: vec![route(1, 0, 0), route(0, 1, 1)],
        mtu_bytes: 1500,
        sample_interval: Duration::from_millis(100),
        recorder: Recorder::new(Kinds::NONE, 0),
    };
    Emulator::start(world.wan().handle(), config).map_err(|error| error.to_string())
}

/// Changes what becomes of what the client sends, from now on.
pub(crate) fn order(emulator: &Emulator, change: Change) -> Result<(), String> {
    let orders = vec![("forward".to_owned(), change)];
    let receipt = emulator.remote().order(clock::now(), orders);
    let receipt = receipt.map_err(|error| error.to_string())?;
    let made = receipt.wait(LONG).map_err(|error| error.to_string())?;
    check(made.is_some(), "the path was not changed")
}

/// The client's sending, which goes on until it is finished.
pub(crate) struct Sending {
    finish: Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Sending {
    /// Sends no more, and waits until the storage has all.
    pub(crate) fn finish(self) -> Result<(), String> {
        drop(self.finish);
        joined(self.thread)
    }
}

fn joined(sender: JoinHandle<io::Result<()>>) -> Result<(), String> {
    let sent = sender.join().map_err(|_| "the sender panicked")?;
    sent.map_err(|error| format!("send: {error}"))
}

/// Connects the client to the storage, which reads all that `write` sends.
fn send(
    world: &World,
    write: impl FnOnce(&mut TcpStream) -> io::Result<()> + Send + 'static,
) -> Result<JoinHandle<io::Result<()>>, String> {
    let [storage, client] = world.nodes() else {
        return Err("two hosts".to_owned());
    };
    let address = storage.address();
    let listener = storage
        .namespace()
        .run(move || TcpListener::bind((address, PORT)))
        .map_err(|error| format!("listen: {error}"))?;
    thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        io::copy(&mut stream, &mut io::sink())
    });
    Ok(client.namespace().run(move || {
        thread::spawn(move || {
            let mut stream = TcpStream::connect((address, PORT))?;
            write(&mut stream)?;
            stream.shutdown(Shutdown::Write)?;
            // Until the other end has all.
            stream.read_to_end(&mut Vec::new()).map(|_| ())
        })
    }))
}

/// A watch in the client, what it has told so far, and the client's sending: one MiB has been acknowledged.
pub(crate) fn under_way(world: &World, sight: Sight) -> Result<(Watch, Observed, Sending), String> {
    let client = world.nodes()[1].namespace();
    let watch = client.run(move || sight.watch(sight.config()))?;
    let (finish, finished) = channel();
    let thread = send(world, move |stream| {
        while finished.try_recv() == Err(TryRecvError::Empty) {
            stream.write_all(&[7; 64 << 10])?;
        }
        Ok(())
    })?;
    let mut told = Observed::default();
    told.until(&watch, |told| {
        told.records.iter().any(|r| r.acked_bytes > 1 << 20)
    })?;
    Ok((watch, told, Sending { finish, thread }))
}

/// Watches in the client while it sends, from when the watch has found the connection, which takes a
/// tenth of a second where it is sampled; returns the events until the connection's end.
pub(crate) fn watched(
    world: &World,
    config: WatchConfig,
    sight: Sight,
    bytes: usize,
) -> Result<Observed, String> {
    let watch = world.nodes()[1]
        .namespace()
        .run(move || sight.watch(config))?;
    let (go, begin) = channel::<()>();
    let sender = send(world, move |stream| {
        // Whoever would say it may have given up.
        let _ = begin.recv();
        stream.write_all(&vec![7; bytes])
    })?;
    let mut told = Observed::default();
    told.until(&watch, |told| !told.begun.is_empty())?;
    drop(go);
    told.until(&watch, |told| told.count(TcpEvent::End) > 0)?;
    joined(sender)?;
    Ok(told)
}
