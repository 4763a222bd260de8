//! The program as init systems and shells start it: as a daemon, under systemd or Upstart, with
//! Debian's files, and with a closed output pipe.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use punctual_harness::{Running, free_port};
use rustix::process::{Pid, Signal, kill_process};

use crate::wire::redis::Redis;
use crate::wire::{Wire, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_punctual");

/// Returns the command that starts the program with this working folder and port.
fn program(folder: &Path, port: u16) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--pidfile",
            "pid",
            "--dir",
        ])
        .arg(folder)
        .env_remove("NOTIFY_SOCKET")
        .env_remove("UPSTART_JOB")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A process that is not a child of the test. Killed on drop.
struct Daemon(Pid);

impl Daemon {
    /// Returns the process whose ID is in this file.
    fn of(pidfile: &Path) -> Self {
        let mut id = None;
        eventually(|| {
            let text = fs::read_to_string(pidfile).unwrap_or_default();
            id = text.strip_suffix('\n').map(|id| id.parse().unwrap());
            id.is_some()
        });
        Self(Pid::from_raw(id.unwrap()).unwrap())
    }

    fn proc(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.0.as_raw_nonzero()).into()
    }

    /// Blocks until the process has ended. A zombie counts as ended, because another process
    /// collects its status.
    fn ends(&self) {
        eventually(|| state(self.0).is_none_or(|state| state == 'Z'));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // This fails if the process has already ended.
        let _ = kill_process(self.0, Signal::KILL);
    }
}

/// Returns the letter of a process's state.
fn state(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn connect(port: u16) -> Wire {
    eventually(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    Wire::to(port)
}

#[test]
fn a_daemon_detaches_from_the_shell() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let parent = program(folder.path(), port)
        .args(["--daemonize", "yes", "--logfile", "log"])
        .spawn()
        .unwrap();
    let parent_id = parent.id().to_string();
    // This returns only because the daemon also closes the pipes.
    let Output {
        status,
        stdout,
        stderr,
    } = parent.wait_with_output().unwrap();
    assert!(status.success() && stdout.is_empty() && stderr.is_empty());
    let pidfile = folder.path().join("pid");
    let daemon = Daemon::of(&pidfile);
    let id = daemon.0.as_raw_nonzero().to_string();
    assert_ne!(id, parent_id);
    let mut c = connect(port);
    assert!(
        c.text("INFO server")
            .contains(&format!("\r\nprocess_id:{id}\r\n"))
    );
    let stat = fs::read_to_string(daemon.proc("stat")).unwrap();
    let session = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap();
    assert_eq!(session, id, "leads a session of its own");
    for fd in 0..3 {
        let open = fs::read_link(daemon.proc(&format!("fd/{fd}"))).unwrap();
        assert_eq!(open, Path::new("/dev/null"));
    }
    c.expect(&["CONFIG GET daemonize"], "*2|$9|daemonize|$3|yes|");
    c.send(&["SHUTDOWN"]);
    assert_eq!(c.ends(), 0);
    daemon.ends();
    assert!(!pidfile.exists() && folder.path().join("dump.rdb").exists());
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(
        log.contains(&format!("{id}:C ")) && log.contains(&format!(" PID: {id}, just started")),
        "{log}"
    );
}

#[test]
fn start_errors_of_a_daemon_are_printed_or_logged() {
    let folder = tempfile::tempdir().unwrap();
    // Errors before the fork appear on the terminal, with an exit status.
    for wrong in [
        ["--hz", "x"],
        ["--logfile", "nosuch/log"],
        ["--rename-command", "nosuch"],
    ] {
        let output = program(folder.path(), 0)
            .args(["--daemonize", "yes"])
            .args(wrong)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{wrong:?}");
        assert!(!output.stderr.is_empty(), "{wrong:?}");
    }
    // Errors after the fork are in the log. The pid file of another server is unchanged.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let pid_file = "the pid file of another server";
    fs::write(folder.path().join("pid"), pid_file).unwrap();
    let output = program(folder.path(), taken.local_addr().unwrap().port())
        .args(["--daemonize", "yes", "--logfile", "log"])
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    let log = folder.path().join("log");
    eventually(|| {
        fs::read_to_string(&log).is_ok_and(|log| {
            log.contains(" # Could not create server TCP listening socket 127.0.0.1:")
        })
    });
    assert_eq!(
        fs::read_to_string(folder.path().join("pid")).unwrap(),
        pid_file
    );
}

/// Returns the next message for a service manager.
fn message(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 200];
    let len = socket.recv(&mut bytes).unwrap();
    String::from_utf8(bytes[..len].to_vec()).unwrap()
}

