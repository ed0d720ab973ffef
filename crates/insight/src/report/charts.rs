//! The page's charts of one cell's records.

use super::time_axis::{Steps, rounded};
use super::{CellCharts, Detail, LayerReport, LayerSamples};
use super::{network, packets};
use crate::analysis::Analysis;
use crate::summary::{CellSummary, LayerUse};

impl CellCharts {
    /// The charts of a cell with the numbers `summary`, at the resolution of `detail`; the analysis's window is the
    /// measured time.
    #[must_use]
    pub fn of(analysis: &Analysis<'_>, summary: &CellSummary, detail: Detail) -> CellCharts {
        let (cell, window) = (analysis.cell, analysis.window);
        let mut charts = CellCharts {
            sessions: summary.sessions.len(),
            layers: summary.total.layers.iter().map(layer).collect(),
            dropped: dropped(summary),
            missing_crossings: summary.losses.missing_crossings,
            little_disagrees: little_disagrees(summary),
            packet_gaps: summary.packet_gaps.clone(),
            ..CellCharts::default()
        };
        if cell.packet.is_some() {
            charts.packets = packets::diagram(analysis, detail.packets);
            charts.stall_packets = packets::stall_diagrams(analysis, summary, detail.packets);
        }
        if let Some(steps) = Steps::new(detail.steps, cell.joined.records, window) {
            charts.time = Some(steps.axis());
            charts.in_flight = in_flight(analysis, &steps);
            if let (Some(tcp), Some(steps)) = (
                &cell.tcp,
                Steps::new(detail.tcp_steps, cell.joined.records, window),
            ) {
                charts.tcp_time = Some(steps.axis());
                (charts.connections, charts.connections_left_out) =
                    network::connections(tcp, &steps);
            }
            if let Some(path) = &cell.path {
                charts.paths = network::paths(path, &steps);
            }
        }
        charts
    }
}

fn layer(held: &LayerUse) -> LayerReport {
    LayerReport {
        layer: held.layer.name().to_owned(),
        in_flight_mean: rounded(held.in_flight_mean),
        in_flight_max: held.in_flight_max,
    }
}

fn dropped(summary: &CellSummary) -> std::collections::BTreeMap<String, u64> {
    let by_kind = summary.losses.dropped.iter();
    by_kind
        .map(|(kind, hosts)| (kind.clone(), hosts.values().sum()))
        .collect()
}

fn little_disagrees(summary: &CellSummary) -> Vec<String> {
    let layers = summary.total.layers.iter();
    layers
        .filter(|held| !held.little.agrees)
        .map(|held| held.layer.name().to_owned())
        .collect()
}

fn in_flight(analysis: &Analysis<'_>, steps: &Steps) -> Vec<LayerSamples> {
    let layers = analysis.cell.joined.layers.iter();
    let held = layers.zip(&analysis.held().all);
    let samples = held.map(|(layer, held)| LayerSamples {
        layer: layer.name().to_owned(),
        values: steps.means(held, analysis.cell.joined.weights.mean()),
    });
    samples.collect()
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests write the records that they read back"
)]
mod tests {
    use wansan_trace::event::{Path, Tcp, TcpEvent};
    use wansan_trace::{
        ConnectionId, Direction, Instant, Kinds, Layer, NameId, Recorder, SessionId, TaskTag, file,
    };

    use super::*;
    use crate::cell::Cell;
    use crate::window::Window;

    const MS: u64 = 1_000_000;
    const LAYERS: [Layer; 3] = [Layer::App, Layer::Window, Layer::Store];

    /// Two sessions that keep two I/Os each in flight for 100 ms. Each I/O waits 4 ms for the
    /// window, takes 1 ms to the store, 3 ms in it, and 2 ms back.
    fn record() -> Recorder {
        let mut recorder = Recorder::new(Kinds::ALL, 8 * Recorder::MIN_BYTES);
        let mut cross = |ns, session, task, layer, direction| {
            let (session, task) = (SessionId(session), TaskTag(task));
            recorder.crossing(
                Instant::from_ns(ns),
                session,
                ConnectionId(0),
                task,
                layer,
                direction,
            );
        };
        for session in 1..=2 {
            for task in 0..20 {
                let began_ns = u64::from(task / 2) * 10 * MS;
                for (layer, ms) in LAYERS.into_iter().zip([0, 4, 5]) {
                    cross(began_ns + ms * MS, session, task, layer, Direction::Enter);
                }
                for (layer, ms) in LAYERS.into_iter().zip([10, 10, 8]) {
                    cross(began_ns + ms * MS, session, task, layer, Direction::Leave);
                }
            }
        }
        recorder
    }

