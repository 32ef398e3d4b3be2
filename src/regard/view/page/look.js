// The self-contained page: its data, and a tab for each view that the data has something for.
import { split, unpack } from "regard/data.js";
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

const VIEWS = {
  alignment: ["Alignment", alignment, "attention"],
  heads: ["Heads", heads, "attention"],
  grid: ["All heads", grid, "attention"],
  steps: ["Six steps", steps, "steps"],
  next: ["Next word", nextword, "next"],
  positions: ["Positions", positions, "positions"],
  norms: ["Norms", norms, "norms"],
  roles: ["Roles", roles, "roles"],
};

export async function start(page) {
  const data = await unpack(JSON.parse(page.querySelector("[data-json]").textContent));
  const state = shared(data);
  const names = Object.keys(VIEWS).filter((name) => data[VIEWS[name][2]]);
  const titles = Object.fromEntries(names.map((name) => [name, VIEWS[name][0]]));
  const list = tabs("Views", titles, (name) => `panel-${name}`, open);
  const panels = {};
  for (const name of names) {
    const attributes = { id: `panel-${name}`, "aria-labelledby": `tab-${name}`, hidden: true };
    panels[name] = el("section", { class: "panel", role: "tabpanel", ...attributes });
  }
  const mounted = new Set();

  function open(name) {
    list.set(name);
    for (const each of names) panels[each].hidden = each !== name;
    if (!mounted.has(name)) {
      mounted.add(name);
      const root = el("div");
      panels[name].append(root);
      VIEWS[name][1](root, data, { shared: state, open: (other) => { open(other); list.focus(); } });
    }
    if (location.protocol !== "about:") history.replaceState(null, "", `#${name}`);
  }

  describe(page, data);
  page.querySelector("[data-still]").remove();
  page.querySelector("main").append(list.element, ...names.map((name) => panels[name]));
  const wanted = location.hash.slice(1);
  open([wanted, page.body.dataset.view].find((name) => names.includes(name)) || names[0]);
  page.documentElement.dataset.ready = "";
}

// What the languages are called, and what the signs mean.
function describe(page, data) {
  ["source", "target"].forEach((side, i) => {
    const language = data.languages[i];
    if (!/^[a-z]{2,3}(-\w+)*$/i.test(language)) return;
    page.querySelector(`[data-text=${side}]`).lang = language;
    page.querySelector(`[data-name=${side}]`).textContent = nameOf(language);
  });
  const every = Object.values(data.axes).flatMap((axis) => axis.tokens);
  const key = ["⏎ is the end of a text, ▸ the start of the output."];
  if (every.includes("<unk>")) key.push("<unk> is a word that the model does not know.");
  if (split(data)) key.push("A dot marks a subword that goes on with the one before it.");
  page.querySelector("[data-key]").textContent = key.join(" ");
}

// A language's English name; a code that is not formed as such codes are stands for itself.
function nameOf(code) {
  try {
    return new Intl.DisplayNames("en", { type: "language" }).of(code);
  } catch {
    return code;
  }
}
