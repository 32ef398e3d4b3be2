// Next word: the probabilities at each step of the output, and the hypotheses that the beam considered.
// Data: languages; next {steps: [{token, probability, rank, top: [[token, p]]}], beam: null or {steps: [[candidate]], path}}.
import { el, number, range, rove, say, svg, view } from "regard/dom.js";

const [STEP, WIDE, ROW, HIGH] = [116, 96, 50, 42]; // of the beam's picture: from box to box across and down, and a box

export const mount = view((root, data) => {
  const { steps, beam } = data.next;
  const language = data.languages[1] || "";
  let at = 0;
  const line = el("div", { class: "r-sentence", role: "group", "aria-label": "Output, piece by piece", lang: language });
  const pieces = steps.map(({ token, probability }, i) => {
    const piece = el("button", { type: "button", tabindex: i ? -1 : 0, dir: "auto" }, el("span", {}, token), el("small", {}, number(probability)));
    piece.style.setProperty("--p", probability.toFixed(3));
    piece.addEventListener("click", () => choose(i));
    piece.addEventListener("focus", () => choose(i));
    return piece;
  });
  line.append(...pieces);
  rove(line);
  const heading = el("h3");
  const list = el("ol", { class: "r-probabilities" });
  const told = el("p", { class: "r-read", "aria-live": "polite" });
  const lattice = el("div", { class: "r-lattice" });
  const candidates = el("div");
  root.append(
    el("p", { class: "r-lead" }, "At each step the model gives every piece of its vocabulary a probability. Choose a step of the output to see what else might have stood there."),
    line, told,
    el("div", { class: "r-two r-next" },
      el("section", {}, heading, list),
      el("section", {}, el("h3", {}, "What the beam considered"), candidates)),
  );
  if (beam) root.append(el("section", {}, el("h3", {}, "The whole search"), el("p", { class: "r-small" }, "Each column is a step, each box a hypothesis that was kept, best on top; the strong line is the way to the output. ■ ended there."), lattice));

  function choose(i) {
    at = i;
    const { token, probability, rank, top } = steps[at];
    pieces.forEach((piece, n) => {
      piece.setAttribute("aria-pressed", String(n === at));
      piece.tabIndex = n === at ? 0 : -1;
    });
    say(heading, `Step ${at + 1}, after “${steps.slice(0, at).map((s) => s.token).join(" ") || "▸"}”`);
    const known = top.some(([name]) => name === token);
    const shown = known ? top : [...top, [token, probability]];
    list.replaceChildren(...shown.map(([name, p], n) => {
      const bar = el("span", { class: "r-weight" });
      bar.style.setProperty("--w", String(p));
      return el("li", { class: name === token ? "on" : "", value: n < top.length ? n + 1 : rank }, el("span", { dir: "auto", lang: language }, name), el("b", {}, p < 0.0005 ? "<0.001" : number(p, 3)), bar);
    }));
    const place = rank === 1 ? "the likeliest" : `number ${rank}`;
    say(told, [token], " had probability ", [number(probability, 3)], `, ${place}`);
    lattice.querySelectorAll("[data-at]").forEach((each) => each.classList.toggle("now", Number(each.dataset.at) === at));
    tellBeam();
  }

  function tellBeam() {
    if (!beam) return say(candidates, "This output was given, not searched for: there was no beam.");
    const found = beam.steps[at];
    if (!found) return say(candidates, "The search had ended by then.");
    const fates = { kept: "kept", ended: "ended here", dropped: "dropped" };
    candidates.replaceChildren(el("table", { class: "r-table r-candidates" },
      el("thead", {}, el("tr", {}, ...["hypothesis", "log p", ""].map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, ...found.map((each, n) => el("tr", { class: `${each.fate}${beam.path[at] === n ? " on" : ""}` },
        el("td", { dir: "auto", lang: language }, each.text || "▸", each.token === "⏎" ? " ⏎" : ""),
        el("td", {}, number(each.log_prob)),
        el("td", {}, fates[each.fate]))))));
  }

  function draw() {
    // At the last step the search is over: what was kept for a further one came to nothing.
    const seen = (each, s) => each.fate === "ended" || (each.fate === "kept" && s < beam.steps.length - 1);
    const kept = beam.steps.map((step, s) => step.map((each, n) => ({ ...each, n })).filter((each) => seen(each, s)));
    const width = STEP * kept.length - STEP + WIDE + 2;
    const height = ROW * Math.max(...kept.map((step) => step.length));
    const y = (step, n) => ROW * kept[step].findIndex((each) => each.n === n) + ROW / 2;
    const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "The hypotheses kept at each step" });
    const [lines, boxes] = [svg("g"), svg("g")];
    kept.forEach((step, s) => step.forEach((each) => {
      const best = beam.path[s] === each.n;
      const [x, middle] = [STEP * s + 1, y(s, each.n)];
      if (s) {
        const [fromX, fromY] = [x - STEP + WIDE, y(s - 1, each.parent)];
        lines.append(svg("path", { class: best ? "best" : "", d: `M${fromX} ${fromY}C${fromX + 12} ${fromY} ${x - 12} ${middle} ${x} ${middle}` }));
      }
      const text = each.token.length > 11 ? `${each.token.slice(0, 10)}…` : each.token;
      const box = svg("g", { class: `${best ? "best" : ""} ${each.fate}`, "data-at": s },
        svg("title", {}, `${each.text}: ${number(each.log_prob)}`),
        svg("rect", { x, y: middle - HIGH / 2, width: WIDE, height: HIGH, rx: 9 }),
        svg("text", { x: x + 9, y: middle - 2 }, text),
        svg("text", { class: "log", x: x + 9, y: middle + 13 }, each.fate === "ended" ? `■ ${number(each.score)} by length` : number(each.log_prob)));
      box.addEventListener("click", () => choose(Math.min(s, steps.length - 1)));
      boxes.append(box);
    }));
    picture.append(lines, boxes);
    lattice.replaceChildren(picture);
  }

  if (beam) draw();
  choose(0);
  return () => {};
});
