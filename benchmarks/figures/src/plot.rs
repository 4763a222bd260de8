//! Common parts of all SVG plots: page, colours, and labels of axes.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::{Error, Result, table};

/// Colours that colour-blind readers can distinguish (Okabe and Ito, 2008), also in print.
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(110, 110, 110),
];

/// The font of all text.
pub const FONT: &str = "sans-serif";

/// Drawing area of a page.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Result of drawing.
pub type Drawing = std::result::Result<(), Box<dyn std::error::Error>>;

/// Writes a plot with a white background, title and foot line; `draw` draws the area between them.
///
/// # Errors
/// [`Error::Plot`] if `draw` fails or the file cannot be written.
pub fn page(
    path: &Path,
    size: (u32, u32),
    title: &str,
    foot: &str,
    draw: impl FnOnce(&Area<'_>) -> Drawing,
) -> Result<()> {
    let attempt = || -> Drawing {
        let root = SVGBackend::new(path, size).into_drawing_area();
        root.fill(&WHITE)?;
        let middle = Pos::new(HPos::Center, VPos::Top);
        let title_style = (FONT, 20).into_font().color(&BLACK).pos(middle);
        root.draw(&Text::new(title, (size.0 as i32 / 2, 10), title_style))?;
        let right = Pos::new(HPos::Right, VPos::Bottom);
        let foot_style = (FONT, 11)
            .into_font()
            .color(&RGBColor(110, 110, 110))
            .pos(right);
        root.draw(&Text::new(
            foot,
            (size.0 as i32 - 10, size.1 as i32 - 4),
            foot_style,
        ))?;
        draw(&root.margin(38, 18, 4, 30))?;
        root.present()?;
        Ok(())
    };
    attempt().map_err(|error| Error::Plot {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Formats a number on an axis, with as few decimals as possible.
pub fn tick(value: f64) -> String {
    if value >= 1000.0 {
        return table::thousands(value);
    }
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() {
        "0".into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks() {
        assert_eq!(tick(0.01), "0.01");
        assert_eq!(tick(100.0), "100");
        assert_eq!(tick(0.0), "0");
        assert_eq!(tick(10_000.0), "10,000");
    }
}
