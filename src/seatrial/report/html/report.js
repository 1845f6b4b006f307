"use strict";
// The list of trials: which are shown is in the address, as #trials?agent=…&task=…, so every number can link to its own.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const COLUMNS = ["trial", "agent", "outcome", "reward", "time", "cost", "notes", ""];
  const NUMBERS = new Set(["reward", "time", "cost"]);
  const PAGE = 50;
  const form = $("filters");
  let chosen = [];
  let shown = 0;

  const count = data.outcome.length;
  const armOf = new Uint32Array(count);
  const taskOf = new Uint32Array(count);
  let at = 0;
  data.runs.forEach((length, arm) => { armOf.fill(arm, at, at + length); at += length; });
  let place = 0;
  data.task.forEach((step, trial) => { place += step; taskOf[trial] = place; });

  const trialId = (trial) =>
    data.ids[trial] || `${data.tasks[taskOf[trial]]}.${data.arms[armOf[trial]].agent}.${data.attempt[trial]}`;
  const notesOf = (trial) => data.notes[data.note.length ? data.note[trial] : 0];
  const valueOf = (column, trial) => (column.length ? column[trial] : null);
  // What steers text, such as marks that turn it round, is shown as a space.
  const plain = (text) => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, " ");
  const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);

  function duration(seconds) {
    if (seconds === null) return "-";
    if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
    const whole = Math.round(seconds);
    if (whole < 60) return `${whole} s`;
    const minutes = Math.floor(whole / 60);
    if (minutes < 60) return `${minutes} min ${String(whole % 60).padStart(2, "0")} s`;
    return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  }

  function make(name, text, kind) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = plain(String(text));
    if (kind) made.className = kind;
    return made;
  }

  function wanted() {
    const [, query = ""] = location.hash.split(/\?(.*)/s);
    const found = new Map();
    for (const pair of query.split("&")) {
      const [key, value = ""] = pair.split(/=(.*)/s);
      try { if (value) found.set(key, decodeURIComponent(value)); } catch { /* an address that somebody broke */ }
    }
    return found;
  }

  // The mean reward of an arm at each task that it was judged on.
  function meansOf(arm) {
    const sums = new Map();
    for (let trial = 0; trial < count; trial++) {
      const reward = armOf[trial] === arm ? valueOf(data.reward, trial) : null;
      if (reward === null) continue;
      const [sum, number] = sums.get(taskOf[trial]) || [0, 0];
      sums.set(taskOf[trial], [sum + reward, number + 1]);
    }
    return new Map([...sums].map(([task, [sum, number]]) => [task, sum / number]));
  }

  // The tasks that both arms were judged on; of these, where asked for, those at which the first is better or worse.
  function tasksOf(kind, arm, against) {
    const [own, other] = [meansOf(arm), meansOf(against)];
    const side = { won: 1, lost: -1 }[kind];
    // Rewards have six digits here, so that thirds of 1 and three times a third are not quite the same.
    const fits = (task) => side === undefined || side * (own.get(task) - other.get(task)) > 1e-6;
    return new Set([...own.keys()].filter((task) => other.has(task) && fits(task)));
  }

  const armNamed = (label) => data.arms.findIndex((each) => each.label === label);

  // Which arms an agent's name asks for: the one with this label, or all in which an agent of this name ran.
  function armsNamed(name) {
    const arm = armNamed(name);
    return new Set(arm >= 0 ? [arm] : data.arms.flatMap((each, index) => (each.agent === name ? [index] : [])));
  }

  function select(filters) {
    const arms = filters.has("agent") ? armsNamed(filters.get("agent")) : null;
    const arm = filters.has("agent") ? armNamed(filters.get("agent")) : null;
    const against = filters.has("against") ? armNamed(filters.get("against")) : null;
    const among = filters.has("tasks") ? tasksOf(filters.get("tasks"), arm, against) : null;
    const task = filters.has("task") ? data.tasks.indexOf(filters.get("task")) : null;
    const part = filters.has("task") && task < 0 ? filters.get("task").toLowerCase() : null;
    const outcomes = filters.has("outcome") ? new Set(filters.get("outcome").split(",")) : null;
    const tag = filters.get("tag");
    const id = filters.get("trial");
    const find = (filters.get("find") || "").toLowerCase();
    const found = [];
    for (let trial = 0; trial < count; trial++) {
      if (arms && !arms.has(armOf[trial]) && armOf[trial] !== against) continue;
      if (among && !among.has(taskOf[trial])) continue;
      if (part === null && task !== null && taskOf[trial] !== task) continue;
      if (part !== null && !data.tasks[taskOf[trial]].toLowerCase().includes(part)) continue;
      if (outcomes && !outcomes.has(data.outcomes[data.outcome[trial]])) continue;
      if (tag && !notesOf(trial).some((note) => note === tag || note.endsWith(`:${tag}`))) continue;
      if (id && trialId(trial) !== id) continue;
      if (find && !`${trialId(trial)} ${notesOf(trial).join(" ")}`.toLowerCase().includes(find)) continue;
      found.push(trial);
    }
    return found;
  }

  function copy(button, text) {
    const done = () => { button.textContent = "copied"; setTimeout(() => { button.textContent = "copy command"; }, 1500); };
    const byHand = () => prompt("The command:", text);
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, byHand);
    else byHand();
  }

  function row(trial) {
    const arm = data.arms[armOf[trial]];
    const id = trialId(trial);
    const made = make("tr");
    const name = make("th", undefined, "name");
    name.scope = "row";
    const link = make(arm.folder ? "a" : "span", id);
    if (arm.folder) link.href = `${arm.folder}${encodeURIComponent(id)}/`;
    name.append(link);
    const reward = valueOf(data.reward, trial);
    const cost = valueOf(data.cost, trial);
    const button = make("button", "copy command");
    button.type = "button";
    button.title = plain(`seatrial show ${quoted(arm.job)} ${quoted(id)}`);
    button.addEventListener("click", () => copy(button, `seatrial show ${quoted(arm.job)} ${quoted(id)}`));
    const last = make("td");
    last.append(button);
    made.append(
      name,
      make("td", arm.label, "name"),
      make("td", data.outcomes[data.outcome[trial]], "name"),
      make("td", reward === null ? "-" : reward, "number"),
      make("td", duration(valueOf(data.time, trial)), "number"),
      make("td", cost === null ? "-" : `$${cost}`, "number"),
      make("td", notesOf(trial).filter((note) => note !== "unclassified").join(", "), "name"),
      last,
    );
    return made;
  }

  function showMore() {
    const next = chosen.slice(shown, shown + PAGE);
    $("list").tBodies[0].append(...next.map(row));
    shown += next.length;
    $("more").hidden = shown >= chosen.length;
    $("found").textContent =
      `${chosen.length.toLocaleString("en")} of ${count.toLocaleString("en")} trials` +
      (shown < chosen.length ? `, the first ${shown.toLocaleString("en")} shown` : "");
  }

  function update() {
    const filters = wanted();
    for (const field of form.elements) {
      if (!field.name) continue;
      const value = filters.get(field.name) || "";
      if (field.tagName === "SELECT" && ![...field.options].some((each) => each.value === value)) {
        field.add(new Option(plain(value), value));
      }
      field.value = value;
    }
    chosen = select(filters);
    $("compared").textContent = told(filters);
    shown = 0;
    $("list").tBodies[0].replaceChildren();
    $("list").hidden = false;
    showMore();
    if (location.hash.startsWith("#trials")) $("trials").scrollIntoView();
  }

  // What a link asked for that no field of the form has.
  function told(filters) {
    if (!filters.has("against")) return "";
    const tasks = { won: " at tasks that the first did better at", lost: " at tasks that the first did worse at" };
    const common = filters.has("tasks") ? " at tasks that both were judged on" : "";
    return plain(`${filters.get("agent")} and ${filters.get("against")}${tasks[filters.get("tasks")] || common}`);
  }

  function ask() {
    const pairs = [...new FormData(form)].filter(([, value]) => value);
    const query = pairs.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
    const before = location.hash;
    location.hash = query ? `#trials?${query}` : "#trials";
    if (location.hash === before) update();
  }

  function begin() {
    const options = (field, values) => {
      field.add(new Option("any", ""));
      values.forEach((value) => field.add(new Option(plain(value), value)));
    };
    options(form.elements.agent, data.arms.map((arm) => arm.label));
    options(form.elements.outcome, data.outcomes);
    $("task-names").append(...data.tasks.slice(0, 500).map((task) => { const each = make("option"); each.value = task; return each; }));
    $("list").tHead.rows[0].append(...COLUMNS.map((name) => make("th", name, NUMBERS.has(name) ? "number" : "name")));
    form.hidden = false;
    form.addEventListener("change", ask);
    form.addEventListener("submit", (event) => { event.preventDefault(); ask(); });
    form.addEventListener("reset", () => { setTimeout(ask); });
    $("more").addEventListener("click", showMore);
    addEventListener("hashchange", () => { if (location.hash.startsWith("#trials")) update(); });
    update();
  }

  function themes() {
    const root = document.documentElement;
    const keep = (value) => { try { localStorage.setItem("seatrial-theme", value); } catch { /* not kept, then */ } };
    try { root.dataset.theme = localStorage.getItem("seatrial-theme") || ""; } catch { /* the system's, then */ }
    $("theme").hidden = false;
    $("theme").addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      keep(root.dataset.theme);
    });
  }

  themes();
  begin();
})();
