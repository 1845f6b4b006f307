// What a reviewer said and the viewer has not confirmed yet. Each message is kept in the browser under a name of its own,
// so that two tabs cannot overwrite each other's, and is sent again until the journal has it.

const RETRY_MS = [500, 1000, 2000, 4000, 8000];

export class Outbox {
  #prefix;
  #changed;
  #confirmed;
  #sending = false;
  #failures = 0;
  #timer = null;
  #refused = new Map();
  trouble = "";

  // `changed` is called whenever there is something else to show, `confirmed` with each message and its answer.
  constructor(name, changed, confirmed) {
    this.#prefix = `seatrial.unsent.${name}.`;
    this.#changed = changed;
    this.#confirmed = confirmed;
    window.addEventListener("online", () => this.flush());
  }

  // Keep a message, then send it. The id makes sure that it is added once, however often it arrives.
  add(address, key, body) {
    const id = newId();
    const message = { address, key, body: { id, ...body }, at: Date.now() + performance.now() / 1e6 };
    localStorage.setItem(this.#prefix + id, JSON.stringify(message));
    this.flush();
    return id;
  }

  waiting() {
    const names = Object.keys(localStorage).filter((name) => name.startsWith(this.#prefix));
    const found = names.map((name) => ({ name, ...JSON.parse(localStorage.getItem(name)) }));
    for (const message of found) message.refused = this.#refused.get(message.name) ?? "";
    return found.sort((one, other) => one.at - other.at);
  }

  discard(name) {
    localStorage.removeItem(name);
    this.#refused.delete(name);
    this.#changed();
  }

  // Send what waits, in order. Where the viewer does not answer, all wait; what it refuses for good holds nothing up.
  async flush() {
    clearTimeout(this.#timer);
    if (this.#sending) return;
    this.#sending = true;
    this.trouble = "";
    for (let next = this.#next(); next && !this.trouble; next = this.#next()) await this.#send(next);
    this.#sending = false;
    if (this.trouble) {
      const wait = RETRY_MS[Math.min(this.#failures++, RETRY_MS.length - 1)];
      this.#timer = setTimeout(() => this.flush(), wait);
    } else {
      this.#failures = 0;
    }
    this.#changed();
  }

  #next() {
    return this.waiting().find((message) => !message.refused);
  }

  async #send(message) {
    try {
      const answer = await ask(message.address, message.body);
      localStorage.removeItem(message.name);
      this.#confirmed(message, answer);
    } catch (error) {
      if ([400, 404, 409, 413].includes(error.status)) this.#refused.set(message.name, error.message);
      else this.trouble = error.message;
      this.#changed();
    }
  }
}

// Say what is not saved yet and why, as long as anything is not.
export function showUnsent(outbox) {
  const place = document.getElementById("unsent");
  const waiting = outbox.waiting();
  const refused = waiting.filter((message) => message.refused);
  const lines = refused.map((message) => {
    const line = document.createElement("p");
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Discard" });
    button.addEventListener("click", () => outbox.discard(message.name));
    line.append(`Not accepted: ${message.refused} `, button);
    return line;
  });
  if (outbox.trouble && waiting.length > refused.length) {
    const line = document.createElement("p");
    const count = waiting.length - refused.length;
    line.textContent = `${count} not saved yet, kept in this browser and tried again: ${outbox.trouble}`;
    lines.push(line);
  }
  place.replaceChildren(...lines);
  place.classList.toggle("notice", lines.length > 0);
}

// Ask the viewer for something, or with a body tell it something. Throws an Error in its words, with its status.
export async function ask(address, body) {
  const said = body && {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Seatrial": "1" },
    body: JSON.stringify(body),
  };
  let response;
  try {
    response = await fetch(address, { ...said, cache: "no-store", credentials: "same-origin" });
  } catch {
    throw new Error("the viewer does not answer");
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  throw Object.assign(new Error(answer.error ?? `the viewer answers with ${response.status}`), { status: response.status });
}

// An id that no other entry has.
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
