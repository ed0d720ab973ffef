//! Tables on a terminal.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// Columns separated by spaces; one line below the header.
const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// An empty table with that header.
pub(super) fn grid<T: ToString>(header: impl IntoIterator<Item = T>) -> Table {
    let mut table = Table::new();
    table
        .load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.into_iter().map(|name| name.to_string()));
    table
}

/// Right-aligns columns of numbers.
pub(super) fn right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}
