// Parses Mermaid texts with Mermaid itself: a JSON list of texts on stdin, a JSON list of messages ("" where it parses) on stdout.
// Node finds `mermaid` and `jsdom` beside the folder that NODE_MODULES_BESIDE names.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.env.NODE_MODULES_BESIDE + "/"));
const { JSDOM } = require("jsdom");
const page = new JSDOM("<!doctype html><body></body>", { pretendToBeVisual: true });
globalThis.window = page.window;
globalThis.document = page.window.document;
const { default: mermaid } = await import(pathToFileURL(require.resolve("mermaid/package.json").replace("package.json", "dist/mermaid.core.mjs")));
mermaid.initialize({ startOnLoad: false });

let text = "";
for await (const chunk of process.stdin) text += chunk;
const told = [];
for (const diagram of JSON.parse(text)) {
  try {
    await mermaid.parse(diagram);
    told.push("");
  } catch (error) {
    told.push(String(error.message ?? error));
  }
}
process.stdout.write(JSON.stringify(told));
