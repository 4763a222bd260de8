//! Scenes: several connections to each server, some of which wait.

use std::thread;
use std::time::{Duration, Instant};

use super::{Duel, Stop};
use crate::command::Command;
use crate::compare::Judge;
use crate::generate::{Move, SCENE_DATABASE, Scene};
use crate::link::{Link, LinkError, Pair};
use crate::report::{Finding, show};

/// How long a server may take to begin a command, or to notice that a connection is closed.
const NOTICE: Duration = Duration::from_secs(5);

/// Behind every command that waits; whoever is served answers it too.
const BEHIND: &str = "behind";

/// One connection to each server.
struct Player {
    pair: Pair,
    /// Its ids on both servers.
    ids: (i64, i64),
    /// What it waits with, its answers unread.
    waiting: Option<Command>,
    judge: Judge,
}

/// Who plays, and what was done so far.
struct Stage {
    /// `None`: left.
    players: Vec<Option<Player>>,
    done: Vec<String>,
}

impl Duel<'_> {
    /// Plays the scene; then whoever still waits is unblocked and heard, and the databases are emptied.
    pub(super) fn scene(&mut self, scene: &Scene) -> Result<(), Stop> {
        let mut stage = Stage {
            players: Vec::new(),
            done: Vec::new(),
        };
        for _ in 0..scene.connections {
            let player = self.player()?;
            stage.players.push(Some(player));
        }
        for step in &scene.moves {
            stage.done.push(describe(step));
            self.summary.commands += 1;
            match step {
                Move::Say(who, commands) => self.say(&mut stage, *who, commands)?,
                Move::Wait(who, command) => self.wait(&mut stage, *who, command)?,
                Move::Hear(who) => self.hear(&mut stage, *who)?,
                Move::Unblock(who, how) => self.unblock(&mut stage, *who, *how)?,
                Move::Leave(who) => leave(&mut stage, *who)?,
            }
        }
        for who in 0..stage.players.len() {
            self.unblock(&mut stage, who, None)?;
            self.hear(&mut stage, who)?;
        }
        let sweep = [
            Command::of(&["RESET"]),
            self.options.protocol.hello(),
            Command::of(&["SELECT", "10"]),
            Command::of(&["FLUSHDB"]),
            Command::of(&["SELECT", SCENE_DATABASE]),
            Command::of(&["FLUSHDB"]),
        ];
        self.say(&mut stage, 0, &sweep)?;
        // What was told while the scene played lies before the fence of the main connection.
        self.pipeline(&[]).map_err(|stop| match stop {
            Stop::Found(finding) => Finding {
                headline: format!(
                    "{}, in a scene: {}",
                    finding.headline,
                    stage.done.join(" | ")
                ),
                probes: None,
                ..*finding
            }
            .into(),
            other => other,
        })
    }

    fn player(&mut self) -> Result<Player, Stop> {
        let mut pair = Pair::connect(self.addresses)?;
        pair.ask(&self.options.protocol.hello())?;
        pair.ask(&Command::of(&["SELECT", SCENE_DATABASE]))?;
        let (a, b) = pair.ask(&Command::of(&["CLIENT", "ID"]))?;
        Ok(Player {
            pair,
            ids: (
                a.as_int().unwrap_or_default(),
                b.as_int().unwrap_or_default(),
            ),
            waiting: None,
            judge: Judge::new(),
        })
    }

    fn say(&mut self, stage: &mut Stage, who: usize, commands: &[Command]) -> Result<(), Stop> {
        let done = stage.done.join(" | ");
        let Some(player) = stage.players[who].as_mut() else {
            return Ok(());
        };
        let exchange = player.pair.exchange(commands, commands.len());
        self.tolerance.saw(exchange.elapsed);
        for (command, (a, b)) in commands.iter().zip(&exchange.replies) {
            if !player.judge.same(command, a, b, self.tolerance) {
                return Err(differs(command, show(a), show(b), &done).into());
            }
        }
        exchange.failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Sends the command and waits until both servers have begun it.
    fn wait(&mut self, stage: &mut Stage, who: usize, command: &Command) -> Result<(), Stop> {
        let Some(player) = stage.players[who].as_mut() else {
            return Ok(());
        };
        let behind = Command::of(&["PING", BEHIND]);
        player.pair.exchange([command, &behind], 0);
        player.waiting = Some(command.clone());
        let ids = player.ids;
        let name = command.name().to_lowercase();
        let begun = |line: &str| {
            // That it is the last command is told before it waits; that it is blocked, only then.
            let blocked = line
                .split(' ')
                .filter_map(|field| field.strip_prefix("flags="))
                .any(|flags| flags.contains('b'));
            // Answered already: then it is the command behind that it has begun last.
            blocked && line.contains(&format!(" cmd={name} ")) || line.contains(" cmd=ping ")
        };
        let witness = witness(stage)?;
        until(&mut witness.pair.a, ids.0, begun)?;
        until(&mut witness.pair.b, ids.1, begun)
    }

    fn hear(&mut self, stage: &mut Stage, who: usize) -> Result<(), Stop> {
        let done = stage.done.join(" | ");
        let Some(player) = stage.players[who].as_mut() else {
            return Ok(());
        };
        let Some(command) = player.waiting.take() else {
            return Ok(());
        };
        for command in [command, Command::of(&["PING", BEHIND])] {
            let (a, b) = (player.pair.a.read(), player.pair.b.read());
            match (a, b) {
                (Ok(a), Ok(b)) if player.judge.same(&command, &a, &b, self.tolerance) => {}
                (a, b) => {
                    let told = |reply: Result<_, LinkError>| match reply {
                        Ok(value) => show(&value),
                        Err(error) => error.to_string(),
                    };
                    return Err(differs(&command, told(a), told(b), &done).into());
                }
            }
        }
        Ok(())
    }

    /// Whether it still waited must be the same; whoever does not wait at all is left alone.
    fn unblock(&mut self, stage: &mut Stage, who: usize, how: Option<&str>) -> Result<(), Stop> {
        let Some((ids, _)) = stage.players[who]
            .as_ref()
            .and_then(|player| Some((player.ids, player.waiting.as_ref()?)))
        else {
            return Ok(());
        };
        let command = |id: i64| {
            let mut command = Command::of(&["CLIENT", "UNBLOCK"]).arg(id.to_string());
            command.extend(how);
            command
        };
        let done = stage.done.join(" | ");
        let witness = witness(stage)?;
        let a = witness.pair.a.ask(&command(ids.0))?;
        let b = witness.pair.b.ask(&command(ids.1))?;
        if a == b {
            return Ok(());
        }
        Err(differs(&command(ids.0), show(&a), show(&b), &done).into())
    }
}

