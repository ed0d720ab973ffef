//! I/Os at the boundaries of layers.

use crate::record::record;
use crate::{ConnectionId, Direction, Instant, Layer, SessionId, TaskTag};

record! {
    /// `io`: one I/O crossed one layer's boundary.
    Crossing in "io" grouped by |_| 0 => {
        /// When.
        time: Instant => Grows,
        /// The session that carries the I/O.
        session: SessionId => Repeats,
        /// The I/O's task in that session.
        task: TaskTag => Varies,
        /// The connection that carries the task; 0 above [`Layer::Window`] if the connection is not chosen
        /// yet.
        connection: ConnectionId => Repeats,
        /// The layer.
        layer: Layer => Repeats,
        /// Into it or out of it.
        direction: Direction => Repeats,
    }
}
