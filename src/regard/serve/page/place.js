// Where the page stands, kept behind the # of its address: it can be sent and bookmarked, and no server logs it.

const NAMES = ["text", "source", "target", "translation", "sentence", "view", "model"];

export function read() {
  const found = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(NAMES.filter((name) => found.has(name)).map((name) => [name, found.get(name)]));
}

export function write(place) {
  const kept = NAMES.filter((name) => place[name] !== undefined && place[name] !== null && place[name] !== "");
  const query = new URLSearchParams(kept.map((name) => [name, place[name]])).toString();
  if (query === location.hash.slice(1)) return;
  try {
    history.replaceState(null, "", query ? `#${query}` : location.pathname);
  } catch {
    // Safari allows a hundred in half a minute: a later one will keep it
  }
}
