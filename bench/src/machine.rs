//! What machine the figures come from.

use std::fs;
use std::thread::available_parallelism;

/// Date, processor and load, in one line.
pub fn here() -> String {
    let date = jiff::Zoned::now().strftime("%Y-%m-%d %H:%M %:z");
    let cores = available_parallelism().map_or(1, usize::from);
    let processor = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| processor_name(&text))
        .unwrap_or_else(|| "unknown processor".into());
    format!("{cores} x {processor}, {date}")
}

/// The 1-minute load average: what else is running here.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_ascii_whitespace()
        .next()
        .unwrap_or("unknown")
        .to_owned()
}

fn processor_name(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_processor() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t: fpu\n";
        assert_eq!(processor_name(text).as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(processor_name("BogoMIPS: 50"), None);
    }
}
