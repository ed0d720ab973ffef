//! Draws the table of all connections, and one of them over time.

use std::cmp::Ordering;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, TableState};
use wansan_trace::event::TcpEvent;
use wansan_trace::terminal::escaped;

use super::history::{Histories, History, sign};
use crate::board::{Board, Entry, Shares};
use crate::words::describe_device_gone;

/// Sort key of the rows; descending unless reversed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sort {
    #[default]
    Rate,
    Cwnd,
    RoundTrip,
    Retransmits,
    Cuts,
    Local,
}

impl Sort {
    const ALL: [(Sort, &'static str); 6] = [
        (Sort::Rate, "rate"),
        (Sort::Cwnd, "cwnd"),
        (Sort::RoundTrip, "srtt"),
        (Sort::Retransmits, "retransmits"),
        (Sort::Cuts, "cuts"),
        (Sort::Local, "local end"),
    ];

    pub(super) fn next(self) -> Sort {
        let place = Sort::ALL.iter().position(|(sort, _)| *sort == self);
        Sort::ALL[place.map_or(0, |place| (place + 1) % Sort::ALL.len())].0
    }

    fn name(self) -> &'static str {
        let found = Sort::ALL.iter().find(|(sort, _)| *sort == self);
        found.map_or("", |(_, name)| name)
    }

    fn compare(self, a: &Entry, b: &Entry) -> Ordering {
        let (x, y) = (&a.last, &b.last);
        let ends = |entry: &Entry| (entry.begun.connection.local, entry.begun.connection.remote);
        let order = match self {
            Sort::Rate => y.delivery_bytes_per_s.cmp(&x.delivery_bytes_per_s),
            Sort::Cwnd => y.cwnd_packets.cmp(&x.cwnd_packets),
            Sort::RoundTrip => y.srtt_ns.cmp(&x.srtt_ns),
            Sort::Retransmits => y.retransmits.cmp(&x.retransmits),
            Sort::Cuts => cuts(b).cmp(&cuts(a)),
            Sort::Local => Ordering::Equal,
        };
        order.then_with(|| ends(a).cmp(&ends(b)))
    }
}

/// Number of window reductions.
fn cuts(entry: &Entry) -> u64 {
    let all = [
        TcpEvent::Cwr,
        TcpEvent::CwrByEce,
        TcpEvent::CwrByDevice,
        TcpEvent::Recovery,
        TcpEvent::Loss,
    ];
    all.iter().map(|event| entry.count(*event)).sum()
}

/// The user's choices, and the text around the table.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    /// How changes are observed, as text.
    pub(super) method: String,
    pub(super) sort: Sort,
    pub(super) ascending: bool,
    /// The cookie of the selected connection.
    pub(super) selected: Option<u64>,
    pub(super) paused: bool,
}

impl Shown {
    /// The rows, sorted.
    pub(super) fn sorted<'b>(&self, board: &'b Board) -> Vec<&'b Entry> {
        let mut entries: Vec<&Entry> = board.entries.values().collect();
        entries.sort_by(|a, b| self.sort.compare(a, b));
        if self.ascending {
            entries.reverse();
        }
        entries
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, board: &Board, histories: &Histories, shown: &Shown) {
    let [head, table, detail, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(4),
        Constraint::Length(12),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(heading(board, shown), head);
    let rows = shown.sorted(board);
    connections(frame, table, &rows, histories, shown);
    let selected = shown
        .selected
        .and_then(|cookie| board.entries.get(&cookie))
        .or(rows.first().copied());
    if let Some(entry) = selected {
        let none = History::default();
        let history = histories.of.get(&entry.cookie()).unwrap_or(&none);
        over_time(frame, detail, entry, history);
    }
    let keys_line = "q quit   p pause   s sort   r reverse   \u{2191}\u{2193} select   \
                     c CWR  e CWR by ECE  d CWR by device  R recovery  L loss  u undo";
    frame.render_widget(Paragraph::new(keys_line), keys);
}

fn heading(board: &Board, shown: &Shown) -> Paragraph<'static> {
    let unseen = board.unseen;
    let mut counts = format!(
        "{} connections, {} opened, {} closed; sorted by {}",
        board.entries.len(),
        board.begun,
        board.ended,
        shown.sort.name()
    );
    for (count, what) in [
        (unseen.events, "events lost"),
        (unseen.records, "records lost"),
        (unseen.samples, "samples missed"),
        (unseen.connections, "connections left out"),
    ] {
        if count > 0 {
            counts.push_str(&format!("; {count} {what}"));
        }
    }
    if let Some(device) = &board.device_gone {
        counts.push_str(&format!("; {}", describe_device_gone(&escaped(device))));
    }
    if shown.paused {
        counts.push_str("; PAUSED");
    }
    Paragraph::new(vec![Line::from(shown.method.clone()), Line::from(counts)])
}

