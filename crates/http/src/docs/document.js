// What is in the document: references, operations, examples.

const METHODS = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
const HOPS = 32;
const DEPTH = 6;

const isObject = (value) => typeof value === "object" && value !== null;

/** A document that was read. */
export class Doc {
  constructor(root) {
    if (!isObject(root) || !isObject(root.paths ?? {})) throw new Error("this is no OpenAPI document");
    this.root = root;
  }

  /** What a reference within the document leads to, with what stands beside it; anything else is itself. */
  resolve(value) {
    let ref;
    for (let hop = 0; hop < HOPS && isObject(value) && typeof value.$ref === "string"; hop++) {
      const { $ref, ...beside } = value;
      ref ??= $ref;
      const target = this.#at($ref);
      if (target === undefined) return { value: { description: `${$ref} is not in this document.` }, ref };
      value = isObject(target) ? { ...target, ...beside } : target;
    }
    return { value, ref };
  }

  /** As `resolve`, for things that must be objects. */
  get(value) {
    const found = this.resolve(value).value;
    return isObject(found) ? found : {};
  }

  #at(ref) {
    if (!ref.startsWith("#")) return undefined;
    let found = this.root;
    for (const part of ref.split("/").slice(1)) {
      let name = part;
      try {
        name = decodeURIComponent(part);
      } catch {
        // Not encoded, then.
      }
      name = name.replaceAll("~1", "/").replaceAll("~0", "~");
      if (!isObject(found) || !Object.hasOwn(found, name)) return undefined;
      found = found[name];
    }
    return found;
  }

  /** All operations, by tag, in the order of the document. */
  sections() {
    const sections = new Map();
    for (const tag of this.root.tags ?? []) sections.set(tag.name, { ...tag, operations: [] });
    const ids = new Set();
    const add = (path, item, called) => {
      item = this.get(item);
      for (const method of METHODS.filter((method) => isObject(item[method]))) {
        const own = item[method];
        const tag = own.tags?.[0] ?? (called ? "Webhooks" : "Other");
        if (!sections.has(tag)) sections.set(tag, { name: tag, operations: [] });
        let id = own.operationId ?? `${method}-${path}`;
        while (ids.has(id)) id += "_";
        ids.add(id);
        sections.get(tag).operations.push({ ...own, id, method, path, tag, called, parameters: this.#parameters(item, own) });
      }
    };
    for (const [path, item] of Object.entries(this.root.paths ?? {})) add(path, item, false);
    for (const [name, item] of Object.entries(this.root.webhooks ?? {})) add(name, item, true);
    return [...sections.values()].filter((section) => section.operations.length > 0);
  }

  #parameters(item, own) {
    const found = new Map();
    for (const parameter of [...(item.parameters ?? []), ...(own.parameters ?? [])].map((one) => this.get(one))) {
      found.set(`${parameter.in} ${parameter.name}`, parameter);
    }
    return [...found.values()];
  }

  /** The ways to send a key with an operation, if it takes one. */
  keys(operation) {
    const names = new Set((operation.security ?? this.root.security ?? []).flatMap(Object.keys));
    return [...names].map((name) => {
      const scheme = this.get(this.root.components?.securitySchemes?.[name]);
      if (scheme.type === "http") return { header: "Authorization", prefix: "Bearer ", shown: `Authorization: ${scheme.scheme}` };
      return scheme.in === "header" ? { header: scheme.name, prefix: "", shown: scheme.name } : { shown: `?${scheme.name}=` };
    });
  }

  /** The examples of a body or a parameter, named; without any, one that fits the schema. */
  examples(media) {
    const named = Object.entries(media.examples ?? {}).map(([name, example]) => {
      const { summary, description, value } = this.get(example);
      return { name: summary ?? name, description, value };
    });
    if (media.example !== undefined) named.unshift({ name: "Example", value: media.example });
    if (named.length > 0) return named;
    const schema = this.resolve(media.schema).value;
    const given = schema?.example ?? schema?.examples?.[0];
    return given === undefined ? [] : [{ name: "Example", value: given }];
  }

  /** A value that fits a schema, more or less: something to begin with. */
  sample(schema, depth = 0) {
    schema = this.resolve(schema).value;
    if (!isObject(schema) || depth > DEPTH) return null;
    for (const given of [schema.example, schema.examples?.[0], schema.default, schema.const, schema.enum?.[0]]) {
      if (given !== undefined) return given;
    }
    const choices = (schema.oneOf ?? schema.anyOf ?? schema.allOf ?? []).filter((choice) => this.get(choice).type !== "null");
    if (choices.length > 0 && !schema.properties) return this.sample(choices[0], depth + 1);
    const type = [schema.type].flat().find((type) => type !== "null");
    if (type === "object" || schema.properties) return this.#object(schema, depth);
    if (type === "array") return schema.items ? [this.sample(schema.items, depth + 1)] : [];
    if (type === "integer" || type === "number") return schema.minimum ?? 0;
    if (type === "boolean") return false;
    return type === "string" ? "" : null;
  }

  #object(schema, depth) {
    const all = Object.entries(schema.properties ?? {});
    const needed = all.filter(([name]) => schema.required?.includes(name));
    return Object.fromEntries((needed.length > 0 ? needed : all).map(([name, one]) => [name, this.sample(one, depth + 1)]));
  }
}
