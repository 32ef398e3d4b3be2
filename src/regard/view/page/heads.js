// Heads: two columns of tokens with lines between them, coloured by head, and the numbers beside them.
// Data: axes, attention (any kinds), clearest, languages.
import { attention, KINDS, SIDES } from "regard/data.js";
import { button, caption, clamp, el, live, number, onTheme, onWidth, para, range, say, select, slider, view } from "regard/dom.js";
import { linesOf, paint } from "regard/lines.js";
import { kindOf, shared, unitsOf } from "regard/shared.js";

const LONG = 60; // tokens from which the columns scroll in a box of their own
const LISTED = 8; // numbers beside the lines
const FAINT = 0.02; // the weight from which a focused token's lines are drawn

export const mount = view((root, data, options) => {
  const state = options.shared || shared(data);
  const { all } = state.values;
  let least = 0.1; // the weight from which a line is drawn
  let solo = false;
  let held = null; // {side: 0 or 1, i}: the token that was chosen
  let focus = null; // that one, or the one that is pointed at
  let marked = []; // tokens that are tinted now
  let seen = null;
  let lines = [];

  const [units, kinds] = [unitsOf(data, state), kindOf(data, state)];
  const layerOf = select("Layer", [], 0, (layer) => state.set({ layer }));
  const bounds = { least: 0.01, most: 0.9, value: least };
  const threshold = slider("Lines from", bounds, (value) => { least = value; trace(); });
  const chips = range(all).map((head) => {
    const chip = button(`${head + 1}`, { class: "r-chip", "aria-label": `Head ${head + 1}` }, () => toggle(head));
    chip.addEventListener("dblclick", () => state.set({ heads: new Set([head]) }));
    chip.style.setProperty("--c", `var(--h${head % 8})`);
    return chip;
  });
  const soloing = button("Solo", { class: "r-quiet", title: "One head at a time" }, () => {
    solo = !solo;
    state.set({ heads: new Set(solo ? [heads()[0] ?? 0] : range(all)) });
  });
  const every = button("All", { class: "r-quiet" }, () => {
    solo = false;
    state.set({ heads: new Set(state.values.heads.size === all ? [] : range(all)) });
  });
  const lead = para("lead");
  const titles = [el("p"), el("p")];
  const lists = [el("ol", { class: "r-left" }), el("ol", { class: "r-right" })];
  const canvas = el("canvas", { "aria-hidden": "true" });
  const gap = el("div", { class: "r-gap" }, canvas);
  const box = el("div", { class: "r-lines" }, lists[0], gap, lists[1]);
  const more = para("hint");
  const heading = el("h3");
  const numbers = el("ol", { class: "r-numbers" });
  const spoken = live("unseen");
  root.append(
    lead,
    el("div", { class: "r-controls" }, kinds.element, layerOf.element, units.element, threshold.element),
    el("div", { class: "r-chips", role: "group", "aria-label": "Heads shown" }, ...chips, soloing, every),
    el("div", { class: "r-heads" },
      el("div", {}, el("div", { class: "r-sides" }, ...titles), box, more),
      el("aside", { class: "r-aside" }, heading, numbers, spoken)),
    caption(),
  );

  const heads = () => [...state.values.heads].sort((a, b) => a - b);
  const matrix = (head) => seen.matrix(state.values.layer, head);
  const names = (side) => (side ? seen.columns : seen.rows);
  const tokenAt = ({ side, i }) => lists[side].children[i].firstChild;

  function toggle(head) {
    const chosen = new Set(solo ? [] : state.values.heads);
    if (!chosen.delete(head)) chosen.add(head);
    state.set({ heads: chosen });
  }

  // The tokens, when they or the kind of attention change.
  function list() {
    const { kind, words } = state.values;
    seen = attention(data, kind, words);
    held = focus = null;
    marked = [];
    say(lead, `${KINDS[kind].lead} A line is a weight; the weights of one head from one piece sum to 1.`);
    box.classList.toggle("long", Math.max(seen.rows.length, seen.columns.length) > LONG);
    lists.forEach((element, side) => {
      say(titles[side], SIDES[seen.sides[side]]);
      element.lang = data.languages[seen.sides[side] === "source" ? 0 : 1] || "";
      element.replaceChildren(...names(side).map((text, i) => {
        const about = { dir: "auto", title: text, tabindex: i || side ? -1 : 0, "aria-pressed": "false", "data-i": i };
        return el("li", { class: "▸⏎".includes(text) ? "mark" : "" }, el("button", { type: "button", ...about }, text));
      }));
    });
    layerOf.element.hidden = seen.layers < 2;
  }

  // Which lines there are, when anything changes.
  function trace() {
    const found = linesOf(heads(), matrix, least);
    lines = found.lines;
    say(more, found.hidden ? `${found.hidden.toLocaleString("en")} fainter lines are not drawn.` : "");
    kinds.set(state.values.kind);
    units.set(state.values.words);
    layerOf.set(range(seen.layers).map((l) => [l, `${l + 1} of ${seen.layers}`]), state.values.layer);
    chips.forEach((chip, head) => chip.setAttribute("aria-pressed", String(state.values.heads.has(head))));
    soloing.setAttribute("aria-pressed", String(solo));
    say(every, state.values.heads.size === all ? "None" : "All");
    draw();
    tell();
  }

  function draw() {
    const [width, height] = [gap.clientWidth, Math.min(gap.clientHeight, box.clientHeight || gap.clientHeight)];
    if (!width || !height) return;
    const shown = focus ? heads().map((head) => ({ head, found: near(head) })) : lines;
    paint(canvas, shown, { width, height, step: lists[0].firstChild.offsetHeight, from: box.scrollTop });
  }

  // The focused token's lines, the faint ones too.
  function near(head) {
    const { values, height, width } = matrix(head);
    const every_ = focus.side
      ? range(height).map((i) => [i, focus.i, values[i * width + focus.i]])
      : range(width).map((j) => [focus.i, j, values[focus.i * width + j]]);
    return every_.filter((line) => line[2] >= Math.min(least, FAINT));
  }

  function tell() {
    for (const token of marked) {
      token.classList.remove("on");
      token.style.removeProperty("--w");
      token.setAttribute("aria-pressed", "false");
    }
    marked = held ? [tokenAt(held)] : [];
    if (held) tokenAt(held).setAttribute("aria-pressed", "true");
    if (!heads().length) {
      say(heading, "No head is shown");
      numbers.replaceChildren(el("li", { class: "r-hint" }, "Choose one above."));
      say(spoken, "No head is shown.");
    } else if (focus) tellToken();
    else tellStrongest();
  }

  // Where the focused token looks, or who looks at it: the mean over the heads shown, each head's part in its colour.
  function tellToken() {
    const [shown, other] = [heads(), focus.side ? 0 : 1];
    const parts = names(other).map((_, n) => shown.map((head) => {
      const { values, width } = matrix(head);
      return focus.side ? values[n * width + focus.i] : values[focus.i * width + n];
    }));
    const means = parts.map((each) => each.reduce((a, b) => a + b, 0) / shown.length);
    const order = range(means.length).filter((n) => means[n] >= 0.005).sort((a, b) => means[b] - means[a]);
    for (const n of order) {
      tokenAt({ side: other, i: n }).style.setProperty("--w", means[n].toFixed(3));
      marked.push(tokenAt({ side: other, i: n }));
    }
    tokenAt(focus).classList.add("on");
    marked.push(tokenAt(focus));
    const name = names(focus.side)[focus.i];
    const verb = focus.side ? "is seen by" : "looks at";
    const whose = shown.length > 1 ? ` mean of ${shown.length} heads` : ` head ${shown[0] + 1}`;
    say(heading, [name], ` ${verb}`, el("small", {}, whose));
    numbers.replaceChildren(...order.slice(0, LISTED).map((n) => {
      const bar = el("span", { class: "r-bar", "aria-hidden": "true" }, ...shown.map((head, h) => {
        const piece = el("i");
        piece.style.width = `${(100 * parts[n][h]) / shown.length}%`;
        piece.style.background = `var(--h${head % 8})`;
        return piece;
      }));
      const go = () => tokenAt({ side: other, i: n }).scrollIntoView({ block: "nearest" });
      return el("li", {}, button(names(other)[n], { dir: "auto" }, go), el("b", {}, number(means[n])), bar);
    }));
    if (!order.length) numbers.replaceChildren(el("li", { class: "r-hint" }, "no piece, to two digits"));
    const first = order.slice(0, 3).map((n) => `${names(other)[n]} ${number(means[n])}`).join(", ");
    say(spoken, `${name} ${verb} ${first || "nothing"}`);
  }

  function tellStrongest() {
    const best = lines.flatMap(({ head, found }) => found.map(([i, j, weight]) => ({ head, i, j, weight })));
    best.sort((a, b) => b.weight - a.weight);
    say(heading, "Strongest lines");
    numbers.replaceChildren(...best.slice(0, LISTED).map(({ head, i, j, weight }) => {
      const dot = el("i", { class: "r-dot", title: `Head ${head + 1}` });
      dot.style.background = `var(--h${head % 8})`;
      const go = button(`${seen.rows[i]} → ${seen.columns[j]}`, { dir: "auto" }, () => hold({ side: 0, i }));
      return el("li", {}, dot, go, el("b", {}, number(weight)));
    }));
    const hint = best.length ? "Point at a piece, or tap it, to see only its lines." : `No weight is above ${number(least)}.`;
    numbers.append(el("li", { class: "r-hint" }, hint));
    say(spoken, "");
  }

  function hold(next) {
    held = next;
    look(next);
  }

  function look(next) {
    focus = next;
    draw();
    tell();
  }

  const same = (a, b) => a === b || (a && b && a.side === b.side && a.i === b.i);
  const placeOf = (event) => {
    const token = event.target.closest?.("button[data-i]");
    return token && { side: lists[1].contains(token) ? 1 : 0, i: Number(token.dataset.i) };
  };
  const byMouse = (call) => (event) => event.pointerType === "mouse" && call(event);
  box.addEventListener("click", (event) => {
    const place = placeOf(event);
    if (place) hold(same(place, held) ? null : place);
  });
  box.addEventListener("pointerover", byMouse((event) => {
    const next = placeOf(event) || held;
    if (!same(next, focus)) look(next);
  }));
  box.addEventListener("pointerleave", byMouse(() => !same(focus, held) && look(held)));
  box.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && look(placeOf(event) || held));
  box.addEventListener("focusout", (event) => !box.contains(event.relatedTarget) && look(held));
  box.addEventListener("scroll", () => requestAnimationFrame(draw));
  root.addEventListener("keydown", keys);

  function keys(event) {
    if (event.key === "Escape" && (held || focus)) {
      event.stopPropagation();
      return hold(null);
    }
    const place = placeOf(event);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    const side = { ArrowRight: 1, ArrowLeft: 0 }[event.key] ?? place?.side;
    if (!place || (step === undefined && side === place.side)) return undefined;
    event.preventDefault();
    const next = { side, i: clamp(place.i + (step || 0), 0, names(side).length - 1) };
    for (const token of box.querySelectorAll("[tabindex='0']")) token.tabIndex = -1;
    tokenAt(next).tabIndex = 0;
    tokenAt(next).focus();
    return look(next);
  }

  const ends = [
    state.listen((changes) => {
      if ("kind" in changes || "words" in changes) list();
      trace();
    }),
    onTheme(draw),
    onWidth(box, draw),
    () => root.removeEventListener("keydown", keys),
  ];
  list();
  trace();
  return () => ends.forEach((end) => end());
});
