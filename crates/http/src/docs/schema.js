// Schemas as trees: what is within is built when somebody opens it, so that schemas may contain themselves.

import { el, fold, prose, words } from "./dom.js";

const PLAIN = Object.entries({
  exclusiveMinimum: "more than ", exclusiveMaximum: "less than ", multipleOf: "a multiple of ", contentMediaType: "", contentEncoding: "",
});
const json = (value) => JSON.stringify(value);
const nameOf = (ref) => ref.slice(ref.lastIndexOf("/") + 1);
const isNull = (schema) => schema?.type === "null" || schema?.const === null;

/** A schema from its top, its first level open. */
export function schemaTree(doc, schema) {
  const node = read(doc, schema, new Set());
  const children = node.children();
  return el("div", { class: "schema" }, head(node), told(node), children.length > 0 && listOf(children));
}

/** One line about a schema, as parameters and headers have it; with its own words, where they are others. */
export function schemaLine(doc, schema, described) {
  const node = read(doc, schema, new Set());
  const children = node.children();
  return [head(node), node.schema.description !== described && told(node), children.length > 0 && fold("within", () => listOf(children))];
}

function listOf(nodes) {
  return el("ul", { class: "tree" }, nodes.map((node) => el("li", {}, item(node))));
}

function item(node) {
  const children = node.children();
  if (children.length === 0) return el("div", { class: "leaf" }, head(node), told(node));
  const [only] = children;
  return fold([head(node), told(node)], () => {
    const list = listOf(children);
    // One more click would tell nothing new; what contains itself must end somewhere.
    if (children.length === 1 && !only.again) list.querySelector("details")?.setAttribute("open", "");
    return list;
  });
}

function told({ schema }) {
  return schema.description && prose(schema.description);
}

function head({ schema, name, kind, needed, label, again, nullable }) {
  const rules = rulesOf(schema, nullable);
  return el("span", { class: "head" }, [
    name !== undefined && el(kind === "option" ? "em" : "code", { class: "name" }, name),
    " ",
    el("span", { class: "type" }, label),
    needed && el("strong", { class: "needed" }, " required"),
    schema.deprecated && " deprecated",
    schema.readOnly && " read only",
    schema.writeOnly && " write only",
    again && el("em", {}, " contains itself"),
    rules.map((rule) => [" ", el("span", { class: "rule" }, words(rule))]),
  ]);
}

/** What there is to know about a schema; its children when they are asked for. */
function read(doc, given, seen, more = {}) {
  let { value, ref } = doc.resolve(given);
  let nullable = false;
  const choices = value?.oneOf ?? value?.anyOf;
  if (Array.isArray(choices) && choices.length === 2 && choices.some((one) => isNull(doc.get(one)))) {
    // How generators write "or null".
    const { oneOf, anyOf, ...rest } = value;
    const inner = doc.resolve(choices.find((one) => !isNull(doc.get(one))));
    nullable = true;
    ref = inner.ref ?? ref;
    value = typeof inner.value === "object" ? { ...inner.value, ...rest } : inner.value;
  }
  const never = value === false;
  const schema = typeof value === "object" && value !== null ? flat(doc, value, 0) : {};
  const again = ref !== undefined && seen.has(ref);
  const within = ref === undefined ? seen : new Set(seen).add(ref);
  const label = never ? "nothing" : typeLabel(doc, schema, ref) + (nullable ? " or null" : "");
  return { ...more, schema, nullable, again, label, children: () => childrenOf(doc, schema, within) };
}

/** A schema with what `allOf` adds to it, as far as that is plain. */
function flat(doc, schema, depth) {
  if (!Array.isArray(schema.allOf) || depth > 8) return schema;
  let { allOf, ...own } = schema;
  const rest = [];
  for (const part of allOf) {
    const other = flat(doc, doc.get(part), depth + 1);
    if (other.oneOf || other.anyOf || other.allOf) {
      rest.push(part);
      continue;
    }
    const properties = { ...other.properties, ...own.properties };
    const required = [...(other.required ?? []), ...(own.required ?? [])];
    own = { ...other, ...own, properties, required };
  }
  return rest.length > 0 ? { ...own, allOf: rest } : own;
}