const LOADING: &str = "STATUS=Redis is loading...\n";
const ACCEPTS: &str = "STATUS=Ready to accept connections\n";
const READY: &str = "READY=1\n";
const STOPPING: &str = "STOPPING=1\n";
const SAVING: &str = "STATUS=Saving the final RDB snapshot\n";

#[track_caller]
fn expect_messages(socket: &UnixDatagram, expected: &[&str]) {
    for expected in expected {
        assert_eq!(message(socket), *expected);
    }
}

fn manager(socket: std::io::Result<UnixDatagram>) -> UnixDatagram {
    let socket = socket.unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    socket
}

#[test]
fn systemd_is_notified_of_start_and_stop() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let path = folder.path().join("notify");
    let socket = manager(UnixDatagram::bind(&path));
    let mut child = Running(
        program(folder.path(), port)
            .args(["--supervised", "systemd"])
            .env("NOTIFY_SOCKET", &path)
            .spawn()
            .unwrap(),
    );
    expect_messages(&socket, &[LOADING, ACCEPTS, READY]);
    // The server accepts clients when it has reported READY.
    Wire::to(port).expect(&["PING"], "+PONG|");
    assert_eq!(
        fs::read_to_string(folder.path().join("pid")).unwrap(),
        format!("{}\n", child.0.id())
    );
    kill_process(Pid::from_child(&child.0), Signal::TERM).unwrap();
    expect_messages(&socket, &[STOPPING, SAVING]);
    assert!(child.0.wait().unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn systemd_is_detected_and_prevents_daemonize() {
    use std::os::linux::net::SocketAddrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let name = format!("punctual-test-{}-{port}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let socket = manager(UnixDatagram::bind_addr(&address));
    let mut child = Running(
        program(folder.path(), port)
            .args([
                "--supervised",
                "auto",
                "--daemonize",
                "yes",
                "--dbfilename",
                "nosuch",
            ])
            .env("NOTIFY_SOCKET", format!("@{name}"))
            .spawn()
            .unwrap(),
    );
    expect_messages(&socket, &[LOADING, ACCEPTS, READY]);
    let mut c = Wire::to(port);
    assert!(
        c.text("INFO server")
            .contains(&format!("process_id:{}\r\n", child.0.id()))
    );
    c.send(&["SHUTDOWN NOSAVE"]);
    expect_messages(&socket, &[STOPPING]);
    assert!(child.0.wait().unwrap().success());
}

#[test]
fn a_missing_supervisor_does_not_prevent_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nobody");
    for (mode, socket, complaint) in [
        (
            "systemd",
            None,
            Some("systemd supervision error: NOTIFY_SOCKET not found!"),
        ),
        (
            "systemd",
            Some(nowhere.to_str().unwrap()),
            Some("systemd supervision error: No such file"),
        ),
        (
            "systemd",
            Some("vsock:2:1"),
            Some("systemd supervision error: NOTIFY_SOCKET is neither"),
        ),
        (
            "systemd",
            Some(""),
            Some("systemd supervision error: NOTIFY_SOCKET is neither"),
        ),
        (
            "upstart",
            None,
            Some("Upstart supervision requested, but UPSTART_JOB not found!"),
        ),
        ("auto", None, None),
    ] {
        let port = free_port();
        let mut command = program(folder.path(), port);
        command.args(["--supervised", mode]);
        if let Some(socket) = socket {
            command.env("NOTIFY_SOCKET", socket);
        }
        let mut child = Running(command.spawn().unwrap());
        connect(port).send(&["SHUTDOWN NOSAVE"]);
        let mut log = String::new();
        child
            .0
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut log)
            .unwrap();
        assert!(child.0.wait().unwrap().success());
        let complaints: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("upervision"))
            .collect();
        match complaint {
            Some(complaint) => assert!(
                complaints.len() == 1 && complaints[0].contains(complaint),
                "{log}"
            ),
            None => assert!(complaints.is_empty(), "{log}"),
        }
    }
}

