//! Description of the machine, which is printed above every table.

use std::fs;
use std::thread::available_parallelism;

/// Properties of this machine that affect results.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Local date and time, with the zone's offset.
    pub date: String,
    /// Logical processors that this process may use.
    pub cores: usize,
    /// Operating system and kernel release.
    pub kernel: String,
    /// The processor's name, from the kernel.
    pub processor: String,
    /// The 1-minute load average.
    pub load: String,
}

impl Machine {
    /// Reads the properties of this machine.
    pub fn here() -> Self {
        let uname = rustix::system::uname();
        Self {
            date: jiff::Zoned::now()
                .strftime("%Y-%m-%d %H:%M:%S %:z")
                .to_string(),
            cores: available_parallelism().map_or(1, usize::from),
            kernel: format!(
                "{} {} {}",
                uname.sysname().to_string_lossy(),
                uname.release().to_string_lossy(),
                uname.machine().to_string_lossy()
            ),
            processor: fs::read_to_string("/proc/cpuinfo")
                .ok()
                .and_then(|text| processor_name(&text))
                .unwrap_or_else(|| "unknown processor".into()),
            load: fs::read_to_string("/proc/loadavg")
                .ok()
                .and_then(|text| text.split_ascii_whitespace().next().map(str::to_owned))
                .unwrap_or_else(|| "unknown".into()),
        }
    }

    /// Returns processors and date in one line, for the foot of a plot.
    pub fn provenance(&self) -> String {
        format!("{} x {}, {}", self.cores, self.processor, self.date)
    }
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
