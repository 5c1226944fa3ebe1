// The tabs with tables: errors, operators and nodes, weights, times.
import { countText } from "./data.js";
import { weightCard } from "./details.js";
import { element } from "./dom.js";
import { bars, errorPlot } from "./plots.js";
import { bytes, error, number, table, text } from "./tables.js";

const plotWidth = () => Math.min(1100, Math.max(280, document.body.clientWidth - 64));

export function errorsTab(page, host) {
  const rows = page.doc.captured.map((row, id) => ({ id, name: row.n, op: row.o, module: row.s.replaceAll("/", "."), status: row.st ?? "", local: row.le, total: row.te, problem: row.pr ?? row.nt ?? "" }));
  host.append(section("Error along the graph", errorPlot(page.doc.captured, plotWidth(), (row) => page.show("torch", row))), section("By node"));
  host.lastChild.append(place(host, (inside) => table(inside, [
    text("node", "name"), text("operator", "op", 1.3), text("module", "module", 1.6), text("status", "status", 0.7),
    error("alone", "local"), error("so far", "total"), text("difference", "problem", 2.5)], rows, (row) => page.show("torch", row.id))));
}

export function operatorsTab(page, host) {
  const counts = new Map();
  for (const node of page.onnx.nodes) {
    const known = counts.get(node.label) ?? { operator: node.label, count: 0, from: new Set(), milliseconds: 0 };
    known.count += 1;
    if (node.row.t) known.from.add(node.row.t);
    known.milliseconds += page.doc.profile?.nodes[node.name] ?? 0;
    counts.set(node.label, known);
  }
  const operators = [...counts.values()].map((each) => ({ ...each, from: [...each.from].join(", ") })).sort((one, other) => other.count - one.count);
  const time = page.doc.profile ? [number("ms", "milliseconds", (value) => value.toFixed(3))] : [];
  host.append(section("Operators"));
  host.lastChild.append(place(host, (inside) => table(inside, [text("operator", "operator"), number("count", "count", countText), text("torch", "from", 3), ...time], operators)));
  const nodes = page.onnx.nodes.map((node) => ({ id: node.id, name: node.name, op: node.label, torch: node.row.t ?? "", module: node.path.replaceAll("/", "."), source: node.row.l ?? "", by: node.row.b ?? node.row.y ?? "", type: node.detail }));
  host.append(section("Nodes"));
  host.lastChild.append(place(host, (inside) => table(inside, [
    text("node", "name", 1.5), text("operator", "op"), text("torch", "torch"), text("module", "module", 1.5), text("source", "source"),
    text("result", "type", 1.3), text("made by", "by", 1.6)], nodes, (row) => page.show("onnx", row.id))));
}

export function weightsTab(page, host) {
  const rows = page.doc.weights.map((row, id) => ({ id, name: row.n, dtype: row.d, shape: `[${row.s.join(", ")}]`, bytes: row.b, low: row.lo, high: row.hi, mean: row.mu, deviation: row.sd, wrong: row.nan ?? 0 }));
  const one = element("div", { class: "one" }, element("p", { class: "hint" }, "Click a weight to see its values."));
  const short = (value) => (value === undefined ? "" : value.toPrecision(3));
  host.append(section("Weights", one));
  host.lastChild.append(place(host, (inside) => table(inside, [
    text("name", "name", 2.5), text("dtype", "dtype", 0.7), text("shape", "shape"), bytes("size", "bytes"), number("min", "low", short),
    number("max", "high", short), number("mean", "mean", short), number("std", "deviation", short), number("NaN, inf", "wrong", countText)],
  rows, (row) => one.replaceChildren(weightCard(page.doc.weights[row.id])))));
}

export function timeTab(page, host) {
  const { doc } = page;
  host.append(section("Seconds by stage of the export", bars(doc.timings.filter(([, spent]) => spent > 0.0005), plotWidth(), (spent) => spent.toFixed(3))));
  if (doc.profile) {
    host.append(section("ONNX Runtime's milliseconds by operator", bars(doc.profile.operators.slice(0, 25).map(([name, spent]) => [name, spent]), plotWidth(), (spent) => spent.toFixed(3))));
  }
  const passes = doc.passes.map(([name, spent]) => ({ name, milliseconds: spent * 1000 })).sort((one, other) => other.milliseconds - one.milliseconds);
  host.append(section("Passes"));
  host.lastChild.append(place(host, (inside) => table(inside, [text("pass", "name", 2), number("ms", "milliseconds", (value) => value.toFixed(2))], passes)));
}

const section = (title, ...contents) => element("section", { class: "card wide" }, element("h2", {}, title), ...contents);

/** A host for a table, which is filled once it is on the page: a table measures its place. */
function place(host, fill) {
  const inside = element("div");
  requestAnimationFrame(() => fill(inside));
  return inside;
}
