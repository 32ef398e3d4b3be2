// The translation on the page as a request that anyone can send: curl, Python, JavaScript.

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export const LANGUAGES = {
  curl: (origin, body) => [
    `curl ${origin}/translate \\`,
    "  -H 'Content-Type: application/json' \\",
    `  -d ${shell(JSON.stringify(body))}`,
  ].join("\n"),
  Python: (origin, { q, source, target, api_key: key }) => [
    "from libretranslatepy import LibreTranslateAPI  # pip install libretranslatepy",
    "",
    `server = LibreTranslateAPI(${JSON.stringify(`${origin}/`)}${key ? `, ${JSON.stringify(key)}` : ""})`,
    `print(server.translate(${[q, source, target].map((text) => JSON.stringify(text)).join(", ")}))`,
  ].join("\n"),
  JavaScript: (origin, body) => [
    `const answer = await fetch(${JSON.stringify(`${origin}/translate`)}, {`,
    '  method: "POST",',
    '  headers: { "Content-Type": "application/json" },',
    `  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll("\n", "\n  ")}),`,
    "});",
    "console.log((await answer.json()).translatedText);",
  ].join("\n"),
};
