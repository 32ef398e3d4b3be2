// Roles: which heads find who, did what, to whom, and what "it" is, on sentences whose grammar is known.
// Data: roles {sentences, relations: [{kind, name, seen, base, best, example, heads: [{layer, head, hits}]}]} or {needs}.
// options.open(view) and options.shared, if there are any, show a head in the other views.
import { KINDS } from "regard/data.js";
import { button, caption, choice, el, number, say, view } from "regard/dom.js";

const percent = (share) => `${number(100 * share, 0)} %`;

export const mount = view((root, data, options) => {
  const { needs, relations = [], sentences, languages } = data.roles;
  if (needs) {
    root.append(el("p", { class: "r-lead" }, needs));
    return () => {};
  }
  const kinds = Object.keys(KINDS).filter((kind) => relations.some((r) => r.kind === kind));
  let kind = kinds.includes("encoder") ? "encoder" : kinds[0];
  const kindOf = choice("Kind of attention", kinds.map((name) => [name, KINDS[name].name]), kind, (value) => { kind = value; draw(); });
  const found = el("ul", { class: "r-found" });
  const table = el("div", { class: "r-board" });
  const told = el("p", { class: "r-read", "aria-live": "polite" });
  const example = el("p", { class: "r-example" });
  root.append(
    el("p", { class: "r-lead" }, `In how many of ${sentences} sentences of the embedded corpus, whose grammar is known, a head's strongest weight goes from one word to another. The last row is what a fixed distance reaches (“always the word before”), which takes no understanding: a head that stays below it found no role.`),
    el("div", { class: "r-controls" }, kindOf.element),
    el("div", { class: "r-beside" }, table, el("div", {}, told, example, found)),
    caption(),
  );

  function draw() {
    kindOf.set(kind);
    kindOf.element.hidden = kinds.length < 2;
    const mine = relations.filter((r) => r.kind === kind);
    const rows = mine[0].heads.map(({ layer, head }, n) => el("tr", {},
      el("th", { scope: "row" }, nameOf(layer, head)),
      ...mine.map((relation) => cell(relation, relation.heads[n].hits / relation.seen, `layer ${layer + 1}, head ${head + 1}`, relation.heads[n].hits))));
    const base = el("tr", { class: "base" }, el("th", { scope: "row" }, "fixed distance"),
      ...mine.map((r) => cell(r, r.base.share, `always ${distance(r.base.offset)}`, Math.round(r.base.share * r.seen))));
    const seen = el("tr", { class: "base" }, el("th", { scope: "row" }, "times seen"), ...mine.map((r) => el("td", {}, String(r.seen))));
    table.replaceChildren(el("table", { class: "r-table r-roles" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "head"), ...mine.map((r) => el("th", { scope: "col" }, r.name)))),
      el("tbody", {}, ...rows), el("tfoot", {}, base, seen)));
    say(told, "Point at a number, or tap it, for what it counts.");
    show(mine[0]);
    found.replaceChildren(...mine.filter((r) => r.best && r.best.share > r.base.share).map((r) => el("li", {},
      el("b", {}, r.name), `: layer ${r.best.place[1] + 1}, head ${r.best.place[2] + 1} finds it in ${percent(r.best.share)} of sentences that it was not chosen on; a fixed distance in ${percent(r.base.share)}.`)));
    if (!found.children.length) found.append(el("li", {}, "No head of this kind beats a fixed distance."));
  }

  const distance = (offset) => (offset ? `${Math.abs(offset)} ${offset < 0 ? "before" : "after"}` : "the same place");

  function nameOf(layer, head) {
    const text = `${layer + 1} · ${head + 1}`;
    if (!options.open || !options.shared || !data.attention?.[kind]) return text;
    return button(text, { class: "r-quiet", "aria-label": `Layer ${layer + 1}, head ${head + 1}: show its lines` }, () => {
      options.shared.set({ kind, layer, heads: new Set([head]) });
      options.open("heads");
    });
  }

  function cell(relation, share, who, hits) {
    const above = share > relation.base.share;
    const td = el("td", { class: above ? "above" : "", tabindex: -1 }, number(100 * share, 0));
    td.style.setProperty("--w", share.toFixed(3));
    const tell = () => {
      say(told, [relation.name], `, ${who}: `, [`${hits} of ${relation.seen}`], ` times (${percent(share)}); a fixed distance, ${distance(relation.base.offset)}: ${percent(relation.base.share)}`);
      show(relation);
    };
    td.addEventListener("pointerenter", tell);
    td.addEventListener("click", tell);
    td.addEventListener("focus", tell);
    return td;
  }

  // A sentence that shows the relation, both words marked.
  function show({ kind: where, example: { source, target, from, to } }) {
    const words = (list, marks, lang) => el("span", { lang, class: "r-words" }, ...list.flatMap((word, i) => [i ? " " : "", i in marks ? el("mark", { class: marks[i] }, word) : word]));
    const first = where === "encoder" ? words(source, { [from]: "from", [to]: "to" }, languages[0]) : words(target, where === "cross" ? { [from]: "from" } : { [from]: "from", [to]: "to" }, languages[1]);
    example.replaceChildren(el("small", {}, "for example "), first, ...(where === "cross" ? [el("small", {}, " over "), words(source, { [to]: "to" }, languages[0])] : []));
  }

  table.addEventListener("keydown", (event) => {
    const here = event.target.closest("td");
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!here || !step) return;
    event.preventDefault();
    const rows = [...table.querySelectorAll("tr")];
    rows[rows.indexOf(here.parentNode) + step[0]]?.cells[here.cellIndex + step[1]]?.focus();
  });
  draw();
  table.querySelector("td").tabIndex = 0;
  return () => {};
});