/// The table's columns, with the widths of their numbers; addresses are as wide as needed.
const COLUMNS: [(&str, u16); 15] = [
    ("local", 5),
    ("remote", 6),
    ("control", 8),
    ("state", 8),
    ("cwnd", 6),
    ("ssthr", 6),
    ("flight", 6),
    ("srtt ms", 8),
    ("min ms", 8),
    ("Mbit/s", 8),
    ("busy", 4),
    ("rwnd", 4),
    ("sndb", 4),
    ("retr", 6),
    ("cuts", 10),
];

/// Columns to drop when there is no room for all, in this order. None is truncated: half a port is a different port.
const SPARED: [&str; 10] = [
    "min ms", "sndb", "rwnd", "retr", "control", "ssthr", "busy", "flight", "state", "cuts",
];

/// The columns that fit into `width`, by index, and their widths.
fn fitting(width: u16, rows: &[[String; 15]]) -> Vec<(usize, u16)> {
    let widest = |place: usize| rows.iter().map(|row| row[place].len()).max().unwrap_or(0);
    let mut columns: Vec<(usize, u16)> = COLUMNS
        .iter()
        .enumerate()
        .map(|(place, (_, least))| match place {
            0 | 1 => (
                place,
                (*least).max(u16::try_from(widest(place)).unwrap_or(u16::MAX)),
            ),
            _ => (place, *least),
        })
        .collect();
    for spared in SPARED {
        let needed: usize = columns
            .iter()
            .map(|(_, width)| usize::from(*width) + 1)
            .sum();
        if needed <= usize::from(width) + 1 {
            break;
        }
        columns.retain(|(place, _)| COLUMNS[*place].0 != spared);
    }
    columns
}

fn connections(
    frame: &mut Frame<'_>,
    area: Rect,
    rows: &[&Entry],
    histories: &Histories,
    shown: &Shown,
) {
    let place = rows
        .iter()
        .position(|entry| Some(entry.cookie()) == shown.selected);
    let height = usize::from(area.height).saturating_sub(1).max(1);
    // Format visible rows only.
    let first = place.map_or(0, |place| place.saturating_sub(height - 1));
    let in_view = rows.iter().skip(first).take(height);
    let cells: Vec<[String; 15]> = in_view.map(|entry| row(entry, histories)).collect();
    let columns = fitting(area.width, &cells);
    let table_rows = cells.iter().map(|cells| {
        let shown = columns.iter().map(|(place, _)| cells[*place].as_str());
        Row::new(shown.map(Cell::from))
    });
    let widths = columns
        .iter()
        .map(|(place, width)| match COLUMNS[*place].0 {
            "cuts" => Constraint::Min(*width),
            _ => Constraint::Length(*width),
        });
    let names = columns.iter().map(|(place, _)| COLUMNS[*place].0);
    let header = Row::new(names).style(Style::new().add_modifier(Modifier::BOLD));
    let table = Table::new(table_rows, widths)
        .header(header)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(place.map(|place| place - first));
    frame.render_stateful_widget(table, area, &mut state);
}

fn row(entry: &Entry, histories: &Histories) -> [String; 15] {
    let tcp = &entry.last;
    let connection = &entry.begun.connection;
    let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
    let share = |of: fn(&Shares) -> f64| {
        let shares = entry.shares.as_ref();
        shares.map_or_else(String::new, |shares| format!("{:.0}%", of(shares) * 100.0))
    };
    let threshold = tcp
        .threshold_packets()
        .map_or_else(|| "-".to_owned(), |packets| packets.to_string());
    let marks: String = histories
        .of
        .get(&entry.cookie())
        .map(|history| {
            history
                .marks
                .iter()
                .rev()
                .filter(|c| **c != ' ')
                .take(12)
                .collect()
        })
        .unwrap_or_default();
    [
        connection.local.to_string(),
        connection.remote.to_string(),
        escaped(&entry.begun.congestion_control),
        tcp.congestion_state.name().to_owned(),
        tcp.cwnd_packets.to_string(),
        threshold,
        tcp.in_flight_packets.to_string(),
        ms(tcp.srtt_ns),
        ms(tcp.min_rtt_ns),
        format!("{:.1}", tcp.delivery_bytes_per_s as f64 * 8.0 / 1e6),
        share(|shares| shares.busy),
        share(|shares| shares.rwnd_limited),
        share(|shares| shares.sndbuf_limited),
        tcp.retransmits.to_string(),
        format!("{} {marks}", cuts(entry)),
    ]
}

