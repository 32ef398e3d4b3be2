// Next word: the probabilities at each step of the output, and the hypotheses that the beam considered.
// Data: languages; next {steps: [{token, probability, rank, top: [[token, p]]}], beam: null or {steps, path}},
// beam.steps: for each step [{token, text, parent, log_prob, fate: kept | ended | dropped, score}], best first.
import { el, live, number, para, rove, say, svg, view } from "regard/dom.js";

const [STEP, WIDE, ROW, HIGH] = [116, 96, 50, 42]; // of the beam's picture: from box to box across and down, and a box
const FATES = { kept: "kept", ended: "ended here", dropped: "dropped" };

export const mount = view((root, data) => {
  const { steps, beam } = data.next;
  const lang = data.languages[1] || "";
  let at = 0;
  const line = el("div", { class: "r-sentence", role: "group", "aria-label": "Output, piece by piece", lang });
  const pieces = steps.map(({ token, probability }, i) => {
    const piece = el("button", { type: "button", dir: "auto" }, el("span", {}, token), el("small", {}, number(probability)));
    piece.style.setProperty("--p", probability.toFixed(3));
    piece.addEventListener("click", () => choose(i));
    piece.addEventListener("focus", () => choose(i));
    return piece;
  });
  line.append(...pieces);
  rove(line);
  const told = live("read");
  const heading = el("h3");
  const list = el("ol", { class: "r-probabilities" });
  const candidates = el("div");
  const lattice = el("div", { class: "r-lattice" });
  root.append(
    para("lead", "At each step the model gives every piece of its vocabulary a probability. Choose a step of the output to "
      + "see what else might have stood there."),
    line, told,
    el("div", { class: "r-two r-next" },
      el("section", {}, heading, list),
      el("section", {}, el("h3", {}, "What the beam considered"), candidates)));
  if (beam) {
    const says = "Each column is a step, each box a hypothesis that was kept, best on top; the strong line is the way to the "
      + "output. ■ ended there.";
    root.append(el("section", {}, el("h3", {}, "The whole search"), para("small", says), lattice));
    lattice.append(searchPicture(beam, (step) => choose(Math.min(step, steps.length - 1))));
  }

  function choose(i) {
    at = i;
    const { token, probability, rank } = steps[at];
    pieces.forEach((piece, n) => {
      piece.setAttribute("aria-pressed", String(n === at));
      piece.tabIndex = n === at ? 0 : -1;
    });
    say(told, [token], " had probability ", [number(probability, 3)], rank === 1 ? ", the likeliest" : `, number ${rank}`);
    say(heading, `Step ${at + 1}, after “${steps.slice(0, at).map((s) => s.token).join(" ") || "▸"}”`);
    tellProbabilities(steps[at]);
    tellBeam();
    for (const box of lattice.querySelectorAll("[data-at]")) box.classList.toggle("now", Number(box.dataset.at) === at);
  }

  function tellProbabilities({ token, probability, rank, top }) {
    const shown = top.some(([name]) => name === token) ? top : [...top, [token, probability]];
    list.replaceChildren(...shown.map(([name, p], n) => {
      const bar = el("span", { class: "r-weight" });
      bar.style.setProperty("--w", String(p));
      const value = el("b", {}, p < 0.0005 ? "<0.001" : number(p, 3));
      const place = { class: name === token ? "on" : "", value: n < top.length ? n + 1 : rank };
      return el("li", place, el("span", { dir: "auto", lang }, name), value, bar);
    }));
  }

  function tellBeam() {
    if (!beam) return say(candidates, "This output was given, not searched for: there was no beam.");
    if (!beam.steps[at]) return say(candidates, "The search had ended by then.");
    const rows = beam.steps[at].map((each, n) => el("tr", { class: `${each.fate} ${beam.path[at] === n ? "on" : ""}` },
      el("td", { dir: "auto", lang }, each.text || "▸", each.token === "⏎" ? " ⏎" : ""),
      el("td", {}, number(each.log_prob)),
      el("td", {}, FATES[each.fate])));
    const heads = ["hypothesis", "log p", ""].map((text) => el("th", { scope: "col" }, text));
    candidates.replaceChildren(el("table", { class: "r-table r-candidates" },
      el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)));
  }

  choose(0);
  return () => {};
});

// What was kept at each step, with lines from each hypothesis to those that continue it.
function searchPicture({ steps, path }, onChoose) {
  // At the last step the search is over: what was kept for a further one came to nothing.
  const seen = (each, s) => each.fate === "ended" || (each.fate === "kept" && s < steps.length - 1);
  const shown = steps.map((step, s) => step.map((each, n) => ({ ...each, n })).filter((each) => seen(each, s)));
  const width = STEP * (shown.length - 1) + WIDE + 2;
  const height = ROW * Math.max(...shown.map((step) => step.length));
  const y = (s, n) => ROW * (shown[s].findIndex((each) => each.n === n) + 0.5);
  const [lines, boxes] = [svg("g"), svg("g")];
  shown.forEach((step, s) => step.forEach((each) => {
    const best = path[s] === each.n ? "best" : "";
    const [x, middle] = [STEP * s + 1, y(s, each.n)];
    if (s) {
      const [from, start] = [x - STEP + WIDE, y(s - 1, each.parent)];
      lines.append(svg("path", { class: best, d: `M${from} ${start}C${from + 12} ${start} ${x - 12} ${middle} ${x} ${middle}` }));
    }
    const text = each.token.length > 11 ? `${each.token.slice(0, 10)}…` : each.token;
    const log = each.fate === "ended" ? `■ ${number(each.score)} by length` : number(each.log_prob);
    const box = svg("g", { class: `${best} ${each.fate}`, "data-at": s },
      svg("title", {}, `${each.text}: ${number(each.log_prob)}`),
      svg("rect", { x, y: middle - HIGH / 2, width: WIDE, height: HIGH, rx: 9 }),
      svg("text", { x: x + 9, y: middle - 2 }, text),
      svg("text", { class: "log", x: x + 9, y: middle + 13 }, log));
    box.addEventListener("click", () => onChoose(s));
    boxes.append(box);
  }));
  const said = { role: "img", "aria-label": "The hypotheses kept at each step" };
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, ...said }, lines, boxes);
}
