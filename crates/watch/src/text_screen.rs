//! A terminal that shows a text, which is redrawn regularly.

use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::Paragraph;

use crate::sink::SinkError;

/// Lines scrolled by Page Up and Page Down.
const PAGE: u16 = 20;

/// The terminal, which is restored on drop and on panic.
#[derive(Debug)]
pub struct TextScreen {
    terminal: DefaultTerminal,
    text: String,
    /// Lines scrolled past.
    above: u16,
}

impl TextScreen {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// The terminal cannot be drawn on.
    pub fn open() -> Result<TextScreen, SinkError> {
        let terminal = ratatui::try_init().map_err(SinkError::Draw)?;
        Ok(TextScreen {
            terminal,
            text: String::new(),
            above: 0,
        })
    }

    /// Shows another text, which must not contain control sequences.
    ///
    /// # Errors
    /// The terminal cannot be drawn on.
    pub fn show(&mut self, text: String) -> Result<(), SinkError> {
        self.text = text;
        self.draw()
    }

    /// Handles the pressed keys; returns `false` to quit.
    ///
    /// # Errors
    /// Keys cannot be read, or the terminal cannot be drawn on.
    pub fn answer(&mut self) -> Result<bool, SinkError> {
        while event::poll(Duration::ZERO).map_err(SinkError::Keys)? {
            let pressed = match event::read().map_err(SinkError::Keys)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => key,
                Event::Resize(..) => {
                    self.draw()?;
                    continue;
                }
                _ => continue,
            };
            let control = pressed.modifiers.contains(KeyModifiers::CONTROL);
            self.above = match pressed.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(false),
                KeyCode::Char('c') if control => return Ok(false),
                KeyCode::Down | KeyCode::Char('j') => self.above.saturating_add(1),
                KeyCode::Up | KeyCode::Char('k') => self.above.saturating_sub(1),
                KeyCode::PageDown => self.above.saturating_add(PAGE),
                KeyCode::PageUp => self.above.saturating_sub(PAGE),
                _ => self.above,
            };
            self.draw()?;
        }
        Ok(true)
    }

    fn draw(&mut self) -> Result<(), SinkError> {
        let lines = u16::try_from(self.text.lines().count()).unwrap_or(u16::MAX);
        self.above = self.above.min(lines.saturating_sub(1));
        let (text, above) = (self.text.as_str(), self.above);
        let drawn = self.terminal.draw(|frame| {
            let [body, keys] =
                Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(frame.area());
            frame.render_widget(Paragraph::new(text).scroll((above, 0)), body);
            let line = Paragraph::new("q quit   \u{2191}\u{2193} scroll")
                .style(Style::new().add_modifier(Modifier::REVERSED));
            frame.render_widget(line, keys);
        });
        drawn.map(|_| ()).map_err(SinkError::Draw)
    }
}

impl Drop for TextScreen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
