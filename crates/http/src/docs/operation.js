// One operation: what it takes, what it answers.

import { attempt } from "./attempt.js";
import { block, el, fold, pretty, prose } from "./dom.js";
import { schemaLine, schemaTree } from "./schema.js";

/** The inside of an operation's part of the page. */
export function operationBody(doc, operation, settings) {
  const { parameters, description, requestBody, responses, called } = operation;
  return [
    description && prose(description),
    needs(doc, operation),
    parameters.length > 0 && [el("h4", {}, "Parameters"), parameterList(doc, parameters)],
    requestBody && bodyOf(doc, doc.get(requestBody)),
    el("h4", {}, "Answers"),
    Object.entries(responses ?? {}).map(([status, answer]) => answerOf(doc, status, doc.get(answer))),
    !called && attempt(doc, operation, settings),
  ].flat(Infinity).filter(Boolean);
}

function needs(doc, operation) {
  const ways = doc.keys(operation);
  if (operation.called) return null;
  const text = ways.length > 0 ? ["Takes a key: ", ways.map(({ shown }, at) => [at > 0 && " or ", el("code", {}, shown)]), "."] : "Needs no key.";
  return el("p", { class: "note" }, text);
}

function parameterList(doc, parameters) {
  const line = (parameter) => [
    el("dt", {}, el("code", { class: "name" }, parameter.name), ` ${parameter.in ?? ""}`,
      parameter.required && el("strong", { class: "needed" }, " required"), parameter.deprecated && " deprecated"),
    el("dd", {}, schemaLine(doc, parameter.schema ?? Object.values(parameter.content ?? {})[0]?.schema ?? true, parameter.description),
      parameter.description && prose(parameter.description),
      parameter.example !== undefined && el("p", {}, "Such as ", el("code", {}, pretty(parameter.example)))),
  ];
  return el("dl", {}, parameters.map(line));
}

function bodyOf(doc, body) {
  return [
    el("h4", {}, "Request body", !body.required && el("span", { class: "note" }, " may be left out")),
    body.description && prose(body.description),
    contents(doc, body.content),
  ];
}

function answerOf(doc, status, answer) {
  const family = /^[2-5]/.test(status) ? `s${status[0]}` : "";
  const summary = [el("code", { class: `status ${family}` }, status), " ", answer.description ?? ""];
  const headers = Object.entries(answer.headers ?? {}).map(([name, header]) => ({ ...doc.get(header), name }));
  const fill = () => [
    headers.length > 0 && [el("h5", {}, "Headers"), parameterList(doc, headers)],
    contents(doc, answer.content),
    !answer.content && headers.length === 0 && el("p", { class: "note" }, "No body."),
  ].flat(Infinity).filter(Boolean);
  const details = fold(summary, fill, false);
  details.classList.add("answer");
  return details;
}

function contents(doc, content) {
  return Object.entries(content ?? {}).map(([type, media]) => [
    el("p", { class: "media" }, el("code", {}, type)),
    media.schema !== undefined && schemaTree(doc, media.schema),
    doc.examples(media).map(({ name, description, value }) =>
      fold(name === "Example" ? name : `Example: ${name}`, () => [description && prose(description), block(pretty(value), name)].filter(Boolean), false),
    ),
  ]);
}
