// Elements, controls, numbers and colours that the views share. Text is only ever set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

export const el = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

// A paragraph of one of the views' sorts: lead, small, note, hint, over, read.
export const para = (sort, ...parts) => el("p", { class: `r-${sort}` }, ...parts);

// What is said of a choice as it is made: a live paragraph.
export const live = (sort) => el("p", { class: `r-${sort}`, "aria-live": "polite" });

export function button(text, attributes, onClick) {
  const made = el("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", onClick);
  return made;
}

export const range = (n) => Array.from({ length: n }, (_, i) => i);

export const clamp = (value, least, most) => Math.max(least, Math.min(most, value));

// A number for people: so many digits, a true minus, no minus before a zero.
export function number(value, digits = 2) {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "\u2212");
}

// A sentence in which what stands in [brackets] is bold.
export function say(element, ...parts) {
  element.replaceChildren(...parts.map((part) => (Array.isArray(part) ? el("b", {}, part[0]) : part)));
}

// A row of buttons of which one is chosen: options are [value, text] pairs. Gives {element, set(current)}.
export function choice(label, options, current, onChoose) {
  const element = el("div", { class: "r-choice", role: "group", "aria-label": label });
  const buttons = options.map(([value, text]) => button(text, {}, () => onChoose(value)));
  const set = (chosen) => buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(options[i][0] === chosen)));
  element.append(...buttons);
  set(current);
  return { element, set };
}

// A labelled drop-down: options are [number, text] pairs. Gives {element, set(options, current)}.
export function select(label, options, current, onChoose) {
  const list = el("select");
  const element = el("label", { class: "r-label" }, `${label} `, list);
  list.addEventListener("change", () => onChoose(Number(list.value)));
  const set = (given, chosen) => {
    list.replaceChildren(...given.map(([value, text]) => el("option", { value }, text)));
    list.value = String(chosen);
  };
  set(options, current);
  return { element, set };
}

// A labelled slider with its value beside it. Gives {element, set(value)}.
export function slider(label, { least = 0, most = 1, step = 0.01, value, shown = (v) => number(v) }, onInput) {
  const input = el("input", { type: "range", min: least, max: most, step });
  const output = el("output", { class: "r-value" });
  const set = (v) => {
    input.value = String(v);
    output.textContent = shown(v);
    input.setAttribute("aria-valuetext", shown(v));
  };
  input.addEventListener("input", () => {
    set(Number(input.value));
    onInput(Number(input.value));
  });
  set(value);
  return { element: el("label", { class: "r-label" }, `${label} `, input, output), set };
}

// Tokens as buttons of which only one is a tab stop; arrow keys move among them. Gives {element, set(chosen)}.
export function tokens(label, names, attributes, onChoose) {
  const element = el("div", { class: "r-tokens", role: "group", "aria-label": label, ...attributes });
  const buttons = names.map((name, i) => button(name, { dir: "auto", tabindex: i ? -1 : 0 }, () => onChoose(i)));
  element.append(...buttons);
  rove(element);
  const set = (chosen) => buttons.forEach((b, i) => {
    b.setAttribute("aria-pressed", String(i === chosen));
    b.tabIndex = i === Math.max(0, chosen) ? 0 : -1;
  });
  return { element, set };
}

// Arrow keys, Home and End among an element's buttons; the focused one becomes the tab stop.
export function rove(element, columns = () => 1) {
  element.addEventListener("keydown", (event) => {
    const items = [...element.querySelectorAll("button")];
    const at = items.indexOf(event.target);
    const step = { ArrowRight: 1, ArrowDown: columns(), ArrowLeft: -1, ArrowUp: -columns() }[event.key];
    const to = { Home: 0, End: items.length - 1 }[event.key] ?? at + step;
    if (at < 0 || !items[to]) return;
    event.preventDefault();
    for (const item of items) item.tabIndex = -1;
    items[to].tabIndex = 0;
    items[to].focus();
  });
}

// Tabs, of which one is chosen; arrow keys choose the next. titles: {name: title}; panel(name): the panel's id.
// Gives {element, set(name), focus()}; a tab that is chosen is given to onChoose, which sets it.
export function tabs(label, titles, panel, onChoose) {
  const names = Object.keys(titles);
  const element = el("div", { class: "tabs", role: "tablist", "aria-label": label });
  const buttons = names.map((name) =>
    button(titles[name], { role: "tab", id: `tab-${name}`, "aria-controls": panel(name) }, () => onChoose(name)),
  );
  element.append(...buttons);
  element.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(event.target);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const next = (to + names.length) % names.length;
    onChoose(names[next]);
    focus();
  });
  const set = (chosen) => buttons.forEach((tab, i) => {
    tab.setAttribute("aria-selected", String(names[i] === chosen));
    tab.tabIndex = names[i] === chosen ? 0 : -1;
    if (names[i] === chosen) element.scrollLeft = tab.offsetLeft - element.offsetLeft - element.clientWidth / 3;
  });
  const focus = () => buttons.find((tab) => tab.tabIndex === 0).focus();
  return { element, set, focus };
}

let ink = null; // what turns any way of writing a colour into one

// Red, green and blue of a CSS variable, as it is for this element now.
export function colour(element, name) {
  ink ??= el("canvas").getContext("2d");
  ink.fillStyle = getComputedStyle(element).getPropertyValue(name).trim() || "#000";
  return ink.fillStyle.match(/\w\w/g).map((part) => parseInt(part, 16));
}

// Calls back when the page turns light or dark. Gives the function that ends it.
export function onTheme(redraw) {
  const media = matchMedia("(prefers-color-scheme: dark)");
  const watcher = new MutationObserver(redraw);
  media.addEventListener("change", redraw);
  watcher.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "class"] });
  return () => {
    media.removeEventListener("change", redraw);
    watcher.disconnect();
  };
}

// Calls back when an element's width changes, and once at the start. Gives the function that ends it.
export function onWidth(element, redraw) {
  let width = -1;
  const watcher = new ResizeObserver(() => {
    if (!element.clientWidth || element.clientWidth === width) return;
    width = element.clientWidth;
    redraw();
  });
  watcher.observe(element);
  return () => watcher.disconnect();
}

// Makes a view's `mount` from a function that fills the root and gives what ends it.
export const view = (build) => (root, data, options = {}) => {
  root.classList.add("r-view");
  const end = build(root, data, options);
  const destroy = () => {
    end?.();
    root.replaceChildren();
  };
  return { destroy };
};

export const caption = () => el("p", { class: "r-caption" },
  el("b", {}, "A weight is not an explanation."),
  " It says where a head looked, not why, and not how much that changed the result: other heads, the residual path and "
  + "later layers also decide. Test what you think it means by changing the input.");
