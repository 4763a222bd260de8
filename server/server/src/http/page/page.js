// Code of the page: requests data from the server's API, draws it, and sends the commands of the buttons.
//
// Names of keys and commands come from anybody who may write to the server. They reach the document as text only: nothing here
// sets HTML.
"use strict";

const $ = (id) => document.getElementById(id);

/** Creates an element. Properties whose name has a dash, and `scope`, are set as attributes. */
function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "scope") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// Data from the server, and choices of the user.
const page = {
  state: null,
  future: null,
  hours: 1,
  late: "minute",
  db: 0,
  /** Index of the bar of the upper chart whose numbers are shown; null for no bar. */
  at: null,
  filters: { queues: "", timers: "" },
  password: sessionStorage.getItem("password"),
  /** States of the last two minutes. Rates and the recent lateness are differences between two states. */
  past: [],
};

// ---- Text ----

const numbers = new Intl.NumberFormat("en");
const count = (n) => numbers.format(n);
const some = (n, one, many) => `${count(n)} ${n === 1 ? one : many}`;

function short(n) {
  if (n < 10_000) return count(Math.round(n));
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (n >= size) return `${(n / size).toFixed(n < 100 * size ? 1 : 0)} ${unit}`;
  }
  return count(n);
}

/** Returns microseconds as a number and its unit. */
function micros(us) {
  if (us < 1e3) return [String(Math.round(us)), "µs"];
  if (us < 1e6) return [(us / 1e3).toFixed(us < 1e4 ? 1 : 0), "ms"];
  return [(us / 1e6).toFixed(us < 1e7 ? 1 : 0), "s"];
}

function bytes(n) {
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (n >= size) return [(n / size).toFixed(n < 100 * size ? 1 : 0), unit];
  }
  return [String(n), "B"];
}

function span(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  const [d, h, m] = [Math.floor(s / 86_400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  if (s < 1) return "now";
  if (s < 60) return `${s} s`;
  if (s < 3600) return s % 60 && m < 10 ? `${m} min ${s % 60} s` : `${m} min`;
  if (s < 86_400) return m ? `${h} h ${m} min` : `${h} h`;
  if (d < 365) return d < 10 && h ? `${d} d ${h} h` : `${d} d`;
  return `${(d / 365.25).toFixed(1)} years`;
}

const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
const moment = (ms) => {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toLocaleString("en-GB");
};

/** Returns a word as text. The server sends words that are not UTF-8 as hexadecimal digits. */
const shown = (word) => (typeof word === "string" ? word : `0x${word.hex}`);

function fill(element, [value, unit]) {
  element.replaceChildren(value, ...(unit ? ["\u202f", el("small", { textContent: unit })] : []));
}

// ---- Talking to the server ----

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (page.password) headers.Authorization = `Bearer ${encodeURIComponent(page.password)}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, signal: AbortSignal.timeout(15_000) });
  } catch {
    throw new Refused(0, "The server does not answer. The page goes on trying.");
  }
  const body = await response.json().catch(() => ({ error: `The server answers with ${response.status}.` }));
  if (!response.ok) throw new Refused(response.status, body.error);
  return body;
}

function fail(error) {
  const wrong = error.status === 401 && page.password !== null;
  if (wrong) {
    forget();
    holdProblem = Date.now() + 8000;
  } else if ([401, 403, 421].includes(error.status)) {
    $("unlock").hidden = error.status === 403;
    $("main").hidden = true;
    page.state = null;
  }
  problem(error.status === 401 && !wrong ? "This server shows its timers and queues to those who have the password." : error.message);
}

function problem(text) {
  // Setting the same text again would make screen readers repeat the alert.
  if ($("problem").textContent !== text) $("problem").textContent = text;
  $("problem").hidden = !text;
}

let doneTimer;
function done(text) {
  $("done").textContent = text;
  clearTimeout(doneTimer);
  doneTimer = setTimeout(() => ($("done").textContent = ""), 4000);
}

function forget() {
  page.password = null;
  sessionStorage.removeItem("password");
}

/** Runs a command, reports the result, and loads the lists again. */
async function run(words, said, button) {
  const focused = document.activeElement === button;
  button.disabled = true;
  try {
    const { reply } = await ask(`api/command?db=${page.db}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(words),
    });
    done(typeof said === "function" ? said(reply) : said);
    problem("");
  } catch (error) {
    if (error.status === 401) fail(error);
    else problem(`${words.slice(0, 2).map(shown).join(" ")}: ${error.message}`);
    holdProblem = Date.now() + 8000;
  }
  button.disabled = false;
  if (focused) button.focus();
  await Promise.all([loadQueues(), loadTimers(), loadFuture()]).catch(fail);
}