#[test]
fn a_server_supervised_by_its_parent_selects_a_port_and_ends_with_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Running(
        program(folder.path(), 0)
            .args(["--supervised", "parent", "--loglevel", "warning"])
            .args(["--appendonly", "yes"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let port = lines
        .find_map(|line| line.unwrap().strip_prefix("ready port=")?.parse().ok())
        .expect("a line with the port");
    let mut c = Wire::to(port);
    c.expect(&["SET key value"], "+OK|");
    let info = c.text("INFO server");
    assert!(info.contains(&format!("\r\ntcp_port:{port}\r\n")));

    // Input does not end the server.
    let mut input = child.0.stdin.take().unwrap();
    input.write_all(&[b'\n'; 1000]).unwrap();
    c.expect(&["PING"], "+PONG|");
    // The system closes the pipe in the same way if the parent is killed.
    drop(input);
    assert!(child.0.wait().unwrap().success());
    assert!(lines.any(|line| line.unwrap().contains("closed standard input")));
    let kept = fs::read_dir(folder.path().join("appendonlydir")).unwrap();
    assert!(kept.count() > 0);
}

#[test]
fn a_server_without_a_parent_s_pipe_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let output = program(folder.path(), 0)
        .args(["--supervised", "parent"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let log = String::from_utf8(output.stdout).unwrap();
    assert!(log.contains("closed standard input"), "{log}");
}

#[test]
fn the_process_stops_itself_for_upstart() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let child = Running(
        program(folder.path(), port)
            .args(["--supervised", "upstart"])
            .env("UPSTART_JOB", "x")
            .spawn()
            .unwrap(),
    );
    let pid = Pid::from_child(&child.0);
    eventually(|| state(pid) == Some('T'));
    kill_process(pid, Signal::CONT).unwrap();
    connect(port).expect(&["PING"], "+PONG|");
}

/// Returns Debian's file with its folders moved into `folder`, and with this port and our program.
/// Prints a note and returns `None` if the file cannot be read.
fn debian(file: &str, folder: &Path, port: u16) -> Option<String> {
    let Ok(text) = fs::read_to_string(file) else {
        eprintln!("skipped: {file} is not installed, or cannot be read");
        return None;
    };
    let mut text = text.replace("port 6379", &format!("port {port}"));
    for (moved, to) in [
        ("/run/redis", "run"),
        ("/var/log/redis", "log"),
        ("/var/lib/redis", "lib"),
        ("/etc/redis", "etc"),
    ] {
        let to = folder.join(to);
        fs::create_dir_all(&to).unwrap();
        text = text.replace(moved, to.to_str().unwrap());
    }
    Some(text.replace("/usr/bin/redis-server", PROGRAM))
}

#[test]
fn debian_s_unit_starts_and_stops_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let at = |name: &str| folder.path().join(name);
    let (Some(conf), Some(unit)) = (
        debian("/etc/redis/redis.conf", folder.path(), port),
        debian(
            "/lib/systemd/system/redis-server.service",
            folder.path(),
            port,
        ),
    ) else {
        return;
    };
    fs::write(at("etc/redis.conf"), &conf).unwrap();
    let of_unit = |name: &str| {
        let lines = unit
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        lines
            .map(str::to_owned)
            .next()
            .unwrap_or_else(|| panic!("no {name} in\n{unit}"))
    };
    assert_eq!(of_unit("Type"), "notify");
    let socket = manager(UnixDatagram::bind(at("notify")));
    let exec = of_unit("ExecStart");
    let mut words = exec.split(' ');
    let mut child = Running(
        Command::new(words.next().unwrap())
            .args(words)
            .env("NOTIFY_SOCKET", at("notify"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap(),
    );
    expect_messages(&socket, &[LOADING, ACCEPTS, READY]);
    let pidfile = of_unit("PIDFile");
    assert_eq!(
        fs::read_to_string(&pidfile).unwrap(),
        format!("{}\n", child.0.id())
    );
    let mut c = Wire::to(port);
    c.expect(&["SET a 1", "CONFIG REWRITE"], "+OK|+OK|");
    kill_process(Pid::from_child(&child.0), Signal::TERM).unwrap();
    expect_messages(&socket, &[STOPPING, SAVING]);
    assert!(child.0.wait().unwrap().success());
    assert!(!Path::new(&pidfile).exists() && at("lib/dump.rdb").exists());
    let log = fs::read_to_string(at("log/redis-server.log")).unwrap();
    assert!(!log.contains("no effect"), "{log}");
    // CONFIG REWRITE has put the unit's options into the file, so Debian's file is written again.
    // It contains `daemonize yes`, for other init systems.
    fs::write(at("etc/redis.conf"), &conf).unwrap();
    let output = Command::new(PROGRAM)
        .arg(at("etc/redis.conf"))
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    let daemon = Daemon::of(Path::new(&pidfile));
    let mut c = connect(port);
    // The snapshot may take a moment to load.
    eventually(|| c.ask(&["DBSIZE"]).as_int() == Some(1));
    c.send(&["SHUTDOWN"]);
    daemon.ends();
}

/// Debian's file with `appendonly yes`: the data survives kills and stops, and redis-server loads
/// it.
#[test]
fn debian_s_file_with_an_append_only_file() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let at = |name: &str| folder.path().join(name);
    let Some(conf) = debian("/etc/redis/redis.conf", folder.path(), port) else {
        return;
    };
    let changed = conf.replace("\nappendonly no", "\nappendonly yes");
    assert_ne!(changed, conf);
    fs::write(at("etc/redis.conf"), changed).unwrap();
    let socket = manager(UnixDatagram::bind(at("notify")));
    let start = || {
        let child = Command::new(PROGRAM)
            .arg(at("etc/redis.conf"))
            .args(["--supervised", "systemd", "--daemonize", "no"])
            .env("NOTIFY_SOCKET", at("notify"))
            .stdin(Stdio::null())
            .spawn();
        let child = Running(child.unwrap());
        expect_messages(&socket, &[LOADING, ACCEPTS, READY]);
        child
    };
    for (round, signal) in [Signal::TERM, Signal::KILL, Signal::TERM]
        .iter()
        .enumerate()
    {
        let mut child = start();
        let mut c = Wire::to(port);
        c.expect(&["INCR rounds"], &format!(":{}|", round + 1));
        eventually(|| {
            let log = at("lib/appendonlydir/appendonly.aof.1.incr.aof");
            let log = fs::read(log).unwrap_or_default();
            String::from_utf8_lossy(&log).matches("rounds").count() == round + 1
        });
        kill_process(Pid::from_child(&child.0), *signal).unwrap();
        if *signal == Signal::TERM {
            expect_messages(&socket, &[STOPPING, SAVING]);
        }
        child.0.wait().unwrap();
    }
    let log = fs::read_to_string(at("log/redis-server.log")).unwrap();
    assert!(!log.contains("no effect"), "{log}");
    let lib = at("lib");
    assert!(lib.join("appendonlydir/appendonly.aof.manifest").exists());
    let dir = ["--dir", lib.to_str().unwrap(), "--appendonly", "yes"];
    let redis = Redis::start(&dir);
    let mut c = Wire::to(redis.port);
    eventually(|| c.ask(&["GET", "rounds"]).as_bytes() == Some(b"3"));
}

/// CONFIG SET must not change `dir` while a snapshot is loaded.
#[test]
fn dir_cannot_change_while_a_snapshot_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    // The snapshot is a pipe without data, so the load does not end.
    let made = Command::new("mkfifo")
        .arg(folder.path().join("dump.rdb"))
        .status();
    assert!(made.unwrap().success());
    let _child = Running(
        program(folder.path(), port)
            .args(["--enable-protected-configs", "yes"])
            .spawn()
            .unwrap(),
    );
    let mut c = connect(port);
    const LOADING: &str = "-LOADING Redis is loading the dataset in memory|";
    c.expect(&["GET a"], LOADING);
    c.expect(&["CONFIG SET dir /"], LOADING);
    c.expect(&["CONFIG SET timeout 7 appendonly no"], LOADING);
    c.expect(&["CONFIG SET timeout 7"], "+OK|");
}

/// Tools search for `v=`, or read the third word.
#[test]
fn the_version_text_names_the_redis_version() {
    for option in ["-v", "--version"] {
        let output = Command::new(PROGRAM).arg(option).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = format!(
            "Punctual {} v={} sha=00000000:0 malloc=mimalloc bits=64 build=0\n",
            env!("CARGO_PKG_VERSION"),
            punctual_server::REDIS_VERSION
        );
        assert_eq!(text, line);
    }
}

#[test]
fn a_closed_output_pipe_causes_no_panic() {
    // Nobody can read from the pipe that is standard output.
    for args in ["--help", "--version"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(PROGRAM)
            .arg(args)
            .stdout(writer)
            .output()
            .unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(!complaints.contains("panicked"), "{args:?}: {complaints}");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {complaints}");
    }
    // The same for standard error.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(PROGRAM);
    command
        .args(["--nosuch", "1"])
        .stdout(Stdio::null())
        .stderr(writer);
    assert_eq!(command.status().unwrap().code(), Some(1));
}
