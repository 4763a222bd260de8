//! Tables on the terminal: text is left-aligned, numbers are right-aligned.

use std::fmt;

/// Rows of text under a head.
#[derive(Debug)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Number of left-aligned columns.
    left: usize,
}

impl Table {
    /// Creates a table whose first `left` columns are left-aligned.
    pub fn new<S: Into<String>>(left: usize, head: impl IntoIterator<Item = S>) -> Self {
        Self {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
            left,
        }
    }

    /// Appends a row. Cells beyond the columns of the head are dropped; missing cells are empty.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        row.resize(self.head.len(), String::new());
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self
                .rows
                .iter()
                .chain([&self.head])
                .map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |row: &[String]| {
            let mut text = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if column > 0 {
                    text.push_str("  ");
                }
                if column < self.left {
                    text.push_str(&format!("{cell:<width$}"));
                } else {
                    text.push_str(&format!("{cell:>width$}"));
                }
            }
            text.trim_end().to_owned()
        };
        writeln!(f, "{}", line(&self.head))?;
        let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        writeln!(f, "{}", "-".repeat(total))?;
        for row in &self.rows {
            writeln!(f, "{}", line(row))?;
        }
        Ok(())
    }
}

/// Formats a whole number with separated thousands.
pub fn thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number <= -0.5 {
        format!("-{text}")
    } else {
        text
    }
}

/// Formats milliseconds with decimals that depend on the magnitude.
pub fn millis(milliseconds: f64) -> String {
    match milliseconds.abs() {
        size if size < 10.0 => format!("{milliseconds:.3}"),
        size if size < 1000.0 => format!("{milliseconds:.1}"),
        _ => thousands(milliseconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(1, ["server", "µs"]);
        table.row(["a", "1.25"]);
        table.row(["longer name"]);
        assert_eq!(
            table.to_string(),
            "server         µs\n-----------------\na            1.25\nlonger name\n"
        );
    }

    #[test]
    fn numbers() {
        assert_eq!(thousands(1_234_567.4), "1,234,567");
        assert_eq!(thousands(999.0), "999");
        assert_eq!(thousands(-1000.0), "-1,000");
        assert_eq!(thousands(-0.2), "0");
        assert_eq!(millis(0.0123), "0.012");
        assert_eq!(millis(22_069.0), "22,069");
    }
}