/** Time until which a successful poll does not remove the error message of an action. */
let holdProblem = 0;

// ---- The server's numbers and the lateness ----

async function loadState() {
  const state = await ask("api/state");
  state.at = performance.now();
  const last = page.past.at(-1);
  // A smaller count means that the statistics were reset or the server was restarted. The number of commands does not count the
  // page's own commands, and may fall a little while some of these are on their way.
  if (last && (state.commands < last.commands - 1000 || state.lateness.count < last.lateness.count)) page.past = [];
  page.past.push(state);
  while (page.past.length > 2 && page.past[0].at < state.at - 120_000) page.past.shift();
  page.state = state;
  $("main").hidden = false;
  if (Date.now() > holdProblem) problem("");
  drawState();
  drawLateness();
  drawCluster();
}

function drawState() {
  const { state, past } = page;
  $("about").textContent = [
    `${state.role === "slave" ? "Replica" : "Primary"} on port ${state.port}`,
    state.uptime_s < 1 ? "just started" : `up ${span(state.uptime_s * 1000)}`,
    state.virtual ? `virtual clock at ${moment(state.now_ms)}` : `version ${state.version}`,
  ].join(" · ");
  const select = $("database");
  const wanted = new Map(state.databases.map(({ db, keys }) => [db, keys]));
  for (const db of [0, page.db]) if (!wanted.has(db)) wanted.set(db, 0);
  const rows = [...wanted].sort(([a], [b]) => a - b);
  if (document.activeElement !== select) {
    select.replaceChildren(...rows.map(([db, keys]) =>
      el("option", { value: db, selected: db === page.db, textContent: `${db} (${some(keys, "key", "keys")})` })));
  }
  $("unlock").hidden = state.may_act || !state.has_password;
  $("lock").hidden = page.password === null;
  $("mode").hidden = state.has_password;
  $("mode").textContent = "Read-only";
  $("mode").title = "Start the server with metrics-password to act here";

  const rates = past.slice(1).map((now, i) => [now.at, Math.max(0, now.commands - past[i].commands) / (now.at - past[i].at) * 1000]);
  const back = past.findLast((one) => one.at < state.at - 4500) ?? past[0];
  const seconds = (state.at - back.at) / 1000;
  fill($("rate"), [seconds > 0 ? short(Math.max(0, state.commands - back.commands) / seconds) : "–"]);
  const [size, unit] = bytes(state.memory);
  const limit = state.memory_max ? ` of ${bytes(state.memory_max).join(" ")}` : "";
  fill($("memory"), [size, unit + limit]);
  fill($("deadlines"), [short(state.deadlines)]);
  fill($("clients"), [short(state.clients)]);
  trace(rates, state.at);
}

function trace(rates, now) {
  const top = Math.max(1, ...rates.map(([, rate]) => rate));
  // The trace covers the time since the first rate: at least half a minute and at most two minutes.
  const width = Math.max(30_000, Math.min(120_000, now - (rates[0]?.[0] ?? now)));
  const points = rates.map(([at, rate]) => [240 - (now - at) / width * 240, 43 - Math.max(0, rate) / top * 41]);
  $("trace").setAttribute("viewBox", "0 0 240 44");
  const line = points.map((p) => p.map((x) => x.toFixed(1)).join(",")).join(" ");
  $("trace").querySelector("polyline").setAttribute("points", line);
  const first = points[0]?.[0].toFixed(1) ?? 240;
  $("trace").querySelector("polygon").setAttribute("points", points.length ? `${first},44 ${line} 240,44` : "");
}

