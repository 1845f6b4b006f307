"use strict";
// What every page has: the colours that a reader chose.
(() => {
  const root = document.documentElement;
  const kept = "seatrial-theme";
  // A browser that keeps nothing for us is no reason to fail.
  const stored = (() => { try { return localStorage.getItem(kept); } catch { return null; } })();
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;

  function isDark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem(kept, root.dataset.theme); } catch { /* as above */ }
    });
  });
})();

// A job that runs: the page is told what is finished and what is under way, and fetches its tables again now and then.
(() => {
  const PATIENCE = 50; // so many times the time that fetching took, no fetching: two percent of one core at most
  const LEAST = 3000;
  let source = null;
  let latest = 0;
  let took = 0;
  let later = null;
  let fetches = 0;

  const find = (attribute, key) => document.querySelectorAll(`[${attribute}="${CSS.escape(key)}"]`);

  function cell(text, kind) {
    const made = document.createElement("td");
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  function trialRow(trial) {
    const row = document.createElement("tr");
    const head = document.createElement("th");
    const link = document.createElement("a");
    head.scope = "row";
    link.href = trial.link;
    link.textContent = trial.trial;
    head.append(link);
    row.append(head, ...trial.cells.map((text) => cell(text)));
    return row;
  }

  function showUnderway(job) {
    const section = document.getElementById("live");
    if (!section) return;
    section.hidden = job.state !== "running";
    document.getElementById("underway").replaceChildren(...job.underway.map((name) => {
      const item = document.createElement("li");
      item.textContent = name;
      return item;
    }));
    document.querySelector("#recent tbody").replaceChildren(...job.recent.map(trialRow));
  }

  function show(key, job) {
    let ended = false;
    for (const mark of find("data-state", key)) {
      ended = ended || (mark.textContent === "running" && job.state !== "running");
      mark.textContent = job.state;
      mark.className = `state ${job.state}`;
    }
    for (const shown of find("data-progress", key)) {
      const bar = shown.querySelector("progress");
      bar.max = Math.max(1, job.planned);
      bar.value = job.finished;
      shown.querySelector(".counted").textContent =
        `${job.finished.toLocaleString("en")} of ${job.planned.toLocaleString("en")}`;
    }
    if (document.querySelector("[data-job]")) showUnderway(job);
    return ended;
  }

  // What the viewer would show now, in place of what was there; not where somebody is just typing or reading by keys.
  async function refresh() {
    later = null;
    const begun = performance.now();
    const own = ++fetches;
    // However long it takes: a page that says that a job is being read is of no use here.
    const response = await fetch(location.href, { headers: { Prefer: "wait" } });
    const text = await response.text();
    // An answer that comes after that to a later question would show the job as it was before.
    if (!response.ok || own !== fetches) return;
    const page = new DOMParser().parseFromString(text, "text/html");
    for (const part of document.querySelectorAll("[data-refresh]")) {
      const other = page.getElementById(part.id);
      if (other && !part.contains(document.activeElement)) part.replaceChildren(...document.adoptNode(other).childNodes);
    }
    latest = performance.now();
    took = latest - begun;
  }

  function refreshSoon(atOnce) {
    if (atOnce) clearTimeout(later);
    else if (later !== null) return;
    const wait = atOnce ? 0 : Math.max(0, latest + Math.max(LEAST, PATIENCE * took) - performance.now());
    later = setTimeout(() => refresh().catch(() => { later = null; }), wait);
  }

  function listen() {
    const part = document.querySelector("[data-events]");
    if (!part || source || document.hidden) return;
    let first = true;
    source = new EventSource(part.dataset.events);
    source.addEventListener("message", (event) => {
      const ended = Object.entries(JSON.parse(event.data).jobs).map(([key, job]) => show(key, job)).includes(true);
      if (!first || ended) refreshSoon(ended);
      first = false;
    });
  }

  // A browser has six connections to a viewer for all of its tabs; those that nobody sees need none.
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return listen();
    if (source) source.close();
    source = null;
    return undefined;
  });
  document.addEventListener("DOMContentLoaded", listen);

  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const field = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!field) return;
    event.preventDefault();
    field.focus();
  });
})();
