// Heads: two columns of tokens with lines between them, coloured by head, and the numbers beside them.
// Data: axes, attention (any kinds), clearest, languages. The lines are drawn on a canvas no larger than what is seen.
import { attention, KINDS, kindsOf, row, SIDES, split } from "regard/data.js";
import { button, caption, choice, clamp, colour, el, number, onTheme, onWidth, range, say, select, slider, view } from "regard/dom.js";
import { shared } from "regard/shared.js";

const LONG = 60; // tokens from which the columns scroll in a box of their own
const LEVELS = 20; // lines of one head and nearly one weight are one path
const LISTED = 8;
const MOST = 3000; // lines drawn at once: more are no picture

export const mount = view((root, data, options) => {
  const state = options.shared || shared(data);
  const kinds = kindsOf(data);
  const { all } = state.values;
  let least = 0.1; // the weight from which a line is drawn
  let solo = false;
  let held = null; // {side: 0 or 1, i}: the token that was chosen
  let focus = null; // that one, or the one that is pointed at
  let seen = null;
  let edges = [];
  let marked = []; // tokens that are tinted now

  const units = choice("Units", [[true, "Words"], [false, "Subwords"]], state.values.words, (words) => state.set({ words }));
  const kindOf = choice("Kind of attention", kinds.map((kind) => [kind, KINDS[kind].name]), state.values.kind, (kind) => state.set({ kind }));
  const layerOf = select("Layer", [], 0, (layer) => state.set({ layer }));
  const threshold = slider("Lines from", { least: 0.01, most: 0.9, value: least }, (value) => { least = value; trace(); });
  const chips = range(all).map((head) => {
    const chip = button(String(head + 1), { class: "r-chip", "aria-label": `Head ${head + 1}` }, () => toggle(head));
    chip.addEventListener("dblclick", () => state.set({ heads: new Set([head]) }));
    chip.style.setProperty("--c", `var(--h${head % 8})`);
    return chip;
  });
  const soloed = button("Solo", { class: "r-quiet", "aria-pressed": "false", title: "One head at a time" }, () => {
    solo = !solo;
    state.set({ heads: solo ? new Set([[...state.values.heads].sort((a, b) => a - b)[0] ?? 0]) : new Set(range(all)) });
  });
  const every = button("All", { class: "r-quiet" }, () => {
    solo = false;
    state.set({ heads: state.values.heads.size === all ? new Set() : new Set(range(all)) });
  });
  const lead = el("p", { class: "r-lead" });
  const titles = [el("p"), el("p")];
  const more = el("p", { class: "r-hint" });
  const lists = [el("ol", { class: "r-left" }), el("ol", { class: "r-right" })];
  const canvas = el("canvas", { "aria-hidden": "true" });
  const gap = el("div", { class: "r-gap" }, canvas);
  const box = el("div", { class: "r-lines" }, lists[0], gap, lists[1]);
  const heading = el("h3");
  const numbers = el("ol", { class: "r-numbers" });
  const spoken = el("p", { class: "r-unseen", "aria-live": "polite" });
  root.append(
    lead,
    el("div", { class: "r-controls" }, kindOf.element, layerOf.element, ...(split(data) ? [units.element] : []), threshold.element),
    el("div", { class: "r-chips", role: "group", "aria-label": "Heads shown" }, ...chips, soloed, every),
    el("div", { class: "r-heads" },
      el("div", {}, el("div", { class: "r-sides" }, ...titles), box, more),
      el("aside", { class: "r-aside" }, heading, numbers, spoken)),
    caption(),
  );

  function toggle(head) {
    const heads = new Set(solo ? [head] : state.values.heads);
    if (!solo && !heads.delete(head)) heads.add(head);
    state.set({ heads });
  }

  const shownHeads = () => [...state.values.heads].sort((a, b) => a - b);
  const matrix = (head) => seen.matrix(state.values.layer, head);

  // The tokens, when they or the kind of attention change.
  function list() {
    const { kind, words } = state.values;
    seen = attention(data, kind, words);
    held = focus = null;
    marked = [];
    say(lead, `${KINDS[kind].lead} A line is a weight; the weights of one head from one piece sum to 1.`);
    const long = Math.max(seen.rows.length, seen.columns.length) > LONG;
    box.classList.toggle("long", long);
    lists.forEach((element, side) => {
      const labels = side ? seen.columns : seen.rows;
      say(titles[side], SIDES[seen.sides[side]]);
      element.lang = data.languages[seen.sides[side] === "source" ? 0 : 1] || "";
      element.replaceChildren(...labels.map((text, i) => {
        const token = el("button", { type: "button", dir: "auto", title: text, tabindex: i || side ? -1 : 0, "aria-pressed": "false", "data-i": i }, text);
        return el("li", { class: text === "▸" || text === "⏎" ? "mark" : "" }, token);
      }));
    });
    const count = data.attention[kind];
    layerOf.set(range(seen.layers).map((l) => [l, `${l + 1} of ${seen.layers}`]), state.values.layer);
    layerOf.element.hidden = !count || seen.layers < 2;
  }

  // Which lines there are, when anything but the tokens changes.
  function trace() {
    const shown = shownHeads();
    const from = Math.max(least, enough(shown));
    let [drawn, all_] = [0, 0];
    edges = shown.map((head) => {
      const { values, width } = matrix(head);
      const found = [];
      for (let n = 0; n < values.length; n++) {
        if (values[n] >= least) all_++;
        if (values[n] >= from && found.length < MOST) found.push([Math.floor(n / width), n % width, values[n]]);
      }
      drawn += found.length;
      return { head, found };
    });
    const hidden = all_ - drawn;
    say(more, hidden ? `${hidden.toLocaleString("en")} fainter lines are not drawn.` : "");
    kindOf.set(state.values.kind);
    units.set(state.values.words);
    chips.forEach((chip, head) => chip.setAttribute("aria-pressed", String(state.values.heads.has(head))));
    soloed.setAttribute("aria-pressed", String(solo));
    say(every, state.values.heads.size === all ? "None" : "All");
    paint();
    tell();
  }

  // The weight from which on there are about as many lines as can be drawn.
  function enough(shown) {
    const counts = new Uint32Array(1001); // by weight, in thousandths
    for (const head of shown) for (const weight of matrix(head).values) counts[Math.min(1000, Math.floor(weight * 1000))]++;
    let [drawn, at] = [0, 1000];
    while (at > 0 && drawn < MOST) drawn += counts[at--];
    return (at + 1) / 1000;
  }

  function paint() {
    const [width, height] = [gap.clientWidth, Math.min(gap.clientHeight, box.clientHeight || gap.clientHeight)];
    if (!width || !height) return;
    const dense = devicePixelRatio || 1;
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    canvas.style.height = `${height}px`;
    const ink = canvas.getContext("2d");
    ink.scale(dense, dense);
    ink.lineWidth = 2;
    ink.lineCap = "round";
    const step = lists[0].firstChild.offsetHeight;
    const from = box.scrollTop;
    const many = edges.length;
    edges.forEach(({ head, found }, place) => {
      const shift = many > 1 ? (place / (many - 1) - 0.5) * Math.min(14, step / 2) : 0;
      const y = (i) => step * (i + 0.5) + shift - from;
      const paths = new Map();
      for (const [i, j, weight] of focus ? near(head) : found) {
        const [a, b] = [y(i), y(j)];
        if ((a < -20 && b < -20) || (a > height + 20 && b > height + 20)) continue;
        const level = Math.max(1, Math.round(weight * LEVELS));
        if (!paths.has(level)) paths.set(level, new Path2D());
        const path = paths.get(level);
        path.moveTo(0, a);
        path.bezierCurveTo(width * 0.42, a, width * 0.58, b, width, b);
      }
      ink.strokeStyle = `rgb(${colour(root, `--h${head % 8}`).join(" ")})`;
      ink.setLineDash(head >= 8 ? [5, 4] : []); // colours repeat after eight heads
      for (const [level, path] of paths) {
        ink.globalAlpha = level / LEVELS;
        ink.stroke(path);
      }
    });
  }

  // The focused token's lines, the faint ones too.
  function near(head) {
    const { values, height, width } = matrix(head);
    const lines = focus.side
      ? range(height).map((i) => [i, focus.i, values[i * width + focus.i]])
      : range(width).map((j) => [focus.i, j, values[focus.i * width + j]]);
    return lines.filter((line) => line[2] >= Math.min(least, 0.02));
  }

  // The numbers of the focused token, or the strongest lines of all.
  function tell() {
    const shown = shownHeads();
    for (const token of marked) {
      token.classList.remove("on");
      token.style.removeProperty("--w");
      token.setAttribute("aria-pressed", "false");
    }
    marked = held ? [button_(held)] : [];
    if (held) button_(held).setAttribute("aria-pressed", "true");
    if (!shown.length) {
      say(heading, "No head is shown");
      numbers.replaceChildren(el("li", { class: "r-hint" }, "Choose one above."));
      return say(spoken, "No head is shown.");
    }
    if (!focus) return tellStrongest(shown);
    const names = focus.side ? seen.rows : seen.columns;
    const parts = names.map((_, n) => shown.map((head) => {
      const { values, width } = matrix(head);
      return focus.side ? values[n * width + focus.i] : values[focus.i * width + n];
    }));
    const means = parts.map((each) => each.reduce((a, b) => a + b, 0) / shown.length);
    button_(focus).classList.add("on");
    marked.push(button_(focus));
    means.forEach((weight, n) => {
      if (weight < 0.005) return;
      const token = button_({ side: focus.side ? 0 : 1, i: n });
      token.style.setProperty("--w", weight.toFixed(3));
      marked.push(token);
    });
    const name = (focus.side ? seen.columns : seen.rows)[focus.i];
    const verb = focus.side ? "is seen by" : "looks at";
    say(heading, [name], ` ${verb}`, shown.length > 1 ? el("small", {}, ` mean of ${shown.length} heads`) : el("small", {}, ` head ${shown[0] + 1}`));
    const most = range(names.length).filter((n) => means[n] >= 0.005).sort((a, b) => means[b] - means[a]).slice(0, LISTED);
    numbers.replaceChildren(...most.map((n) => {
      const bar = el("span", { class: "r-bar", "aria-hidden": "true" }, ...shown.map((head, h) => {
        const piece = el("i");
        piece.style.width = `${(100 * parts[n][h]) / shown.length}%`;
        piece.style.background = `var(--h${head % 8})`;
        return piece;
      }));
      const go = button(names[n], { dir: "auto" }, () => button_({ side: focus.side ? 0 : 1, i: n }).scrollIntoView({ block: "nearest" }));
      return el("li", {}, go, el("b", {}, number(means[n])), bar);
    }));
    if (!most.length) numbers.replaceChildren(el("li", { class: "r-hint" }, "no piece, to two digits"));
    say(spoken, `${name} ${verb} ${most.slice(0, 3).map((n) => `${names[n]} ${number(means[n])}`).join(", ") || "nothing"}`);
  }

  function tellStrongest(shown) {
    say(heading, "Strongest lines");
    const best = [];
    for (const { head, found } of edges) for (const [i, j, weight] of found) best.push([weight, i, j, head]);
    best.sort((a, b) => b[0] - a[0]);
    numbers.replaceChildren(...best.slice(0, LISTED).map(([weight, i, j, head]) => {
      const dot = el("i", { class: "r-dot", title: `Head ${head + 1}` });
      dot.style.background = `var(--h${head % 8})`;
      const go = button(`${seen.rows[i]} → ${seen.columns[j]}`, { dir: "auto" }, () => hold({ side: 0, i }));
      return el("li", {}, dot, go, el("b", {}, number(weight)));
    }));
    numbers.append(el("li", { class: "r-hint" }, best.length ? "Point at a piece, or tap it, to see only its lines." : `No weight is above ${number(least)}.`));
    say(spoken, "");
  }

  const button_ = ({ side, i }) => lists[side].children[i].firstChild;

  function hold(next) {
    held = next;
    look(next);
  }

  function look(next) {
    focus = next;
    paint();
    tell();
  }

  const placeOf = (event) => {
    const token = event.target.closest("button[data-i]");
    return token && { side: lists[1].contains(token) ? 1 : 0, i: Number(token.dataset.i) };
  };
  const same = (a, b) => a && b && a.side === b.side && a.i === b.i;
  box.addEventListener("click", (event) => {
    const place = placeOf(event);
    if (place) hold(same(place, held) ? null : place);
  });
  box.addEventListener("pointerover", (event) => {
    if (event.pointerType === "mouse") {
      const next = placeOf(event) || held;
      if (next !== focus && !same(next, focus)) look(next);
    }
  });
  box.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && focus !== held && look(held));
  box.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && placeOf(event) && look(placeOf(event)));
  box.addEventListener("focusout", (event) => !box.contains(event.relatedTarget) && look(held));
  box.addEventListener("scroll", () => requestAnimationFrame(paint));
  root.addEventListener("keydown", keys);

  function keys(event) {
    const place = event.target.closest?.("button[data-i]") ? placeOf(event) : null;
    if (event.key === "Escape" && (held || focus)) {
      hold(null);
      return event.stopPropagation();
    }
    if (!place) return;
    const sizes = [seen.rows.length, seen.columns.length];
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    const side = { ArrowRight: 1, ArrowLeft: 0 }[event.key] ?? place.side;
    if (step === undefined && side === place.side) return;
    event.preventDefault();
    const next = { side, i: clamp(place.i + (step || 0), 0, sizes[side] - 1) };
    for (const each of lists) for (const item of each.querySelectorAll("[tabindex='0']")) item.tabIndex = -1;
    button_(next).tabIndex = 0;
    button_(next).focus();
    look(next);
  }

  const ends = [
    state.listen((changes) => {
      if ("kind" in changes || "words" in changes) list();
      else layerOf.set(range(seen.layers).map((l) => [l, `${l + 1} of ${seen.layers}`]), state.values.layer);
      trace();
    }),
    onTheme(paint),
    onWidth(box, paint),
    () => root.removeEventListener("keydown", keys),
  ];
  list();
  trace();
  return () => ends.forEach((end) => end());
});