/** Returns the lateness of the last minute, which is the difference of two histograms. */
function newLateness() {
  const { state, past } = page;
  const before = past.findLast((one) => one.at <= state.at - 60_000) ?? past[0];
  const old = new Map(before.lateness.buckets);
  const buckets = state.lateness.buckets.map(([top, n]) => [top, n - (old.get(top) ?? 0)]).filter(([, n]) => n > 0);
  return summary(buckets);
}

function summary(buckets) {
  const all = buckets.reduce((sum, [, n]) => sum + n, 0);
  const percentile = (part) => {
    let seen = 0;
    for (const [top, n] of buckets) if ((seen += n) >= all * part) return top;
    return 0;
  };
  return { count: all, p50_us: percentile(0.5), p99_us: percentile(0.99), max_us: buckets.at(-1)?.[0] ?? 0, buckets };
}

function drawLateness() {
  const minute = page.late === "minute";
  const late = minute ? newLateness() : page.state.lateness;
  const empty = late.count === 0;
  for (const name of ["p50", "p99", "max"]) fill($(`late-${name}`), empty ? ["–"] : micros(late[`${name}_us`]));
  const chart = $("late");
  const note = minute ? "Nothing has fallen due in the last minute." : "Nothing has fallen due yet.";
  chart.querySelector(".empty").hidden = !empty;
  chart.querySelector(".empty").replaceChildren(note);
  chart.setAttribute("aria-label", empty ? note :
    `${some(late.count, "deadline", "deadlines")}, half of them at most ${micros(late.p50_us).join(" ")} late, 99 % at most ` +
    `${micros(late.p99_us).join(" ")}, all at most ${micros(late.max_us).join(" ")}.`);
  // The upper bound of each bar is √2 times the bound of the previous bar: from 16 µs to at least 16 ms.
  const slot = (us) => Math.ceil(Math.log2(Math.max(16, us - 1)) * 2) - 8;
  const slots = Math.max(20, ...late.buckets.map(([top]) => slot(top))) + 1;
  const sums = new Array(slots).fill(0);
  for (const [top, n] of late.buckets) sums[slot(top)] += n;
  const most = Math.max(1, ...sums);
  const bars = chart.querySelector(".bars");
  bars.replaceChildren(...sums.map((n, i) => {
    const bar = el("i", { className: n ? "some" : "none" });
    bar.style.height = `${n / most * 100}%`;
    const [from, to] = [2 ** ((i + 7) / 2), 2 ** ((i + 8) / 2)];
    // The server promises a lateness of at most a millisecond. Bars above it have another colour.
    return el("div", { className: from < 1000 ? "bar" : "bar over", title: `${i ? micros(from).join(" ") : "0"} to ${micros(to).join(" ")}: ${count(n)}` }, bar);
  }));
  const marks = [100, 1e3, 1e4, 1e5, 1e6, 1e7].map((us) => [us, (Math.log2(us) * 2 - 7) / slots]).filter(([, x]) => x < 0.98);
  chart.querySelector(".axis").replaceChildren(...marks.map(([us, x]) => {
    const [value, unit] = micros(us);
    const mark = el("span", { textContent: `${parseFloat(value)} ${unit}` });
    mark.style.left = `${x * 100}%`;
    return mark;
  }));
}

// ---- What falls due ----

async function loadFuture() {
  const hours = page.hours;
  const empty = { from_ms: page.state?.now_ms ?? Date.now(), step_ms: 60_000, timers: [0], jobs: [0] };
  const future = await ask(`api/future?hours=${hours}&db=${page.db}`).catch((error) => {
    if (error.status !== 409) throw error;
    return { ...empty, error: error.message };
  });
  if (hours === page.hours) {
    page.future = future;
    drawFuture();
  }
}

