"use strict";
// The table of cells: filters, an order, and the details of a row. The data is in the element #rows.
const { columns, rows } = JSON.parse(document.getElementById("rows").textContent);
const SHOWN = 300;
const HEADS = [
  ["model", "model"], ["opset", "opset"], ["frontend", "frontend"], ["variant", "variant"], ["status", "status"],
  ["export_seconds", "export"], ["seconds", "cell"], ["peak_bytes", "memory"], ["nodes", "nodes"], ["file_bytes", "file"],
  ["max_error", "max. error"], ["reason", "why"],
];
const CHOICES = ["status", "opset", "frontend", "variant"];
const DETAILS = ["reason", "stderr", "warnings", "verified", "not_verified", "options", "stages", "versions", "worker", "finished"];
const place = Object.fromEntries(columns.map((name, index) => [name, index]));
const value = (row, name) => row[place[name]];
let shown = SHOWN;
let order = null;

function element(tag, properties = {}, children = []) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function text(row, name) {
  const found = value(row, name);
  if (found === null || found === "") return "";
  if (name.endsWith("seconds")) return `${found.toFixed(2)} s`;
  if (name.endsWith("bytes")) return `${(found / 1e6).toFixed(1)} MB`;
  if (name === "max_error") return found.toExponential(1);
  if (name === "reason") return found.split("\n")[0].slice(0, 160);
  return String(found);
}

const number = (name) => /seconds|bytes|error|nodes|opset/.test(name);

function matching() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = CHOICES.map((name) => [name, selects[name].value]).filter(([, chosen]) => chosen !== "");
  const found = rows.filter((row) =>
    wanted.every(([name, chosen]) => String(value(row, name)) === chosen) &&
    words.every((word) => `${value(row, "model")} ${value(row, "reason") ?? ""}`.toLowerCase().includes(word)));
  if (order === null) return found;
  const [name, sign] = order;
  const key = (row) => value(row, name) ?? (number(name) ? -1 : "");
  return found.sort((one, two) => (key(one) < key(two) ? -sign : key(one) > key(two) ? sign : 0));
}

function details(row) {
  const parts = DETAILS.filter((name) => value(row, name)?.length).flatMap((name) => {
    const found = value(row, name);
    return [element("div", { className: "soft", textContent: name.replace("_", " ") }),
      element("pre", { textContent: Array.isArray(found) ? found.join("\n") : found })];
  });
  return element("tr", { className: "details" }, [element("td", { colSpan: HEADS.length }, parts)]);
}

function line(row) {
  const cells = HEADS.map(([name]) => {
    const cell = element("td", { className: number(name) ? "number" : "", textContent: text(row, name) });
    if (name === "status") cell.prepend(element("span", { className: `key ${value(row, name)}` }));
    return cell;
  });
  const made = element("tr", { className: "row" }, cells);
  made.addEventListener("click", () => {
    if (made.nextSibling?.className === "details") made.nextSibling.remove();
    else made.after(details(row));
  });
  return made;
}

function draw() {
  const found = matching();
  count.textContent = `${found.length} of ${rows.length} cells`;
  body.replaceChildren(...found.slice(0, shown).map(line));
  more.hidden = found.length <= shown;
}

function choose(name) {
  const values = [...new Set(rows.map((row) => value(row, name)))].sort((one, two) => (one < two ? -1 : 1));
  const select = element("select", { ariaLabel: name }, [element("option", { value: "", textContent: `any ${name}` })]);
  select.append(...values.map((each) => element("option", { value: String(each), textContent: String(each) })));
  select.hidden = values.length < 2;
  select.addEventListener("change", redraw);
  return select;
}

function redraw() {
  shown = SHOWN;
  draw();
}

const search = element("input", { type: "search", placeholder: "model or reason", ariaLabel: "search" });
search.addEventListener("input", redraw);
const selects = Object.fromEntries(CHOICES.map((name) => [name, choose(name)]));
const count = element("span", { className: "soft" });
const heads = HEADS.map(([name, head]) => {
  const made = element("th", { textContent: head });
  made.dataset.column = name;
  made.addEventListener("click", () => {
    order = order !== null && order[0] === name ? [name, -order[1]] : [name, number(name) ? -1 : 1];
    draw();
  });
  return made;
});
const body = element("tbody");
const more = element("button", { textContent: "show more" });
more.addEventListener("click", () => {
  shown += SHOWN;
  draw();
});
document.getElementById("cells").append(
  element("div", { className: "filters" }, [search, ...Object.values(selects), count]),
  element("table", {}, [element("thead", {}, [element("tr", {}, heads)]), body]), more);
for (const square of document.querySelectorAll("[data-model]")) {
  square.addEventListener("click", () => {
    search.value = square.dataset.model;
    redraw();
    document.getElementById("cells").scrollIntoView();
  });
}
draw();
