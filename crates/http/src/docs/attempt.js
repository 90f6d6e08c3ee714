// A call of an operation: as a line for curl, and from here.

import { block, copy, el, pretty } from "./dom.js";

const MAX_BYTES = 2_000_000;
const MAX_LINES = 2_000;
const MAX_LINE = 20_000;

/** The form. */
export function attempt(doc, operation, settings) {
  const fields = operation.parameters.filter((one) => one.in !== "cookie").map((one) => field(doc, one));
  const body = bodyField(doc, operation);
  const security = doc.keys(operation).find(({ header }) => header);
  const line = el("code");
  const button = el("button", { type: "submit" }, "Send");
  const stop = el("button", { type: "button", hidden: true }, "Stop");
  const output = el("div", { class: "output" });
  const current = () => request(operation, fields, body, settings.base);
  const show = () => (line.textContent = curl(current(), security, operation));
  let running = null;

  const send = async (event) => {
    event.preventDefault();
    running?.abort();
    const own = (running = new AbortController());
    stop.hidden = false;
    try {
      const { url, method, headers, payload } = current();
      const key = settings.key();
      if (security && key) headers.set(security.header, security.prefix + key);
      await exchange(output, url, { method, headers, body: payload, signal: own.signal });
    } catch (error) {
      output.append(el("p", { role: "alert" }, own.signal.aborted ? "Stopped." : `It failed: ${error.message}`));
    }
    if (running === own) stop.hidden = true;
  };
  stop.addEventListener("click", () => running?.abort());
  const copied = el("button", { type: "button", click: () => copy(line, copied) }, "Copy");
  const form = el("form", { class: "try", input: show, change: show, submit: send }, [
    fields.map(({ element }) => element),
    body?.element,
    el("p", {}, button, " ", stop),
  ]);
  show();
  return [
    el("h4", {}, "curl"),
    el("div", { class: "curl" }, el("pre", { tabindex: 0, role: "region", "aria-label": "curl" }, line), copied),
    el("h4", {}, "Try it"),
    form,
    output,
  ];
}

function field(doc, parameter) {
  const schema = doc.get(parameter.schema);
  const choices = schema.enum ?? ([schema.type].flat().includes("boolean") ? [true, false] : null);
  const needed = parameter.required === true;
  const [example] = doc.examples(parameter);
  const placeholder = example && pretty(example.value);
  const control = choices
    ? el("select", { required: needed }, el("option", { value: "" }, "–"), choices.map((one) => el("option", {}, String(one))))
    : el("input", { required: needed, placeholder, autocomplete: "off", spellcheck: "false" });
  const name = [el("code", {}, parameter.name), ` ${parameter.in}`, needed && " (required)"];
  // What a query must have is in the line for curl from the beginning; the form asks for it.
  const sample = needed && parameter.in === "query" ? String(example?.value ?? choices?.[0] ?? parameter.name) : "";
  return { parameter, value: () => control.value || sample, element: el("label", {}, name, control) };
}

/** What the body is written in, if there is one: a text, the fields of a form, or a file. */
function bodyField(doc, operation) {
  const content = Object.entries(doc.get(operation.requestBody).content ?? {});
  const [type, media] = content.find(([type]) => /json/.test(type)) ?? content[0] ?? [];
  if (!type) return null;
  if (type.startsWith("multipart/")) return formField(doc, media);
  if (!/json|^text\/|xml|urlencoded/.test(type)) {
    const file = el("input", { type: "file" });
    return { type, value: () => file.files[0], shown: "@file", element: el("label", {}, "Body ", el("code", {}, type), file) };
  }
  const examples = doc.examples(media);
  const first = examples.length > 0 ? examples[0].value : doc.sample(media.schema);
  const area = el("textarea", { rows: 10, spellcheck: "false" });
  area.value = pretty(first);
  const choose = examples.length > 1 && el("select", { change: ({ target }) => (area.value = pretty(examples[target.value].value)) },
    examples.map(({ name }, at) => el("option", { value: at }, name)));
  return {
    type,
    value: () => area.value,
    element: [choose && el("label", {}, "Example", choose), el("label", {}, "Body ", el("code", {}, type), area)],
  };
}

