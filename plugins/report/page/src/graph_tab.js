// The tab with both graphs, the search, the colours and the panel about the selected node.
import { ERROR_LEGEND } from "./colours.js";
import { showDetails } from "./details.js";
import { button, element } from "./dom.js";
import { GraphView } from "./graph_view.js";
import { searchBox } from "./search.js";

export function graphTab(page, host) {
  const { doc } = page;
  const details = element("aside", { class: "details", "aria-label": "details", "aria-live": "polite" });
  const hosts = { onnx: element("div", { class: "canvas" }), torch: element("div", { class: "canvas", hidden: true }) };
  const views = {};
  const select = (kind, node) => {
    const other = kind === "onnx" ? "torch" : "onnx";
    showDetails(details, doc, kind, node, (to, row) => show(to, row));
    views[kind].marked = new Set();
    views[other]?.mark(node ? node.peers : []);
    if (views[other]) views[other].selected = null;
  };
  const make = (kind) => (views[kind] ??= new GraphView(hosts[kind], page[kind], (node) => select(kind, node)));
  const show = (kind, row) => {
    if (kind === "torch" && hosts.torch.hidden) side.click();
    const view = make(kind);
    view.show(view.graph.nodes[row]);
    select(kind, view.graph.nodes[row]);
  };
  const side = button("torch graph beside", () => {
    hosts.torch.hidden = !hosts.torch.hidden;
    side.setAttribute("aria-pressed", !hosts.torch.hidden);
    if (!hosts.torch.hidden) make("torch").mode = views.onnx.mode;
    if (!hosts.torch.hidden && views.onnx.selected && !views.onnx.selected.isGroup) requestAnimationFrame(() => views.torch.mark(views.onnx.selected.peers));
  }, { "aria-pressed": "false", disabled: !doc.captured.length });
  const search = searchBox(page, show);
  const each = (change) => Object.values(views).forEach(change);
  host.append(
    element("div", { class: "toolbar" }, search.host,
      button("fit", () => each((view) => view.fit()), { title: "show the whole graph (0)" }),
      button("open all", () => each((view) => view.openAll(true))), button("close all", () => each((view) => view.openAll(false))),
      side, ...errorTools(page, views, show)),
    element("div", { class: "graphs" }, labelled("ONNX", hosts.onnx), labelled("torch, as captured", hosts.torch), details));
  make("onnx");
  showDetails(details, doc, "onnx", null);
  page.redraw.push(() => each((view) => view.redraw()));
  if (doc.mismatch || doc.problems.length) setMode(views, host, "error");
  if (doc.mismatch?.first) requestAnimationFrame(() => showFault(page, show));
  host.views = views; // for those who try the page from outside
  return { show, search: () => search.focus() };
}

const labelled = (text, canvas) => {
  canvas.append(element("span", { class: "label" }, text));
  return canvas;
};

function errorTools(page, views, show) {
  const { mismatch, problems } = page.doc;
  if (!mismatch && !problems.length) return [];
  const legend = element("ul", { class: "legend" }, ERROR_LEGEND.map(([name, words]) =>
    element("li", {}, element("i", { style: `background:var(${name})` }), words)));
  const toggle = button("errors as colours", () => {
    const on = views.onnx.mode === "operator";
    setMode(views, toggle.closest(".tab"), on ? "error" : "operator");
  }, { class: "mode", "aria-pressed": "true" });
  const first = button("first fault", () => showFault(page, show), { class: "fault", disabled: !mismatch?.first && !problems.length });
  return [toggle, first, legend];
}

function setMode(views, host, mode) {
  Object.values(views).forEach((view) => { view.mode = mode; view.redraw(); });
  host.querySelector(".mode")?.setAttribute("aria-pressed", mode === "error");
  host.querySelector(".legend")?.toggleAttribute("hidden", mode !== "error");
}

/** Select the ONNX node of the first fault, else its captured node. */
function showFault(page, show) {
  const row = page.doc.captured.findIndex((each) => each.st === "unsupported" || (each.st === "fault" && each.n === page.doc.mismatch.first));
  if (row < 0) return;
  const [onnx] = page.doc.captured[row].x.slice(-1);
  if (onnx === undefined) show("torch", row);
  else show("onnx", onnx);
}

