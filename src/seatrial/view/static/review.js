// The page of a review: one item at a time, judged by keys or by mouse. Whatever is said is kept at once.

import { Clock, duration } from "./review_clock.js";
import { Draft } from "./review_draft.js";
import { hideBeside, showEvidence, showInstead, showItem, toggleDifference } from "./review_item.js";
import { Outbox, ask, showUnsent } from "./review_outbox.js";
import { Queue } from "./review_queue.js";
import { askReviewer, reviewer } from "./review_reviewer.js";

const RETRY_MS = 1000;
const desk = document.getElementById("desk");
const at = (id) => document.getElementById(id);
const readOnly = desk.dataset.access === "read";
const clock = new Clock();
const draft = new Draft(showKeep);
const queue = new Queue(open);
const outbox = new Outbox(desk.dataset.api, () => showUnsent(outbox), confirmed);
const history = [];
let blind = true;
let item = null;
let seconds = 0;
let calibration = null;
let asked = 0;

function address(path, more = {}) {
  const query = new URLSearchParams({ reviewer: reviewer().name, queue: desk.dataset.queue, ...more });
  return `${desk.dataset.api}${path}?${query}`;
}

async function start() {
  at("who-is").textContent = [reviewer().name, reviewer().discipline].filter(Boolean).join(", ");
  at("said").textContent = readOnly ? "This viewer was started with --read-only: nothing can be said here." : "";
  queue.current = item = null;
  // Whoever takes over begins blind, whatever the one before wanted to see.
  blind = true;
  const wanted = new URLSearchParams(location.search).get("settle");
  queue.filter = wanted ? "settle" : "open";
  history.length = 0;
  await refresh();
  outbox.flush();
  open(wanted ?? queue.nextOpen() ?? queue.items[0]?.key ?? null);
}

// Read the queue again; while the viewer does not answer, keep asking.
async function refresh() {
  try {
    const found = await ask(address("queue"));
    queue.items = found.items;
    seconds = found.seconds;
    calibration = found.calibration;
    for (const message of outbox.waiting()) if (message.body.reviewer === reviewer().name) markWaiting(message);
    if (queue.isSettling) queue.toSettle = (await ask(address("adjudication"))).items;
    const known = (await ask(address("categories"))).categories;
    at("known").replaceChildren(...known.map((each) => Object.assign(document.createElement("option"), { value: each })));
  } catch (error) {
    showInstead(`The queue cannot be read: ${error.message}. Trying again …`);
    await new Promise((done) => setTimeout(done, RETRY_MS));
    return refresh();
  }
  showProgress();
}

function showProgress() {
  queue.show();
  queue.progress(seconds, calibration);
}

// Open an item. Until it is there, nothing can be judged; an answer that comes after another was opened is not shown.
async function open(key) {
  const turn = ++asked;
  queue.current = key;
  item = null;
  showVerdict();
  queue.show();
  hideBeside();
  if (key === null) return showEnd();
  clock.restart();
  await load(key, turn);
  at("item").focus({ preventScroll: true });
  window.scrollTo({ top: 0 });
}

async function load(key, turn = asked) {
  const mode = queue.isSettling ? "settle" : blind ? "" : "open";
  try {
    const found = await ask(address(`items/${key}`, { mode }));
    if (turn === asked) opened(found);
  } catch (error) {
    if (turn !== asked) return;
    const mayPass = error.status === undefined || error.status === 403;
    showInstead(`This item cannot be shown: ${error.message}. ${mayPass ? "Trying again …" : ""}`);
    if (mayPass) setTimeout(() => turn === asked && load(key, turn), RETRY_MS);
  }
}

function opened(found) {
  const isShown = item?.key === found.key && at("item").dataset.key === found.key;
  item = found;
  if ((found.reveal || found.verdicts) && !found.mine) localStorage.setItem(seenName(found.key), "1");
  showItem(found, isShown);
  at("evidence").hidden = !found.reveal;
  draft.open(`${desk.dataset.api}${reviewer().name}.${found.key}`, found.mine);
  showVerdict();
}

// Under which name it is kept that a reviewer has seen what became of an item, which a viewer forgets when it ends.
function seenName(key) {
  return `seatrial.seen.${desk.dataset.api}${reviewer().name}.${key}`;
}

function showEnd() {
  const nothing = queue.isSettling ? "There is nothing to settle." : "There is nothing left to review. Thank you.";
  showInstead(queue.items.length || queue.isSettling ? nothing : "This job has no trial that could be reviewed.");
  draft.open(null, null);
  showVerdict();
}

function showVerdict() {
  for (const button of document.querySelectorAll("[data-judgment]")) {
    const isGiven = item?.mine?.judgment === button.dataset.judgment;
    button.setAttribute("aria-pressed", String(isGiven));
    button.disabled = readOnly || !item || (queue.isSettling && button.dataset.judgment === "defer");
  }
  at("verdict-title").textContent = queue.isSettling ? "Settle it" : item?.mine ? "A second look" : "Your verdict";
  at("note-is").textContent = queue.isSettling ? "the reason, which is needed" : "the first thing that is wrong";
  at("blind").setAttribute("aria-pressed", String(blind));
  const hidden = item?.reveal || queue.isSettling ? "" : "Reward, agent and others are hidden.";
  at("blind-is").textContent = blind ? hidden : "Not blind: your verdicts are marked so.";
  at("compare").disabled = !(item?.has_golden || item?.reveal);
  at("undo").disabled = readOnly;
  if (item?.mine) say(told(item.mine));
  else if (item && !readOnly) say("");
}

