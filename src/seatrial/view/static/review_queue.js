// The queue at the side: which items are listed, which one is open, how far the reviewer is.

import { duration } from "./review_clock.js";

const MOST_LISTED = 200;
const SIGNS = { open: "○", done: "●", deferred: "◐" };
const list = document.getElementById("items");
const search = document.getElementById("search");

export class Queue {
  items = [];
  toSettle = [];
  filter = "open";
  current = null;
  #choose;

  // `choose` is called with the key of an item that somebody clicks on.
  constructor(choose) {
    this.#choose = choose;
    search.addEventListener("input", () => this.show());
  }

  get isSettling() {
    return this.filter === "settle";
  }

  find(key) {
    return [...this.items, ...this.toSettle].find((item) => item.key === key);
  }

  // What is listed. The item that is open stays, also where it does not fit any more because it has just been judged.
  listed() {
    const words = search.value.trim().toLowerCase();
    const every = this.isSettling ? this.toSettle : this.items;
    return every.filter((item) => item.key === this.current || (this.#fits(item) && item.task.toLowerCase().includes(words)));
  }

  // The key of the item so many places further in the list, null at its ends.
  beside(step) {
    const shown = this.listed();
    const at = shown.findIndex((item) => item.key === this.current);
    return shown[at + step]?.key ?? null;
  }

  // The first item after this one that is still open, or else the first one of all; null when none is left.
  nextOpen() {
    const every = this.isSettling ? this.toSettle : this.items;
    const at = every.findIndex((item) => item.key === this.current);
    const rest = [...every.slice(at + 1), ...every.slice(0, at + 1)];
    return rest.find((item) => item.state === "open" && item.key !== this.current)?.key ?? null;
  }

  mark(key, state) {
    for (const item of [...this.items, ...this.toSettle]) if (item.key === key) item.state = state;
    this.show();
  }

  show() {
    const shown = this.listed();
    const at = Math.max(0, shown.findIndex((item) => item.key === this.current));
    const from = Math.max(0, Math.min(at - MOST_LISTED / 2, shown.length - MOST_LISTED));
    const part = shown.slice(from, from + MOST_LISTED);
    list.replaceChildren(...part.map((item) => this.#row(item)));
    const left = shown.length - part.length;
    document.getElementById("more").textContent = left ? `${left} more before and after` : shown.length ? "" : "None.";
    list.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
    this.#count();
  }

  progress(seconds, calibration) {
    const judged = this.items.filter((item) => item.state !== "open").length;
    document.getElementById("progress").textContent = `${judged} of ${this.items.length}`;
    const bar = document.getElementById("bar");
    bar.max = Math.max(1, this.items.length);
    bar.value = judged;
    const known = calibration ? ` · right in ${calibration.right} of ${calibration.judged} known items` : "";
    document.getElementById("aside").textContent = `${duration(seconds)}${known}`;
  }

  #fits(item) {
    return ["all", "settle"].includes(this.filter) || item.state === this.filter;
  }

  #row(item) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${this.items.indexOf(item) + 1 || ""} ${item.task}`;
    button.dataset.state = item.state;
    const sign = document.createElement("span");
    sign.textContent = `${SIGNS[item.state]} `;
    sign.title = item.state;
    button.prepend(sign);
    if (item.key === this.current) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => this.#choose(item.key));
    const row = document.createElement("li");
    row.append(button);
    return row;
  }

  #count() {
    for (const button of document.querySelectorAll("[data-filter]")) {
      const filter = button.dataset.filter;
      button.setAttribute("aria-pressed", String(filter === this.filter));
      const every = filter === "settle" ? this.toSettle : this.items;
      const fitting = every.filter((item) => ["all", "settle"].includes(filter) || item.state === filter);
      button.querySelector("span").textContent = filter === "settle" && !this.isSettling ? "" : fitting.length;
    }
  }
}
