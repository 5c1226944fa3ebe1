// The plots: drawn by Observable Plot and d3, in the colours of the page.
import * as Plot from "@observablehq/plot";
import { hierarchy, treemap } from "d3-hierarchy";
import { colour, operatorColour } from "./colours.js";
import { bytesText } from "./data.js";
import { element } from "./dom.js";

const style = { background: "transparent", fontSize: "12px", color: "inherit", overflow: "visible" };

/** A histogram of a weight's values. */
export function histogram(row) {
  const step = (row.hi - row.lo || 1) / row.h.length;
  const bins = row.h.map((count, index) => ({ from: row.lo + index * step, to: row.lo + (index + 1) * step, count }));
  return Plot.plot({
    style, width: 280, height: 80, marginLeft: 10, marginRight: 10, marginTop: 4, marginBottom: 20,
    x: { ticks: 3, label: null }, y: { axis: null },
    marks: [Plot.rectY(bins, { x1: "from", x2: "to", y: "count", fill: colour("--accent"), insetLeft: 0.5 }), Plot.ruleY([0])],
    ariaLabel: `histogram of ${row.n}`,
  });
}

/** Horizontal bars of [name, number], the longest first. */
export function bars(entries, width, format) {
  const rows = entries.map(([name, value]) => ({ name, value }));
  const longest = Math.max(...rows.map((row) => row.name.length), 4);
  return Plot.plot({
    style, width, height: 26 * rows.length + 30, marginLeft: Math.min(210, 12 + longest * 6.6), marginRight: 70, marginBottom: 20,
    x: { axis: null }, y: { label: null, domain: rows.map((row) => row.name), tickSize: 0 },
    marks: [
      Plot.barX(rows, { x: "value", y: "name", fill: (row) => operatorColour(row.name), rx: 3, insetTop: 3, insetBottom: 3 }),
      Plot.text(rows, { x: "value", y: "name", text: (row) => format(row.value), textAnchor: "start", dx: 6 }),
    ],
  });
}

/** The error along the graph, on a logarithmic axis; faults are marked. `onclick(row)` is called for a point. */
export function errorPlot(captured, width, onclick) {
  const rows = captured.map((row, index) => ({ ...row, index })).filter((row) => row.te !== undefined);
  const floor = 1e-9;
  const at = (value) => Math.min(Math.max(value ?? 0, floor), 1e12);
  const plot = Plot.plot({
    style, width, height: 260, marginLeft: 56, x: { label: "captured node" }, y: { type: "log", label: "max abs error", grid: true, tickFormat: "~e", ticks: 6 },
    marks: [
      Plot.line(rows, { x: "index", y: (row) => at(row.te), stroke: colour("--accent"), strokeWidth: 1.5 }),
      Plot.dot(rows.filter((row) => row.le), { x: "index", y: (row) => at(row.le), r: 2.5, fill: colour("--muted"), title: (row) => `%${row.n}: alone ${row.le}` }),
      Plot.dot(rows.filter((row) => row.st === "fault"), { x: "index", y: (row) => at(row.te), r: 6, fill: colour("--fault"), title: (row) => `%${row.n} = ${row.o}` }),
      Plot.tip(rows, Plot.pointerX({ x: "index", y: (row) => at(row.te), title: (row) => `%${row.n} = ${row.o}\nso far ${row.te}\nalone ${row.le ?? 0}` })),
    ],
  });
  plot.addEventListener("click", () => plot.value && onclick(plot.value.index));
  return plot;
}

/** The bytes of the weights by module, as rectangles. */
export function sizeMap(weights, width, height) {
  const root = { name: "", children: new Map(), bytes: 0 };
  for (const row of weights) {
    let at = root;
    for (const part of row.n.split(".").slice(0, 4)) {
      if (!at.children.has(part)) at.children.set(part, { name: at.name ? `${at.name}.${part}` : part, children: new Map(), bytes: 0 });
      at = at.children.get(part);
    }
    at.bytes += row.b;
  }
  const plain = (node) => ({ name: node.name, bytes: node.bytes, children: node.children.size ? [...node.children.values()].map(plain) : undefined });
  const tree = hierarchy(plain(root)).sum((node) => node.bytes).sort((one, other) => other.value - one.value);
  treemap().size([width, height]).paddingInner(2).paddingTop((node) => (node.depth && node.depth < 3 ? 16 : 2)).round(true)(tree);
  const host = element("div", { class: "sizes", style: `width:${width}px;height:${height}px`, role: "img", "aria-label": "size of the weights by module" });
  for (const node of tree.descendants()) {
    const [w, h] = [node.x1 - node.x0, node.y1 - node.y0];
    if (w < 3 || h < 3 || !node.depth) continue;
    const text = `${node.data.name.split(".").slice(node.children ? -1 : -2).join(".")}${w > 110 ? `  ${bytesText(node.value)}` : ""}`;
    host.append(element("div", {
      class: `size depth${Math.min(node.depth, 4)}${node.children ? " parent" : ""}`, title: `${node.data.name}: ${bytesText(node.value)}`,
      style: `left:${node.x0}px;top:${node.y0}px;width:${w}px;height:${h}px`,
    }, w > 46 && h > 14 ? text : ""));
  }
  return host;
}
