//! The watch in a terminal.

mod history;
mod view;

use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use wansan_tcp::watch::{Batch, Method};

use crate::board::Board;
use crate::sink::{Sink, SinkError};
use crate::words::describe_method;
use history::Histories;
use view::{Shown, Sort};

/// Time step of the curves, and redraw interval.
const STEP: Duration = Duration::from_millis(100);

/// The terminal, which is restored on drop and on panic.
pub struct Screen {
    terminal: DefaultTerminal,
    /// The current state.
    board: Board,
    histories: Histories,
    /// The state shown while the user has paused the screen.
    paused: Option<(Board, Histories)>,
    shown: Shown,
    drawn: Instant,
}

impl Screen {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// The terminal cannot be drawn on.
    pub fn open() -> Result<Screen, SinkError> {
        let terminal = ratatui::try_init().map_err(SinkError::Draw)?;
        Ok(Screen {
            terminal,
            board: Board::default(),
            histories: Histories::default(),
            paused: None,
            shown: Shown::default(),
            drawn: Instant::now(),
        })
    }

    /// Handles a key; returns `false` to quit.
    fn answer(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if control => return false,
            KeyCode::Char('p' | ' ') => {
                self.paused = match self.paused.take() {
                    Some(_) => None,
                    None => Some((self.board.clone(), self.histories.clone())),
                };
            }
            KeyCode::Char('s') => self.shown.sort = self.shown.sort.next(),
            KeyCode::Char('r') => self.shown.ascending = !self.shown.ascending,
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::PageDown => self.select(10),
            KeyCode::PageUp => self.select(-10),
            _ => {}
        }
        true
    }

    /// Moves the selection by `by` rows.
    fn select(&mut self, by: isize) {
        let board = self.paused.as_ref().map_or(&self.board, |(board, _)| board);
        let rows = self.shown.sorted(board);
        let place = rows
            .iter()
            .position(|entry| Some(entry.cookie()) == self.shown.selected);
        let place = match place {
            Some(place) => place.saturating_add_signed(by).min(rows.len().max(1) - 1),
            None => 0,
        };
        self.shown.selected = rows.get(place).map(|entry| entry.cookie());
    }

    fn draw(&mut self) -> Result<(), SinkError> {
        let (board, histories) = match &self.paused {
            Some((board, histories)) => (board, histories),
            None => (&self.board, &self.histories),
        };
        self.shown.paused = self.paused.is_some();
        let shown = &self.shown;
        let drawn = self
            .terminal
            .draw(|frame| view::draw(frame, board, histories, shown));
        drawn.map(|_| ()).map_err(SinkError::Draw)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

impl Sink for Screen {
    fn began(&mut self, method: &Method, interval: Duration) -> Result<(), SinkError> {
        self.shown.method = describe_method(method, interval);
        self.shown.sort = Sort::Rate;
        self.draw()
    }

    fn batch(&mut self, batch: &Batch) -> Result<bool, SinkError> {
        let histories = &mut self.histories;
        self.board.take(batch, |record, _| histories.event(record));
        Ok(true)
    }

    fn idle(&mut self) -> Result<bool, SinkError> {
        while event::poll(Duration::ZERO).map_err(SinkError::Keys)? {
            if let Event::Key(key) = event::read().map_err(SinkError::Keys)?
                && key.kind != KeyEventKind::Release
                && !self.answer(key)
            {
                return Ok(false);
            }
        }
        if self.drawn.elapsed() >= STEP {
            self.drawn = Instant::now();
            self.histories.step(&self.board);
            self.draw()?;
        }
        Ok(true)
    }
}