/** Returns the next round number: 1, 2, 4, 5 or 10 times a power of ten. */
function round(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, n)));
  return [1, 2, 4, 5, 10].find((factor) => factor * power >= n) * power;
}

function drawFuture() {
  const { future, hours } = page;
  const chart = $("future");
  const sums = future.timers.map((n, i) => n + future.jobs[i]);
  const total = (list) => list.reduce((sum, n) => sum + n, 0);
  const [timers, jobs] = [total(future.timers), total(future.jobs)];
  $("timer-sum").textContent = count(timers);
  $("job-sum").textContent = count(jobs);
  const most = Math.max(...sums);
  const empty = most === 0;
  const within = hours === 1 ? "the next hour" : "the next day";
  chart.querySelector(".empty").hidden = !empty;
  chart.querySelector(".empty").replaceChildren(
    el("strong", { textContent: future.error ?? `Nothing falls due in ${within}.` }),
    el("span", { textContent: future.error ? "" : hours === 1 ? "Timers and delayed jobs will show up here; the next day may have some." : "Timers and delayed jobs will show up here." }));
  const busiest = sums.indexOf(most);
  chart.setAttribute("aria-label", empty ? future.error ?? `Nothing falls due in ${within}.` :
    `In ${within} ${some(timers, "timer", "timers")} and ${some(jobs, "job", "jobs")} fall due, most of them, ${count(most)}, ` +
    `${between(busiest)}. The arrow keys go through the bars.`);

  const top = round(Math.max(most, 4));
  const bars = chart.querySelector(".bars");
  if (bars.childElementCount !== sums.length) {
    bars.replaceChildren(...sums.map(() =>
      el("div", { className: "bar" }, el("i", { className: "jobs" }), el("i", { className: "timers" }))));
  }
  sums.forEach((_, i) => {
    const [above, below] = bars.children[i].children;
    for (const [part, n, kind] of [[above, future.jobs[i], "jobs"], [below, future.timers[i], "timers"]]) {
      part.className = `${kind} ${n ? "some" : "none"}`;
      part.style.height = `${n / top * 100}%`;
    }
  });
  const at = (share) => `${8 + 176 * (1 - share)}px`;
  const scale = [0.5, 1].flatMap((share) => {
    const [line, label] = [el("hr"), el("span", { textContent: short(top * share) })];
    line.style.top = label.style.top = at(share);
    return empty ? [] : [line, label];
  });
  chart.querySelector(".scale").replaceChildren(...scale);
  const steps = hours === 1 ? [0, 10, 20, 30, 40, 50, 60] : [0, 16, 32, 48, 64, 80, 96];
  chart.querySelector(".axis").replaceChildren(...steps.map((step) => {
    const mark = el("span", { textContent: step ? clock(future.from_ms + step * future.step_ms) : "now" });
    mark.style.left = `${step / sums.length * 100}%`;
    return mark;
  }));
  const rows = sums.map((n, i) => [n, i]).filter(([n]) => n > 0);
  document.querySelector(".as-table").hidden = empty;
  $("future-rows").replaceChildren(...rows.map(([, i]) => el("tr", {},
    el("th", { scope: "row", textContent: between(i) }),
    el("td", { className: "n", textContent: count(future.timers[i]) }),
    el("td", { className: "n", textContent: count(future.jobs[i]) }))));
  point(page.at);
}

function between(i) {
  const { from_ms, step_ms } = page.future;
  return `${clock(from_ms + i * step_ms)} to ${clock(from_ms + (i + 1) * step_ms)}`;
}

/** Shows the numbers of bar `i`, or hides them if `i` is null. */
function point(i) {
  const chart = $("future");
  const [bars, tip] = [chart.querySelector(".bars"), chart.querySelector(".tip")];
  for (const bar of bars.querySelectorAll(".at")) bar.classList.remove("at");
  page.at = i !== null && i < bars.childElementCount ? i : null;
  tip.hidden = page.at === null;
  if (page.at === null) return;
  const { timers, jobs } = page.future;
  bars.children[i].classList.add("at");
  const text = `${some(timers[i], "timer", "timers")}, ${some(jobs[i], "job", "jobs")}`;
  if (tip.textContent !== between(i) + text) tip.replaceChildren(el("b", { textContent: between(i) }), text);
  const middle = 44 + (i + 0.5) / timers.length * bars.clientWidth;
  const half = tip.offsetWidth / 2;
  tip.style.left = `${Math.min(Math.max(middle, half), chart.clientWidth - half)}px`;
}

