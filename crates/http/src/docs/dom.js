// Builds the page. Everything that comes from outside becomes text or the value of an attribute, never markup.

/** An element. A property that is a function listens to the event of its name. */
export function el(name, properties, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false && child !== ""));
  return element;
}

/** A text with its `code` and **strong** words. */
export function words(text) {
  return String(text)
    .split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/)
    .map((piece, at) => {
      if (at % 2 === 0) return piece;
      return piece[0] === "`" ? el("code", {}, piece.slice(1, -1)) : el("strong", {}, piece.slice(2, -2));
    });
}

/** A description: paragraphs, lists and fenced code. */
export function prose(text) {
  const out = el("div", { class: "prose" });
  let lines = [];
  let list = null;
  let code = null;
  const settle = () => {
    if (lines.length > 0) (list?.lastChild ?? out.appendChild(el("p"))).append(...words(lines.join("\n")));
    lines = [];
  };
  for (const line of String(text ?? "").split("\n")) {
    if (/^\s*```/.test(line)) {
      settle();
      list = null;
      code = code ? null : el("code");
      if (code) out.append(el("pre", { tabindex: 0 }, code));
    } else if (code) {
      code.append(`${line}\n`);
    } else if (line.trim() === "") {
      settle();
      list = null;
    } else {
      const item = /^\s*([-*]|\d+[.)])\s+(.*)/.exec(line);
      if (item) {
        settle();
        list ??= out.appendChild(el(/\d/.test(item[1]) ? "ol" : "ul"));
        list.append(el("li"));
        lines = [item[2]];
      } else {
        lines.push(line.trim());
      }
    }
  }
  settle();
  return out;
}

/** A value as people read it. */
export function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** A piece of code. */
export function block(text, label) {
  return el("pre", { tabindex: 0, role: "region", "aria-label": label }, el("code", {}, text));
}

/** Something to open, filled when it is. */
export function fold(summary, fill, open) {
  const details = el("details", { open }, el("summary", {}, summary));
  let filled = false;
  const show = () => {
    if (filled || !details.open) return;
    filled = true;
    details.append(...[fill()].flat(Infinity));
  };
  details.addEventListener("toggle", show);
  show();
  return details;
}

/** Copies the text of an element; where the browser keeps the clipboard from the page, it is selected instead. */
export async function copy(element, button) {
  const said = button.textContent;
  try {
    await navigator.clipboard.writeText(element.textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = said), 1500);
  } catch {
    getSelection().selectAllChildren(element);
  }
}
