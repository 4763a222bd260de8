//! Plots as SVG.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use punctual_figures::plot::{COLOURS, FONT, page, tick};

use crate::error::Result;

/// The width and height of a plot.
const SIZE: (u32, u32) = (960, 540);

/// Minimum width in pixels of a group of bars, so that its name fits. Plots with many groups are
/// wider.
const GROUP_WIDTH: u32 = 72;

/// A point in the axes' units.
pub(crate) type Point = (f64, f64);

/// A line with its name.
#[derive(Debug)]
pub(crate) struct Curve {
    pub(crate) label: String,
    pub(crate) points: Vec<Point>,
}

/// Bars in groups: one bar per series in each group; `None` for a missing value.
#[derive(Debug)]
pub(crate) struct Bars {
    pub(crate) y_axis: String,
    pub(crate) series: Vec<String>,
    /// Name of each group, below its bars, and their heights.
    pub(crate) groups: Vec<(String, Vec<Option<f64>>)>,
}

fn colour(series: usize) -> RGBColor {
    COLOURS[series % COLOURS.len()]
}

/// Plots the cumulative distribution of lateness: milliseconds on a logarithmic axis, and percent
/// of all events.
pub(crate) fn lateness(path: &Path, title: &str, foot: &str, curves: &[Curve]) -> Result<()> {
    let latest = curves
        .iter()
        .flat_map(|curve| &curve.points)
        .map(|point| point.0);
    let latest = latest.fold(1.0, f64::max);
    let right = 10f64.powf(latest.log10().ceil());
    // The axis begins at ten microseconds, because a logarithmic axis has no zero.
    let left = 0.01;
    Ok(page(path, SIZE, title, foot, |area| {
        let mut chart = ChartBuilder::on(area)
            .x_label_area_size(46)
            .y_label_area_size(58)
            .build_cartesian_2d((left..right).log_scale(), 0.0..100.0)?;
        chart
            .configure_mesh()
            .x_desc("lateness: reception - deadline, ms (logarithmic)")
            .y_desc("received by then, % of all")
            .x_label_formatter(&|late| tick(*late))
            .y_label_formatter(&|share| format!("{share:.0} %"))
            .light_line_style(RGBColor(240, 240, 240))
            .label_style((FONT, 14))
            .axis_desc_style((FONT, 15))
            .draw()?;
        for (at, curve) in curves.iter().enumerate() {
            let mut points = vec![(left, 0.0)];
            points.extend(thinned(&curve.points, left));
            let last = points[points.len() - 1].1;
            points.push((right, last));
            let line = colour(at).stroke_width(3);
            chart
                .draw_series(LineSeries::new(points, line))?
                .label(curve.label.as_str())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], line));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .margin(14)
            .background_style(WHITE.mix(0.9))
            .border_style(RGBColor(190, 190, 190))
            .label_font((FONT, 14))
            .draw()?;
        Ok(())
    })?)
}

/// Drops points within a pixel of the previous point.
fn thinned(points: &[Point], left: f64) -> Vec<Point> {
    let mut kept: Vec<Point> = Vec::new();
    for (at, &(x, y)) in points.iter().enumerate() {
        let x = x.max(left);
        let near = kept
            .last()
            .is_some_and(|last| x / last.0 < 1.005 && y - last.1 < 0.2);
        if !near || at + 1 == points.len() {
            kept.push((x, y));
        }
    }
    kept
}

/// Plots the latency of GETs over time: each server's slowest and median GET, on a logarithmic
/// axis.
pub(crate) fn storm(path: &Path, title: &str, foot: &str, curves: &[(Curve, Curve)]) -> Result<()> {
    let all = || {
        curves
            .iter()
            .flat_map(|(worst, median)| worst.points.iter().chain(&median.points))
    };
    let (from, to) = all().fold((0.0f64, 100.0f64), |(from, to), point| {
        (from.min(point.0), to.max(point.0))
    });
    let (low, high) = all().fold((1.0f64, 1.0f64), |(low, high), point| {
        (low.min(point.1), high.max(point.1))
    });
    let low = 10f64.powf(low.max(1e-4).log10().floor());
    // The upper part is reserved for the legend.
    let high = high * (high / low).powf(0.1 + 0.07 * 2.0 * curves.len() as f64);
    Ok(page(path, SIZE, title, foot, |area| {
        let mut chart = ChartBuilder::on(area)
            .x_label_area_size(46)
            .y_label_area_size(70)
            .build_cartesian_2d(from..to, (low..high).log_scale())?;
        chart
            .configure_mesh()
            .x_desc("time after the deadline, ms")
            .y_desc("latency of a GET, ms (logarithmic)")
            .x_label_formatter(&|time| format!("{time:.0}"))
            .y_label_formatter(&|latency| tick(*latency))
            .light_line_style(RGBColor(240, 240, 240))
            .label_style((FONT, 14))
            .axis_desc_style((FONT, 15))
            .draw()?;
        for (at, (worst, median)) in curves.iter().enumerate() {
            for (curve, line) in [
                (worst, colour(at).stroke_width(2)),
                (median, colour(at).mix(0.45).stroke_width(2)),
            ] {
                chart
                    .draw_series(LineSeries::new(curve.points.iter().copied(), line))?
                    .label(curve.label.as_str())
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], line));
            }
        }
        chart.draw_series([PathElement::new([(0.0, low), (0.0, high)], BLACK.mix(0.5))])?;
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .margin(10)
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(190, 190, 190))
            .label_font((FONT, 13))
            .draw()?;
        Ok(())
    })?)
}