/// The connection that never waits.
fn witness(stage: &mut Stage) -> Result<&mut Player, Stop> {
    stage.players[0].as_mut().ok_or_else(|| {
        Finding {
            headline: "a scene whose first connection has left".to_owned(),
            ..Finding::default()
        }
        .into()
    })
}

fn leave(stage: &mut Stage, who: usize) -> Result<(), Stop> {
    let Some(player) = stage.players[who].take() else {
        return Ok(());
    };
    let ids = player.ids;
    drop(player);
    let witness = witness(stage)?;
    until(&mut witness.pair.a, ids.0, str::is_empty)?;
    until(&mut witness.pair.b, ids.1, str::is_empty)
}

/// Asks for the client's line until it is as it should be.
fn until(link: &mut Link, id: i64, met: impl Fn(&str) -> bool) -> Result<(), Stop> {
    let ask = Command::of(&["CLIENT", "LIST", "ID"]).arg(id.to_string());
    let started = Instant::now();
    loop {
        let reply = link.ask(&ask)?;
        let line = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
        if met(line.trim()) {
            return Ok(());
        }
        if started.elapsed() > NOTICE {
            return Err(Finding {
                headline: format!(
                    "client {id} is not where it should be after {} s",
                    NOTICE.as_secs()
                ),
                command: Some(ask),
                a: show(&reply),
                ..Finding::default()
            }
            .into());
        }
        thread::sleep(Duration::from_micros(200));
    }
}

fn differs(command: &Command, a: String, b: String, done: &str) -> Finding {
    Finding {
        headline: format!("an answer in a scene: {done}"),
        command: Some(command.clone()),
        a,
        b,
        keys: Vec::new(),
        probes: None,
    }
}

fn describe(step: &Move) -> String {
    match step {
        Move::Say(who, commands) => {
            let said: Vec<String> = commands.iter().map(Command::to_string).collect();
            format!("{who}: {}", said.join("; "))
        }
        Move::Wait(who, command) => format!("{who} waits: {command}"),
        Move::Hear(who) => format!("{who} is heard"),
        Move::Unblock(who, how) => format!("{who} is unblocked {}", how.unwrap_or_default()),
        Move::Leave(who) => format!("{who} leaves"),
    }
}

/// The scene in a line.
pub(super) fn describe_scene(scene: &Scene) -> String {
    let moves: Vec<String> = scene.moves.iter().map(describe).collect();
    format!("a scene: {}", moves.join(" | "))
}