function typeLabel(doc, schema, ref) {
  if (ref !== undefined) return nameOf(ref);
  if (schema.title) return schema.title;
  const types = [schema.type ?? []].flat();
  const choices = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(choices)) return `one of ${choices.length}`;
  if (types.includes("array") && schema.items !== undefined) {
    const inner = doc.resolve(schema.items);
    const of = typeof inner.value === "object" && inner.value ? typeLabel(doc, inner.value, inner.ref) : "anything";
    return types.map((type) => (type === "array" ? `array of ${of}` : type)).join(" or ");
  }
  if (types.length > 0) return types.join(" or ") + (schema.format ? ` (${schema.format})` : "");
  if (schema.const !== undefined || schema.enum) return "";
  if (schema.properties) return "object";
  return schema.allOf ? "all of" : "anything";
}

function childrenOf(doc, schema, seen) {
  const child = (name, one, more) => read(doc, one, seen, { name, ...more });
  const named = ([name, one]) => child(name, one, { needed: schema.required?.includes(name) === true });
  const nodes = Object.entries(schema.properties ?? {}).map(named).sort((one, other) => other.needed - one.needed);
  for (const [pattern, one] of Object.entries(schema.patternProperties ?? {})) nodes.push(child(`/${pattern}/`, one));
  const rest = schema.additionalProperties;
  if (typeof rest === "object" && rest !== null) nodes.push(child("any name", rest, { kind: "option" }));
  (schema.prefixItems ?? []).forEach((one, at) => nodes.push(child(`[${at}]`, one)));
  if (typeof schema.items === "object" && schema.items !== null) nodes.push(child("each", schema.items, { kind: "option" }));
  for (const [word, choices] of [["one of", schema.oneOf], ["any of", schema.anyOf], ["and", schema.allOf]]) {
    if (!Array.isArray(choices)) continue;
    choices.forEach((one, at) => nodes.push(child(`${word} ${at + 1}${marks(doc, one)}`, one, { kind: "option" })));
  }
  if (schema.contentSchema !== undefined) nodes.push(child("data", schema.contentSchema, { kind: "option" }));
  if (schema.not !== undefined) nodes.push(child("not", schema.not, { kind: "option" }));
  return nodes;
}

/** What tells a choice from the others: the field that can have one value only. */
function marks(doc, choice) {
  const schema = flat(doc, doc.get(choice), 0);
  for (const [name, one] of Object.entries(schema.properties ?? {})) {
    const { const: value, enum: values } = doc.get(one);
    if (value !== undefined) return `: ${name} ${json(value)}`;
    if (values?.length === 1) return `: ${name} ${json(values[0])}`;
  }
  return "";
}

function rulesOf(schema, nullable) {
  const rules = [];
  const range = (low, high, unit) => {
    if (low !== undefined && high !== undefined) rules.push(low === high ? `${low}${unit}` : `${low} to ${high}${unit}`);
    else if (low !== undefined) rules.push(`at least ${low}${unit}`);
    else if (high !== undefined) rules.push(`at most ${high}${unit}`);
  };
  if (schema.const !== undefined) rules.push(`always \`${json(schema.const)}\``);
  if (schema.enum && !(nullable && schema.enum.length === 1 && schema.enum[0] === null)) {
    rules.push(schema.enum.map((value) => `\`${json(value)}\``).join(", "));
  }
  range(schema.minimum, schema.maximum, "");
  for (const [key, text] of PLAIN) if (schema[key] !== undefined) rules.push(`${text}${schema[key]}`);
  range(schema.minLength, schema.maxLength, " characters");
  range(schema.minItems, schema.maxItems, " entries");
  range(schema.minProperties, schema.maxProperties, " fields");
  if (schema.uniqueItems) rules.push("no entry twice");
  if (schema.pattern !== undefined) rules.push(`pattern \`${schema.pattern}\``);
  if (schema.propertyNames?.pattern) rules.push(`names like \`${schema.propertyNames.pattern}\``);
  if (schema.additionalProperties === false || schema.unevaluatedProperties === false) rules.push("no other fields");
  if (schema.default !== undefined) rules.push(`default \`${json(schema.default)}\``);
  const example = schema.example ?? schema.examples?.[0];
  if (example !== undefined && typeof example !== "object") rules.push(`such as \`${json(example)}\``);
  return rules;
}
