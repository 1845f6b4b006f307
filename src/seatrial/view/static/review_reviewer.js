// Who reviews: asked once, kept in this browser, and changed as often as people take turns at it. Each tab has its own:
// who takes over in another one says nothing in the name of whoever sits here.

const NAME = "seatrial.reviewer";
const KNOWN = "seatrial.reviewers";

export function reviewer() {
  const here = sessionStorage.getItem(NAME) ?? localStorage.getItem(NAME);
  if (here !== null) sessionStorage.setItem(NAME, here);
  return JSON.parse(here ?? "null");
}

// Ask who it is, and call `chosen` when somebody has said so. Who is known already may also leave it as it is.
export function askReviewer(chosen) {
  const dialog = document.getElementById("who");
  const [name, discipline] = ["who-name", "who-discipline"].map((id) => document.getElementById(id));
  const known = JSON.parse(localStorage.getItem(KNOWN) ?? "{}");
  document.getElementById("who-known").replaceChildren(
    ...Object.keys(known).map((each) => Object.assign(document.createElement("option"), { value: each })),
  );
  name.value = reviewer()?.name ?? "";
  discipline.value = reviewer()?.discipline ?? "";
  name.onchange = () => { discipline.value = known[name.value.trim()] ?? discipline.value; };
  // Browsers let Escape close any dialog at the second time. Without a name nothing can be done here, so ask again.
  dialog.onclose = () => { if (!reviewer()) askReviewer(chosen); };
  dialog.querySelector("form").onsubmit = (event) => {
    const said = { name: name.value.trim(), discipline: discipline.value.trim() };
    if (!said.name) {
      event.preventDefault();
      return;
    }
    for (const kept of [sessionStorage, localStorage]) kept.setItem(NAME, JSON.stringify(said));
    localStorage.setItem(KNOWN, JSON.stringify({ ...known, [said.name]: said.discipline }));
    chosen();
  };
  dialog.showModal();
  name.focus();
}