function told(mine) {
  const how = { second_look: ", at a second look" }[mine.role] ?? "";
  return `You said ${mine.judgment}${how}${mine.blind ? ", blind" : ""}.`;
}

function say(text) {
  at("said").textContent = text;
}

function showKeep() {
  at("keep").hidden = !(item?.mine && !queue.isSettling && draft.isChanged());
}

function judge(judgment) {
  if (!item || readOnly) return;
  const said = draft.said();
  if (queue.isSettling && !said.notes) {
    say("Write a reason first: it stands beside your verdict.");
    at("note").focus();
    return;
  }
  if (item.mine?.judgment === judgment && !draft.isChanged()) return;
  const who = { reviewer: reviewer().name, discipline: reviewer().discipline };
  const isBlind = blind && !item.reveal && !queue.isSettling && !localStorage.getItem(seenName(item.key));
  const body = { ...who, judgment, ...said, blind: isBlind, seconds: clock.seconds() };
  const path = queue.isSettling ? "adjudication" : "verdict";
  seconds += body.seconds;
  draft.forget();
  const entry = outbox.add(address(`items/${item.key}/${path}`), item.key, body);
  history.push({ key: item.key, entry });
  item.mine = { entry, judgment, ...said, role: item.mine ? "second_look" : "first", blind: body.blind };
  queue.mark(item.key, judgment === "defer" ? "deferred" : "done");
  clock.restart();
  showProgress();
  showVerdict();
  say(`${judgment}: saving …`);
}

// Take back the last verdict on this item, or else the last one of all that were given here.
async function undo() {
  if (readOnly) return;
  const own = item?.mine && { key: item.key, entry: item.mine.entry };
  const last = history.findLast((each) => each.key === item?.key) ?? own ?? history.at(-1);
  if (!last) return say("There is nothing to undo.");
  if (history.includes(last)) history.splice(history.indexOf(last), 1);
  if (last.key !== item?.key) await open(last.key);
  outbox.add(address(`items/${last.key}/undo`), last.key, { reviewer: reviewer().name, entry: last.entry });
  queue.mark(last.key, "open");
  if (item) item.mine = null;
  showProgress();
  showVerdict();
  say("Taken back.");
}

// The journal has it: what it says now is what is shown.
async function confirmed(message, answer) {
  if (message.key !== item?.key) return;
  const turn = asked;
  await refresh();
  if (turn === asked) await load(message.key, turn);
  if (turn !== asked) return;
  if (answer.role === "adjudication") say("Settled.");
  else if (!message.body.judgment && !item?.mine) say("Taken back.");
}

function markWaiting(message) {
  const { judgment } = message.body;
  queue.mark(message.key, !judgment ? "open" : judgment === "defer" ? "deferred" : "done");
}

function compare() {
  if (!at("compare").disabled) toggleDifference(address(`items/${item.key}/difference`));
}

function next() {
  open(queue.nextOpen());
}

function beside(step) {
  const key = queue.beside(step);
  if (key) open(key);
}

function focus(id) {
  at(id).closest("details").open = true;
  at(id).focus();
}

async function choose(filter) {
  const wasSettling = queue.isSettling;
  queue.filter = filter;
  if (queue.isSettling !== wasSettling) {
    await refresh();
    return open((queue.isSettling ? queue.toSettle[0]?.key : queue.nextOpen()) ?? null);
  }
  queue.show();
}

function toggleBlind() {
  blind = !blind;
  if (item) load(item.key);
}

const KEYS = {
  1: () => judge("pass"),
  2: () => judge("fail"),
  3: () => judge("defer"),
  j: () => beside(1),
  k: () => beside(-1),
  Enter: next,
  n: () => focus("note"),
  c: () => focus("category"),
  u: undo,
  b: toggleBlind,
  d: compare,
  e: showEvidence,
  "/": () => focus("search"),
  "?": () => at("keys").showModal(),
};

function onKey(event) {
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "Escape" && typing && !event.target.closest("dialog")) event.target.blur();
  if (event.key === "Enter" && event.ctrlKey && item?.mine) return judge(item.mine.judgment);
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  // Enter on a link, a button or something that folds is a click on it.
  if (event.key === "Enter" && event.target.closest("button, a, summary")) return;
  const does = KEYS[event.key];
  if (!does || !reviewer()) return;
  event.preventDefault();
  does();
}

document.addEventListener("keydown", onKey);
for (const button of document.querySelectorAll("[data-judgment]")) {
  button.addEventListener("click", () => judge(button.dataset.judgment));
}
for (const button of document.querySelectorAll("[data-filter]")) {
  button.addEventListener("click", () => choose(button.dataset.filter));
}
at("search").addEventListener("keydown", (event) => event.key === "Enter" && open(queue.listed()[0]?.key ?? null));
at("blind").addEventListener("click", toggleBlind);
at("undo").addEventListener("click", undo);
at("next").addEventListener("click", next);
at("compare").addEventListener("click", compare);
at("evidence").addEventListener("click", showEvidence);
at("keep").addEventListener("click", () => judge(item.mine.judgment));
at("help").addEventListener("click", () => at("keys").showModal());
at("change-who").addEventListener("click", () => askReviewer(start));
setInterval(() => { at("clock").textContent = item ? duration(clock.seconds()) : ""; }, 1000);
if (window.matchMedia("(max-width: 60rem)").matches) at("listing").open = at("saying").open = false;
if (reviewer()) start();
else askReviewer(start);
