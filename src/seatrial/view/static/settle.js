// The page of disagreements: what everybody said of each item, and one decision with its reason.

import { Clock } from "./review_clock.js";
import { ask, newId } from "./review_outbox.js";
import { askReviewer, reviewer } from "./review_reviewer.js";

const place = document.getElementById("settle");
const list = document.getElementById("disagreements");
const clock = new Clock();
const at = (id) => document.getElementById(id);

function address(path) {
  return `${place.dataset.api}${path}?${new URLSearchParams({ reviewer: reviewer().name })}`;
}

async function start() {
  at("who-is").textContent = [reviewer().name, reviewer().discipline].filter(Boolean).join(", ");
  list.replaceChildren();
  await refresh();
}

// Read everything again. What somebody has begun to write stays: only items that have changed are drawn anew.
async function refresh(changed = null) {
  let found;
  try {
    found = await ask(address("settlement"));
  } catch (error) {
    at("trouble").textContent = `The disagreements cannot be read: ${error.message}.`;
    at("trouble").hidden = false;
    return;
  }
  at("trouble").hidden = true;
  const drawn = new Map([...list.children].map((card) => [card.dataset.key, card]));
  list.replaceChildren(...found.items.map((item) => {
    const known = drawn.get(item.key);
    return known && item.key !== changed && known.dataset.state === item.state ? known : cardOf(item);
  }));
  const left = found.to_settle + found.settled - found.items.length;
  const follow = found.to_settle > found.items.length ? "more follow when some of these are settled" : "more are settled, and not shown";
  at("progress").textContent = found.items.length ? `${found.to_settle} to settle, ${found.settled} settled.` : "There is nothing to settle.";
  at("more").textContent = left ? `${left} ${follow}.` : "";
  clock.restart();
}

function cardOf(item) {
  const card = document.createElement("article");
  card.className = "job";
  Object.assign(card.dataset, { key: item.key, state: item.state });
  // Made by the viewer, which has escaped every word of a stranger.
  card.innerHTML = item.html;
  const form = card.querySelector("form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    settle(card, form, event.submitter?.value);
  });
  card.querySelector("[data-undo]")?.addEventListener("click", (event) => undo(card, event.target.dataset.undo));
  if (place.dataset.access === "read") for (const field of card.querySelectorAll("button, textarea")) field.disabled = true;
  return card;
}

async function settle(card, form, judgment) {
  if (!judgment) return;
  const who = { reviewer: reviewer().name, discipline: reviewer().discipline };
  const body = { id: newId(), ...who, judgment, notes: form.elements.reason.value, blind: false, seconds: clock.seconds() };
  await tell(card, "adjudication", body);
}

async function undo(card, entry) {
  await tell(card, "undo", { id: newId(), reviewer: reviewer().name, entry });
}

// Say something about an item. What is refused or does not arrive is said there, and what was written stays.
async function tell(card, path, body) {
  const buttons = [...card.querySelectorAll("button")];
  for (const button of buttons) button.disabled = true;
  try {
    await ask(address(`items/${card.dataset.key}/${path}`), body);
  } catch (error) {
    for (const button of buttons) button.disabled = false;
    card.querySelector(".settle-said").textContent = `Not saved: ${error.message}.`;
    return;
  }
  await refresh(card.dataset.key);
}

at("change-who").addEventListener("click", () => askReviewer(start));
if (reviewer()) start();
else askReviewer(start);
