// Roles: which heads find who, did what, to whom, and what "it" is, on sentences whose grammar is known.
// Data: roles {sentences, languages, relations: [{kind, name, seen, base, best, example, heads}]} or {needs: why not};
// heads: [{layer, head, hits, above: clearly more than the best fixed rule, `base`}].
// options.open(view) and options.shared, if there are any, show a head in another view.
import { KINDS } from "regard/data.js";
import { button, caption, choice, el, live, number, para, say, view } from "regard/dom.js";

const percent = (share) => `${number(100 * share, 0)} %`;
const headName = (layer, head) => `layer ${layer + 1}, head ${head + 1}`;

export const mount = view((root, data, options) => {
  const { needs, relations = [], sentences, languages } = data.roles;
  if (needs) {
    root.append(para("lead", needs));
    return () => {};
  }
  const kinds = Object.keys(KINDS).filter((kind) => relations.some((r) => r.kind === kind));
  let kind = kinds.includes("encoder") ? "encoder" : kinds[0];
  const kindNames = kinds.map((name) => [name, KINDS[name].name]);
  const kindOf = choice("Kind of attention", kindNames, kind, (value) => { kind = value; draw(); });
  const found = el("ul", { class: "r-found" });
  const table = el("div", { class: "r-board" });
  const told = live("read");
  const example = para("example");
  root.append(
    para("lead", `In how many of ${sentences} sentences of the embedded corpus, whose grammar is known, a head's strongest `
      + "weight goes from one word to another. A fixed rule (“always the word before”, “always the first noun”) takes "
      + "no understanding: only heads that are clearly above the best one, by three standard errors, are coloured."),
    el("div", { class: "r-controls" }, kindOf.element),
    el("div", { class: "r-beside" }, table, el("div", {}, told, example, found)),
    caption());

  function draw() {
    kindOf.set(kind);
    kindOf.element.hidden = kinds.length < 2;
    const mine = relations.filter((r) => r.kind === kind);
    const line = (name, cells, sort = "") => el("tr", { class: sort }, el("th", { scope: "row" }, name), ...cells);
    const rows = mine[0].heads.map(({ layer, head }, n) =>
      line(linkOf(layer, head), mine.map((r) => cell(r, r.heads[n], headName(layer, head)))));
    const fixed = ({ base, seen }) => ({ hits: Math.round(base.share * seen), above: false });
    const base = mine.map((r) => cell(r, fixed(r), `always ${r.base.rule}`));
    const titles = ["head", ...mine.map((r) => r.name)].map((text) => el("th", { scope: "col" }, text));
    table.replaceChildren(el("table", { class: "r-table r-roles" },
      el("thead", {}, el("tr", {}, ...titles)),
      el("tbody", {}, ...rows),
      el("tfoot", {}, line("fixed rule", base), line("times seen", mine.map((r) => el("td", {}, String(r.seen)))))));
    table.querySelector("td").tabIndex = 0;
    say(told, "Point at a number, or tap it, for what it counts.");
    show(mine[0]);
    const better = mine.filter((r) => r.best);
    found.replaceChildren(...better.map((r) => el("li", {}, el("b", {}, r.name),
      `: ${headName(r.best.place[1], r.best.place[2])} finds it in ${percent(r.best.share)} of sentences that it was not `
      + `chosen on; a fixed rule in ${percent(r.base.share)}.`)));
    if (!better.length) found.append(el("li", {}, "No head of this kind is clearly above a fixed rule."));
  }

  // A head's name, which shows its lines where the page can.
  function linkOf(layer, head) {
    const text = `${layer + 1} · ${head + 1}`;
    if (!options.open || !options.shared || !data.attention?.[kind]) return text;
    return button(text, { class: "r-quiet", "aria-label": `${headName(layer, head)}: show its lines` }, () => {
      options.shared.set({ kind, layer, heads: new Set([head]) });
      options.open("heads");
    });
  }

  function cell(relation, { hits, above }, who) {
    const { name, seen, base } = relation;
    const share = hits / seen;
    const made = el("td", { class: above ? "above" : "", tabindex: -1 }, number(100 * share, 0));
    made.style.setProperty("--w", share.toFixed(3));
    const tell = () => {
      say(told, [name], `, ${who}: `, [`${hits} of ${seen}`],
        ` times (${percent(share)}); always ${base.rule}: ${percent(base.share)}`);
      show(relation);
    };
    for (const event of ["pointerenter", "click", "focus"]) made.addEventListener(event, tell);
    return made;
  }

  // A sentence that shows the relation, both words marked.
  function show({ kind: where, example: { source, target, from, to } }) {
    const words = (list, marks, lang) => el("span", { lang }, ...list.flatMap((word, i) => [
      i ? " " : "", i in marks ? el("mark", { class: marks[i] }, word) : word,
    ]));
    const both = { [from]: "from", [to]: "to" };
    const across = () => [
      words(target, { [from]: "from" }, languages[1]), el("small", {}, " over "), words(source, { [to]: "to" }, languages[0]),
    ];
    const shown = {
      encoder: () => [words(source, both, languages[0])],
      decoder: () => [words(target, both, languages[1])],
      cross: across,
    }[where]();
    example.replaceChildren(el("small", {}, "for example "), ...shown);
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
  return () => {};
});
