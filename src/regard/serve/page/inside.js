// The views of one sentence under the translation: a tab each, filled when it is opened.
import { unpack } from "regard/data.js";
import { el, tabs } from "regard/dom.js";
import { shared } from "regard/shared.js";
import { mount as alignment } from "regard/alignment.js";
import { mount as grid } from "regard/grid.js";
import { mount as heads } from "regard/heads.js";
import { mount as nextword } from "regard/nextword.js";
import { mount as norms } from "regard/norms.js";
import { mount as positions } from "regard/positions.js";
import { mount as roles } from "regard/roles.js";
import { mount as steps } from "regard/steps.js";
import { post } from "./api.js";
import { why } from "./why.js";

const VIEWS = {
  alignment: ["Alignment", alignment],
  heads: ["Heads", heads],
  why: ["Why this word?", why],
  next: ["Next word", nextword],
  grid: ["All heads", grid],
  steps: ["Six steps", steps],
  positions: ["Positions", positions],
  norms: ["Norms", norms],
  roles: ["Roles", roles],
};
const NAMES = Object.keys(VIEWS);

// onView(name): a tab was opened. Gives {look(sentence), open(name)}; sentence: {text, source, target, alternatives, translation}.
export function inside(root, view, onView) {
  const titles = Object.fromEntries(NAMES.map((name) => [name, VIEWS[name][0]]));
  const list = tabs("Views", titles, () => "view", open);
  const panel = el("section", { class: "panel", role: "tabpanel", id: "view", tabindex: 0 });
  const wait = el("p", { class: "wait", hidden: true }, "Looking …");
  const place = el("div");
  let current = NAMES.includes(view) ? view : NAMES[0];
  let data = null;
  let seen = null; // the sentence that the data are of
  let problem = null; // why there are none
  let state = null;
  let mounted = null;
  let asked = null;
  panel.append(wait, place);
  root.append(list.element, panel);

  function open(name) {
    if (!NAMES.includes(name)) return; // an address can ask for anything
    current = name;
    list.set(name);
    panel.setAttribute("aria-labelledby", `tab-${name}`);
    onView(name);
    draw();
  }

  function clear() {
    mounted?.destroy();
    mounted = null;
    place.replaceChildren();
  }

  function draw() {
    clear();
    if (problem) place.append(el("p", { class: "r-lead" }, problem));
    if (!data) return;
    const root = el("div");
    place.append(root);
    const options = { shared: state, open: (other) => { open(other); list.focus(); }, sentence: seen, load };
    if (current !== "roles" || data.roles) mounted = VIEWS[current][1](root, data, options);
    else rolesOf(root, options);
  }

  // Over many sentences: asked for when somebody wants to see them.
  async function rolesOf(root, options) {
    root.append(el("p", { class: "wait" }, "Reading sentences whose grammar is known …"));
    const { source, target } = seen;
    const mine = data;
    try {
      mine.roles = await post("/api/roles", { source, target });
    } catch (error) { // not kept: next time they may be had
      root.replaceChildren(el("p", { class: "r-lead" }, error.message));
      return;
    }
    if (mine === data && current === "roles") draw();
  }

  // One head's numbers, of a sentence too long for those of all of them.
  const load = async (kind, layer, head) => unpack(await post("/api/steps", { ...seen, kind, layer, head }));

  async function look(sentence) {
    asked?.abort();
    if (!sentence) { // nothing is shown, and nothing goes on unseen
      data = problem = null;
      clear();
      return;
    }
    if (data && JSON.stringify(sentence) === JSON.stringify(seen)) { // another one is not wanted any more
      settle();
      return;
    }
    asked = new AbortController();
    const { signal } = asked;
    panel.classList.add("old");
    wait.hidden = data !== null;
    try {
      const found = await unpack(await post("/api/look", { ...sentence, packed: true }, signal));
      signal.throwIfAborted(); // while it was unpacked
      if (data?.roles && data.languages.join() === found.languages.join()) found.roles = data.roles;
      data = found;
      seen = sentence;
      problem = null;
      state = kept(shared(data), state);
      list.set(current); // before there was a sentence they were hidden, and could not be scrolled to
      draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      data = null;
      problem = error.message;
      draw();
    }
    settle();
  }

  function settle() {
    panel.classList.remove("old");
    wait.hidden = true;
  }

  open(current);
  return { look, open };
}

// What was chosen for the last sentence, chosen again for this one.
function kept(next, before) {
  if (before && before.values.all === next.values.all) {
    const { words, kind, layer, heads: some } = before.values;
    next.set({ words, kind, layer, heads: some });
  }
  return next;
}
