//! A plot of one figure: a line for each contender, over the number of timers.

use std::path::Path;

use plotters::prelude::*;
use punctual_figures::plot::{COLOURS, FONT, page, tick};

use crate::results::{Figure, Results};

/// Width and height in pixels.
const SIZE: (u32, u32) = (960, 540);

/// Writes the plot of a figure, with logarithmic axes. `foot` names the machine.
pub fn figure(
    results: &Results,
    figure: Figure,
    path: &Path,
    foot: &str,
) -> punctual_figures::Result<()> {
    let (_, title, unit) = figure.about();
    let sizes = results.sizes(figure);
    let lines: Vec<(&str, Vec<(f64, f64)>)> = results
        .entries
        .iter()
        .enumerate()
        .map(|(at, entry)| {
            let points = sizes.iter().filter_map(|&size| {
                let median = results.rounds(figure, size, at).spread()?.median;
                Some((size as f64, median))
            });
            (entry.name, points.collect())
        })
        .filter(|(_, points): &(_, Vec<_>)| !points.is_empty())
        .collect();
    let points = || lines.iter().flat_map(|(_, points)| points);
    let right = points().map(|point| point.0).fold(10.0, f64::max);
    let top = points().map(|point| point.1).fold(10.0, f64::max);
    page(path, SIZE, title, foot, |area| {
        let mut chart = ChartBuilder::on(area)
            .x_label_area_size(46)
            .y_label_area_size(68)
            .build_cartesian_2d(
                (1.0..right).log_scale(),
                (1.0..10f64.powf(top.log10().ceil())).log_scale(),
            )?;
        chart
            .configure_mesh()
            .x_desc("N (logarithmic)")
            .y_desc(format!("{unit} (logarithmic)"))
            .x_label_formatter(&|size| tick(*size))
            .y_label_formatter(&|nanos| tick(*nanos))
            .light_line_style(RGBColor(240, 240, 240))
            .label_style((FONT, 14))
            .axis_desc_style((FONT, 15))
            .draw()?;
        for (at, (name, points)) in lines.iter().enumerate() {
            let line = COLOURS[at % COLOURS.len()].stroke_width(3);
            chart
                .draw_series(LineSeries::new(points.iter().copied(), line).point_size(3))?
                .label(*name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], line));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .margin(14)
            .background_style(WHITE.mix(0.9))
            .border_style(RGBColor(190, 190, 190))
            .label_font((FONT, 14))
            .draw()?;
        Ok(())
    })
}
