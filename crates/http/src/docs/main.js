// The page: the document's operations by tag, a side bar with search, one address for each operation.

import { Doc } from "./document.js";
import { el, prose, words } from "./dom.js";
import { operationBody } from "./operation.js";

const [main, side, nav, menu, search, found, state, key] = ["main", "#side", "nav", "#menu", "#search", "#found", "#state", "#key"]
  .map((selector) => document.querySelector(selector));
// Where the server's paths begin, also behind a proxy that puts something before them.
const home = new URL(".", location.href);
const settings = { base: home.origin + home.pathname.replace(/\/$/, ""), key: () => key.value.trim() };
const entries = new Map();

async function load() {
  const response = await fetch(new URL("openapi.json", home), { credentials: "omit" });
  if (!response.ok) throw new Error(`openapi.json: ${response.status} ${response.statusText}`);
  return new Doc(await response.json());
}

function show(doc) {
  const { title = "API", version = "", description } = doc.root.info ?? {};
  document.title = title;
  document.querySelector("#name").textContent = title;
  const sections = doc.sections();
  nav.replaceChildren(...sections.map(({ name, operations }) =>
    el("details", { open: true }, el("summary", {}, `${name} (${operations.length})`),
      el("ul", {}, operations.map((operation) => link(operation)))),
  ));
  main.replaceChildren(
    el("h1", {}, title, " ", el("small", {}, version)),
    description ? prose(description) : "",
    ...sections.map(({ name, description, operations }) =>
      el("section", {}, el("h2", {}, name), description && prose(description), operations.map((one) => article(doc, one)))),
  );
  narrow();
  go();
}

function link(operation) {
  const { id, method, path, summary, description, tag } = operation;
  const anchor = el("a", { href: `#${encodeURIComponent(id)}`, title: summary ?? null }, badge(method), " ", path);
  const item = el("li", {}, anchor);
  const text = `${method} ${path} ${id} ${summary ?? ""} ${description ?? ""} ${tag}`.toLowerCase();
  entries.set(id, { item, anchor, text });
  return item;
}

function badge(method) {
  return el("span", { class: `method ${method}` }, method.toUpperCase());
}

function article(doc, operation) {
  const { id, method, path, summary, deprecated } = operation;
  const body = el("div", { class: "body", hidden: true });
  const button = el("button", { type: "button", "aria-expanded": "false", click: () => toggle(!open()) },
    badge(method), " ", el("code", {}, path), " ", el("span", { class: "summary" }, words(summary ?? ""), deprecated && " (deprecated)"));
  const open = () => !body.hidden;
  const toggle = (wanted) => {
    if (wanted && !body.firstChild) body.append(...operationBody(doc, operation, settings));
    body.hidden = !wanted;
    button.setAttribute("aria-expanded", String(wanted));
    if (wanted) mark(id);
  };
  const article = el("article", { "data-operation": id, class: deprecated ? "deprecated" : null }, el("h3", {}, button), body);
  Object.assign(entries.get(id), { article, button, open: () => toggle(true) });
  return article;
}

/** Says which operation the page is at, in its address too. */
function mark(id) {
  for (const { anchor } of entries.values()) anchor.removeAttribute("aria-current");
  entries.get(id).anchor.setAttribute("aria-current", "true");
  history.replaceState(null, "", `#${encodeURIComponent(id)}`);
}

/** Goes to the operation of the address. */
function go() {
  let id = location.hash.slice(1);
  try {
    id = decodeURIComponent(id);
  } catch {
    // It was not encoded.
  }
  const entry = entries.get(id);
  if (!entry) return;
  if (entry.article.hidden) {
    search.value = "";
    narrow();
  }
  entry.open();
  unfold(false);
  entry.button.focus({ preventScroll: true });
  entry.article.scrollIntoView({ block: "start" });
}

/** Leaves what has all words that are looked for. */
function narrow() {
  const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const { item, article, text } of entries.values()) {
    const fits = wanted.every((word) => text.includes(word));
    item.hidden = article.hidden = !fits;
    if (fits) count += 1;
  }
  for (const part of document.querySelectorAll("section, nav > details")) {
    part.hidden = !part.querySelector("article:not([hidden]), li:not([hidden])");
  }
  found.textContent = wanted.length > 0 ? `${count} of ${entries.size} operations` : `${entries.size} operations`;
}

function unfold(wanted) {
  side.classList.toggle("open", wanted);
  menu.setAttribute("aria-expanded", String(wanted));
}

menu.addEventListener("click", () => unfold(!side.classList.contains("open")));
search.addEventListener("input", narrow);
search.addEventListener("keydown", ({ key }) => {
  const first = [...entries.values()].find(({ item }) => !item.hidden);
  if (key === "Enter" && first) location.hash = first.anchor.hash;
});
addEventListener("hashchange", go);
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, textarea, select")) return;
  event.preventDefault();
  unfold(true);
  search.focus();
});

try {
  show(await load());
} catch (error) {
  state.setAttribute("role", "alert");
  state.textContent = `The document cannot be shown: ${error.message}`;
}
