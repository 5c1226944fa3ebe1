// Make elements of the page.

/** An element with attributes and children; strings become text, null is left out. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export const button = (text, onclick, attributes = {}) => element("button", { type: "button", onclick, ...attributes }, text);

/** A list of names and values; empty values are left out. */
export function pairs(entries) {
  return element("dl", {}, entries.filter(([, value]) => value !== "" && value !== undefined && value !== null)
    .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}