// ---- Queues and timers ----

/** Returns the pattern of a filter. A filter without wildcards matches all names that contain it. */
function pattern(kind) {
  const text = page.filters[kind];
  return text === "" || /[*?[\\]/.test(text) ? text : `*${text}*`;
}

const listed = (kind) => ask(`api/${kind}?db=${page.db}&match=${encodeURIComponent(pattern(kind))}`);
const ordered = (kind, list) => list.sort((a, b) => (kind === "queues" ? shown(a.name).localeCompare(shown(b.name)) : 0));

function act(label, words, said, extra = {}) {
  const button = el("button", { type: "button", textContent: label, ...extra });
  button.addEventListener("click", () => {
    if (extra.className === "danger" && !button.classList.contains("sure")) {
      // The command runs only after a second click within a few seconds.
      button.classList.add("sure");
      button.textContent = "Really?";
      done("Press it again if you mean it.");
      setTimeout(() => {
        button.classList.remove("sure");
        button.textContent = label;
      }, 4000);
      return;
    }
    run(words, said, button);
  });
  return button;
}

/** Replaces only the cells that have changed, so that the focus stays where it is. */
function rows(table, list, write) {
  const body = table.tBodies[0];
  const before = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  const after = list.map((one) => {
    const key = JSON.stringify(one.name);
    const made = write(one);
    const old = before.get(key);
    made.dataset.key = key;
    if (!old) return made;
    [...made.cells].forEach((now, i) => {
      const was = old.cells[i];
      // A cell stays while one of its buttons waits for the second click or for the server.
      if (now.outerHTML === was.outerHTML || was.querySelector(".sure, :disabled")) return;
      const at = [...was.children].indexOf(document.activeElement);
      was.replaceWith(now);
      if (at >= 0) now.children[Math.min(at, now.children.length - 1)]?.focus();
    });
    return old;
  });
  after.forEach((row, i) => body.rows[i] !== row && body.insertBefore(row, body.rows[i] ?? null));
  while (body.rows.length > after.length) body.lastElementChild.remove();
  table.hidden = after.length === 0;
}

function note(kind, list, limit, none, example) {
  const parts = [];
  if (list.length === 0 && page.filters[kind]) parts.push(`No ${kind} whose name contains “${page.filters[kind]}”.`);
  else if (list.length === 0) parts.push(none, el("code", { textContent: example }));
  else if (list.length >= limit) parts.push(`The first ${limit} are shown. Filter by name to find others.`);
  $(`${kind}-note`).replaceChildren(...parts);
  $(`${kind}-note`).hidden = parts.length === 0;
}

const figure = (n, className = "") => el("td", { className: `n ${n ? className : "zero"}`, textContent: count(n) });

/** Loads a list. If the server answers with an error, shows the error in place of the list. */
async function load(kind) {
  try {
    return await listed(kind);
  } catch (error) {
    if (error.status !== 409) throw error;
    $(kind).hidden = true;
    $(`${kind}-note`).hidden = false;
    $(`${kind}-note`).replaceChildren(el("span", { className: "error", textContent: error.message }));
    return null;
  }
}

async function loadQueues() {
  const answer = await load("queues");
  if (answer === null) return;
  const { queues, shown_at_most } = answer;
  const now = page.state?.now_ms ?? Date.now();
  rows($("queues"), ordered("queues", queues), (queue) => {
    const name = shown(queue.name);
    const label = (what) => ({ "aria-label": `${what} ${name}` });
    const buttons = !page.state?.may_act ? [] : [
      queue.dead ? act("Revive", ["JOB", "REVIVE", queue.name, "ALL"],
        (n) => `${some(n, "job", "jobs")} of ${name} revived.`, label("Revive the dead jobs of")) : null,
      queue.paused
        ? act("Resume", ["JOB", "RESUME", queue.name], `${name} is resumed.`, label("Resume"))
        : act("Pause", ["JOB", "PAUSE", queue.name], `${name} is paused.`, label("Pause")),
    ];
    return el("tr", {},
      el("td", { className: "name", title: name }, name, queue.paused ? el("span", { className: "badge", textContent: "paused" }) : null),
      figure(queue.ready), figure(queue.delayed), figure(queue.leased), figure(queue.dead, "dead"),
      el("td", { className: "n", textContent: queue["oldest-ready-ms"] === null ? "" : span(queue["oldest-ready-ms"]) }),
      el("td", { className: "n", textContent: queue["next-due"] === null ? "" : `in ${span(queue["next-due"] - now)}` }),
      el("td", { className: "acts" }, ...buttons));
  });
  note("queues", queues, shown_at_most, "No queues in this database. The first job makes one: ", "JOB ADD mails hello DELAY 60000");
}

function repeats(timer) {
  if (timer.cron) return timer.tz && timer.tz !== "UTC" ? `${timer.cron} (${timer.tz})` : timer.cron;
  return timer.every ? `every ${span(Number(timer.every)).replace("now", `${timer.every} ms`)}` : "once";
}

async function loadTimers() {
  const answer = await load("timers");
  if (answer === null) return;
  const { timers, shown_at_most } = answer;
  const now = page.state?.now_ms ?? Date.now();
  rows($("timers"), timers, (timer) => {
    const name = shown(timer.name);
    const label = (what) => ({ "aria-label": `${what} ${name}` });
    const left = timer.paused ? timer.remaining : timer.at - now;
    const due = timer.paused ? el("span", { className: "badge", textContent: "paused" })
      : left <= 0 ? "now" : `in ${span(left)}`;
    const buttons = !page.state?.may_act ? [] : [
      act("Run", ["TIMER", "RUN", timer.name], `${name} has run.`, label("Run")),
      timer.paused
        ? act("Resume", ["TIMER", "RESUME", timer.name], `${name} is resumed.`, label("Resume"))
        : act("Pause", ["TIMER", "PAUSE", timer.name], `${name} is paused.`, label("Pause")),
      act("Cancel", ["DEL", timer.name], `${name} is cancelled.`, { className: "danger", ...label("Cancel") }),
    ];
    const command = timer.command.map(shown).map((word) => (/^[^\s"']+$/.test(word) ? word : JSON.stringify(word))).join(" ");
    const failed = timer.failures ? `${count(timer.runs)} (${count(timer.failures)} failed)` : count(timer.runs);
    return el("tr", {},
      el("td", { className: "name", title: name }, name),
      el("td", { className: "n", title: timer.paused ? "" : moment(timer.at) }, due),
      el("td", { textContent: repeats(timer) }),
      el("td", { className: "command", title: command }, command,
        timer["last-error"] ? el("span", { className: "error", textContent: shown(timer["last-error"]), title: shown(timer["last-error"]) }) : null),
      el("td", { className: `n ${timer.runs ? "" : "zero"}`, textContent: failed }),
      el("td", { className: "acts" }, ...buttons));
  });
  note("timers", timers, shown_at_most, "No timers in this database. This sets one: ", "TIMER SET tea IN 60000 DO PUBLISH tea ready");
}

// ---- The cluster ----

/** Number of ranges of slots that a row shows. */
const RANGES = 4;

function slots(ranges) {
  if (ranges.length === 0) return "none";
  const text = ranges.slice(0, RANGES).map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(", ");
  const all = ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  return `${text}${ranges.length > RANGES ? ` and ${some(ranges.length - RANGES, "range", "ranges")} more` : ""} (${count(all)})`;
}

function drawCluster() {
  const { cluster } = page.state;
  $("cluster-card").hidden = cluster === null;
  if (cluster === null) return;
  const owned = cluster.nodes.flatMap((node) => node.slots).reduce((sum, [first, last]) => sum + last - first + 1, 0);
  const orphans = owned < 16_384 ? `, ${some(16_384 - owned, "slot has", "slots have")} no owner` : "";
  $("cluster-state").textContent = `${cluster.ok ? "ok" : "down"}${orphans}`;
  $("cluster-state").classList.toggle("dead", !cluster.ok);
  const list = cluster.nodes.map((node) => ({ ...node, name: node.id }));
  rows($("cluster"), list, (node) => el("tr", {},
    el("td", { className: "name", title: node.id }, node.address, node.own ? el("span", { className: "badge", textContent: "this node" }) : null),
    el("td", { textContent: node.primary ? "replica" : "primary" }),
    el("td", { className: node.state === "online" ? "" : "dead", textContent: node.state }),
    el("td", { title: node.slots.map((range) => range.join("–")).join(", "), textContent: node.primary ? "" : slots(node.slots) }),
    el("td", { className: "n", textContent: node.keys === null ? "" : count(node.keys) }),
    el("td", { className: "n", textContent: node.lag === null ? "" : bytes(node.lag).join(" ") })));
  $("cluster-note").textContent = "A node knows the number of its own keys only. The lag is the part of the primary’s stream that a replica has not acknowledged.";
}

// ---- Running ----

/** Calls `load` every `ms` milliseconds while the page is visible. Returns a function that calls `load` now. */
function every(ms, load) {
  let running = false;
  const turn = async () => {
    if (running || document.hidden) return;
    running = true;
    await load().catch(fail);
    running = false;
  };
  setInterval(turn, ms);
  document.addEventListener("visibilitychange", turn);
  return turn;
}

/** Returns a loader that does nothing before the first state has arrived. */
const known = (load) => async () => (page.state === null ? undefined : load());
const loads = [every(1000, loadState), every(2000, known(loadQueues)), every(2000, known(loadTimers)), every(5000, known(loadFuture))];

async function all() {
  await loads[0]();
  await Promise.all(loads.slice(1).map((load) => load()));
}

for (const button of document.querySelectorAll("[data-hours], [data-late]")) {
  button.addEventListener("click", () => {
    for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
    if (button.dataset.hours) {
      page.hours = Number(button.dataset.hours);
      point(null);
      loadFuture().catch(fail);
    } else {
      page.late = button.dataset.late;
      if (page.state) drawLateness();
    }
  });
}

$("future").addEventListener("pointermove", (event) => {
  const bars = $("future").querySelector(".bars").getBoundingClientRect();
  const i = Math.floor((event.clientX - bars.left) / bars.width * (page.future?.timers.length ?? 0));
  point(page.future && i >= 0 && i < page.future.timers.length ? i : null);
});
$("future").addEventListener("pointerleave", () => point(null));
$("future").addEventListener("blur", () => point(null));
$("future").addEventListener("keydown", (event) => {
  const last = (page.future?.timers.length ?? 0) - 1;
  const to = { ArrowRight: (page.at ?? -1) + 1, ArrowLeft: (page.at ?? 1) - 1, Home: 0, End: last, Escape: null }[event.key];
  if (to === undefined || last < 0) return;
  event.preventDefault();
  point(to === null ? null : Math.min(Math.max(to, 0), last));
});

for (const [id, kind, load] of [["queue-filter", "queues", loadQueues], ["timer-filter", "timers", loadTimers]]) {
  $(id).addEventListener("input", () => {
    page.filters[kind] = $(id).value.trim();
    load().catch(fail);
  });
}

$("database").addEventListener("change", () => {
  page.db = Number($("database").value);
  Promise.all([loadQueues(), loadTimers(), loadFuture()]).catch(fail);
});

$("unlock").addEventListener("submit", async (event) => {
  event.preventDefault();
  page.password = $("password").value;
  sessionStorage.setItem("password", page.password);
  $("password").value = "";
  holdProblem = 0;
  problem("");
  await all();
});
$("lock").addEventListener("click", async () => {
  forget();
  await all();
});

all();
