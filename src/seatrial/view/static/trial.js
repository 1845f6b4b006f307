"use strict";
// The page of a trial: keys, commands to copy, and more turns of the conversation when they are asked for.
(() => {
  const $ = (id) => document.getElementById(id);

  function copy(button) {
    const line = button.parentElement.querySelector("code");
    const told = (word) => { button.textContent = word; setTimeout(() => { button.textContent = "Copy"; }, 1500); };
    const byHand = () => { getSelection().selectAllChildren(line); told("Selected"); };
    if (navigator.clipboard) navigator.clipboard.writeText(line.textContent).then(() => told("Copied"), byHand);
    else byHand();
  }

  async function more(link, how) {
    if (link.getAttribute("aria-busy")) return;
    link.setAttribute("aria-busy", "true");
    let text;
    try {
      const answer = await fetch(link.dataset.part);
      if (!answer.ok) throw new Error(answer.statusText);
      text = await answer.text();
    } catch {
      link.removeAttribute("aria-busy");
      if (how !== "unasked") location.assign(link.href);
      return;
    }
    const part = document.createRange().createContextualFragment(text);
    const first = part.querySelector(".turn");
    link.parentElement.replaceWith(part);
    if (first && how !== "unasked") { first.tabIndex = -1; first.focus(); }
  }

  function toFailure() {
    const link = document.querySelector("a.to-failure");
    if (!link) return;
    const place = $(decodeURIComponent(link.hash.slice(1)));
    if (!place) { location.assign(link.href); return; }
    place.scrollIntoView({ block: "center" });
    place.focus({ preventScroll: true });
  }

  function foldAll() {
    const all = [...document.querySelectorAll("main details")];
    const open = !all.every((each) => each.open);
    for (const each of all) each.open = open;
  }

  const KEYS = {
    n: () => $("after") && $("after").click(),
    p: () => $("before") && $("before").click(),
    f: toFailure,
    o: foldAll,
    "?": () => $("keys") && ($("keys").open ? $("keys").close() : $("keys").showModal()),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const action = KEYS[event.key];
    if (action) { event.preventDefault(); action(); }
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.more-turns");
    if (link && link.dataset.part && !event.ctrlKey && !event.metaKey) { event.preventDefault(); more(link, "asked"); }
    const button = event.target.closest("button.copy");
    if (button) copy(button);
    if (event.target.closest("a.to-failure")) { event.preventDefault(); toFailure(); }
  });
  for (const button of document.querySelectorAll("button.copy")) button.hidden = false;
  for (const link of document.querySelectorAll("a[data-now]:not([data-part=''])")) more(link, "unasked");
})();
