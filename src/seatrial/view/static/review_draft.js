// The note and the categories of a verdict while they are written. They stay in the browser until the verdict is given.

const note = document.getElementById("note");
const field = document.getElementById("category");
const list = document.getElementById("categories");

export class Draft {
  #name = null;
  #categories = [];
  #given = { notes: "", categories: [] };
  #changed;

  // `changed` is called whenever the draft is another than it was.
  constructor(changed) {
    this.#changed = changed;
    note.addEventListener("input", () => this.#keep());
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.ctrlKey) {
        event.preventDefault();
        this.#add(field.value);
      }
    });
    field.addEventListener("change", () => this.#add(field.value));
  }

  // Show what was written under a name; where nothing was, what the verdict that stands has, if one does.
  open(name, given) {
    const kept = name && localStorage.getItem(this.#key(name));
    this.#given = { notes: given?.notes ?? "", categories: given?.categories ?? [] };
    const shown = kept ? JSON.parse(kept) : this.#given;
    this.#name = name;
    note.value = shown.notes;
    field.value = "";
    this.#categories = [...shown.categories];
    this.#list();
    this.#changed();
  }

  // What was written, with a category that is still in its field.
  said() {
    if (field.value.trim()) this.#add(field.value);
    return { notes: note.value.trim(), categories: [...this.#categories] };
  }

  isChanged() {
    return JSON.stringify({ notes: note.value.trim(), categories: this.#categories }) !== JSON.stringify(this.#given);
  }

  forget() {
    if (this.#name) localStorage.removeItem(this.#key(this.#name));
  }

  #key(name) {
    return `seatrial.draft.${name}`;
  }

  #add(text) {
    const slug = text.trim().toLowerCase().split("/")
      .map((level) => level.replace(/[^\p{L}\p{N}-]+/gu, "_").replace(/^[_-]+|[_-]+$/g, "")).filter(Boolean).join("/");
    field.value = "";
    if (!slug || this.#categories.includes(slug)) return;
    this.#categories.push(slug);
    this.#list();
    this.#keep();
  }

  #keep() {
    const text = JSON.stringify({ notes: note.value, categories: this.#categories });
    if (this.#name) localStorage.setItem(this.#key(this.#name), text);
    this.#changed();
  }

  #list() {
    list.replaceChildren(...this.#categories.map((category) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `${category} ×`;
      button.setAttribute("aria-label", `Remove ${category}`);
      button.addEventListener("click", () => {
        this.#categories = this.#categories.filter((each) => each !== category);
        this.#list();
        this.#keep();
      });
      const item = document.createElement("li");
      item.append(button);
      return item;
    }));
  }
}