fn over_time(frame: &mut Frame<'_>, area: Rect, entry: &Entry, history: &History) {
    let connection = &entry.begun.connection;
    let title = format!(" {} > {} ", connection.local, connection.remote);
    let block = Block::bordered().title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [cwnd, marks, rtt, rest] = Layout::vertical([
        Constraint::Length(4),
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Min(1),
    ])
    .areas(inner);
    curve(
        frame,
        cwnd,
        "cwnd",
        &mut history.cwnd_packets.iter().copied(),
    );
    let width = usize::from(marks.width.saturating_sub(LABEL_WIDTH));
    let skipped = history.marks.len().saturating_sub(width);
    let signs: String = history.marks.iter().skip(skipped).collect();
    let label = usize::from(LABEL_WIDTH);
    frame.render_widget(Paragraph::new(format!("{:label$}{signs}", "")), marks);
    curve(frame, rtt, "srtt", &mut history.srtt_us.iter().copied());
    let tcp = &entry.last;
    let mut lines = vec![Line::from(format!(
        "rwnd {} B, unsent {} B, ECN {}, acknowledged with ECE {}, timeouts {}",
        tcp.rwnd_bytes,
        tcp.unsent_bytes,
        tcp.ecn.name(),
        tcp.delivered_ce,
        tcp.timeouts
    ))];
    let events = history.events.iter().rev().filter_map(|event| {
        let sign = sign(event.event)?;
        Some(format!(
            "{sign} {} {} ({})",
            event.time,
            event.event.name(),
            event.seen.name()
        ))
    });
    let events: Vec<String> = events.collect();
    lines.push(Line::from(events.join("   ")));
    frame.render_widget(Paragraph::new(lines), rest);
}

/// Width reserved before a curve for its name and maximum.
const LABEL_WIDTH: u16 = 12;

fn curve(frame: &mut Frame<'_>, area: Rect, name: &str, values: &mut dyn Iterator<Item = u64>) {
    let [label, plot] =
        Layout::horizontal([Constraint::Length(LABEL_WIDTH), Constraint::Min(1)]).areas(area);
    let values: Vec<u64> = values.collect();
    let skipped = values.len().saturating_sub(usize::from(plot.width));
    let greatest = values[skipped..].iter().max().copied().unwrap_or_default();
    frame.render_widget(Paragraph::new(format!("{name} {greatest}")), label);
    frame.render_widget(Sparkline::default().data(values[skipped..].to_vec()), plot);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::tests::{begin, records};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn picture(width: u16, height: u16, board: &Board, histories: &Histories) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let shown = Shown {
            method: "sampled".to_owned(),
            ..Shown::default()
        };
        terminal
            .draw(|frame| draw(frame, board, histories, &shown))
            .unwrap();
        let buffer = terminal.backend().buffer();
        let lines = buffer.content().chunks(usize::from(width));
        lines
            .map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>() + "\n")
            .collect()
    }

    #[test]
    fn connections_and_what_cut_them_are_in_the_picture() {
        let (mut board, mut histories) = (Board::default(), Histories::default());
        board.take(&begin(7), |record, _| histories.event(record));
        let next = records(2_000, 7, &[TcpEvent::Loss, TcpEvent::Sample]);
        board.take(&next, |record, _| histories.event(record));
        board.unseen.events = 3;
        board.device_gone = Some("wan".to_owned());
        histories.step(&board);
        let shown = picture(170, 30, &board, &histories);
        for part in [
            "127.0.0.1:3260",
            "127.0.0.1:40000",
            "1 L",
            "50%",
            "loss (sampled)",
            "3 events lost",
            "device wan has gone",
        ] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
    }

    #[test]
    fn a_narrow_picture_has_whole_ends_and_numbers() {
        let (mut board, mut histories) = (Board::default(), Histories::default());
        board.take(&begin(7), |record, _| histories.event(record));
        let next = records(2_000, 7, &[TcpEvent::Sample]);
        board.take(&next, |record, _| histories.event(record));
        let wide = picture(170, 30, &board, &histories);
        assert!(wide.lines().nth(2).unwrap().contains("min ms"), "{wide}");
        let narrow = picture(80, 30, &board, &histories);
        let row = narrow.lines().nth(3).unwrap();
        let whole: Vec<&str> = wide.lines().nth(3).unwrap().split_whitespace().collect();
        for word in row.split_whitespace() {
            assert!(whole.contains(&word), "{word} is not whole in\n{narrow}");
        }
        for name in ["local", "remote", "cwnd", "srtt ms", "Mbit/s"] {
            assert!(
                narrow.lines().nth(2).unwrap().contains(name),
                "{name} in\n{narrow}"
            );
        }
        assert!(
            row.contains("127.0.0.1:3260") && row.contains("127.0.0.1:40000"),
            "{narrow}"
        );
    }

    #[test]
    fn any_size_is_drawn() {
        let (mut board, histories) = (Board::default(), Histories::default());
        board.take(&begin(7), |_, _| {});
        for (width, height) in [(1, 1), (10, 3), (40, 8), (300, 100)] {
            picture(width, height, &board, &histories);
        }
        assert_eq!(Sort::Local.next(), Sort::Rate);
    }
}
