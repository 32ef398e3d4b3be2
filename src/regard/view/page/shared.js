// What the views of one page choose together: words or tokens, kind, layer, heads. A view without it makes its own.
import { kindsOf } from "regard/data.js";
import { range } from "regard/dom.js";

// Gives {values, set(changes), listen(call)}; listeners hear of each change once, and `listen` gives what ends it.
export function shared(data) {
  const kind = kindsOf(data)[0];
  const weights = data.attention[kind].weights;
  const heads = Array.isArray(weights) ? weights[0].length : weights.shape[1];
  const values = { words: true, kind, layer: data.clearest, heads: new Set(range(heads)), all: heads };
  const calls = new Set();
  return {
    values,
    set(changes) {
      Object.assign(values, changes);
      const chosen = data.attention[values.kind].weights;
      const layers = Array.isArray(chosen) ? chosen.length : chosen.shape[0];
      values.layer = Math.min(values.layer, layers - 1);
      for (const call of [...calls]) call(changes);
    },
    listen(call) {
      calls.add(call);
      return () => calls.delete(call);
    },
  };
}