function formField(doc, media) {
  const parts = Object.entries(doc.get(media.schema).properties ?? {}).map(([name, one]) => {
    const schema = doc.get(one);
    const isFile = schema.format === "binary" || schema.contentMediaType === "application/octet-stream";
    const control = el("input", isFile ? { type: "file" } : { autocomplete: "off" });
    const value = () => (isFile ? control.files[0] : control.value);
    return { name, isFile, value, element: el("label", {}, el("code", {}, name), control) };
  });
  const value = () => {
    const form = new FormData();
    for (const part of parts) if (part.value()) form.append(part.name, part.value());
    return form;
  };
  const named = () => parts.map(({ name, isFile, value }) => (isFile ? `${name}=@file` : value() && `${name}=${value()}`));
  return { value, form: () => named().filter(Boolean), element: parts.map(({ element }) => element) };
}

function request(operation, fields, body, base) {
  let path = operation.path;
  const query = new URLSearchParams();
  const headers = new Headers();
  for (const { parameter, value } of fields) {
    const text = value();
    if (text === "") continue;
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(text));
    if (parameter.in === "query") query.append(parameter.name, text);
    if (parameter.in === "header") headers.set(parameter.name, text);
  }
  const asked = query.size > 0 ? `?${query}` : "";
  const payload = body?.value() || undefined;
  if (body?.type && payload !== undefined) headers.set("Content-Type", body.type);
  return { url: base + path + asked, method: operation.method.toUpperCase(), headers, payload, body };
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The same with curl. It names the key and does not show it. */
function curl({ url, method, headers, payload, body }, security, operation) {
  const streams = Object.values(operation.responses ?? {}).some((answer) => answer.content?.["text/event-stream"]);
  const parts = [`curl${streams ? " -N" : ""}${method === "GET" ? "" : ` -X ${method}`} ${quoted(url)}`];
  if (security) parts.push(`-H "${security.header}: ${security.prefix}$EVERTURN_KEY"`);
  for (const [name, value] of headers) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body?.form) parts.push(...body.form().map((part) => `-F ${quoted(part)}`));
  else if (payload !== undefined) parts.push(`--data-binary ${quoted(body.shown ?? payload)}`);
  return parts.join(" \\\n  ");
}

async function exchange(output, url, options) {
  const begun = performance.now();
  output.replaceChildren(el("p", { role: "status" }, "Waiting for the answer…"));
  const response = await fetch(url, { ...options, credentials: "omit", cache: "no-store", redirect: "manual" });
  const took = Math.round(performance.now() - begun);
  const status = `${response.status} ${response.statusText}`.trim();
  const headers = [...response.headers].map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
  output.replaceChildren(
    el("p", { role: "status" }, el("strong", { class: `status s${String(response.status)[0]}` }, status), ` after ${took} ms`),
    el("details", {}, el("summary", {}, `${headers.length} headers`), el("dl", { class: "headers" }, headers)),
  );
  const type = response.headers.get("content-type") ?? "";
  if (type.startsWith("text/event-stream")) return await follow(output, response);
  const { bytes, cut } = await whole(response);
  if (bytes.length === 0) return output.append(el("p", { class: "note" }, "No body."));
  if (!/json|^text\/|xml|javascript/.test(type)) {
    return output.append(el("p", {}, `${bytes.length} bytes${cut ? " and more" : ""} of ${type || "no type"}`));
  }
  let text = new TextDecoder().decode(bytes);
  if (/json/.test(type) && !cut) {
    try {
      text = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // Shown as it is.
    }
  }
  output.append(block(text, "Answer"), cut ? `The rest, beyond ${MAX_BYTES} bytes, is not shown.` : "");
}

/** The body, as far as a page should hold it. */
async function whole(response) {
  const chunks = [];
  let length = 0;
  for (const reader = response.body?.getReader(); reader; ) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
    length += value.length;
    if (length > MAX_BYTES) {
      reader.cancel();
      break;
    }
  }
  const bytes = new Uint8Array(await new Blob(chunks).arrayBuffer());
  return { bytes, cut: length > MAX_BYTES };
}

/** A stream, line by line, as it comes. */
async function follow(output, response) {
  const lines = el("pre", { class: "stream", tabindex: 0, role: "log", "aria-live": "off", "aria-label": "Answer, as it comes" });
  output.append(lines);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const pieces = (pending + value).split(/\r\n|\n|\r(?!$)/);
    pending = pieces.pop();
    while (pending.length > MAX_LINE) {
      pieces.push(pending.slice(0, MAX_LINE));
      pending = pending.slice(MAX_LINE);
    }
    const below = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
    lines.append(...pieces.map((line) => `${line.slice(0, MAX_LINE)}\n`));
    while (lines.childNodes.length > MAX_LINES) lines.firstChild.remove();
    if (below) lines.scrollTop = lines.scrollHeight;
  }
  lines.append(pending);
  output.append(el("p", { role: "status" }, "The stream has ended."));
}
