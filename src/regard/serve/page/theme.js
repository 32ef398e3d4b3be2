// The switch of the page's colours.
import { el } from "regard/dom.js";

// Light, dark, or as the system has it: remembered by the browser.
export function theme(pressed) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order = dark ? ["", "light", "dark"] : ["", "dark", "light"]; // the first press is seen
  const show = (name) => {
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
    pressed.replaceChildren(el("span", { "aria-hidden": "true" }, { "": "◐", light: "☀", dark: "☾" }[name]));
    pressed.title = { "": "Colours as the system has them", light: "Light", dark: "Dark" }[name];
    pressed.setAttribute("aria-label", `Light or dark: ${pressed.title.toLowerCase()}`);
  };
  let now = remembered();
  if (!order.includes(now)) now = "";
  show(now);
  pressed.addEventListener("click", () => {
    now = order[(order.indexOf(now) + 1) % order.length];
    remember(now);
    show(now);
  });
}

// Where a site may keep nothing, asking for it is an error: then nothing is remembered.
function remembered() {
  try {
    return localStorage.getItem("theme") || "";
  } catch {
    return "";
  }
}

function remember(name) {
  try {
    localStorage.setItem("theme", name);
  } catch {
    // for as long as the page is open, then
  }
}