    fn tcp(host_sends: bool, time_ns: u64) -> Tcp {
        Tcp {
            time: Instant::from_ns(time_ns),
            session: SessionId(1),
            cwnd_packets: 10 + (time_ns / MS) as u32,
            mss_bytes: 1448,
            acked_bytes: if host_sends { time_ns } else { time_ns / 100 },
            retransmits: (time_ns / (40 * MS)) as u32,
            ..Tcp::BLANK
        }
    }

    fn path(name: NameId, time_ns: u64) -> Path {
        Path {
            time: Instant::from_ns(time_ns),
            path: name,
            queue_packets: 1,
            queue_bytes: 1500,
            busy_ns: time_ns / 4,
            ..Path::BLANK
        }
    }

    /// The charts of these records, written to and read from files as in a run.
    fn charts() -> CellCharts {
        charts_with(TcpEvent::Sample)
    }

    /// The same, with `event` at the end that sends little.
    fn charts_with(event: TcpEvent) -> CellCharts {
        let folder = tempfile::tempdir().unwrap();
        let mut client = record();
        let mut server = Recorder::new(Kinds::ALL, Recorder::MIN_BYTES);
        let name = client.name("client to server");
        for ms in [0, 20, 60, 90] {
            client.tcp(Tcp {
                event,
                ..tcp(false, ms * MS)
            });
            client.path(path(name, ms * MS));
            server.tcp(tcp(true, ms * MS));
        }
        file::write_part(folder.path(), "client", &[client]).unwrap();
        file::write_part(folder.path(), "server", &[server]).unwrap();
        file::merge_parts(folder.path()).unwrap();
        let cell = Cell::read(folder.path()).unwrap();
        let window = Window {
            from_ns: 20 * MS,
            to_ns: 80 * MS,
        };
        let analysis = Analysis::of(&cell, Some(window));
        CellCharts::of(&analysis, &analysis.summary(), Detail::FULL)
    }

    #[test]
    fn layers_and_samples_tell_where_the_ios_are() {
        let charts = charts();
        assert_eq!(charts.sessions, 2);
        let names: Vec<_> = charts.layers.iter().map(|layer| &*layer.layer).collect();
        assert_eq!(names, ["app", "window", "store"]);
        let window = &charts.layers[1];
        assert_eq!(
            (window.in_flight_mean, window.in_flight_max),
            (2.4, Some(4))
        );
        let axis = charts.time.unwrap();
        assert_eq!((axis.from_s, axis.measured_s), (-0.02, 0.06));
        let app = &charts.in_flight[0].values;
        assert_eq!(app.len(), axis.steps);
        assert_eq!((app[0], app[300]), (Some(4.0), Some(4.0)));
        // All four I/Os are in the window layer from 4 to 10 ms of each 10 ms.
        let steps_per_ms = 6;
        let window = &charts.in_flight[1].values;
        assert_eq!(window[2 * steps_per_ms], Some(0.0));
        assert_eq!(window[7 * steps_per_ms], Some(4.0));
        assert!(charts.dropped.is_empty() && charts.little_disagrees.is_empty());
    }

    #[test]
    fn only_the_end_that_sends_has_its_window_shown() {
        let charts = charts();
        assert_eq!(charts.connections.len(), 1);
        assert_eq!(charts.connections_left_out, 1);
        let server = &charts.connections[0];
        assert_eq!(server.name, "server to client");
        assert_eq!(server.retransmits, 2);
        let cwnd = &server.cwnd_packets;
        assert_eq!(
            (cwnd[0], cwnd[242], cwnd[1199]),
            (Some(10.0), Some(30.0), None)
        );
        assert_eq!(charts.paths[0].name, "client to server");
        assert_eq!(charts.paths[0].utilisation[100], Some(0.25));
    }

    #[test]
    fn an_end_that_sends_little_is_shown_when_its_window_was_cut() {
        let charts = charts_with(TcpEvent::Recovery);
        assert_eq!(charts.connections_left_out, 0);
        assert_eq!(charts.connections[1].name, "client to server");
        assert_eq!(charts.connections[1].cuts.len(), 4);
    }
}
