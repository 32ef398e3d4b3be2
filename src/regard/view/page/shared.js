// What the views of one page choose together: words or tokens, kind, layer, heads. A view without it makes its own.
import { KINDS, kindsOf, split } from "regard/data.js";
import { choice, range } from "regard/dom.js";

const shapeOf = (weights) => (Array.isArray(weights) ? [weights.length, weights[0].length] : weights.shape);

// Gives {values, set(changes), listen(call)}; listeners hear of each change once, and `listen` gives what ends it.
export function shared(data) {
  const kind = kindsOf(data)[0];
  const heads = shapeOf(data.attention[kind].weights)[1];
  const values = { words: true, kind, layer: data.clearest, heads: new Set(range(heads)), all: heads };
  const calls = new Set();
  return {
    values,
    set(changes) {
      Object.assign(values, changes);
      values.layer = Math.min(values.layer, shapeOf(data.attention[values.kind].weights)[0] - 1);
      for (const call of [...calls]) call(changes);
    },
    listen(call) {
      calls.add(call);
      return () => calls.delete(call);
    },
  };
}

// The control that turns words into subwords; hidden where every word is one token.
export function unitsOf(data, state) {
  const options = [[true, "Words"], [false, "Subwords"]];
  const made = choice("Units", options, state.values.words, (words) => state.set({ words }));
  made.element.hidden = !split(data);
  return made;
}

// The control for the kind of attention.
export function kindOf(data, state) {
  const options = kindsOf(data).map((kind) => [kind, KINDS[kind].name]);
  return choice("Kind of attention", options, state.values.kind, (kind) => state.set({ kind }));
}
