// Start the page: read the document, show the tabs.
import "tabulator-tables/dist/css/tabulator_simple.min.css";
import "./style.css";
import { readColours } from "./colours.js";
import { onnxGraph, readDocument, torchGraph } from "./data.js";
import { button, element } from "./dom.js";
import { graphTab } from "./graph_tab.js";
import { overviewTab } from "./overview.js";
import { errorsTab, operatorsTab, timeTab, weightsTab } from "./tabs.js";

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const setTheme = (dark) => { document.documentElement.dataset.theme = dark ? "dark" : "light"; };

setTheme(prefersDark.matches);
start();

async function start() {
  const app = document.getElementById("app");
  const doc = await readDocument();
  const page = { doc, onnx: onnxGraph(doc), torch: torchGraph(doc), redraw: [] };
  const tabs = [
    ["Overview", overviewTab], ["Graph", graphTab], doc.mismatch && ["Errors", errorsTab], ["Operators", operatorsTab],
    ["Weights", weightsTab], ["Time", timeTab],
  ].filter(Boolean);
  const body = element("main", { id: "body" });
  const bar = element("div", { class: "tabs", role: "tablist" });
  page.open = (name) => openTab(page, tabs, bar, body, name);
  page.show = (kind, row) => page.open("Graph").show(kind, row);
  for (const [name] of tabs)
    bar.append(button(name, () => page.open(name), { role: "tab", id: `tab-${name}`, "aria-controls": "body" }));
  bar.addEventListener("keydown", (event) => moveFocus(event, bar));
  app.replaceChildren(element("header", {}, title(doc), bar, themeButton(page)), body);
  document.addEventListener("keydown", (event) => shortcut(event, page));
  page.open(doc.mismatch?.first ? "Graph" : "Overview");
  prefersDark.addEventListener("change", () => { setTheme(prefersDark.matches); repaint(page); });
  document.documentElement.dataset.ready = "yes";
}

function title(doc) {
  const { opsets, nodes } = doc.summary;
  return element("div", { class: "title" }, element("h1", {}, doc.title),
    element("span", {}, `opset ${opsets["ai.onnx"] ?? "?"} · ${nodes.toLocaleString("en")} nodes`));
}

/** Show a tab; its contents are made at the first time. Returns what the tab's function returned. */
function openTab(page, tabs, bar, body, name) {
  page.made ??= new Map();
  for (const tab of bar.children) {
    const chosen = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
  }
  for (const { host } of page.made.values()) host.hidden = true;
  if (!page.made.has(name)) {
    const host = element("section", { class: `tab ${name.toLowerCase()}`, role: "tabpanel", "aria-labelledby": `tab-${name}` });
    body.append(host);
    page.made.set(name, { host, result: tabs.find(([each]) => each === name)[1](page, host) });
  }
  page.made.get(name).host.hidden = false;
  return page.made.get(name).result;
}

function moveFocus(event, bar) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const all = [...bar.children];
  const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
  next.focus();
  next.click();
}

function themeButton(page) {
  return button("◐", () => {
    setTheme(document.documentElement.dataset.theme !== "dark");
    repaint(page);
  }, { class: "theme", title: "light or dark", "aria-label": "switch between light and dark" });
}

function repaint(page) {
  readColours();
  for (const [name, { host }] of [...(page.made ?? [])]) {
    if (name === "Graph") continue; // the canvas is drawn again, where it is
    host.remove();
    page.made.delete(name);
  }
  page.redraw.forEach((redraw) => redraw());
  const chosen = document.querySelector('[role="tab"][aria-selected="true"]');
  if (chosen) page.open(chosen.textContent);
}

function shortcut(event, page) {
  if (event.key === "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) {
    event.preventDefault();
    page.open("Graph").search();
  }
}
