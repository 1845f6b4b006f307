// What is shown of an item: its instruction, the files that the agent left, and how its output differs from another.

import { ask } from "./review_outbox.js";

const item = document.getElementById("item");
const difference = document.getElementById("difference");
const reveal = document.getElementById("reveal");

// Show an item; what is already there stays as the reviewer has left it, folded or not.
export function showItem(found, isShown) {
  if (!isShown) {
    item.dataset.key = found.key;
    item.innerHTML = found.html;
    for (const file of item.querySelectorAll("details[data-src]")) {
      file.addEventListener("toggle", () => file.open && showFile(file));
      if (file.open) showFile(file);
    }
  }
  reveal.hidden = !(found.reveal || found.verdicts);
  reveal.innerHTML = found.reveal ?? found.verdicts ?? "";
}

// Say something in the place of an item.
export function showInstead(text) {
  delete item.dataset.key;
  item.textContent = text;
}

export function hideBeside() {
  difference.hidden = reveal.hidden = true;
}

// Show the difference that an address has, or hide it again.
export async function toggleDifference(address) {
  difference.hidden = !difference.hidden;
  if (difference.hidden) return;
  difference.dataset.of = address;
  difference.textContent = "…";
  try {
    const found = await ask(address);
    if (difference.dataset.of !== address) return; // another one was asked for since
    const title = Object.assign(document.createElement("h3"), { textContent: `Difference to ${found.against}` });
    difference.innerHTML = found.html;
    difference.prepend(title);
  } catch (error) {
    difference.textContent = error.message;
  }
  difference.scrollIntoView({ block: "start" });
}

export function showEvidence() {
  const found = document.getElementById("evidence-of");
  if (!found) return;
  found.open = true;
  found.scrollIntoView({ block: "start" });
  reveal.focus({ preventScroll: true });
}

async function showFile(file) {
  const content = file.querySelector(".desk-content");
  if (content.childNodes.length) return;
  try {
    content.innerHTML = (await ask(file.dataset.src)).html;
  } catch (error) {
    content.textContent = error.message;
  }
}
