//! The NBD protocol as two state machines without sockets, clocks and threads: bytes go in; bytes and events come out.
//!
//! The standard is [doc/proto.md](https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md); extended headers
//! are those of its branch `extension-ext-header`. Items name its sections.
//!
//! - [`wire`]: numbers and headers, with `parse` and `emit` as round trips;
//! - [`Export`]: a disk that a server exports;
//! - [`server`]: fixed newstyle negotiation, then requests and their replies;
//! - [`client`]: the other end.
//!
//! Both state machines are driven alike. In a loop: read from the connection into `space()`, report the length with
//! `received()`, take events with `poll_event()` until there is none, write the `pending()` bytes, and report with `sent()`
//! how many the connection accepted. Replies ([`Server::reply`](server::Server::reply)) and commands
//! ([`Client::submit`](client::Client::submit)) append to the pending bytes, at any time.
//!
//! ```
//! use wansan_nbd::{Abilities, BlockSizes, Export, client, server};
//!
//! let export = Export {
//!     name: "disk".into(),
//!     description: String::new(),
//!     size_bytes: 1 << 20,
//!     block: BlockSizes::DEFAULT,
//!     abilities: Abilities::default(),
//! };
//! let mut server = server::Server::new([export].into());
//! let mut client = client::Client::new("disk", client::Wants::default())?;
//! let ready = loop {
//!     let greeting = server.pending().len().min(client.space().len());
//!     client.space()[..greeting].copy_from_slice(&server.pending()[..greeting]);
//!     client.received(greeting);
//!     server.sent(greeting);
//!     if let Some(client::Event::Ready(ready)) = client.poll_event()? {
//!         break ready;
//!     }
//!     let answer = client.pending().len().min(server.space().len());
//!     server.space()[..answer].copy_from_slice(&client.pending()[..answer]);
//!     server.received(answer);
//!     client.sent(answer);
//!     while let Some(event) = server.poll_event()? {
//!         assert_eq!(event, server::Event::Opened { export: 0 });
//!     }
//! };
//! assert_eq!(ready.export.size_bytes, 1 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod client;
mod export;
mod extent;
mod input;
mod output;
mod rules;
pub mod server;
mod table;
#[cfg(test)]
mod tests;
pub mod wire;

pub use export::{Abilities, Export, ExportError};
pub use extent::Extent;
pub use wire::{BlockSizes, MAX_PAYLOAD_BYTES};