/// Plots bars in groups, each with its value above it.
pub(crate) fn bars(path: &Path, title: &str, foot: &str, bars: &Bars) -> Result<()> {
    let tallest = bars
        .groups
        .iter()
        .flat_map(|(_, heights)| heights)
        .flatten();
    let tallest = tallest.fold(0.0f64, |most, height| most.max(*height));
    // Space for the legend above the tallest bar, about 19 of 430 pixels per line.
    let legend = (19.0 * bars.series.len() as f64 + 40.0) / 430.0;
    let top = if tallest > 0.0 {
        tallest / (1.0 - legend.min(0.6))
    } else {
        1.0
    };
    let groups = bars.groups.len().max(1) as f64;
    let plot_width = SIZE.0.max(GROUP_WIDTH * bars.groups.len() as u32 + 130);
    let inner_width = f64::from(plot_width - 120);
    Ok(page(path, (plot_width, SIZE.1), title, foot, |area| {
        let mut chart = ChartBuilder::on(area)
            .x_label_area_size(34)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..groups, 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .y_desc(bars.y_axis.as_str())
            .y_label_formatter(&|height| tick(*height))
            .light_line_style(WHITE)
            .label_style((FONT, 14))
            .axis_desc_style((FONT, 15))
            .draw()?;
        let width = 0.8 / bars.series.len().max(1) as f64;
        let left = |group: usize, series: usize| group as f64 + 0.1 + series as f64 * width;
        for (series, name) in bars.series.iter().enumerate() {
            let fill = colour(series).filled();
            let heights = bars
                .groups
                .iter()
                .enumerate()
                .filter_map(|(group, (_, heights))| {
                    let height = heights.get(series).copied().flatten()?;
                    let x = left(group, series);
                    Some(Rectangle::new([(x, 0.0), (x + width * 0.94, height)], fill))
                });
            chart
                .draw_series(heights)?
                .label(name.as_str())
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], fill));
        }
        // The values' font shrinks with the bars, so that neighbours do not overlap.
        let pixels = inner_width * width / groups;
        let size = (pixels * 0.4).clamp(7.0, 14.0);
        let above = (FONT, size)
            .into_font()
            .color(&BLACK)
            .pos(Pos::new(HPos::Center, VPos::Bottom));
        for (group, (_, heights)) in bars.groups.iter().enumerate() {
            for (series, height) in heights.iter().enumerate() {
                let Some(height) = height else { continue };
                let at = (left(group, series) + width * 0.47, height + top * 0.008);
                let text = format!("{height:.2}");
                chart.draw_series([Text::new(text, at, above.clone())])?;
            }
        }
        let size = (inner_width / groups * 0.16).clamp(9.0, 14.0);
        let under = (FONT, size)
            .into_font()
            .color(&BLACK)
            .pos(Pos::new(HPos::Center, VPos::Top));
        let plotting = chart.plotting_area();
        for (group, (name, _)) in bars.groups.iter().enumerate() {
            let (x, y) = plotting.map_coordinate(&(group as f64 + 0.5, 0.0));
            // `x` and `y` are relative to the corner of the page; `area.draw` expects pixels
            // relative to the corner of the area.
            let (x0, y0) = area.get_base_pixel();
            area.draw(&Text::new(
                name.as_str(),
                (x - x0, y - y0 + 8),
                under.clone(),
            ))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .margin(8)
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(190, 190, 190))
            .label_font((FONT, 14))
            .draw()?;
        Ok(())
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_ends() {
        let points: Vec<(f64, f64)> = (1..=10_000)
            .map(|at| (f64::from(at), f64::from(at) / 100.0))
            .collect();
        let kept = thinned(&points, 0.01);
        assert!(kept.len() < 3000, "{}", kept.len());
        assert_eq!(
            (kept[0], kept[kept.len() - 1]),
            (points[0], points[points.len() - 1])
        );
    }

    #[test]
    fn plots_of_nothing_are_still_plots() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.svg");
        lateness(&path, "t", "f", &[]).unwrap();
        storm(&path, "t", "f", &[]).unwrap();
        let empty = Bars {
            y_axis: "y".into(),
            series: vec![],
            groups: vec![],
        };
        bars(&path, "t", "f", &empty).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("</svg>"));
    }
}
