// Why this word? RISE on the model behind the page; the map refines while one watches.
import { el, view } from "regard/dom.js";
import { mount as saliency } from "regard/saliency.js";
import { events } from "./api.js";

export const why = view((root, data, { sentence }) => {
  const asked = new AbortController();
  const status = el("p", { class: "r-lead" }, "Hiding words of the input at random, and watching what becomes of each word of the output …");
  const place = el("div");
  root.append(status, place);
  let mounted = null;

  async function watch() {
    try {
      for await (const { event, data: found } of events("/api/explain", { ...sentence, translation: data.target }, asked.signal)) {
        if (event === "error") throw new Error(found.error);
        if (event !== "step") continue;
        if (mounted) mounted.update(found);
        else {
          status.remove();
          mounted = saliency(place, found, {});
        }
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      status.textContent = error.message;
      root.prepend(status);
    }
  }
  watch();
  return () => {
    asked.abort();
    mounted?.destroy();
  };
});
