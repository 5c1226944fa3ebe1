// Search nodes of both graphs by operator, name, module, value or source line.
import { element } from "./dom.js";

const SHOWN = 60;

/** The search box; `show(kind, row)` shows a node. */
export function searchBox(page, show) {
  const input = element("input", {
    type: "search", placeholder: "search nodes  ( / )", "aria-label": "search nodes", role: "combobox", "aria-expanded": "false",
    "aria-controls": "found", autocomplete: "off",
  });
  const list = element("ul", { id: "found", class: "found", role: "listbox", hidden: true });
  let entries = null, chosen = 0, shown = [];
  const close = () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); };
  const take = (entry) => { close(); input.blur(); show(entry.kind, entry.row); };
  const update = () => {
    entries ??= index(page);
    shown = find(entries, input.value);
    chosen = 0;
    list.replaceChildren(...shown.slice(0, SHOWN).map((entry, place) => element("li", { role: "option", "aria-selected": place === 0,
      onmousedown: (event) => { event.preventDefault(); take(entry); } },
      element("strong", {}, entry.label), element("span", {}, entry.name), element("em", {}, entry.kind))));
    if (shown.length > SHOWN) list.append(element("li", { class: "more" }, `and ${shown.length - SHOWN} more`));
    if (input.value && !shown.length) list.append(element("li", { class: "more" }, "nothing found"));
    list.hidden = !input.value;
    input.setAttribute("aria-expanded", String(!list.hidden));
  };
  input.addEventListener("input", update);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { input.value = ""; close(); input.blur(); }
    else if (event.key === "Enter" && shown.length) take(shown[chosen]);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      chosen = Math.max(0, Math.min(shown.length - 1, SHOWN - 1, chosen + (event.key === "ArrowDown" ? 1 : -1)));
      [...list.children].forEach((child, place) => child.setAttribute("aria-selected", place === chosen));
      list.children[chosen]?.scrollIntoView({ block: "nearest" });
    } else return;
    event.preventDefault();
  });
  return { host: element("div", { class: "search" }, input, list), focus: () => { input.focus(); input.select(); } };
}

function index({ doc, onnx, torch }) {
  const rows = (graph, words) => graph.nodes.map((node) => ({
    kind: graph.kind, row: node.id, label: node.label, name: node.name,
    words: [node.label, node.name, node.path.replaceAll("/", "."), ...words(node.row)].join(" ").toLowerCase(),
  }));
  return [
    ...rows(onnx, (row) => [row.l ?? "", row.t ?? "", ...row.u.map((value) => doc.values[value].n)]),
    ...rows(torch, (row) => [row.o, row.f ? `${row.f}:${row.l}` : ""]),
  ];
}

/** The entries with all the words; those whose name or operator is the word come first. */
function find(entries, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = entries.filter((entry) => words.every((word) => entry.words.includes(word)));
  const rank = (entry) => (entry.name.toLowerCase() === words[0] || entry.label.toLowerCase() === words[0] ? 0 : 1);
  return found.sort((one, other) => rank(one) - rank(other));
}
